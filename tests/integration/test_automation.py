"""Schedules and sensors, evaluated as the daemon does, against a service on the real clock and a real instance."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import dagster as dg
import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dagster._core.definitions.partitions.context import partition_loading_context
from dagster._core.execution.backfill import BulkActionStatus, PartitionBackfill
from dagster._core.storage.tags import ASSET_PARTITION_RANGE_END_TAG, ASSET_PARTITION_RANGE_START_TAG
from dagster._core.test_utils import create_run_for_test
from filelock import FileLock
from pydantic import SecretStr

from assets import current, layers
from assets.families import hourly, streams
from assets.layers import EARLIEST, HOUR, hour_of, key_of, recent_hours
from assets.steps.hourly_run import HourlyRun
from pipelines.automation import discovery, sensors
from pipelines.automation.discovery import LAUNCHING, RECHECKS, WAITS, missing_hours, without_busy
from pipelines.automation.sensors import STREAM_WAITS
from pipelines.definitions import build_defs
from pipelines.report.status import collect
from resources import adapters, datasets, files
from resources.adapters import build_resources
from resources.datasets import ARTICLE_CHANGES, last_complete_hour
from resources.datasets.live import files_of
from resources.formatting import hour_text, moment_text
from resources.sandbox import Settings as SandboxSettings
from resources.sandbox import running
from resources.settings import Settings
from resources.tables import HourState
from resources.warehouse import HourStatus
from tests.builds import lay

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from resources.sandbox import Sandbox

LAKE = layers.lake_key(datasets.ARTICLE_CHANGES)
WAREHOUSE = layers.warehouse_key(datasets.ARTICLE_CHANGES)


@dataclass
class Fresh:
    """An empty data folder before a service whose clock is the real one, as the sensors' own."""

    sandbox: Sandbox
    settings: Settings
    instance: dg.DagsterInstance

    @property
    def defs(self) -> dg.Definitions:
        return build_defs(self.settings)

    @property
    def resources(self) -> dict[str, Any]:
        return build_resources(self.settings)

    def materialize(self, hours: Sequence[datetime], *assets: str) -> dg.ExecuteInProcessResult:
        # as a command does, which may name what is not mirrored
        return (
            build_defs(self.settings, all_datasets=True)
            .resolve_job_def("hours")
            .execute_in_process(
                instance=self.instance,
                tags={
                    ASSET_PARTITION_RANGE_START_TAG: key_of(hours[0]),
                    ASSET_PARTITION_RANGE_END_TAG: key_of(hours[-1]),
                },
                asset_selection=[dg.AssetKey(name.split("/")) for name in assets] or None,
                raise_on_error=False,
            )
        )

    def tick(self, sensor: str) -> Any:
        """What a sensor asks for."""
        definition = self.defs.resolve_sensor_def(sensor)
        resources = {
            name: made
            for name, made in build_resources(self.settings).items()
            if name in definition.required_resource_keys
        }
        with (
            dg.build_sensor_context(instance=self.instance, definitions=self.defs, resources=resources) as context,
            partition_loading_context(dynamic_partitions_store=self.instance),  # as the daemon's code server has it
        ):
            return definition.evaluate_tick(context)

    def missing(self, now: datetime, scope: Sequence[tuple[str, int]] = (("enwiki", 0),)) -> list[datetime]:
        resources = self.resources
        rows = resources["warehouse"].warehouse.coverage(published=False)
        return missing_hours(now, rows, resources["lake"].layout, tuple(scope))


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    state = tmp_path_factory.mktemp("now")
    with running(
        SandboxSettings(
            state=state, projects=("enwiki",), namespaces=(0,), changes_per_hour=4, body_bytes=200, stream_rate=0
        )
    ) as sandbox:
        yield sandbox


@pytest.fixture
def fresh(service: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fresh]:
    # a busy machine may need longer than the daemon lets a look last
    monkeypatch.setattr(sensors, "_ANSWER_SECONDS", 120.0)
    monkeypatch.setattr(discovery, "ASKING_SECONDS", 120.0)
    settings = Settings(
        username=service.username,
        password=service.password,
        auth_url=service.url,
        base_url=service.url,
        realtime_url=service.realtime_url,
        projects=("enwiki",),
        data=lay(tmp_path / "data"),
        sandbox=False,
        min_free_gb=0,
    )
    with dg.DagsterInstance.ephemeral() as instance:
        yield Fresh(service, settings, instance)
    service.faults.clear()


def offered(sandbox: Sandbox, now: datetime) -> list[datetime]:
    """The hours whose lists the service has at `now`, oldest first."""
    return [hour for hour in recent_hours(now) if sandbox.world.hour_ready_at(hour) <= now]


