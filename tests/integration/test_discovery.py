"""The schedule of each hour, discovery, and layers that follow the one before them, evaluated as the daemon does."""

import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
from dagster._core.storage.tags import ASSET_PARTITION_RANGE_END_TAG, ASSET_PARTITION_RANGE_START_TAG
from filelock import FileLock

from assets import current, layers, published
from assets.layers import EARLIEST, HOUR, hour_of, key_of
from pipelines.automation import discovery, sensors
from pipelines.automation.discovery import RECHECKS, WAITS, without_busy
from resources import adapters, connection, datasets
from resources.datasets import ARTICLE_CHANGES, last_complete_hour
from resources.formatting import hour_text, moment_text
from resources.tables import HourState
from resources.warehouse import HourStatus
from tests.integration.daemon import FAILURE, STARTED, Daemon, offered, span_of

LAKE = layers.lake_key(datasets.ARTICLE_CHANGES)
WAREHOUSE = layers.warehouse_key(datasets.ARTICLE_CHANGES)
PENDING = {"warehouse/articles", "warehouse/entities", "published/warehouse"}


def test_each_hour_asks_for_the_hour_that_has_just_ended(daemon):
    daemon.change(first_hour=EARLIEST)
    for at, key in (
        (datetime(2026, 3, 1, 0, 20, tzinfo=UTC), "2026-02-28-23:00"),
        (datetime(2026, 3, 29, 2, 20, tzinfo=UTC), "2026-03-29-01:00"),  # clocks change in Europe; UTC does not
    ):
        (request,) = daemon.schedule(at).run_requests
        assert request.partition_key == request.run_key == key  # a second tick of this hour makes no second run
        assert (request.asset_selection, request.tags | published.WHEN_DUE) == (None, request.tags)


def test_what_discovery_has_loaded_is_not_loaded_again_by_the_schedule(daemon, monkeypatch):
    monkeypatch.setattr(adapters, "GLANCE_SECONDS", 0.2)
    hour = daemon.offered()[-1]
    at, run = hour + timedelta(minutes=80), daemon.run(STARTED, tags=span_of(hour, hour))
    under_way = f"A run for {hour_text(hour)} UTC is in progress and will be followed by a publication."
    assert daemon.schedule(at).skip_message == under_way
    daemon.instance.delete_run(run)
    assert daemon.materialize([hour]).success

    (request,) = daemon.schedule(at).run_requests  # to publish it, where the sensor that does is off
    assert (request.partition_key, request.tags | published.WHEN_DUE) == (None, request.tags)
    result = daemon.execute("hour_to_published", asset_selection=request.asset_selection, tags=dict(request.tags))
    assert {one.asset_key.to_user_string() for one in result.get_asset_materialization_events()} == PENDING
    assert daemon.schedule(at).skip_message == f"{hour_text(hour)} UTC is already loaded, and nothing is pending."
    # where nobody can look, the run itself does, over all datasets, and a sensor waits
    daemon.change(wikidata=True)
    with FileLock(daemon.settings.data / "state" / "warehouse.lock"):
        (request,) = daemon.schedule(at).run_requests
        assert (request.partition_key, request.asset_selection) == (key_of(hour), None)
        for sensor in ("discover_hours", "publish_pending"):
            assert "Another process has been using the warehouse" in daemon.tick(sensor).skip_message
    # of two datasets, the one is asked for whose hour is missing, whatever runs over the other
    daemon.run(STARTED, tags=span_of(hour, hour), asset_selection=frozenset(layers.keys(ARTICLE_CHANGES)))
    (request,) = daemon.schedule(at).run_requests
    assert request.partition_key == key_of(hour)
    assert set(request.asset_selection) == {*layers.keys(datasets.ENTITY_CHANGES), *current.KEYS, published.KEY}
    empty = [HourStatus(hour, *place, HourState.EMPTY) for place in daemon.settings.scope_of(datasets.ENTITY_CHANGES)]
    daemon.warehouse.record_statuses(empty, dataset=datasets.ENTITY_CHANGES)
    assert [one.run_key for one in daemon.schedule(at).run_requests] == [f"{key_of(hour)} loaded"]


