"""The service and the data folder of a command: where they come from, and which commands name and need them."""

import json
import shutil
import sys

import click
import pytest

from pipelines.cli import terminal
from tests import commands
from tests.e2e.conftest import ran
from tests.e2e.programs import PATIENCE_SECONDS, ROOT, bare

#: Commands that write nothing into the data folder but tokens; `sandbox` and `worker`, which may have another folder,
#: name it themselves.
READING = (
    "article, auth status, batches, dictionary, entity, lists, metrics, sandbox, snapshots chunks, snapshots list, "
    "snapshots plan, snapshots show, sql, status, structured, worker"
)


def test_every_command_that_writes_says_where_first():
    others = (" ".join(words) for words, one in commands.every() if not isinstance(one, terminal.Writing | click.Group))
    assert sorted(others) == READING.split(", ")


@pytest.mark.parametrize("words", [("auth", "login"), ("publish",), ("clean",), ("compact",), ("rejects", "--retry")])
def test_the_first_line_names_the_service_and_the_folder(call, environ, account, words):
    told, data = call(*words, environ=environ), environ["WME_DATA"]
    assert told.err.splitlines()[0] == f"Service: {account.sandbox.url}; data folder: {data} (new)"
    assert data not in told.out.splitlines()[:1]
    if words[0] == "auth":
        assert call(*words, environ=environ).err == f"Service: {account.sandbox.url}; data folder: {data}\n"


def test_the_line_is_not_for_cron_scripts_or_readers(call, environ, filled, tmp_path):
    # it needs no other setting
    told = call("backup", str(tmp_path / "backups"), environ=environ | {"WME_GRACE_HOURS": "never"})
    assert told.err.splitlines()[0] == f"data folder: {environ['WME_DATA']} (new)"
    assert "WME_GRACE_HOURS" not in told.err
    told = call("run", "--quiet", "--from", "2019-01-01T05", "--no-reference", environ=environ).fails()
    assert "data folder" not in told.err
    assert call("rejects", environ=filled[0]).err == ""
    told = call("auth", "status", "--json", environ=filled[0])
    assert (told.err, json.loads(told.out)["logged_in"]) == ("", True)


def test_only_what_uses_the_projects_requires_them(call, environ):
    environ |= {"WME_PROJECTS": ""}
    for words in ("auth login", "auth status", "lists projects enwiki", "snapshots list --all", "batches --all"):
        call(*words.split(), environ=environ).done()
    for words in (("run",), ("snapshots", "list"), ("batches",), ("status",)):
        call(*words, environ=environ).fails("WME_PROJECTS is not set.")


def test_a_settings_file_elsewhere(forked, environ, account, tmp_path):
    """Its account and projects are used, a relative data folder is next to it, and the environment takes precedence."""
    folder = tmp_path / "mirror"
    folder.mkdir()
    file = folder / "production.env"
    del environ["WME_DATA"]
    # the suite reads no settings file but one that a test names
    named = {"PYTHON_DOTENV_DISABLED": "0"}
    file.write_text("".join(f"{name}={value}\n" for name, value in environ.items()))
    out, err = forked("--env-file", str(file), "auth", "login", environ=named).communicate(timeout=PATIENCE_SECONDS)
    assert err == f"Service: {account.sandbox.url}; data folder: {folder / 'data'} (new); settings: {file}\n"
    assert f"Logged in as {account.username}." in out
    process = forked("auth", "status", environ=named | {"WME_ENV_FILE": str(file), "WME_PASSWORD": ""})
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, f"Logged in as {account.username}." in out, err) == (0, True, "")
    process = forked("--env-file", str(folder / "missing.env"), "run", environ=named)
    _, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 2
    assert "missing.env' does not exist." in err


WME = ["-m", "pipelines", "sql", "SELECT 1"]
#: Opens the published file as notebooks do, and prints the error.
NOTEBOOK = """
import os
from pipelines.notebook import connect

def ask():
    try:
        connect()
    except Exception as error:
        print(error)
"""


