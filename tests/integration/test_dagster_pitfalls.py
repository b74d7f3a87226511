"""What Dagster does that would surprise whoever runs this.

Each is pinned here, so that an upgrade which changes it shows.
"""

import contextlib
import logging
import os
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml
from dagster._cli import job as command_line
from dagster._core.storage.tags import ASSET_PARTITION_RANGE_END_TAG, ASSET_PARTITION_RANGE_START_TAG
from dagster._core.test_utils import instance_for_test
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import WorkspaceFileTarget
from dagster._daemon.backfill import execute_backfill_iteration
from dagster._daemon.run_coordinator.queued_run_coordinator_daemon import QueuedRunCoordinatorDaemon

from assets.layers import HOUR, key_of
from pipelines.process import processes
from resources.adapters import HOURS_POOL, POOLS
from resources.datasets import last_complete_hour

ROOT = Path(__file__).resolve().parents[2]
#: Dagster calls a deprecated function of its own when assets are backfilled.
pytestmark = pytest.mark.filterwarnings("ignore:Function `AssetSelection.sources`:DeprecationWarning")
LAYERS = (("archive", "batches"), ("lake", "article_changes"), ("warehouse", "article_changes"))
LAUNCH = """
mutation ($p: LaunchBackfillParams!) { launchPartitionBackfill(backfillParams: $p) { __typename
  ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message } } }
"""


# --- how many runs a backfill is -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkspaceProcessContext]:
    """What the daemons work with, on an instance set up as the pages' own, but for runs that are started by nobody."""
    settings = yaml.safe_load(processes.TEMPLATE.read_text())
    settings["run_launcher"] = {"module": "dagster._core.test_utils", "class": "MockedRunLauncher"}
    folder = tmp_path_factory.mktemp("elsewhere")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WME_DATA", str(folder / "data"))
        patch.chdir(folder)  # `working_directory: .` of workspace.yaml is the project's folder, not the caller's
        with (
            instance_for_test(overrides=settings) as instance,
            WorkspaceProcessContext(instance, WorkspaceFileTarget([str(ROOT / "workspace.yaml")])) as context,
        ):
            yield context


def queued(daemon: WorkspaceProcessContext, **what: Any) -> list[dict[str, str]]:
    """Launch a backfill as the page does, let the daemon look at it once; the tags of the runs that it made."""
    launched = ask(daemon.create_request_context(), LAUNCH, tags=[], title="", **what)
    assert launched["__typename"] == "LaunchBackfillSuccess", launched
    list(execute_backfill_iteration(daemon, logging.getLogger("tests.backfill")))
    runs = daemon.instance.get_runs(dg.RunsFilter(tags={"dagster/backfill": launched["backfillId"]}))
    return [dict(run.tags) for run in runs]


def ask(context: Any, question: str, **variables: Any) -> dict[str, Any]:
    """The answer of the pages' server."""
    # importing it takes half a second, and every worker imports this module
    from dagster_graphql.test.utils import execute_dagster_graphql

    (answer,) = execute_dagster_graphql(context, question, variables={"p": variables}).data.values()
    return answer


def newest_keys(count: int) -> list[str]:
    newest = last_complete_hour(datetime.now(UTC)) - HOUR
    return [key_of(newest - back * HOUR) for back in reversed(range(count))]


def test_workspace_yaml_loads_from_any_folder_and_writes_nothing(daemon):
    (entry,) = daemon.create_request_context().get_code_location_entries().values()
    assert entry.load_error is None
    assert entry.code_location.name == "enterprise-content-mirror"
    (repository,) = entry.code_location.get_repositories().values()
    assert {job.name for job in repository.get_all_jobs()} >= {"hour_to_published", "hours", "publish", "reference"}
    assert not Path(os.environ["WME_DATA"]).exists()


def test_a_backfill_of_assets_is_a_run_per_day_one_at_a_time_and_a_snapshot_beside_it(daemon):
    # as the pages' instance is made: without this, the first look at the queue heeds no pool
    for pool in POOLS:
        daemon.instance.event_log_storage.initialize_concurrency_limit_to_default(pool)
    snapshots = ("archive/snapshots", "lake/snapshot_articles", "warehouse/snapshot_articles")
    daemon.instance.add_dynamic_partitions("snapshots", ["enwiki_namespace_0", "frwiki_namespace_0"])
    queued(
        daemon,
        assetSelection=[{"path": key.split("/")} for key in snapshots],
        partitionNames=["enwiki_namespace_0", "frwiki_namespace_0"],
    )
    keys = newest_keys(30)
    tags = queued(daemon, assetSelection=[{"path": list(path)} for path in LAYERS], partitionNames=keys)
    ranges = sorted((tag[ASSET_PARTITION_RANGE_START_TAG], tag[ASSET_PARTITION_RANGE_END_TAG]) for tag in tags)
    assert ranges == [(keys[0], keys[23]), (keys[24], keys[29])]
    waiting = daemon.instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.QUEUED]))
    assert sum(LAYERS[0] in {tuple(key.path) for key in run.asset_selection} for run in waiting) >= 2
    list(QueuedRunCoordinatorDaemon(interval_seconds=1).run_iteration(daemon))
    started = [daemon.instance.get_run_by_id(run.run_id) for run in daemon.instance.run_launcher.queue()]
    assert sorted(min(key.path for key in run.asset_selection)[-1] for run in started) == ["batches", "snapshots"]
    assert daemon.instance.get_runs_count(dg.RunsFilter(statuses=[dg.DagsterRunStatus.QUEUED])) == len(waiting) - 2


