"""The service and the data folder of a command.

Where they come from, which commands name them, and which need neither.
"""

import json

import click
import pytest

from pipelines.cli import terminal
from tests import commands
from tests.e2e.conftest import PATIENCE_SECONDS

#: Commands that write nothing into the data folder but tokens; `sandbox` and `worker`, which may have another folder,
#: name it themselves.
READING = {
    ("article",),
    ("auth", "status"),
    ("batches",),
    ("dictionary",),
    ("entity",),
    ("lists",),
    ("metrics",),
    ("sandbox",),
    ("snapshots", "chunks"),
    ("snapshots", "list"),
    ("snapshots", "plan"),
    ("snapshots", "show"),
    ("sql",),
    ("status",),
    ("structured",),
    ("worker",),
}


#: The suite reads no settings file but one that a test names.
NAMED = {"PYTHON_DOTENV_DISABLED": "0"}


def test_every_command_that_writes_says_where_first():
    others = {words for words, one in commands.every() if not isinstance(one, terminal.Writing | click.Group)}
    assert others == READING


@pytest.mark.parametrize("words", [("auth", "login"), ("publish",), ("clean",), ("compact",), ("rejects", "--retry")])
def test_the_first_line_names_the_service_and_the_folder(call, environ, account, words):
    told = call(*words, environ=environ)
    data = environ["WME_DATA"]
    assert told.err.splitlines()[0] == f"Service: {account.sandbox.url}; data folder: {data} (new)"
    assert data not in told.out.splitlines()[:1]
    if words[0] == "auth":
        assert call(*words, environ=environ).err == f"Service: {account.sandbox.url}; data folder: {data}\n"


def test_the_line_is_not_for_cron_scripts_or_readers(call, environ, filled):
    told = call("run", "--quiet", "--from", "2019-01-01T05", "--no-reference", environ=environ).fails()
    assert "data folder" not in told.err
    assert call("rejects", environ=filled[0]).err == ""
    told = call("auth", "status", "--json", environ=filled[0])
    assert (told.err, json.loads(told.out)["logged_in"]) == ("", True)


def test_the_line_needs_no_other_setting(call, environ, tmp_path):
    told = call("backup", str(tmp_path / "backups"), environ=environ | {"WME_GRACE_HOURS": "never"})
    assert told.err.splitlines()[0] == f"data folder: {environ['WME_DATA']} (new)"
    assert "WME_GRACE_HOURS" not in told.err


@pytest.mark.parametrize(
    "words",
    [
        ("auth", "login"),
        ("auth", "status"),
        ("lists", "projects", "enwiki"),
        ("snapshots", "list", "--all"),
        ("batches", "--all"),
    ],
)
def test_what_does_not_use_the_projects_does_not_require_them(call, environ, words):
    call(*words, environ=environ | {"WME_PROJECTS": ""}).done()


def test_what_uses_the_projects_requires_them(call, environ):
    for words in (("run",), ("snapshots", "list"), ("batches",), ("status",)):
        call(*words, environ=environ | {"WME_PROJECTS": ""}).fails("WME_PROJECTS is not set.")


def test_a_settings_file_elsewhere(forked, environ, account, tmp_path):
    """Its account and projects are used, a relative data folder is next to it, and the environment takes precedence."""
    folder = tmp_path / "mirror"
    folder.mkdir()
    file = folder / "production.env"
    del environ["WME_DATA"]
    file.write_text("".join(f"{name}={value}\n" for name, value in environ.items()))
    out, err = forked("--env-file", str(file), "auth", "login", environ=NAMED).communicate(timeout=PATIENCE_SECONDS)
    assert err == f"Service: {account.sandbox.url}; data folder: {folder / 'data'} (new); settings: {file}\n"
    assert f"Logged in as {account.username}." in out
    process = forked("auth", "status", environ=NAMED | {"WME_ENV_FILE": str(file), "WME_PASSWORD": ""})
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, f"Logged in as {account.username}." in out, err) == (0, True, "")
    process = forked("--env-file", str(folder / "missing.env"), "run", environ=NAMED)
    _, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 2
    assert "missing.env' does not exist." in err
