"""`wme ui` as a script starts it.

One for each data folder, runs that say what is wrong with them, and an end that leaves nothing.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from pipelines.process.interrupts import SENTENCE
from tests.e2e.conftest import PATIENCE_SECONDS, ROOT, bare
from tests.e2e.test_backfill_in_browser import answered, left, post, until
from tests.local_cluster import free_port

SELECTOR = '{repositoryLocationName: "enterprise-content-mirror", repositoryName: "__repository__"%s}'


class Ui:
    """The UI on a port, by GraphQL."""

    def __init__(self, url: str, log: Path) -> None:
        self.url = url
        self.log = log

    def ask(self, query: str) -> dict[str, Any]:
        found: dict[str, Any] = post(f"{self.url}/graphql", {"query": query})["data"]
        return found

    def launch(self, job: str, partition: str | None = None) -> str:
        """Launch a run of a job; returns its identifier."""
        tags = (
            ""
            if partition is None
            else f'executionMetadata: {{tags: [{{key: "dagster/partition", value: "{partition}"}}]}}, '
        )
        selector = SELECTOR % f', jobName: "{job}"'
        found = self.ask(
            f"mutation {{ launchRun(executionParams: {{selector: {selector}, {tags}runConfigData: {{}}}}) "
            "{ __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message } } }"
        )["launchRun"]
        run: str = found["run"]["runId"]
        return run

    def run(self, identifier: str, status: str) -> dict[str, Any]:
        """A run, once it has a status."""

        def look() -> dict[str, Any] | None:
            found: dict[str, Any] = self.ask(
                f'{{ runOrError(runId: "{identifier}") {{ ... on Run {{ status tags {{ key }} '
                "eventConnection { events { "
                "... on ExecutionStepFailureEvent { failureMetadata { description } } } } } } }"
            )["runOrError"]
            return found if found["status"] == status else None

        made: dict[str, Any] = until(look, PATIENCE_SECONDS, f"The run is {status}", self.log)
        return made

    def failure(self, job: str, partition: str | None = None) -> str:
        """The sentence of a run that fails."""
        events = self.run(self.launch(job, partition), "FAILURE")["eventConnection"]["events"]
        return next(event["failureMetadata"]["description"] for event in events if event.get("failureMetadata"))


@pytest.mark.timeout(600)
def test_a_ui_in_the_background_of_a_script_serves_alone_and_leaves_nothing(tmp_path: Path) -> None:
    data, log = tmp_path / "data", tmp_path / "ui.log"
    environ = bare() | {"WME_DATA": str(data), "DAGSTER_DISABLE_TELEMETRY": "1"}
    wme, port = Path(sys.executable).with_name("wme"), free_port()
    ui = Ui(f"http://127.0.0.1:{port}", log)
    with log.open("wb") as out:
        process = subprocess.Popen(
            [wme, "ui", "--port", str(port)],
            cwd=ROOT,
            env=environ,
            stdout=out,
            stderr=out,
            start_new_session=True,
            # as a shell does for what a script starts with &
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),  # noqa: PLW1509
        )
    try:
        until(lambda: answered(f"{ui.url}/server_info"), 240, "The UI answers", log)

        second = subprocess.run(
            [wme, "ui", "--port", str(free_port())],
            cwd=ROOT,
            env=environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert (second.returncode, second.stdout) == (1, "")
        service, refusal = second.stderr.split("\n", 1)
        assert service.startswith("Service: the built-in sandbox")
        assert refusal.startswith(f"Another `wme ui` serves {data} already")

        with pytest.raises(urllib.error.HTTPError) as none, urllib.request.urlopen(f"{ui.url}/report", timeout=60):
            pass
        assert (none.value.code, none.value.read()[:25]) == (404, b"There is no report yet. M")

        # behind the guard, as everything else
        evil = urllib.request.Request(f"{ui.url}/report", headers={"Host": "evil.example"})
        with pytest.raises(urllib.error.HTTPError, match="403"), urllib.request.urlopen(evil, timeout=60):
            pass

        assert ui.failure("snapshots").startswith("The run names no snapshot. Nothing was done.")
        added = ui.ask(
            f"mutation {{ addDynamicPartition(repositorySelector: {SELECTOR % ''}, partitionsDefName: "
            '"snapshots", partitionKey: "enwiki") { __typename } }'
        )
        assert added == {"addDynamicPartition": {"__typename": "AddDynamicPartitionSuccess"}}
        assert "Did you mean enwiki_namespace_0" in ui.failure("snapshots", "enwiki")
        node = ui.ask(
            '{ assetNodeOrError(assetKey: {path: ["archive", "snapshots"]}) { ... on AssetNode { partitionKeys } } }'
        )
        assert node == {"assetNodeOrError": {"partitionKeys": []}}  # nothing is left to be red

        run = ui.run(ui.launch("stream"), "STARTED")
        assert not [tag["key"] for tag in run["tags"] if "wme" in tag["key"]]
        sandbox = json.loads((data / "sandbox" / "sandbox.json").read_text())["pid"]

        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=PATIENCE_SECONDS) == 128 + signal.SIGTERM
        assert left(process.pid) == []
        until(lambda: None if Path(f"/proc/{sandbox}").exists() else True, PATIENCE_SECONDS, "The sandbox ends")
    finally:
        for pid in left(process.pid):
            os.kill(pid, signal.SIGKILL)
        process.wait()
    shown = log.read_text()
    assert shown.endswith(f"{SENTENCE}\n")
    # the stack of the run's interrupt would be below the last event
    assert "DagsterExecutionInterruptedError" not in shown
    assert "KeyboardInterrupt" not in shown
    assert " DEBUG " not in shown