# --- schedules -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("at", "key"),
    [
        (datetime(2026, 3, 1, 0, 20, tzinfo=UTC), "2026-02-28-23:00"),
        (datetime(2026, 3, 29, 1, 20, tzinfo=UTC), "2026-03-29-00:00"),  # clocks change in Europe; UTC does not
        (datetime(2026, 3, 29, 2, 20, tzinfo=UTC), "2026-03-29-01:00"),
    ],
)
def test_each_hour_asks_for_the_hour_that_has_just_ended(at, key, tmp_path):
    defs = build_defs(settings := Settings(first_hour=EARLIEST, data=tmp_path))
    with dg.DagsterInstance.ephemeral() as instance:
        (request,) = evaluated(defs, settings, instance, at).run_requests
    assert request.partition_key == key
    assert request.run_key == key  # a second tick of this hour makes no second run
    assert request.asset_selection is None


def evaluated(defs: dg.Definitions, settings: Settings, instance: dg.DagsterInstance, at: datetime) -> Any:
    """What the hourly schedule asks for at a moment."""
    schedule = defs.resolve_schedule_def("each_hour")
    resources = {
        name: made for name, made in build_resources(settings).items() if name in schedule.required_resource_keys
    }
    with dg.build_schedule_context(
        instance=instance, scheduled_execution_time=at, repository_def=defs.get_repository_def(), resources=resources
    ) as context:
        # an instance in memory has no reference to open it by
        context._instance_ref, context._instance = object(), instance
        return schedule.evaluate_tick(context)


def test_an_hour_that_discovery_has_loaded_is_neither_fetched_nor_materialized_again_by_the_schedule(
    fresh, monkeypatch
):
    monkeypatch.setattr(adapters, "GLANCE_SECONDS", 0.2)
    hour = offered(fresh.sandbox, datetime.now(UTC))[-1]
    at = hour + timedelta(minutes=80)

    def tick() -> Any:
        return evaluated(fresh.defs, fresh.settings, fresh.instance, at)

    span = {ASSET_PARTITION_RANGE_START_TAG: key_of(hour), ASSET_PARTITION_RANGE_END_TAG: key_of(hour)}
    run = create_run_for_test(fresh.instance, job_name="hours", status=dg.DagsterRunStatus.STARTED, tags=span)
    assert tick().skip_message == f"A run has {hour_text(hour)} UTC under way. The sensor publish_pending publishes it."
    fresh.instance.delete_run(run.run_id)
    assert fresh.materialize([hour]).success

    (request,) = tick().run_requests  # to publish it, where the sensor that does is off
    assert request.partition_key is None
    job = fresh.defs.resolve_job_def("hour_to_published")
    result = job.execute_in_process(
        instance=fresh.instance, asset_selection=request.asset_selection, tags=dict(request.tags)
    )
    assert result.success
    made = {one.asset_key.to_user_string() for one in result.get_asset_materialization_events()}
    assert made == {"warehouse/articles", "warehouse/entities", "published/warehouse"}
    assert tick().skip_message == f"{hour_text(hour)} UTC is loaded already, and nothing is pending."
    # where nobody can look, the run itself does
    with FileLock(fresh.settings.data / "state" / "warehouse.lock"):
        assert [one.partition_key for one in tick().run_requests] == [key_of(hour)]


def test_the_schedule_asks_for_the_datasets_alone_whose_hour_is_missing(fresh):
    hour = offered(fresh.sandbox, datetime.now(UTC))[-1]
    assert fresh.materialize([hour]).success
    fresh.settings = fresh.settings.model_copy(update={"wikidata": True})
    (request,) = evaluated(fresh.defs, fresh.settings, fresh.instance, hour + timedelta(minutes=80)).run_requests
    assert request.partition_key == key_of(hour)
    assert set(request.asset_selection) == {
        *layers.keys(datasets.ENTITY_CHANGES),
        *current.KEYS,
        dg.AssetKey(["published", "warehouse"]),
    }


def test_a_run_that_finds_an_hour_done_leaves_the_earlier_work_in_its_metadata(fresh, monkeypatch):
    *_, other, hour = offered(fresh.sandbox, datetime.now(UTC))

    def shown() -> dict[str, dict[str, Any]]:
        found = {}
        for key in layers.keys(ARTICLE_CHANGES):
            (record,) = fresh.instance.fetch_materializations(
                dg.AssetRecordsFilter(asset_key=key, asset_partitions=[key_of(hour)]), limit=1
            ).records
            found[key.path[0]] = {
                name: one.value for name, one in record.asset_materialization.metadata.items() if name != "preview"
            }
        return found

    assert fresh.materialize([hour]).success
    first = shown()
    assert first["archive"]["files_fetched"] == 1
    assert first["archive"]["bytes_fetched"] > 0
    assert first["lake"]["files_converted"] == 1
    assert first["warehouse"].pop("changed")
    # alone, and among others; the moment of the work stays as well
    assert fresh.materialize([hour]).success
    again = shown()
    since = {again[layer].pop("unchanged_since") for layer in again}
    assert not again["warehouse"].pop("changed")
    assert again == first
    assert fresh.materialize([other, hour]).success
    third = shown()
    assert {third[layer].pop("unchanged_since") for layer in third} == since
    assert not third["warehouse"].pop("changed")
    assert third == first
    # a run of the sensor that was requested before: somebody else has reported the hour meanwhile
    run = create_run_for_test(fresh.instance, job_name="hours", tags={"dagster/sensor_name": "discover_hours"})
    with monkeypatch.context() as of_sensor:
        of_sensor.setattr(hourly, "_requested_at", lambda _: 0.0)
        asked = fresh.materialize([hour])
    assert asked.success
    assert asked.get_asset_materialization_events() == []
    context = SimpleNamespace(run=run, instance=fresh.instance)
    assert 0 <= datetime.now(UTC).timestamp() - hourly._requested_at(context) < 600
    # what is work again is shown as such
    for path in (fresh.settings.data / "lake" / "article_changes").rglob(f"hour={hour:%H}/*.parquet"):
        path.unlink()
    assert fresh.materialize([hour]).success
    fourth = shown()
    assert ("unchanged_since" in fourth["archive"], "unchanged_since" in fourth["lake"]) == (True, False)


