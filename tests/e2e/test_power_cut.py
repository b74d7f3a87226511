"""A power cut: all of Dagster's processes are killed at once and started again.

The daemon, the code server and the runs are killed. Nobody helps, and the hours are loaded.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest
import yaml
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import WorkspaceFileTarget

from assets import layers
from assets.layers import HOUR, key_of
from pipelines.process import processes
from resources import datasets
from resources.warehouse import Warehouse
from tests.e2e.test_backfill_in_browser import left

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ARCHIVE = layers.archive_key(datasets.ARTICLE_CHANGES)
LAKE = layers.lake_key(datasets.ARTICLE_CHANGES)
WAREHOUSE = layers.warehouse_key(datasets.ARTICLE_CHANGES)


ROOT = Path(__file__).resolve().parents[2]
#: As many as the quick location looks at.
HOURS = 4
WORKSPACE = """
load_from:
  - python_module:
      module_name: tests.e2e.quick_location
      working_directory: {root}
      location_name: enterprise-content-mirror
"""


LAUNCH = """
mutation ($p: LaunchBackfillParams!) { launchPartitionBackfill(backfillParams: $p) { __typename
  ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message } } }
"""


class Machine:
    """A daemon with its code server and its runs over one data folder, which can lose its power."""

    def __init__(self, folder: Path, environ: dict[str, str]) -> None:
        self.data = Path(environ["WME_DATA"])
        self.home = processes.prepare(self.data / processes.FOLDER)
        self.workspace = folder / "workspace.yaml"
        self.workspace.write_text(WORKSPACE.format(root=ROOT))
        self.log = folder / "daemon.log"
        self._environ = os.environ | environ | {"DAGSTER_HOME": str(self.home)}
        self._daemon: subprocess.Popen[bytes] | None = None
        settings = yaml.safe_load(processes.TEMPLATE.read_text())
        # what the monitor waits for before it gives up a run that was being started
        settings["run_monitoring"] |= {"start_timeout_seconds": 90, "poll_interval_seconds": 1}
        settings["run_coordinator"] = {
            "module": "dagster._core.run_coordinator",
            "class": "QueuedRunCoordinator",
            "config": {"dequeue_interval_seconds": 1},
        }
        (self.home / "dagster.yaml").write_text(yaml.safe_dump(settings))
        self.instance = dg.DagsterInstance.from_config(str(self.home))

    def start(self) -> None:
        """Start the daemon, which starts its code server."""
        with self.log.open("ab") as out:
            self._daemon = subprocess.Popen(
                [Path(sys.executable).with_name("dagster-daemon"), "run", "-w", self.workspace],
                cwd=ROOT,
                env=self._environ,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    def cut(self) -> None:
        """SIGKILL for every process at once."""
        if self._daemon is None:
            return
        while pids := left(self._daemon.pid):
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._daemon.poll()
        self._daemon.wait()
        self._daemon = None

    def runs(self) -> list[tuple[str, str]]:
        """Job and status of every run, oldest first."""
        return [(run.job_name, run.status.value) for run in reversed(self.instance.get_runs())]


@pytest.fixture
def machine(tmp_path: Path, account: Any) -> Iterator[Machine]:
    made = Machine(tmp_path, account.environ(tmp_path / "data"))
    with made.instance:
        yield made
        made.cut()


def published(account: Any) -> set[datetime]:
    """The hours that the location asks for and that the service has."""
    now = datetime.now(UTC)
    newest = now.replace(minute=0, second=0, microsecond=0) - HOUR
    hours = [newest - back * HOUR for back in range(HOURS)]
    return {hour for hour in hours if account.sandbox.world.hour_ready_at(hour) <= now}


def loaded(data: Path) -> set[datetime]:
    """The hours that an analyst finds."""
    if not (data / "warehouse.duckdb").exists():
        return set()
    return {
        row.batch_hour
        for row in Warehouse(data).coverage(dataset=datasets.ARTICLE_CHANGES)
        if row.state in {"loaded", "empty"}
    }


def wait_for(look: Callable[[], Any], seconds: float, machine: Machine) -> Any:
    end = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < end, f"{machine.runs()}\n{machine.log.read_text()[-4000:]}"
        time.sleep(0.5)
    return found


def check_nothing_is_stuck(machine: Machine) -> None:
    """No run is under way that has no process."""
    assert processes.end_killed(machine.instance, "enterprise-content-mirror") == []


@pytest.mark.soak  # two minutes for what the tests of processes, of discovery and of the instance have in parts
@pytest.mark.timeout(1800)  # a minute, or many on a machine that others use as well
def test_after_a_power_cut_hours_are_loaded_beside_a_snapshot_and_nobody_helps(machine: Machine, account: Any) -> None:
    # neither comes to an end
    for path in ("/v2/snapshots/*download", "/v2/batches/*download"):
        account.sandbox.faults.add(path=path, kind="slow", bytes_per_second=200, count=None)
    machine.start()
    under_way = {("hours", "STARTED"), ("snapshots", "STARTED")}
    wait_for(lambda: under_way <= set(machine.runs()), 400, machine)
    wait_for(lambda: list((machine.data / "archive" / "batches").rglob("*.part")), 400, machine)
    machine.cut()
    before = machine.runs()
    assert under_way <= set(before)
    account.sandbox.faults.clear()
    account.sandbox.faults.add(path="/v2/snapshots/*download", kind="slow", bytes_per_second=200, count=None)
    machine.start()
    wait_for(lambda: loaded(machine.data) >= published(account), 400, machine)
    # all that was under way ends (the monitor may come to a run after its hours were loaded by another) ...
    cut_off = [n for n, run in enumerate(before) if run in under_way]
    wait_for(lambda: {machine.runs()[n] for n in cut_off} == {(job, "FAILURE") for job, _ in under_way}, 400, machine)
    # ... and the snapshot is fetched again:
    # a second one that was just being started keeps its place in the pool until the monitor gives it up
    wait_for(lambda: ("snapshots", "STARTED") in machine.runs(), 400, machine)


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("ignore:Function `AssetSelection.sources`:DeprecationWarning")
def test_a_backfill_goes_on_after_a_power_cut(machine: Machine, account: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # importing it takes half a second, and every worker imports this module
    from dagster_graphql.test.utils import execute_dagster_graphql

    for name, value in account.environ(machine.data).items():
        monkeypatch.setenv(name, value)
    # the backfill alone: nothing else asks for these hours
    machine.workspace.write_text(
        machine.workspace.read_text().replace("tests.e2e.quick_location", "pipelines.definitions")
    )
    hours = sorted(published(account))[-2:]
    asked = {
        "assetSelection": [{"path": list(key.path)} for key in (ARCHIVE, LAKE, WAREHOUSE)],
        "partitionNames": [key_of(hour) for hour in hours],
        "tags": [],
        "title": "",
    }
    with WorkspaceProcessContext(machine.instance, WorkspaceFileTarget([str(machine.workspace)])) as context:
        told = execute_dagster_graphql(context.create_request_context(), LAUNCH, variables={"p": asked})
    backfill = told.data["launchPartitionBackfill"]["backfillId"]
    account.sandbox.faults.add(path="/v2/batches/*download", kind="slow", bytes_per_second=200, count=None)
    machine.start()
    wait_for(lambda: "STARTED" in {status for _, status in machine.runs()}, 400, machine)
    machine.cut()
    account.sandbox.faults.clear()
    machine.start()
    wait_for(lambda: machine.instance.get_backfill(backfill).status.value == "COMPLETED_SUCCESS", 400, machine)
    assert [status for _, status in machine.runs()][:2] == ["FAILURE", "SUCCESS"]


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(3))
def test_ten_power_cuts_at_any_moment(machine: Machine, account: Any, seed: int) -> None:
    chance = random.Random(seed)
    account.sandbox.faults.add(path="*download", kind="slow", bytes_per_second=20_000, count=None)
    for _ in range(10):
        machine.start()
        time.sleep(chance.uniform(0, 30))
        machine.cut()
    account.sandbox.faults.clear()
    machine.start()
    wait_for(lambda: loaded(machine.data) >= published(account), 400, machine)
    # one that was just being started is given up by the monitor, after longer than a minute
    wait_for(lambda: not {"STARTED", "STARTING"} & {status for _, status in machine.runs()}, 400, machine)
    check_nothing_is_stuck(machine)
