"""The sensors of snapshots, publications and the stream, and the checks that are asked for alone."""

import time
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import dagster as dg
import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from assets import coverage_checks, layers, streams
from assets.layers import HOUR, key_of
from assets.steps.hourly_run import HourlyRun
from pipelines.automation import sensors
from pipelines.automation.sensors import STREAM_WAITS
from pipelines.report.status import collect
from resources import datasets, files
from resources.datasets import ARTICLE_CHANGES
from resources.datasets.live import Step, files_of
from resources.enterprise import StreamOptions
from resources.formatting import hour_text, moment_text
from resources.warehouse import Warehouse
from tests.builds import close_all
from tests.integration.daemon import FAILURE, STARTED, Daemon, ask_checks

NAME = "enwiki_namespace_0"
ALL_PUBLISHED = "All loaded hours and snapshots have been applied and published."


def test_snapshots_are_asked_for_once_per_version_and_published_like_hours(daemon, monkeypatch):
    # a sandbox makes its snapshots at the first listing, and a service may be as slow: asked again within minutes
    daemon.sandbox.faults.add(path="/v2/snapshots", kind="delay", seconds=5.0)
    with monkeypatch.context() as patch:
        patch.setattr(sensors, "_ANSWER_SECONDS", 0.2)
        asked = daemon.tick("discover_snapshots")
    assert (bool(asked.skip_message), asked.run_requests, asked.cursor) == (True, [], None)
    mirrored = [one for one in datasets.datasets(datasets.Family.SNAPSHOT) if daemon.settings.scope_of(one)]
    assert len(mirrored) > 1
    for dataset in mirrored:
        assert daemon.defs.resolve_sensor_def(f"discover_{dataset.archive}").minimum_interval_seconds <= 600
    daemon.sandbox.faults.add(path="/v2/snapshots", kind="status", status=403)
    assert daemon.tick("discover_snapshots").skip_message

    (request,) = daemon.tick("discover_snapshots").run_requests
    assert [request.partition_key] == daemon.instance.get_dynamic_partitions("snapshots") == [NAME]
    assert request.run_key.startswith(f"{NAME} ")
    assert daemon.execute("snapshots", partition_key=NAME).success
    told = daemon.tick("discover_snapshots").skip_message
    assert "The current version of every mirrored snapshot is archived." in told
    with monkeypatch.context() as patch:  # one whose record is odd is asked for, and its run says why
        patch.setattr(sensors.snapshot, "odd", lambda *_: {"enwiki_namespace_14": "size: odd"})
        (odd,) = daemon.tick("discover_snapshots").run_requests
    assert (odd.partition_key, odd.run_key) == ("enwiki_namespace_14", "enwiki_namespace_14 size: odd")
    # from the snapshot on, an hour that is not there is a gap
    newest = daemon.offered()[-1]
    assert daemon.materialize([newest]).success
    assert daemon.tick("publish_pending").run_requests
    assert daemon.execute("publish").success
    assert daemon.tick("publish_pending").skip_message == ALL_PUBLISHED
    (state,) = daemon.warehouse.project_states()
    hours = [row.batch_hour for row in daemon.warehouse.coverage(dataset=datasets.ARTICLE_CHANGES)]
    assert hours[0] <= state.base_boundary_at < hours[0] + HOUR
    assert (hours, hours[-1]) == ([hours[0] + n * HOUR for n in range(len(hours))], newest)

    # another version is a newer one, whatever it looks like
    daemon.sandbox.exports.export(NAME)
    (again,) = daemon.tick("discover_snapshots").run_requests
    assert (again.partition_key, again.run_key == request.run_key) == (request.partition_key, False)