def test_the_daily_schedule_pulls_the_reference_lists():
    schedule = build_defs(Settings()).resolve_schedule_def("reference_each_day")
    with dg.DagsterInstance.ephemeral() as instance:
        context = dg.build_schedule_context(
            instance=instance, scheduled_execution_time=datetime(2026, 3, 1, tzinfo=UTC)
        )
        (request,) = schedule.evaluate_tick(context).run_requests
    assert request.partition_key is None
    assert schedule.job_name == "reference"


# --- discovery -------------------------------------------------------------------------------------------------------


def spans_of(tick: Any) -> list[tuple[datetime, datetime]]:
    """First and last hour of each run that a tick asks for."""
    tags = [request.tags for request in tick.run_requests]
    return [(hour_of(t[ASSET_PARTITION_RANGE_START_TAG]), hour_of(t[ASSET_PARTITION_RANGE_END_TAG])) for t in tags]


def test_after_an_outage_of_two_days_discovery_asks_for_three_runs_in_a_few_requests(fresh):
    before = offered(fresh.sandbox, datetime.now(UTC))
    shutil.rmtree(fresh.settings.data)  # as before the first run
    fresh.sandbox.requests.clear()
    tick = fresh.tick("discover_hours")
    assert len(fresh.sandbox.requests) <= 7  # a login, and the newest hours until one is there
    assert not list((fresh.settings.data / "warehouse").glob("*"))  # a look makes nothing
    spans = spans_of(tick)
    assert len(spans) == 3
    first, newest, between = spans
    # while the test runs, the oldest may pass the retention and another may appear
    assert first[0] in before[:2]
    assert newest[1] in {before[-1], before[-1] + HOUR}
    assert (first[1] + HOUR, between[1] + HOUR) == (between[0], newest[0])


def test_discovery_asks_for_what_is_not_loaded_and_for_nothing_that_is(fresh):
    hours = offered(fresh.sandbox, datetime.now(UTC))
    # archived by a run that was killed before it could load
    assert fresh.materialize(hours[-3:], "archive/batches").success
    assert spans_of(fresh.tick("discover_hours"))[1][1] >= hours[-1]
    assert fresh.materialize(hours[-5:]).success
    # two days are two runs of a minute; most hours are known to be empty instead the oldest hour may have gone since
    assert any(first in hours[:2] for first, _ in spans_of(fresh.tick("discover_hours")))
    empty = [HourStatus(hour, "enwiki", 0, HourState.EMPTY) for hour in hours[:-5]]
    fresh.resources["warehouse"].warehouse.record_statuses(empty)
    tick = fresh.tick("discover_hours")
    # another may have appeared since
    assert all(first > hours[-1] for first, _ in spans_of(tick))
    if offered(fresh.sandbox, datetime.now(UTC))[-1] == hours[-1]:
        assert tick.skip_message in {
            "Every hour of the last two days is loaded.",
            "The service has not published the newest hours yet. They are looked for again.",
        }
    # and the first hours of a project that is mirrored from now on
    fresh.settings = fresh.settings.model_copy(update={"projects": ("enwiki", "dewiki")})
    assert len(spans_of(fresh.tick("discover_hours"))) == 3


