"""A backfill of every hour of a new mirror, as the pages launch it.

It succeeds, and says which hours nobody can bring in.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest
from dagster._core.test_utils import instance_for_test
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import WorkspaceFileTarget
from dagster._daemon.backfill import execute_backfill_iteration

from assets import layers
from assets.layers import HOUR, key_of, recent_hours
from resources import datasets
from resources.warehouse import Warehouse

if TYPE_CHECKING:
    from collections.abc import Callable

ARCHIVE = layers.archive_key(datasets.ARTICLE_CHANGES)
LAKE = layers.lake_key(datasets.ARTICLE_CHANGES)
WAREHOUSE = layers.warehouse_key(datasets.ARTICLE_CHANGES)


ROOT = Path(__file__).resolve().parents[2]
LAUNCH = """
mutation ($p: LaunchBackfillParams!) { launchPartitionBackfill(backfillParams: $p) { __typename
  ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message } } }
"""
DIRECTLY = {
    "run_launcher": {"module": "dagster", "class": "DefaultRunLauncher"},
    "run_coordinator": {"module": "dagster._core.run_coordinator", "class": "DefaultRunCoordinator"},
}


@pytest.mark.soak  # a code server and a run of their own; test_faults.py has the same without them
@pytest.mark.filterwarnings("ignore:Function `AssetSelection.sources`:DeprecationWarning")
def test_hours_that_nobody_can_bring_in_do_not_spoil_a_backfill(
    tmp_path: Path,
    account: Any,
    hours: list[datetime],
    until: Callable[[Callable[[], Any]], Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # importing it takes half a second, and every worker imports this module
    from dagster_graphql.test.utils import execute_dagster_graphql

    gone = [recent_hours(datetime.now(UTC))[0] - back * HOUR for back in (3, 2)]
    # partitions only because the operator wants to see them
    for name, value in account.environ(tmp_path / "data", WME_FIRST_HOUR=f"{gone[0]:%Y-%m-%dT%H}").items():
        monkeypatch.setenv(name, value)
    wanted = [*gone, *hours[1:]]
    with (
        instance_for_test(overrides=DIRECTLY) as instance,
        WorkspaceProcessContext(instance, WorkspaceFileTarget([str(ROOT / "workspace.yaml")])) as context,
    ):
        layers = (ARCHIVE, LAKE, WAREHOUSE)
        chosen = {
            "assetSelection": [{"path": list(key.path)} for key in layers],
            "partitionNames": [key_of(hour) for hour in wanted],
            "tags": [],
            "title": "",
        }
        told = execute_dagster_graphql(context.create_request_context(), LAUNCH, variables={"p": chosen})
        name = told.data["launchPartitionBackfill"]["backfillId"]

        def ended() -> str | None:
            list(execute_backfill_iteration(context, logging.getLogger("tests.backfill")))
            status = instance.get_backfill(name).status.value
            return None if status in {"REQUESTED", "COMPLETING"} else status

        status = until(ended)
        runs = instance.get_runs()
        for key in layers:
            assert instance.get_materialized_partitions(key) == {key_of(hour) for hour in wanted}
            found = instance.fetch_materializations(key, limit=10).records
            said = {record.partition_key: record.asset_materialization for record in found}
            for hour in gone:
                assert said[key_of(hour)].metadata["state"].value == "past_retention"
                assert "no longer has the hour" in said[key_of(hour)].description
        assert {run.status for run in runs} == {dg.DagsterRunStatus.SUCCESS}
        assert status == "COMPLETED_SUCCESS"
    rows = Warehouse(tmp_path / "data").coverage(published=False, dataset=datasets.ARTICLE_CHANGES)
    states = {(row.batch_hour, row.state) for row in rows}
    assert {(hour, "past_retention") for hour in gone} <= states
    assert {hour for hour, state in states if state == "loaded"} == set(hours[1:])
