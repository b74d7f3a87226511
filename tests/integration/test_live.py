"""The stream over hours that are loaded: analysts find the present pages and texts, as the sandbox has them."""

from collections import Counter
from datetime import UTC, datetime, timedelta

from pipelines.operations.rebuild import rebuild
from resources.datasets.live import LIVE_CHANGES, files_of
from tests.integration.mirror import PROJECTS, mirrored
from tests.truth import Truth, assert_same

NAMESPACES, NOW = (0, 10), datetime(2026, 2, 3, 5, 40, tzinfo=UTC)


def test_pages_of_this_moment_are_the_truth_before_and_after_their_hour_is_loaded(tmp_path, monkeypatch):
    # however few files are written, some of them are merged
    monkeypatch.setattr("resources.lake.live._MERGED", 2)
    world = {"now": NOW, "changes_per_hour": 40, "body_bytes": 300, "stream_rate": 0}
    with mirrored(tmp_path, projects=PROJECTS, namespaces=NAMESPACES, **world) as mirror:
        *hours, last = mirror.newest(2)
        truth = Truth(mirror.sandbox.world, PROJECTS, NAMESPACES).at(lambda _project: NOW, since=hours[0])
        assert mirror.materialize(hours).success
        mirror.publish()
        since = hours[0] + timedelta(minutes=30)
        steps, warned = mirror.listen(mirror.published_since(since), since)
        assert warned == []
        assert_same(mirror.live_pages(), truth, "articles_live")
        assert_told(mirror, steps[-1])
        assert mirror.materialize([last]).success
        mirror.publish()
        assert_same(mirror.live_pages(), truth, "articles_live")
        rows = mirror.warehouse.sql("SELECT DISTINCT batch_hour FROM live_changes").rows
        assert rows == [(last + timedelta(hours=1),)]
        assert_visible(mirror, since)
        mirror.warehouse.build_path.unlink()
        assert rebuild(mirror.settings, **mirror.resources()).failures == []
        assert_visible(mirror, since)
        compared = mirror.warehouse.compare_stream([*hours, last])
        assert sum(one.file_count for one in compared) > 20
        assert not any(one.difference_count for one in compared)


def assert_visible(mirror, since):
    """Assert that analysts find each change of visibility of the world once, of loaded hours and of the present one."""
    world = mirror.sandbox.world
    events = (event for project in PROJECTS for event in world.events(project, since, NOW))
    hidden = [one for one in events if one.title.namespace in NAMESPACES and one.type == "visibility-change"]
    wanted = Counter(world.record(event)["event"]["identifier"] for event in hidden)
    query = "SELECT event_id FROM changes_live WHERE change_type = 'visibility-change'"
    assert Counter(event for (event,) in mirror.warehouse.sql(query).rows) == wanted
    assert wanted.total() > 3


def assert_told(mirror, step):
    """See that analysts find how far the stream is, and how it was read."""
    query = "SELECT partition, next_offset, newest_published_at FROM stream_state"
    wanted = [(partition, following, step.published_at[partition]) for partition, following in step.offsets.items()]
    assert sorted(mirror.warehouse.sql(query).rows) == sorted(wanted)
    # where many were written, the first are merged, and lie there for a while besides
    stored = [str(file.path) for file in files_of(mirror.layout.lake / LIVE_CHANGES)]
    [(count, is_late)] = mirror.warehouse.sql("SELECT sum(event_count), min(lag_seconds) > 0 FROM stream_state").rows
    assert is_late
    assert mirror.warehouse.sql("SELECT count(*) FROM read_parquet(?)", [stored]).rows == [(count,)]
    [run] = mirror.warehouse.sql("FROM stream_runs").table.to_pylist()
    assert (run["event_count"], run["connection_count"], run["duplicate_count"]) == (count, 2, 0)
    assert run["reconnect_count"] == step.runs[-1].reconnect_count