def test_publishing_is_asked_for_once_per_set_of_pending_hours_and_checks_look_at_two_days(daemon, later, monkeypatch):
    first_hour, second_hour = daemon.offered()[-2:]
    assert daemon.tick("publish_pending").skip_message == ALL_PUBLISHED
    assert daemon.materialize([first_hour]).success
    (first,) = daemon.tick("publish_pending").run_requests
    (again,) = daemon.tick("publish_pending").run_requests
    assert again.run_key == first.run_key  # the daemon makes one run of it
    with monkeypatch.context() as patch:  # more was loaded, and none of it hours or snapshots
        patch.setattr(Warehouse, "unpublished_revision", lambda _: 999)
        assert daemon.tick("publish_pending").run_requests[0].run_key != first.run_key
    later(HOUR)  # and, if that failed, another
    assert daemon.tick("publish_pending").run_requests[0].run_key != first.run_key
    later(timedelta(0))

    # neither a snapshot nor the stream keeps hours from being published, as the pages launch a snapshot as well
    snapshots = frozenset(layers.keys(datasets.SNAPSHOT_ARTICLES))
    for job in ("snapshots", "stream", "lookups", "reference"):
        daemon.run(STARTED, job)
    daemon.run(STARTED, "__ASSET_JOB", asset_selection=snapshots)
    assert daemon.tick("publish_pending").run_requests
    # but hours do: a run of the daemon, one of a command, and one of the pages
    hours = snapshots | {dg.AssetKey(["warehouse", "article_changes"])}
    for job, selection in (("hours", None), ("hours", frozenset()), ("__ASSET_JOB", hours)):
        run = daemon.run(STARTED, job, asset_selection=selection)
        assert daemon.tick("publish_pending").skip_message.startswith("Waiting for 1 run.")
        daemon.instance.delete_run(run)

    assert daemon.materialize([second_hour]).success
    (more,) = daemon.tick("publish_pending").run_requests
    assert more.run_key.split()[0] != first.run_key.split()[0]

    # the checks of both hours, asked for alone; no stream was read
    archive = next((daemon.settings.data / "archive").rglob("*.tar.gz"))
    told = ask(daemon)
    assert [evaluation.passed for evaluation in told.values()] == [True] * 8
    looked_at = {name: evaluation.metadata["looked_at"].value for name, evaluation in told.items()}
    assert looked_at == dict.fromkeys(told, 2) | {"agrees_with_stream": 0, "rejects_share": looked_at["rejects_share"]}
    archive.write_bytes(archive.read_bytes()[:-1])
    for why in (f"is damaged: {archive} has the MD5 ", f" is loaded, but {archive} is missing. "):
        told = ask(daemon)
        assert [name for name, evaluation in told.items() if not evaluation.passed] == ["archives_verified"]
        assert why in told["archives_verified"].description
        archive.unlink(missing_ok=True)


def test_publishing_no_more_often_than_the_operator_wants(daemon):
    hours = daemon.offered()[-2:]
    daemon.change(publish_every=timedelta(hours=1))
    warehouse = daemon.warehouse

    def publish(**tags: str) -> dict[str, Any]:
        (made,) = daemon.execute("publish", tags=tags).asset_materializations_for_node("published__warehouse")
        return {name: value.value for name, value in made.metadata.items()}

    assert daemon.materialize(hours[:1]).success
    (first,) = daemon.tick("publish_pending").run_requests
    when_due = {name: value for name, value in first.tags.items() if name.startswith("wme/")}
    assert when_due
    made = publish(**when_due)
    assert made["changed"]
    last = warehouse.publication()
    assert made["published_at"] == last.published_at.timestamp()
    due = f"{last.published_at + timedelta(hours=1):%Y-%m-%d %H:%M}"
    assert made["next_publication"] == f"by the first run after {due} UTC (WME_PUBLISH=60)"

    assert daemon.materialize(hours[1:2]).success
    told = daemon.tick("publish_pending").skip_message
    assert f"Pending data (1 hour, 0 snapshots) will be published by the first run after {due}" in told
    made = publish(**when_due)
    assert (made["changed"], made["published_at"]) == (False, last.published_at.timestamp())
    assert warehouse.publication() == last
    # what was taken into the articles and not published is not forgotten
    assert warehouse.pending_hours() == []
    assert "Pending data (0 hours, 0 snapshots)" in daemon.tick("publish_pending").skip_message
    an_hour_ago = last.published_at - timedelta(hours=1)
    warehouse.published_path.chmod(0o644)
    close_all()
    with duckdb.connect(warehouse.published_path) as connection:
        connection.execute("UPDATE about SET value = ? WHERE name = 'published_at'", [an_hour_ago.isoformat()])
    assert daemon.tick("publish_pending").run_requests
    # off is off, and whoever publishes by hand is never refused
    daemon.change(publish_every=None)
    assert "only on request" in daemon.tick("publish_pending").skip_message
    assert publish()["changed"]
    assert warehouse.unpublished_revision() is None
    assert daemon.tick("publish_pending").skip_message == ALL_PUBLISHED


def test_a_run_that_is_not_to_publish_ends_well_where_nothing_was_published_yet(daemon):
    daemon.change(publish_every=None)
    before, _gap, hour = daemon.offered()[-3:]
    assert daemon.materialize([before]).success
    (request,) = daemon.schedule(hour + timedelta(minutes=80)).run_requests
    assert request.partition_key == key_of(hour)
    result = daemon.execute("hour_to_published", partition_key=request.partition_key, tags=request.tags)
    assert result.success
    (covered,) = (one for one in result.get_asset_check_evaluations() if one.check_name == "last_48_hours_covered")
    assert not covered.passed, "the hour in between is missing, whether it is published or not"
    assert not (daemon.settings.data / "warehouse.duckdb").exists()


