"""The first minutes of a newcomer: `make`, and a run without an account, on a sandbox of its own."""

import json
import os
import signal
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pipelines.cli.run import EXAMPLES
from resources import connection
from resources.data_folder import ui_lock
from resources.sandbox import Settings, find
from resources.warehouse import Warehouse
from tests.e2e.conftest import ran

#: One of the hours since then is older than the newest three, which a run fetches anyway.
AGO = timedelta(hours=5)


@pytest.fixture
def environ(tmp_path, monkeypatch):
    """The environment of an empty data folder whose own sandbox has a small world; that ends with the test."""

    def small(data):
        return Settings(state=data / "sandbox", changes_per_hour=60, body_bytes=500, entities=0)

    monkeypatch.setattr(connection, "sandbox_settings", small)
    # its first start was hours ago, for another command
    state = tmp_path / "data" / "sandbox"
    state.mkdir(parents=True)
    (state / "snapshot-hour.json").write_text(json.dumps({"hour": (datetime.now(UTC) - AGO).hour}))
    yield {"WME_DATA": str(tmp_path / "data"), "WME_MIN_FREE_GB": "0"}
    if (record := find(state)) is not None:
        os.kill(record.pid, signal.SIGTERM)


def test_the_first_run_ends_exact_and_says_what_it_does(environ, call):
    """Whatever the time of the snapshots: the hours since them are fetched."""
    before, told = datetime.now(UTC), call("run", environ=environ).done()
    starting = "Starting the sandbox. Creating its first archives takes about 30 seconds."
    assert told.err.splitlines()[1:4] == [starting, "Looking for the newest hours", "Listing the service's snapshots"]
    assert "missing" not in told.out
    assert all(question in told.out for question in EXAMPLES)
    checked = call("status", "--check", environ=environ)
    assert (checked.code, "\n! " in checked.out) == (0, False), checked.out
    assert call("status", "--check", "--quiet", environ=environ) == (0, "", "")
    data = Path(environ["WME_DATA"])
    words = Path(f"/proc/{find(data / 'sandbox').pid}/cmdline").read_text().split("\0")
    assert words[words.index("--owner") + 1] == str(ui_lock(data)), "it ends with the `wme ui` that has started it"
    states = Warehouse(data).project_states()
    assert len(states) == 3
    assert all(state.exact_from_at < state.exact_until_at for state in states), states
    assert all(abs(before - AGO - state.base_boundary_at) < timedelta(hours=2) for state in states)


def make(*arguments, **environ):
    # the suite itself may be run by make, whose ways these are not to inherit
    own = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    return ran("make", "--no-print-directory", *arguments, environ=own | environ | {"MFLAGS": ""})


def test_make_alone_lists_the_commands():
    told = make()
    assert told.code == 0
    for name in ("setup", "run", "test", "soak", "ui", "check", "bench", "sandbox"):
        assert any(line.startswith(name) and len(line.split()) > 2 for line in told.out.splitlines()), name


@pytest.mark.parametrize("version", [(3, 10, 13), (3, 14, 0), (2, 7, 18)])
def test_an_unsupported_python_is_named_with_the_way_out(tmp_path, version):
    other = tmp_path / "python"
    code = f"import sys; sys.version_info = {version}; exec(sys.argv[1])"
    other.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{code}" "$2"\n')
    other.chmod(0o755)
    told = make("setup", f"PYTHON={other}", f"VENV={tmp_path}/venv")
    assert told.code != 0
    assert f"This is Python {version[0]}.{version[1]}" in told.err
    assert "make setup PYTHON=python3.12" in told.err
    assert "Traceback" not in told.err
    assert not (tmp_path / "venv").exists()


def test_without_a_network_setup_says_so_and_can_be_repeated(tmp_path):
    nowhere = {"PIP_INDEX_URL": "http://127.0.0.1:9/", "PIP_CONFIG_FILE": os.devnull, "PIP_RETRIES": "0"}
    nowhere |= {"PIP_FIND_LINKS": "", "PIP_EXTRA_INDEX_URL": "", "PIP_NO_CACHE_DIR": "1"}
    told = make("setup", f"PYTHON={sys.executable}", f"VENV={tmp_path}/venv", **nowhere)
    assert told.code != 0
    assert "Without a network this cannot work" in told.err
    assert "Then run the same command again" in told.err
    assert "Traceback" not in told.err
    assert not (tmp_path / "venv" / ".made").exists()


def test_setup_is_done_once(tmp_path):
    (tmp_path / ".made").touch()
    told = make("setup", f"VENV={tmp_path}")
    assert (told.code, told.out) == (0, "make: Nothing to be done for 'setup'.\n")