def test_discovery_leaves_alone_what_is_under_way_and_for_a_while_what_has_failed(fresh):
    now = datetime.now(UTC)
    hours = offered(fresh.sandbox, now)
    half = hours[len(hours) // 2]

    def run(status: dg.DagsterRunStatus, first: datetime, last: datetime, **tags: str) -> str:
        tags |= {ASSET_PARTITION_RANGE_START_TAG: key_of(first), ASSET_PARTITION_RANGE_END_TAG: key_of(last)}
        # as a command runs it
        made = create_run_for_test(
            fresh.instance, job_name="hours", status=status, tags=tags, asset_selection=frozenset()
        )
        return made.run_id

    def wanted(at: datetime) -> list[datetime]:
        return without_busy(hours, fresh.instance, at).wanted

    run(dg.DagsterRunStatus.STARTED, half + HOUR, hours[-1] + 2 * HOUR)
    assert wanted(now) == [hour for hour in hours if hour <= half]
    assert max(last for _, last in spans_of(fresh.tick("discover_hours"))) == half

    step_failure = {"dagster/failure_reason": "STEP_FAILURE"}
    # a backfill that failed does not keep the sensor from looking
    run(dg.DagsterRunStatus.FAILURE, half, half, **step_failure)
    assert half in wanted(datetime.now(UTC))
    requested = step_failure | {"dagster/sensor_name": "discover_hours"}
    for number, wait in enumerate((*WAITS, WAITS[-1], WAITS[-1])):  # the service has the hour, so it is never given up
        root = run(dg.DagsterRunStatus.FAILURE, half, half, **requested)
        now = datetime.now(UTC)
        waiting = without_busy(hours, fresh.instance, now).waiting
        assert list(waiting) == [half], number
        # repeated by hand, with the tags of the run; and started by hand
        run(dg.DagsterRunStatus.FAILURE, half, half, **requested, **{"dagster/root_run_id": root})
        run(dg.DagsterRunStatus.FAILURE, half, half, **step_failure)
        now = datetime.now(UTC)
        again = without_busy([half, hours[-1]], fresh.instance, now)
        assert again.waiting == waiting
        assert again.sentence == (
            f"2 hours missing: 1 under way, 1 failed, and no run is requested before {moment_text(waiting[half])} UTC "
            "(runs that are started by hand do not change that)."
        )
        assert half not in wanted(now), number
        assert wanted(now) == hours[: hours.index(half)]
        assert half not in wanted(now + wait - timedelta(minutes=1))
        assert half in wanted(now + wait)

    # a run that was killed says nothing about its hours, and a snapshot is none
    run(dg.DagsterRunStatus.FAILURE, hours[0], hours[0])
    create_run_for_test(
        fresh.instance,
        job_name="snapshots",
        status=dg.DagsterRunStatus.STARTED,
        tags={"dagster/partition": "enwiki_namespace_0"},
    )
    assert hours[0] in wanted(datetime.now(UTC))


def test_discovery_waits_for_the_runs_of_a_backfill_that_was_just_launched(fresh):
    hours = offered(fresh.sandbox, datetime.now(UTC))
    now = datetime.now(UTC)

    def launch(name: str, layer: str, status: BulkActionStatus = BulkActionStatus.REQUESTED) -> None:
        fresh.instance.add_backfill(
            PartitionBackfill(
                name,
                status,
                from_failure=False,
                tags={},
                backfill_timestamp=now.timestamp(),
                asset_selection=[dg.AssetKey(layer.split("/"))],
            )
        )

    launch("of others", "archive/reference")
    launch("ended", "archive/batches", BulkActionStatus.COMPLETED_SUCCESS)
    assert without_busy(hours, fresh.instance, now).wanted == hours
    launch("of hours", "archive/batches")
    assert without_busy(hours, fresh.instance, now).busy == hours
    assert without_busy(hours, fresh.instance, now + LAUNCHING).wanted == hours


def test_a_look_that_has_no_time_left_asks_for_the_older_hours_only(fresh, monkeypatch):
    monkeypatch.setattr(discovery, "ASKING_SECONDS", -1.0)
    fresh.sandbox.requests.clear()
    now = datetime.now(UTC)
    spans = spans_of(fresh.tick("discover_hours"))
    assert not [seen for seen in fresh.sandbox.requests if "/v2/batches" in seen.path]
    assert max(last for _, last in spans) < now - discovery.LATE


def test_a_look_waits_for_nobody_who_writes(fresh, monkeypatch):
    monkeypatch.setattr(adapters, "GLANCE_SECONDS", 0.2)
    assert fresh.materialize(offered(fresh.sandbox, datetime.now(UTC))[-1:]).success
    lock = FileLock(fresh.settings.data / "state" / "warehouse.lock")
    with lock:
        for sensor in ("discover_hours", "publish_pending"):
            assert "Another process has used the warehouse" in fresh.tick(sensor).skip_message


def test_discovery_that_cannot_log_in_says_so_and_asks_for_nothing(fresh):
    fresh.settings = fresh.settings.model_copy(update={"password": SecretStr("wrong-Passw0rd")})
    tick = fresh.tick("discover_hours")
    assert tick.run_requests == []
    assert "password" in tick.skip_message.lower()
    assert "wrong-Passw0rd" not in tick.skip_message


def test_a_project_that_an_hours_list_lacked_is_looked_for_twice_more(fresh):
    hour = last_complete_hour(datetime.now(UTC)) - 20 * HOUR
    fresh.settings = fresh.settings.model_copy(update={"projects": ("enwiki", "dewiki")})
    assert fresh.materialize([hour]).success  # which finds nothing of the other one
    listing = fresh.resources["lake"].layout.batch_list(ARTICLE_CHANGES, hour)
    scope = (("enwiki", 0), ("dewiki", 0))

    def looked_at(moment: datetime) -> None:
        os.utime(listing, (moment.timestamp(), moment.timestamp()))

    first, last = RECHECKS
    looked_at(hour + timedelta(hours=1, minutes=20))
    assert hour not in fresh.missing(hour + first - timedelta(seconds=1), scope)
    assert hour in fresh.missing(hour + first, scope)
    assert hour not in fresh.missing(hour + first)  # nothing of what is mirrored is absent
    looked_at(hour + first + timedelta(minutes=5))
    assert hour not in fresh.missing(hour + last - timedelta(seconds=1), scope)
    assert hour in fresh.missing(hour + last, scope)
    looked_at(hour + last + timedelta(minutes=5))
    assert hour not in fresh.missing(hour + last + timedelta(minutes=10), scope)


# --- killed runs -----------------------------------------------------------------------------------------------------


def test_what_a_killed_command_had_begun_is_asked_for_once_more(fresh):
    first, last = offered(fresh.sandbox, datetime.now(UTC))[-3:-1]
    # the lock of a process that is gone: its file is there, and nobody holds it
    lock = Path(fresh.instance.root_directory) / "processes" / "gone.lock"
    lock.parent.mkdir()
    lock.touch()
    span = {ASSET_PARTITION_RANGE_START_TAG: key_of(first), ASSET_PARTITION_RANGE_END_TAG: key_of(last)}
    run = create_run_for_test(
        fresh.instance,
        job_name="hours",
        status=dg.DagsterRunStatus.STARTED,
        tags={**span, ".dagster/wme_process": "gone"},
        asset_selection=frozenset({LAKE, WAREHOUSE}),
    )
    (request,) = fresh.tick("end_killed_runs").run_requests
    assert fresh.instance.get_run_by_id(run.run_id).status is dg.DagsterRunStatus.FAILURE
    assert request.job_name == "__ASSET_JOB"  # of these assets: the sensor is no job's
    assert span.items() <= request.tags.items()
    assert ".dagster/wme_process" not in request.tags
    assert request.asset_selection == [LAKE, WAREHOUSE]
    # until the daemon has made a run of it, under the same key
    (again,) = fresh.tick("end_killed_runs").run_requests
    assert again.run_key == request.run_key
    create_run_for_test(fresh.instance, job_name="hours", tags={"dagster/run_key": request.run_key})
    assert fresh.tick("end_killed_runs").skip_message == "Every run that is under way has its process."


# --- snapshots -------------------------------------------------------------------------------------------------------


def test_snapshots_are_asked_for_once_per_version_and_published_like_hours(fresh):
    asked = fresh.tick("discover_snapshots")
    (request,) = asked.run_requests
    assert request.partition_key == "enwiki_namespace_0"
    assert request.run_key.startswith("enwiki_namespace_0 ")
    assert fresh.instance.get_dynamic_partitions("snapshots") == ["enwiki_namespace_0"]

    job = fresh.defs.resolve_job_def("snapshots")
    assert job.execute_in_process(instance=fresh.instance, partition_key=request.partition_key).success
    assert "archived in its current version" in fresh.tick("discover_snapshots").skip_message
    assert fresh.tick("publish_pending").run_requests
    assert fresh.defs.resolve_job_def("publish").execute_in_process(instance=fresh.instance).success
    assert "Every loaded hour and snapshot" in fresh.tick("publish_pending").skip_message

    # from the snapshot on, an hour that is not there is a gap
    newest = offered(fresh.sandbox, datetime.now(UTC))[-1]
    assert fresh.materialize([newest]).success
    assert fresh.defs.resolve_job_def("publish").execute_in_process(instance=fresh.instance).success
    warehouse = fresh.resources["warehouse"].warehouse
    (state,) = warehouse.project_states()
    hours = [row.batch_hour for row in warehouse.coverage()]
    assert hours[0] <= state.base_boundary_at < hours[0] + HOUR
    assert hours == [hours[0] + n * HOUR for n in range(len(hours))]
    assert hours[-1] == newest

    # another version is a newer one, whatever it looks like
    fresh.sandbox.exports.export("enwiki_namespace_0")
    try:
        (again,) = fresh.tick("discover_snapshots").run_requests
        assert again.run_key != request.run_key
        assert again.partition_key == request.partition_key
    finally:
        fresh.sandbox.exports.clear()


def test_a_snapshot_under_way_does_not_keep_hours_from_being_published(fresh):
    assert fresh.materialize(offered(fresh.sandbox, datetime.now(UTC))[-1:]).success
    started = dg.DagsterRunStatus.STARTED
    create_run_for_test(fresh.instance, job_name="snapshots", status=started)
    layers = ("archive/snapshots", "lake/snapshot_articles", "warehouse/snapshot_articles")
    # as the pages launch it
    chosen = frozenset(dg.AssetKey(layer.split("/")) for layer in layers)
    create_run_for_test(fresh.instance, job_name="__ASSET_JOB", asset_selection=chosen, status=started)
    assert fresh.tick("publish_pending").run_requests
    hours = frozenset({dg.AssetKey(["warehouse", "article_changes"])})
    create_run_for_test(fresh.instance, job_name="__ASSET_JOB", asset_selection=chosen | hours, status=started)
    assert fresh.tick("publish_pending").skip_message.startswith("1 run under way")


def test_a_listing_that_takes_too_long_is_asked_for_again_within_minutes(fresh, monkeypatch):
    """A sandbox makes its snapshots at the first listing, and a service may be as slow."""
    fresh.sandbox.faults.add(path="/v2/snapshots", kind="delay", seconds=5.0)
    with monkeypatch.context() as patch:
        patch.setattr(sensors, "_ANSWER_SECONDS", 0.2)
        asked = fresh.tick("discover_snapshots")
    assert (bool(asked.skip_message), asked.run_requests, asked.cursor) == (True, [], None)
    (request,) = fresh.tick("discover_snapshots").run_requests
    assert request.partition_key == "enwiki_namespace_0"
    mirrored = [one for one in datasets.datasets(datasets.Family.SNAPSHOT) if fresh.settings.scope_of(one)]
    assert len(mirrored) > 1
    for dataset in mirrored:
        assert fresh.defs.resolve_sensor_def(f"discover_{dataset.archive}").minimum_interval_seconds <= 600


def test_without_the_service_the_snapshots_wait(fresh):
    fresh.sandbox.faults.add(path="/v2/snapshots", kind="status", status=403, count=None)
    assert fresh.tick("discover_snapshots").skip_message


# --- publishing ------------------------------------------------------------------------------------------------------


def test_publishing_is_asked_for_once_per_set_of_pending_hours_and_after_the_hours_have_run(fresh):
    hours = offered(fresh.sandbox, datetime.now(UTC))[-4:]
    assert fresh.tick("publish_pending").skip_message == "Every loaded hour and snapshot is in the current articles."

    assert fresh.materialize(hours[:2]).success
    (first,) = fresh.tick("publish_pending").run_requests
    (again,) = fresh.tick("publish_pending").run_requests
    assert again.run_key == first.run_key  # the daemon makes one run of it

    for selection in (None, frozenset()):  # a run of the daemon, and one of a command
        run = create_run_for_test(
            fresh.instance, job_name="hours", status=dg.DagsterRunStatus.STARTED, asset_selection=selection
        )
        assert "under way" in fresh.tick("publish_pending").skip_message
        fresh.instance.delete_run(run.run_id)

    assert fresh.materialize(hours[2:]).success
    (more,) = fresh.tick("publish_pending").run_requests
    assert more.run_key.split()[0] != first.run_key.split()[0]

    published = fresh.defs.resolve_job_def("publish").execute_in_process(instance=fresh.instance)
    assert published.success
    assert fresh.tick("publish_pending").skip_message == "Every loaded hour and snapshot is in the current articles."


def test_publishing_no_more_often_than_the_operator_wants(fresh):
    hours = offered(fresh.sandbox, datetime.now(UTC))[-3:]
    fresh.settings = fresh.settings.model_copy(update={"publish_every": timedelta(hours=1)})
    warehouse = fresh.resources["warehouse"].warehouse

    def publish(**tags: str) -> dict[str, Any]:
        result = fresh.defs.resolve_job_def("publish").execute_in_process(instance=fresh.instance, tags=tags)
        (made,) = result.asset_materializations_for_node("published__warehouse")
        return {name: value.value for name, value in made.metadata.items()}

    assert fresh.materialize(hours[:1]).success
    (first,) = fresh.tick("publish_pending").run_requests
    when_due = {name: value for name, value in first.tags.items() if name.startswith("wme/")}
    assert when_due
    made = publish(**when_due)
    assert made["changed"]
    last = warehouse.publication()
    assert made["published_at"] == last.published_at.timestamp()
    due = f"{last.published_at + timedelta(hours=1):%Y-%m-%d %H:%M}"
    assert made["next_publication"] == f"by the first run after {due} UTC (WME_PUBLISH=60)"

    assert fresh.materialize(hours[1:2]).success
    assert f"Pending: 1 hour and 0 snapshots. They are published by the first run after {due}" in (
        fresh.tick("publish_pending").skip_message
    )
    made = publish(**when_due)
    assert (made["changed"], made["published_at"]) == (False, last.published_at.timestamp())
    assert warehouse.publication() == last
    # what was taken into the articles and not published is not forgotten
    assert warehouse.pending_hours() == []
    assert "Pending: 0 hours and 0 snapshots." in fresh.tick("publish_pending").skip_message
    an_hour_ago = last.published_at - timedelta(hours=1)
    warehouse.published_path.chmod(0o644)
    with duckdb.connect(warehouse.published_path) as connection:
        connection.execute("UPDATE about SET value = ? WHERE name = 'published_at'", [an_hour_ago.isoformat()])
    assert fresh.tick("publish_pending").run_requests
    assert publish(**when_due)["changed"]
    assert warehouse.unpublished_revision() is None
    assert "Every loaded hour" in fresh.tick("publish_pending").skip_message

    # off is off, and whoever publishes by hand is never refused
    fresh.settings = fresh.settings.model_copy(update={"publish_every": None})
    assert fresh.materialize(hours[2:]).success
    assert "only when asked for" in fresh.tick("publish_pending").skip_message
    assert publish()["changed"]
    assert warehouse.unpublished_revision() is None


def test_a_run_that_is_not_to_publish_ends_well_where_nothing_was_published_yet(fresh):
    fresh.settings = fresh.settings.model_copy(update={"publish_every": None})
    before, _gap, hour = offered(fresh.sandbox, datetime.now(UTC))[-3:]
    assert fresh.materialize([before]).success
    tick = evaluated(fresh.defs, fresh.settings, fresh.instance, hour + timedelta(minutes=80))
    (request,) = tick.run_requests
    assert request.partition_key == key_of(hour)
    result = fresh.defs.resolve_job_def("hour_to_published").execute_in_process(
        instance=fresh.instance, partition_key=request.partition_key, tags=request.tags
    )
    assert result.success
    (covered,) = (one for one in result.get_asset_check_evaluations() if one.check_name == "last_48_hours_covered")
    assert not covered.passed, "the hour in between is missing, whether it is published or not"
    assert not (fresh.settings.data / "warehouse.duckdb").exists()


# --- checks by themselves --------------------------------------------------------------------------------------------


def test_checks_asked_for_alone_look_at_the_hours_of_the_last_two_days(fresh):
    hours = offered(fresh.sandbox, datetime.now(UTC))[-3:]
    assert fresh.materialize(hours).success
    archive = next((fresh.settings.data / "archive").rglob("*.tar.gz"))

    def ask() -> dict[str, dg.AssetCheckEvaluation]:
        whole = fresh.defs.resolve_implicit_global_asset_job_def()
        own = layers.keys(ARTICLE_CHANGES)
        keys = [key for key in whole.asset_layer.asset_graph.asset_check_keys if key.asset_key in own]
        job = whole.get_subset(asset_selection=set(), asset_check_selection=set(keys))
        result = job.execute_in_process(instance=fresh.instance)
        assert not result.asset_materializations_for_node("hourly_batches")
        return {evaluation.check_name: evaluation for evaluation in result.get_asset_check_evaluations()}

    told = ask()
    assert len(told) == 8
    assert all(evaluation.passed for evaluation in told.values())
    assert {name: evaluation.metadata["looked_at"].value for name, evaluation in told.items()} | {
        "rejects_share": 3
    } == dict.fromkeys(told, 3) | {"agrees_with_stream": 0}, "no stream was read"

    archive.write_bytes(archive.read_bytes()[:-1])
    told = ask()
    assert [name for name, evaluation in told.items() if not evaluation.passed] == ["archives_verified"]
    assert f"is damaged: {archive} has the MD5 " in told["archives_verified"].description


# --- the stream ------------------------------------------------------------------------------------------------------


def test_runs_read_the_stream_one_after_the_other_and_keep_nothing_from_being_published(fresh, monkeypatch):
    monkeypatch.setattr(streams, "OBSERVED_SECONDS", 0.0)
    job = fresh.defs.resolve_job_def("stream")
    now = datetime.now(UTC)
    since_hours = 6
    wanted = sum(1 for _ in fresh.sandbox.world.events("enwiki", now - timedelta(hours=since_hours - 1), now))
    assert wanted >= 15
    found: list[dict[str, Any]] = []
    observed: list[dg.DagsterEvent] = []
    for _ in range(100):
        config = {"minutes": 0.01, "since_hours": since_hours, "connections": 2}
        run = job.execute_in_process(
            instance=fresh.instance, run_config={"ops": {"lake__live_changes": {"config": config}}}
        )
        (made,) = run.get_asset_materialization_events()
        observed += [event for event in run.all_events if event.event_type_value == "ASSET_OBSERVATION"]
        found.append({name: value.value for name, value in made.materialization.metadata.items()})
        if sum(one["events"] for one in found) >= wanted:
            break
    assert sum(one["events"] for one in found) >= wanted
    assert sum(one["duplicates_dropped"] + one["rejected_lines"] for one in found) == 0
    seen = [event.asset_observation_data.asset_observation.metadata["events"].value for event in observed]
    assert sum(seen) == sum(one["events"] for one in found)
    kept = files_of(fresh.settings.data / "lake/live_changes")
    offsets = pa.concat_tables(pq.read_table(one.path, columns=["event_partition", "event_offset"]) for one in kept)
    assert len(offsets.group_by(["event_partition", "event_offset"]).aggregate([])) == len(offsets)
    assert len(offsets) == sum(one["events"] for one in found)

    assert fresh.materialize(offered(fresh.sandbox, now)[-1:]).success
    create_run_for_test(fresh.instance, job_name="stream", status=dg.DagsterRunStatus.STARTED)
    assert fresh.tick("publish_pending").run_requests


def test_the_stream_is_kept_read_by_one_run_and_left_alone_for_longer_the_oftener_it_fails(fresh, monkeypatch):
    assert fresh.defs.resolve_job_def("stream").tags == {"dagster/max_retries": "0"}
    assert len(fresh.tick("keep_streaming").run_requests) == 1
    state = fresh.settings.data / "state"
    assert not (state / "stream.lock").exists()
    state.mkdir(parents=True, exist_ok=True)
    with files.held(state / "stream.lock", wait_seconds=0):
        assert "`wme stream` for example" in fresh.tick("keep_streaming").skip_message

    def run(status: dg.DagsterRunStatus, **tags: str) -> str:
        return create_run_for_test(fresh.instance, job_name="stream", status=status, tags=tags).run_id

    step_failure = {"dagster/failure_reason": "STEP_FAILURE", "dagster/sensor_name": "keep_streaming"}
    for number, wait in enumerate((*STREAM_WAITS, STREAM_WAITS[-1])):
        root = run(dg.DagsterRunStatus.FAILURE, **step_failure)
        message = fresh.tick("keep_streaming").skip_message
        run(dg.DagsterRunStatus.FAILURE, **step_failure, **{"dagster/root_run_id": root})  # repeated by hand
        assert fresh.tick("keep_streaming").skip_message == message
        assert "The last run failed; its page says why." in fresh.tick("keep_streaming").skip_message, number
        with monkeypatch.context() as later:
            later.setattr(sensors, "datetime", _moved(wait - timedelta(seconds=30)))
            assert fresh.tick("keep_streaming").skip_message
            later.setattr(sensors, "datetime", _moved(wait + timedelta(seconds=1)))
            assert fresh.tick("keep_streaming").run_requests
    run(dg.DagsterRunStatus.FAILURE)  # killed
    assert fresh.tick("keep_streaming").run_requests
    for status in (dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING):
        started = run(status)
        assert fresh.tick("keep_streaming").skip_message == "A run is reading the stream."
        fresh.instance.delete_run(started)


def _moved(by: timedelta) -> type[datetime]:
    class Moved(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return datetime.now(tz) + by

    return Moved


def checked(fresh: Fresh, name: str = "no_failed_hours") -> tuple[bool, str | None]:
    """The answer of a check of the published file."""
    key = dg.AssetCheckKey(dg.AssetKey(["published", "warehouse"]), name)
    whole = fresh.defs.resolve_implicit_global_asset_job_def()
    job = whole.get_subset(asset_selection=set(), asset_check_selection={key})
    (evaluation,) = job.execute_in_process(instance=fresh.instance).get_asset_check_evaluations()
    return evaluation.passed, evaluation.description


def test_an_hour_that_failed_is_told_until_it_is_loaded(fresh):
    hour = offered(fresh.sandbox, datetime.now(UTC))[-1]
    assert checked(fresh) == (True, None)
    fresh.sandbox.faults.add(path="/v2/batches/*", kind="status", status=403, count=None)
    assert not fresh.materialize([hour]).success
    passed, description = checked(fresh)
    assert not passed
    assert description.startswith(f"article_changes: 1 hour failed: {hour_text(hour)}. Read the message ")
    fresh.sandbox.faults.clear()
    assert fresh.materialize([hour]).success
    assert checked(fresh) == (True, None)


def test_hours_that_are_not_published_yet_or_not_mirrored_are_no_failed_ones(fresh):
    *_, hour, newest = offered(fresh.sandbox, datetime.now(UTC))
    assert fresh.materialize([hour]).success
    fresh.sandbox.faults.add(path="/v2/batches/wikidata/*", kind="status", status=403, count=None)
    assert not fresh.materialize(
        [hour], *(key.to_user_string() for key in layers.keys(datasets.ENTITY_CHANGES))
    ).success
    fresh.sandbox.faults.clear()
    fresh.sandbox.faults.add(path="/v2/batches/*", kind="status", status=404, count=None)
    assert not fresh.materialize([newest]).success
    warehouse = fresh.resources["warehouse"].warehouse
    assert [row.state for row in warehouse.coverage(newest, published=False)] == ["not_yet"]
    assert checked(fresh) == (True, None)
    assert checked(fresh, "last_48_hours_covered") == (True, None)


def test_hours_of_a_run_that_failed_before_it_recorded_anything_are_missing(fresh, monkeypatch):
    *_, lost, hour = offered(fresh.sandbox, datetime.now(UTC))
    fresh.sandbox.faults.add(path="/v2/batches/*", kind="status", status=403, count=None)
    with monkeypatch.context() as dying:
        dying.setattr(HourlyRun, "fail", lambda *_: None)
        assert not fresh.materialize([lost]).success
    fresh.sandbox.faults.clear()
    assert fresh.materialize([hour]).success
    assert fresh.defs.resolve_job_def("publish").execute_in_process(instance=fresh.instance).success
    for name in ("no_failed_hours", "last_48_hours_covered"):
        passed, description = checked(fresh, name)
        assert not passed
        assert hour_text(lost) in description
    status = collect(fresh.settings, 48)
    assert any(f"enwiki namespace 0 {hour_text(lost)}: missing. Its run failed" in text for text in status.troubles)