def ask(daemon: Daemon, *names: str) -> dict[str, dg.AssetCheckEvaluation]:
    """The answers of checks that are asked for alone: by name, or all of the hourly layers."""
    whole, own = daemon.defs.resolve_implicit_global_asset_job_def(), layers.keys(ARTICLE_CHANGES)
    told = ask_checks(whole, daemon.instance, lambda key: key.name in names if names else key.asset_key in own)
    return {name: evaluation for (_, name), evaluation in told.items()}


PUBLISHED = ("no_failed_hours", "last_48_hours_covered")


def failed_hours(daemon: Daemon) -> dict[str, str | None]:
    return {name: one.description for name, one in ask(daemon, *PUBLISHED).items() if not one.passed}


def test_failed_hours_are_reported_until_they_are_loaded_and_no_others(daemon, monkeypatch):
    *_, lost, other, hour, newest = daemon.offered()
    refusal = {"kind": "status", "status": 403, "count": None}
    daemon.sandbox.faults.add(path="/v2/batches/*", **refusal)
    assert not daemon.materialize([other, hour]).success
    found, names = ask(daemon, "no_failed_hours")["no_failed_hours"], f"{hour_text(other)}, {hour_text(hour)}"
    assert (found.passed, found.metadata["failed"].value) == (False, 2)
    assert found.description.startswith(f"article_changes: 2 hours failed: {names}. Read the error message ")
    daemon.sandbox.faults.clear()
    assert daemon.materialize([other, hour]).success
    # of a dataset that is not mirrored, and one that is not published yet
    daemon.sandbox.faults.add(path="/v2/batches/wikidata/*", **refusal)
    wikidata = [key.to_user_string() for key in layers.keys(datasets.ENTITY_CHANGES)]
    assert not daemon.materialize([hour], *wikidata).success
    daemon.sandbox.faults.clear()
    daemon.sandbox.faults.add(path="/v2/batches/*", kind="status", status=404, count=None)
    assert not daemon.materialize([newest]).success
    rows = daemon.warehouse.coverage(newest, published=False, dataset=datasets.ARTICLE_CHANGES)
    assert ([row.state for row in rows], failed_hours(daemon)) == (["not_yet"], {})

    # a run that failed before it recorded anything
    daemon.sandbox.faults.clear()
    daemon.sandbox.faults.add(path="/v2/batches/*", kind="status", status=403, count=None)
    with monkeypatch.context() as dying:
        dying.setattr(HourlyRun, "fail", lambda *_: None)
        assert not daemon.materialize([lost]).success
    assert daemon.execute("publish").success
    failed = failed_hours(daemon)
    assert failed.keys() == set(PUBLISHED)
    assert all(hour_text(lost) in description for description in failed.values())
    status = collect(daemon.settings, 48)
    assert any(f"enwiki namespace 0 {hour_text(lost)}: missing. Its run failed" in text for text in status.troubles)
    daemon.change(wikidata=True, projects=("enwiki", "dewiki"))  # of one project, the newest hour is not early
    monkeypatch.setattr(coverage_checks, "failed_hours", lambda *_: {hour, newest})
    text = f"2 hours failed: {hour_text(hour)}, {hour_text(newest)}"
    found = ask(daemon, "no_failed_hours")["no_failed_hours"]
    assert found.description.startswith(f"article_changes: {text}; entity_changes: {text}. Read the error message ")
    assert found.metadata["failed"].value == 4