def test_a_run_that_finds_an_hour_done_leaves_the_earlier_work_in_its_metadata(daemon):
    *_, other, hour = daemon.offered()

    def shown() -> dict[str, dict[str, Any]]:
        found = {}
        for key in layers.keys(ARTICLE_CHANGES):
            of_hour = dg.AssetRecordsFilter(asset_key=key, asset_partitions=[key_of(hour)])
            (record,) = daemon.instance.fetch_materializations(of_hour, limit=1).records
            metadata = record.asset_materialization.metadata
            found[key.path[0]] = {name: one.value for name, one in metadata.items() if name != "preview"}
        return found

    assert daemon.materialize([hour]).success
    first = shown()
    assert (first["archive"]["files_fetched"], first["lake"]["files_converted"]) == (1, 1)
    assert min(first["archive"]["bytes_fetched"], first["warehouse"]["dagster/partition_row_count"]) > 0
    assert first["warehouse"].pop("changed")
    # alone, and among others; the moment of the work stays as well
    moments = []
    for hours in ([hour], [other, hour]):
        assert daemon.materialize(hours).success
        again = shown()
        moments.append([again[layer].pop("unchanged_since") for layer in again])
        assert (again["warehouse"].pop("changed"), again) == (False, first)
    assert moments[0] == moments[1]
    # what is work again is shown as such
    for path in (daemon.settings.data / "lake" / "article_changes").rglob(f"hour={hour:%H}/*.parquet"):
        path.unlink()
    assert daemon.materialize([hour]).success
    last = shown()
    assert ("unchanged_since" in last["archive"], "unchanged_since" in last["lake"]) == (True, False)


def spans_of(tick: Any) -> list[tuple[datetime, datetime]]:
    tags = [request.tags for request in tick.run_requests]
    return [(hour_of(t[ASSET_PARTITION_RANGE_START_TAG]), hour_of(t[ASSET_PARTITION_RANGE_END_TAG])) for t in tags]


def test_after_an_outage_of_two_days_discovery_asks_for_three_runs_in_a_few_requests(daemon, monkeypatch):
    before = daemon.offered()
    shutil.rmtree(daemon.settings.data)  # as before the first run
    daemon.sandbox.requests.clear()
    tick = daemon.tick("discover_hours")
    assert len(daemon.sandbox.requests) <= 7  # a login, and the newest hours until one is there
    assert not list((daemon.settings.data / "warehouse").glob("*"))  # a look makes nothing
    first, newest, between = spans_of(tick)
    # while the test runs, the oldest may pass the retention and another may appear
    assert first[0] in before[:2]
    assert newest[1] in {before[-1], before[-1] + HOUR}
    assert (first[1] + HOUR, between[1] + HOUR) == (between[0], newest[0])
    # without time left it asks for the older hours alone
    monkeypatch.setattr(discovery, "ASKING_SECONDS", -1.0)
    daemon.sandbox.requests.clear()
    now, spans = datetime.now(UTC), spans_of(daemon.tick("discover_hours"))
    assert not [seen for seen in daemon.sandbox.requests if "/v2/batches" in seen.path]
    assert max(last for _, last in spans) < now - discovery.LATE


