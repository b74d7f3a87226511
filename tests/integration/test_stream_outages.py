"""A stream that was not read for hours: events are caught up by offsets, or a gap is reported and closed by a snapshot.

The service retains events for six hours here, not for two days. The sandbox's clock is moved; nothing waits.
"""

import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from functools import partial

import pyarrow.dataset as ds
import pytest

from assets.steps import stream
from assets.steps.stream import loaded_hours
from resources import datasets
from resources.sandbox.store import topics
from resources.sandbox.world.world import micros
from resources.tables import HourState
from resources.warehouse import HourStatus
from tests.integration.mirror import mirrored
from tests.truth import HOUR, Truth, assert_same

NOW = datetime(2026, 2, 3, 5, 40, tzinfo=UTC)
SCOPE = [("enwiki", 0)]
KEPT = timedelta(hours=6)
#: Of its world a page changes in the hour that is lost, and not in the hours after it.
SEED = 2


@pytest.fixture
def mirror(tmp_path, monkeypatch):
    monkeypatch.setattr(topics, "_HOURS", 20)  # the test looks at the hours that the stream reads
    monkeypatch.setattr(topics, "RETENTION", 6 * topics.HOUR)
    monkeypatch.setattr(stream, "RETENTION", KEPT)
    world = {"changes_per_hour": 10, "articles": 500, "body_bytes": 300, "entities": 0, "stream_rate": 0}
    with mirrored(tmp_path, projects=("enwiki",), seed=SEED, now=NOW, **world) as made:
        yield made


def published(mirror, since, until):
    """Partition, offset and identifier of the events that were published then."""
    topic = mirror.sandbox.topics["article"]
    hours = range(int(since.timestamp()) // 3600, int(until.timestamp()) // 3600 + 1)
    events = (event for hour in hours for event in topic.hour(hour))
    kept = (event for event in events if micros(since) <= event.published <= micros(until))
    return {(event.partition, event.offset, event.state.identifier) for event in kept}


def listen(mirror, wanted, since=None):
    """Keep the stream until so many events came, and know the hours that are loaded."""
    loaded = partial(loaded_hours, mirror.warehouse, SCOPE)
    return mirror.listen(wanted, since, step_seconds=0.3, loaded=loaded)


def kept(mirror):
    rows = ds.dataset([str(path) for path in mirror.live_lake.files()]).to_table()
    columns = (rows[name].to_pylist() for name in ("event_partition", "event_offset", "article_id"))
    return Counter(zip(*columns, strict=True))


def test_outages_are_caught_up_while_events_are_retained_and_longer_ones_closed_by_the_next_snapshot(mirror):
    clock, everything = mirror.sandbox.clock, published(mirror, NOW - HOUR, NOW)
    listen(mirror, len(everything), NOW - HOUR)
    for hours in (1, 4):
        clock.advance(hours * HOUR)
        stopped = clock.now()
        new = published(mirror, NOW, stopped) - everything
        assert len(new) > 5 * hours
        steps, warned = listen(mirror, len(new))
        everything |= new
        assert warned == []
        # by offsets nothing comes twice
        assert (sum(one.duplicate_count for one in steps), kept(mirror)) == (0, Counter(everything))

    clock.advance(6 * HOUR)
    mirror.sandbox.exports.export("enwiki_namespace_0")  # after the gap; the last hour is the stream's alone
    clock.advance(HOUR)
    now = clock.now()
    after = published(mirror, now - KEPT, now)
    assert published(mirror, stopped, now) - after
    nothing = HourStatus(now.replace(hour=10, minute=0), *SCOPE[0], HourState.EMPTY)
    mirror.warehouse.record_statuses([nothing], dataset=datasets.ARTICLE_CHANGES)
    mirror.publish()
    _, (sentence,) = listen(mirror, len(after))
    assert kept(mirror) == Counter(everything | after)
    missing = "Events published until 2026-02-03 11:40 are missing from the stream."
    assert f"and the service no longer retains the next events. {missing}" in sentence
    files = r"The files for (\d) hours in this range are not loaded \(2026-02-03 0(\d):00 to 2026-02-03 11:00\)"
    count, first = re.search(files, sentence).groups()
    assert int(count) == 12 - int(first) - 1  # all but the empty hour
    assert "The next loaded snapshot corrects the current state" in sentence
    # told once: from now on the stream is read
    assert listen(mirror, 0) == ([], [])
    truth = Truth(mirror.sandbox.world, ("enwiki",), (0,)).at(lambda _project: now)
    # some pages live by an event that was lost
    assert any(stopped < row["event_at"] < now - KEPT for row in truth.values())
    assert [made.sentence for made in mirror.take_snapshots()] == [""]
    mirror.publish()
    assert_same(mirror.live_pages(), truth)