def test_runs_read_the_stream_one_after_the_other(daemon, monkeypatch):
    monkeypatch.setattr(streams, "OBSERVED_SECONDS", 0.0)
    daemon.change(max_record_mb=17, bodies=("html",))
    keep, asked, metadata, spans = streams.stream.keep, [], streams._metadata, {}
    monkeypatch.setattr(
        streams, "_metadata", lambda counts, began: spans.update({began: time.monotonic()}) or metadata(counts, began)
    )

    def keep_and_say(client, live, state, **more):
        keep(client, live, state, **more)
        more["say"](Step(9, state, now, 0, 1, 2, 3, 4), 1.26 if asked else None)
        asked.append(more | {"last": live.last(), "state": state})

    monkeypatch.setattr(streams.stream, "keep", keep_and_say)
    now = datetime.now(UTC)
    wanted = sum(1 for _ in daemon.sandbox.world.events("enwiki", now - timedelta(hours=5), now))
    assert wanted >= 15
    found: list[dict[str, Any]] = []
    observed: list[dg.DagsterEvent] = []
    while len(asked) < 2 or sum(asked[-1]["last"].event_counts.values()) < wanted:
        # a busy machine may need longer
        config = {"minutes": 0.01 * (len(found) + 1), "since_hours": 6, "connections": 2}
        run = daemon.execute("stream", run_config={"ops": {"lake__live_changes": {"config": config}}})
        (made,) = run.get_asset_materialization_events()
        observed += [event for event in run.all_events if event.event_type_value == "ASSET_OBSERVATION"]
        found.append({name: value.value for name, value in made.materialization.metadata.items()})
    told = {"duplicates_dropped": 1, "events_of_other_projects": 2, "rejected_lines": 3, "offset_resets": 4}
    assert [one.pop("lag_seconds", None) for one in found] == [None, *[1.3] * (len(found) - 1)]
    assert all(one | told == one and one.keys() - told == {"events", "files", "events_per_second"} for one in found)
    wanted = StreamOptions(connections=2, record_bytes=17 << 20), daemon.settings.data / "state", ("enwiki", 0)
    assert {(one["options"], one["state"], *one["last"].kept_since) for one in asked} == {wanted}
    assert asked[0]["loaded"]([now]) == set(), "nothing is published"
    seen = [event.asset_observation_data.asset_observation.metadata for event in observed]
    assert {one["files"].value for one in seen} == {1}
    # a rate is that since the last report, the first and a run's own since its beginning
    assert len(spans) == len(seen)
    assert max(end - began for began, end in spans.items()) >= 0.6 * len(found), "the last run lasts its minutes"
    for name in ("events", "files"):
        assert sum(one[name].value for one in seen) == sum(one[name] for one in found)
    kept = files_of(daemon.settings.data / "lake/live_changes")
    columns = ["event_partition", "event_offset", "html", "wikitext"]
    offsets = pa.concat_tables(pq.read_table(one.path, columns=columns) for one in kept)
    assert offsets["html"].null_count < len(offsets) == offsets["wikitext"].null_count
    assert len(offsets.group_by(["event_partition", "event_offset"]).aggregate([])) == len(offsets)
    assert len(offsets) == sum(one["events"] for one in found)


def test_the_stream_is_kept_read_by_one_run_and_left_alone_for_longer_the_oftener_it_fails(daemon, later, monkeypatch):
    job = daemon.defs.resolve_job_def("stream")
    assert (job.tags, [node.definition.pool for node in job.nodes]) == ({"dagster/max_retries": "0"}, ["stream"])
    assert len(daemon.tick("keep_streaming").run_requests) == 1
    state, looked_at = daemon.settings.data / "state", []
    assert not (state / "stream.lock").exists()
    state.mkdir(parents=True, exist_ok=True)
    with files.held(state / "stream.lock", wait_seconds=0):
        assert "for example `wme stream`" in daemon.tick("keep_streaming").skip_message

    step_failure = {"dagster/failure_reason": "STEP_FAILURE", "dagster/sensor_name": "keep_streaming"}
    for number, wait in enumerate((*STREAM_WAITS, STREAM_WAITS[-1])):
        root = daemon.run(FAILURE, "stream", tags=step_failure)
        message = daemon.tick("keep_streaming").skip_message
        # repeated by hand
        daemon.run(FAILURE, "stream", tags=step_failure | {"dagster/root_run_id": root})
        assert daemon.tick("keep_streaming").skip_message == message
        assert "The last run failed. Its page shows the reason." in message, number
        later(wait - timedelta(seconds=30))
        assert daemon.tick("keep_streaming").skip_message
        later(wait + timedelta(seconds=1))
        assert daemon.tick("keep_streaming").run_requests
        later(timedelta(0))
    # the newest that a sensor asked for counts, and the newest of all for a refusal
    aged = [
        SimpleNamespace(dagster_run=one.dagster_run, update_timestamp=one.update_timestamp - number * HOUR / 9)
        for number, one in enumerate(daemon.instance.get_run_records(dg.RunsFilter(job_name="stream")))
    ]
    with monkeypatch.context() as patch:
        patch.setattr(daemon.instance, "get_run_records", lambda *_, **__: aged)
        patch.setattr(sensors.discovery, "refusal_of", lambda *given: looked_at.append(given[1:]))
        message = daemon.tick("keep_streaming").skip_message
    assert message.endswith(f" start at {moment_text(aged[1].update_timestamp + STREAM_WAITS[-1])} UTC.")
    assert looked_at == [(aged[0].dagster_run, aged[0].update_timestamp)]
    daemon.run(FAILURE, "stream")  # killed
    assert daemon.tick("keep_streaming").run_requests
    for status in (dg.DagsterRunStatus.NOT_STARTED, STARTED, dg.DagsterRunStatus.CANCELING):
        started = daemon.run(status, "stream")
        assert daemon.tick("keep_streaming").skip_message == "A run is reading the stream."
        daemon.instance.delete_run(started)