def test_discovery_asks_for_what_is_not_loaded_and_for_nothing_that_is(daemon):
    hours = daemon.offered()
    # archived by a run that was killed before it could load
    assert daemon.materialize(hours[-2:], "archive/batches").success
    assert spans_of(daemon.tick("discover_hours"))[1][1] >= hours[-1]
    assert daemon.materialize(hours[-2:]).success
    # two days are two runs of a minute; most hours are known to be empty instead the oldest hour may have gone since
    assert any(first in hours[:2] for first, _ in spans_of(daemon.tick("discover_hours")))
    empty = [HourStatus(hour, "enwiki", 0, HourState.EMPTY) for hour in hours[:-2]]
    daemon.warehouse.record_statuses(empty, dataset=datasets.ARTICLE_CHANGES)
    tick = daemon.tick("discover_hours")
    # another may have appeared since
    assert all(first > hours[-1] for first, _ in spans_of(tick))
    if daemon.offered()[-1] == hours[-1]:
        later = "The service has not published the newest hours yet. The next evaluation checks again."
        assert tick.skip_message in {"Every hour of the last two days is loaded.", later}
    # and the first hours of a project that is mirrored from now on, though none before those of the definitions
    daemon.change(projects=("enwiki", "dewiki"))
    assert len(spans_of(daemon.tick("discover_hours"))) == 3
    daemon.change(data=daemon.settings.data / "new", first_hour=hours[-5])
    assert min(first for first, _ in spans_of(daemon.tick("discover_hours"))) == hours[-5]


def test_hours_of_each_mirrored_dataset_are_asked_for_in_runs_of_their_own(daemon, monkeypatch, later):
    seconds, opened = set(), connection.client
    monkeypatch.setattr(connection, "client", lambda *given: seconds.add(given[1:]) or opened(*given))
    first = daemon.offered()[-2]
    daemon.change(wikidata=True, first_hour=first)
    hourly = [ARTICLE_CHANGES, datasets.ENTITY_CHANGES]
    found = daemon.tick("discover_hours").run_requests
    assert {tuple(one.asset_selection) for one in found} == {layers.keys(dataset) for dataset in hourly}
    later(timedelta(minutes=1))  # if a run fails, the next has another key
    keys = [one.run_key for one in (*found, *daemon.tick("discover_hours").run_requests)]
    assert (len({*keys}), seconds) == (len(keys), {(sensors._ANSWER_SECONDS,)})
    for number, dataset in enumerate(hourly):
        places = daemon.settings.scope_of(dataset)
        hours = [first + back * HOUR for back in range(6)]
        empty = [HourStatus(hour, *place, HourState.EMPTY) for hour in hours for place in places]
        daemon.warehouse.record_statuses(empty, dataset=dataset)
        tick = daemon.tick("discover_hours")
        others = {layers.keys(one) for one in hourly[number + 1 :]}
        assert {tuple(one.asset_selection) for one in tick.run_requests} == others
    assert tick.skip_message == "Every hour of the last two days is loaded."