@pytest.fixture
def project(tmp_path):
    """A copy of the project, which may have a `.env`, and a working folder beside it."""
    folder = tmp_path / "project"
    folder.mkdir()
    for name in ("pipelines", "assets", "resources"):
        shutil.copytree(ROOT / name, folder / name)  # with what is compiled, where it is
    for name in ("workspace.yaml", "dagster.example.yaml", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    (tmp_path / "elsewhere").mkdir()
    return folder


def told(project, words, folder, **environ):
    """What a process of the project prints that is started in a folder."""
    own = bare() | {"PYTHONPATH": str(project), "DAGSTER_HOME": str(project.parent / "history")}
    del own["PYTHON_DOTENV_DISABLED"]  # this project's `.env` is ours
    done = ran(sys.executable, *words, cwd=folder, environ=own | environ)
    return done.out + done.err


def test_a_missing_file_is_named_where_every_way_looks_for_it(project, tmp_path):
    (project / ".env").write_text("WME_DATA=~/mirror\nWME_SANDBOX=1\n")
    where, home = project.parent / "elsewhere", tmp_path / "home"
    home.mkdir()
    assert f"There is no published file {home}/mirror/warehouse.duckdb" in told(project, WME, where, HOME=str(home))
    (project / ".env").write_text("WME_DATA=mirror\nWME_SANDBOX=1\n")
    assert f"There is no published file {project}/mirror/warehouse.duckdb" in told(project, WME, where)
    elsewhere = f"os.environ['WME_DATA'] = '{tmp_path}/other'"
    program = f"{NOTEBOOK}\nask(); os.chdir({str(project)!r}); ask(); {elsewhere}; ask()"
    said = told(project, ["-c", program], where).splitlines()
    for line, data in zip(said, (project / "mirror", project / "mirror", tmp_path / "other"), strict=True):
        assert line.startswith(f"There is no published file {data}/warehouse.duckdb")
    assert not (tmp_path / "other").exists()
    assert list(where.iterdir()) == []


def test_another_settings_file_takes_the_place_of_the_projects(project):
    (project / ".env").write_text("WME_DATA=mirror\nWME_USERNAME=somebody\nWME_PASSWORD=x\nWME_PROJECTS=enwiki\n")
    named, name = project.parent / "elsewhere" / "other.env", "../elsewhere/other.env"
    named.write_text("WME_NAMESPACES=14\n")
    missing = f"There is no published file {named.parent}/data/warehouse.duckdb"
    assert missing in told(project, WME, project, WME_ENV_FILE=name)
    # children of Dagster's, which run in other folders, are named the same file
    program = (
        f"{NOTEBOOK}ask(); os.environ['WME_ENV_FILE'] = '{name}'; from pipelines.definitions import defs; defs(); "
        "print(os.environ['WME_ENV_FILE'], os.environ.get('WME_USERNAME'))"
    )
    said, children = told(project, ["-c", program], project, WME_ENV_FILE=str(named)).splitlines()
    assert said.startswith(missing)
    assert children == f"{named} None"


def test_dagster_from_another_folder_finds_the_mirror_of_the_project(project):
    """Its first partition is that of the oldest hour archived, wherever it is started."""
    (project / ".env").write_text("WME_DATA=mirror\n")
    (project / "mirror" / "archive" / "batches" / "date=2026-01-02" / "hour=03").mkdir(parents=True)
    (project / "show.py").write_text(
        "from dagster._cli import cli\n"
        "cli(['definitions', 'validate', '-w', '../project/workspace.yaml'], standalone_mode=False)\n"
        "from pipelines.definitions import defs\n"
        "graph = (defs := defs()).resolve_asset_graph()\n"
        "import dagster as dg\n"
        "lake = dg.build_resources({'lake': defs.resources['lake']}).__enter__().lake\n"
        "hours = graph.get(dg.AssetKey(['archive', 'batches'])).partitions_def\n"
        "print(lake.settings.data, hours.get_first_partition_key())\n"
    )
    elsewhere = project.parent / "elsewhere"
    (home := project.parent / "history").mkdir()
    said = told(project, [str(project / "show.py")], elsewhere, DAGSTER_HOME=str(home))
    assert "Validation successful for code location enterprise-content-mirror" in said, said
    assert f"{project}/mirror 2026-01-02-03:00" in said.splitlines(), said
    assert list(elsewhere.iterdir()) == []


#: Imports `build_defs` and builds definitions, watched; what other packages do at their import is not ours.
EMBEDDING = """
import gc, os, pathlib, signal, sys, threading, warnings
import dagster, duckdb, jinja2, pyarrow.parquet, requests, uvicorn
from dagster._core.instance import factory

def state():
    return (dict(os.environ), gc.isenabled(), gc.get_freeze_count(), factory.create_instance_from_ref,
            list(warnings.filters), signal.getsignal(signal.SIGINT), threading.active_count(), list(sys.path))

before, seen, is_building = state(), [], False
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
ACTS = ("socket.", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "subprocess.", "os.posix_spawn", "os.fork",
        "tempfile.", "sqlite3.", "duckdb.")

def watch(event, arguments):
    if event == "open":
        path, mode, flags = arguments
        # what the package is made of, and the data folder of the settings
        is_code = str(path).endswith((".py", ".pyc", ".sql", ".so")) or str(path).startswith("/nowhere/data/")
        if str(path).endswith(".env") or (flags or 0) & WRITES and not is_code or is_building and not is_code:
            seen.append((event, str(path)))
    elif event.startswith(ACTS):
        seen.append((event, str(arguments)))

sys.addaudithook(watch)
from pipelines.definitions import build_defs, hourly_partitions
from resources.settings import Settings, read
assert state() == before, (state(), before)
is_building = True
settings = read({"WME_USERNAME": "you", "WME_PASSWORD": "sesame", "WME_PROJECTS": "enwiki",
                 "WME_DATA": "/nowhere/data"})
built = build_defs(settings, prefix="encyclopedia")
found = list(seen)
used = dagster.build_resources({"one": built.resources["encyclopedia_enterprise"]}).__enter__().one.settings
print(found, used.username, used.password.get_secret_value(), used.sandbox,
      Settings(username="you", password="sesame").sandbox)
# the code location is what reads them
from pipelines.definitions import defs
try:
    defs()
except Exception as error:
    print(repr(error))
"""


def test_importing_and_calling_build_defs_reads_neither_the_environment_nor_the_env_file(project):
    """In a project whose `.env` and environment would be refused."""
    (project / ".env").write_bytes(b"WME_DATA=other\xff\0\n")
    nonsense = {"WME_DATA": "*?[", "WME_PROJECTS": "!!", "WME_FIRST_HOUR": "never", "WME_SANDBOX": "1"}
    nonsense |= {"WME_PASSWORD": "other"}
    words = ["-W", "error::ResourceWarning", "-c", EMBEDDING]
    said = told(project, words, project.parent / "elsewhere", PYTHONDONTWRITEBYTECODE="1", **nonsense)
    built, loaded = said.splitlines()
    assert built == "[] you sesame False False", said
    assert loaded.startswith(("SettingsError('The settings file", 'SettingsError("The settings file')), said
