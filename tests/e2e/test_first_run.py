"""The first run of a newcomer, without an account: the sandbox of the data folder, in a process of its own."""

import json
import os
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pipelines.cli.run import EXAMPLES
from resources import connection
from resources.data_folder import ui_lock
from resources.sandbox import Settings, find
from resources.warehouse import Warehouse

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
    before = datetime.now(UTC)
    told = call("run", environ=environ).done()
    assert told.err.splitlines()[1:4] == [
        "Starting the sandbox. Creating its first archives takes about 30 seconds.",
        "Looking for the newest hours",
        "Listing the service's snapshots",
    ]
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