@pytest.mark.parametrize("job", ["hours", "hour_to_published"])
def test_a_backfill_of_a_job_from_the_pages_heeds_the_policy(daemon, job):
    (location,) = daemon.create_request_context().code_locations
    (repository,) = location.get_repositories()
    selector = {
        "repositorySelector": {"repositoryLocationName": location.name, "repositoryName": repository},
        "partitionSetName": f"{job}_partition_set",
    }
    assert len(queued(daemon, selector=selector, partitionNames=newest_keys(3))) == 1


def test_a_backfill_of_a_job_from_the_command_line_is_a_run_per_hour(daemon, monkeypatch):
    keys, known = newest_keys(2), {run.run_id for run in daemon.instance.get_runs()}
    workspace = contextlib.nullcontext(daemon.create_request_context())
    monkeypatch.setattr(command_line, "get_workspace_from_cli_opts", lambda *_, **__: workspace)
    command_line.execute_backfill_command(
        workspace_opts=None, partitions=",".join(keys), noprompt=True, job_name="hours", instance=daemon.instance
    )
    runs = [run for run in daemon.instance.get_runs() if run.run_id not in known]
    assert sorted(run.tags["dagster/partition"] for run in runs) == keys


# --- ranges ----------------------------------------------------------------------------------------------------------


def test_a_range_without_an_hour_fails_and_says_why(mirror):
    early, late = mirror.newest(2)
    made = mirror.materialize([late, early])
    assert not made.success
    assert "ends before it begins" in made.sentence
    assert not mirror.archives()


def test_an_hour_that_has_not_begun_fails_in_a_run_of_its_own(mirror):
    made = mirror.materialize([mirror.newest(1)[0] + 24 * HOUR])
    assert not made.success
    assert "has not published" in made.sentences[0]


# --- the instance ----------------------------------------------------------------------------------------------------


def test_the_instance_of_the_pages_knows_its_pools_sends_nothing_home_and_repeats_crashes_only(tmp_path, monkeypatch):
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "dagster"))
    monkeypatch.delenv("DAGSTER_DISABLE_TELEMETRY")
    with processes.opened(tmp_path / "dagster") as instance:
        pools = {pool.name: (pool.limit, pool.from_default) for pool in instance.event_log_storage.get_pool_limits()}
        assert pools == dict.fromkeys(POOLS, (1, True))
        instance.event_log_storage.set_concurrency_slots(HOURS_POOL, 2)
    with processes.opened(tmp_path / "dagster") as instance:
        limits = {pool.name: pool.limit for pool in instance.event_log_storage.get_pool_limits()}
        assert limits == dict.fromkeys(POOLS, 1) | {HOURS_POOL: 2}  # what an operator sets in the pages is left alone
        assert not instance.telemetry_enabled
        assert not instance.nux_enabled
        assert instance.run_retries_enabled
        assert not instance.run_retries_retry_on_asset_or_op_failure
        assert instance.run_monitoring_enabled
        # a place that a step takes is not given back when its process is killed
        assert instance.get_concurrency_config().pool_config.pool_granularity.value == "run"


def test_a_dagster_yaml_of_the_operator_is_kept(tmp_path):
    home = tmp_path / "dagster"
    home.mkdir()
    (home / "dagster.yaml").write_text("telemetry:\n  enabled: false\n")
    assert processes.prepare(home) == home
    assert (home / "dagster.yaml").read_text() == "telemetry:\n  enabled: false\n"


# --- runs of the past ------------------------------------------------------------------------------------------------

LAUNCH_RUN = (
    "mutation ($p: ExecutionParams!) { launchRun(executionParams: $p) "
    "{ __typename ... on LaunchRunSuccess { run { runId } } } }"
)
REPEAT = """
mutation ($p: ReexecutionParams!) { launchRunReexecution(reexecutionParams: $p) { __typename
  ... on RunConfigValidationInvalid { errors { message } } ... on PythonError { message } } }
"""


def test_a_run_of_the_past_that_set_an_address_is_not_repeated_and_the_field_is_named(daemon):
    context = daemon.create_request_context()
    (location,) = context.code_locations
    selector = {"repositoryLocationName": location.name, "repositoryName": "__repository__", "jobName": "reference"}
    launched = ask(context, LAUNCH_RUN, selector=selector, runConfigData="{}")
    run = daemon.instance.get_run_by_id(launched["run"]["runId"])
    old = run._replace(
        run_id=str(uuid.uuid4()),
        status=dg.DagsterRunStatus.FAILURE,
        run_config={"resources": {"enterprise": {"config": {"auth_url": "http://127.0.0.1:9"}}}},
    )
    daemon.instance.add_run(old)
    told = ask(context, REPEAT, parentRunId=old.run_id, strategy="ALL_STEPS")
    assert told["__typename"] != "LaunchRunSuccess"
    assert 'unexpected config entry "auth_url" at path root:resources:enterprise:config' in str(told)
    assert not daemon.instance.get_runs(dg.RunsFilter(tags={"dagster/parent_run_id": old.run_id}))