def test_discovery_leaves_alone_what_is_under_way_and_for_a_while_what_has_failed(daemon, monkeypatch):
    now, hours = datetime.now(UTC), daemon.offered()
    half = hours[len(hours) // 2]

    def run(status: dg.DagsterRunStatus, first: datetime, last: datetime, **tags: str) -> str:
        # as a command runs it
        return daemon.run(status, tags=tags | span_of(first, last), asset_selection=frozenset())

    def wanted(at: datetime) -> list[datetime]:
        return without_busy(hours, daemon.instance, at).wanted

    run(STARTED, half + HOUR, hours[-1] + 2 * HOUR)
    assert wanted(now) == [hour for hour in hours if hour <= half]
    assert max(last for _, last in spans_of(daemon.tick("discover_hours"))) == half

    step_failure = {"dagster/failure_reason": "STEP_FAILURE"}
    # a backfill that failed does not keep the sensor from looking
    run(FAILURE, half, half, **step_failure)
    assert half in wanted(datetime.now(UTC))
    with monkeypatch.context() as patched:
        patched.setattr(discovery, "hindrance", lambda *_: "It would fail again.")
        assert daemon.tick("discover_hours").skip_message == "It would fail again."
    for number, wait in enumerate((*WAITS, WAITS[-1])):  # the service has the hour, so it is never given up
        requested = step_failure | {f"dagster/{('sensor', 'schedule')[number % 2]}_name": "of_hours"}
        root, now = run(FAILURE, half, half, **requested), datetime.now(UTC)
        waiting = without_busy(hours, daemon.instance, now).waiting
        assert list(waiting) == [half], number
        # repeated by hand, with the tags of the run; and started by hand
        run(FAILURE, half, half, **requested, **{"dagster/root_run_id": root})
        run(FAILURE, half, half, **step_failure)
        now = datetime.now(UTC)
        assert without_busy(hours[::-1], daemon.instance, now + wait).have_failed
        again = without_busy([half, hours[-1]], daemon.instance, now)
        assert again.waiting == waiting
        assert again.sentence == (
            f"2 hours missing: 1 in progress, 1 failed, and the next run is requested at {moment_text(waiting[half])} "
            "UTC (runs started manually do not change this time)."
        )
        assert half not in wanted(now), number
        assert wanted(now) == hours[: hours.index(half)]
        assert half not in wanted(now + wait - timedelta(minutes=1))
        assert half in wanted(now + wait)

    # a run that was killed says nothing about its hours, and a snapshot is none
    run(FAILURE, hours[0], hours[0])
    daemon.run(STARTED, "snapshots", tags={"dagster/partition": "enwiki_namespace_0"})
    assert hours[0] in wanted(datetime.now(UTC))


def test_a_project_that_an_hours_list_lacked_is_looked_for_twice_more(daemon):
    hour = last_complete_hour(datetime.now(UTC)) - 20 * HOUR
    daemon.change(projects=("enwiki", "dewiki"))
    assert daemon.materialize([hour]).success  # which finds nothing of the other one
    listing = daemon.resources["lake"].layout.batch_list(ARTICLE_CHANGES, hour)
    scope = (("enwiki", 0), ("dewiki", 0))

    def looked_at(moment: datetime) -> None:
        os.utime(listing, (moment.timestamp(), moment.timestamp()))

    first, last = RECHECKS
    looked_at(hour + timedelta(hours=1, minutes=20))
    assert hour not in daemon.missing(hour + first - timedelta(seconds=1), scope)
    assert hour in daemon.missing(hour + first, scope)
    assert hour not in daemon.missing(hour + first)  # nothing of what is mirrored is absent
    looked_at(hour + first + timedelta(minutes=5))
    assert hour not in daemon.missing(hour + last - timedelta(seconds=1), scope)
    assert hour in daemon.missing(hour + last, scope)
    looked_at(hour + last + timedelta(minutes=5))
    assert hour not in daemon.missing(hour + last + timedelta(minutes=10), scope)


def test_what_a_killed_command_had_begun_is_asked_for_once_more(daemon):
    first, last = daemon.offered()[-3:-1]
    # the lock of a process that is gone: its file is there, and nobody holds it
    lock = Path(daemon.instance.root_directory) / "processes" / "gone.lock"
    lock.parent.mkdir()
    lock.touch()
    span, chosen = span_of(first, last), frozenset({LAKE, WAREHOUSE})
    killed = {".dagster/wme_process": "gone", **published.WHEN_DUE}
    run = daemon.run(STARTED, tags=killed | span, asset_selection=chosen)
    (request,) = daemon.tick("end_killed_runs").run_requests
    assert daemon.instance.get_run_by_id(run).status is FAILURE
    assert request.job_name == "__ASSET_JOB"  # of these assets: the sensor is no job's
    assert span | published.WHEN_DUE == {name: request.tags[name] for name in span | published.WHEN_DUE}
    assert ".dagster/wme_process" not in request.tags
    assert request.asset_selection == [LAKE, WAREHOUSE]
    # until the daemon has made a run of it, under the same key
    (again,) = daemon.tick("end_killed_runs").run_requests
    assert again.run_key == request.run_key
    daemon.run(dg.DagsterRunStatus.NOT_STARTED, tags={"dagster/run_key": request.run_key})
    assert daemon.tick("end_killed_runs").skip_message == "Every run in progress has a process."
    # a run of a whole job over one hour; a job that is gone has no runs any more
    for job in ("hours", "another"):
        daemon.run(STARTED, job, tags=killed | {"dagster/partition": key_of(last)})
    lock.touch()
    (request,) = daemon.tick("end_killed_runs").run_requests
    assert (request.partition_key, {*request.asset_selection}) == (key_of(last), {*layers.keys(ARTICLE_CHANGES)})


ARCHIVE, LAKE_NAME, WAREHOUSE_NAME = "archive/batches", "lake/article_changes", "warehouse/article_changes"


def carrying(daemon: Daemon) -> Callable[[str], dict[str, list[Any]]]:
    """A tick of the automation sensor of a layer: the partitions of each asset that it asks for."""
    cursors: dict[str, dg.AssetDaemonCursor | None] = {}

    def tick(layer: str) -> dict[str, list[Any]]:
        sensor = daemon.defs.resolve_sensor_def(f"carry_to_{layer}")
        assert isinstance(sensor, dg.AutomationConditionSensorDefinition)
        assert sensor.default_status is dg.DefaultSensorStatus.STOPPED
        of = {"asset_selection": sensor.asset_selection, "cursor": cursors.get(layer)}
        found = dg.evaluate_automation_conditions(daemon.defs, daemon.instance, **of)
        cursors[layer] = found.cursor
        keys = sensor.asset_selection.resolve(daemon.defs.resolve_asset_graph())
        assert {key.path[0] for key in keys} == {layer}
        asked = {key.to_user_string(): found.get_requested_partitions(key) for key in sorted(keys)}
        return {key: sorted(partitions) for key, partitions in asked.items() if partitions}

    return tick


def test_what_was_materialized_alone_is_followed_layer_by_layer_and_nothing_else(daemon):
    first, second, third = offered(daemon.sandbox, datetime.now(UTC) - timedelta(minutes=5))[-3:]
    assert daemon.materialize([first], ARCHIVE).success  # before the sensors were turned on
    tick = carrying(daemon)
    assert (tick("lake"), tick("warehouse")) == ({}, {})

    assert daemon.materialize([second, third], ARCHIVE).success
    wanted = [key_of(second), key_of(third)]
    assert (tick("warehouse"), tick("lake"), tick("lake")) == ({}, {LAKE_NAME: wanted}, {})
    assert daemon.materialize([second, third], LAKE_NAME).success
    assert (tick("lake"), tick("warehouse")) == ({}, {WAREHOUSE_NAME: wanted})
    assert daemon.materialize([second, third], WAREHOUSE_NAME).success
    assert (tick("lake"), tick("warehouse"), daemon.warehouse.pending_hours()) == ({}, {}, [second, third])

    assert daemon.materialize([first, second]).success  # through all layers
    for _ in range(2):
        assert (tick("lake"), tick("warehouse")) == ({}, {})


def test_a_failure_is_asked_for_once_and_then_left_to_people(daemon):
    (hour,) = offered(daemon.sandbox, datetime.now(UTC) - timedelta(minutes=5))[-1:]
    tick = carrying(daemon)
    assert tick("lake") == {}
    assert daemon.materialize([hour], ARCHIVE).success
    (archive,) = (daemon.settings.data / "archive" / "batches").glob("**/*.tar.gz")
    archive.write_bytes(b"no archive")
    assert tick("lake") == {LAKE_NAME: [key_of(hour)]}
    assert not daemon.materialize([hour], LAKE_NAME).success
    assert ([tick("lake") for _ in range(3)], tick("warehouse")) == ([{}, {}, {}], {})


def test_lists_follow_as_well_and_lookups_are_no_layers(daemon):
    tick = carrying(daemon)
    assert (tick("lake"), tick("warehouse")) == ({}, {})
    assert daemon.execute("reference", asset_selection=[dg.AssetKey(["archive", "reference"])]).success
    assert tick("lake") == {f"lake/{name}": [None] for name in ("codes", "languages", "namespaces", "projects")}
    nodes = daemon.defs.resolve_asset_graph()._asset_nodes_by_key
    carried = {key for key, node in nodes.items() if node.automation_condition}
    assert not {key for key in carried if "lookups" in key.path or "live_changes" in key.path}
