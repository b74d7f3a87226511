"""A stream of poisoned events goes on, loses no good one, and recognizes each by partition, offset and identifier."""

import gzip
from collections import Counter
from datetime import timedelta

from resources.datasets.live import Run
from resources.lake.stream_events import Continuity
from tests.unit.lake.poisoned import NOW, ODD, REJECTED, changed, event, line_of
from tests.unit.lake.test_live import lake_of, stored


def test_what_is_no_event_is_a_reject_and_the_events_of_its_step_are_kept_odd_or_not(layout, caplog):
    bad = [poison(event(3, 8, "bad")) for poison in REJECTED.values()]
    lines = [one for number, line in enumerate(bad) for one in (line_of(event(3, 10 + number, f"a{number}")), line)]
    step = lake_of(layout).add([b" \t\n" + b"\n".join(lines) + b"\n"], NOW)
    assert (step.row_count, step.reject_count, dict(step.offsets)) == (len(bad), len(bad), {3: 10 + len(bad)})
    assert stored(layout) == Counter((3, 10 + number) for number in range(len(bad)))
    path = layout.lake / "live_changes_rejects/date=2026-11-01/hour=05/000000000002.ndjson.gz"
    assert gzip.decompress(path.read_bytes()) == b"".join(line + b"\n" for line in bad)
    assert f"{len(bad)} lines of the stream cannot be read" in caplog.text
    # on every start
    assert lake_of(layout).begin(NOW, NOW) == step

    lines = [odd(event(4, 8 + number, f"odd{number}")) for number, odd in enumerate(ODD.values())]
    step = lake_of(layout).add([b"\n".join(lines) + b"\n"], NOW)
    assert (step.row_count, step.reject_count, dict(step.offsets)) == (len(ODD), 0, {3: 10 + len(bad), 4: 8 + len(ODD)})


def test_each_reject_has_its_reason(layout):
    reasons = {
        "event.date_published is missing, so the hour of the event is unknown.": {"date_published": ...},
        "event.date_published is more than a day ahead.": {"date_published": "9999-12-31T23:59:59.999999Z"},
        "event.date_published is more than 31 days ago.": {"date_published": "2026-05-01T05:30:00Z"},
        "event.partition is not between 0 and 49.": {"partition": 51},
        "event.offset is not between 0 and 9007199254740991.": {"offset": 2**53},
        "event.identifier is missing, so a duplicate could not be detected.": {"identifier": ...},
        "event.identifier is empty.": {"identifier": ""},
        "event.identifier has more than 255 characters.": {"identifier": "x" * 5_000},
    }
    lines = {reason: changed(**change)(event(3, 8, "bad")) for reason, change in reasons.items()}
    lake_of(layout).add([b"\n".join(lines.values()) + b"\n"], NOW)
    [path], [beside] = (layout.lake.rglob(f"*.{kind}.gz") for kind in ("reasons", "ndjson"))
    found = [gzip.decompress(one.read_bytes()).splitlines() for one in (path, beside)]
    assert {reason.decode(): line for reason, line in zip(*found, strict=True)} == lines


def some(partition, offsets, of):
    return [b"".join(line_of(event(partition, offset, f"{of}-{offset}")) + b"\n" for offset in offsets)]


def test_offsets_that_begin_anew_lose_nothing_and_are_reported(layout, caplog):
    lake = lake_of(layout)
    run = Run(NOW, NOW, 1)
    lake.add(some(3, range(5_000, 5_100), "old"), NOW, run=run)
    step = lake.add(some(3, range(50), "new"), NOW, run=run)
    assert (step.row_count, step.duplicate_count, step.reset_count, dict(step.offsets)) == (50, 0, 1, {3: 50})
    assert "The offsets of stream partition 3 went back from 5,100 to 0." in caplog.text
    # what comes again adds nothing: of the new numbering, and of the old one, in this process and in another
    for again in (lake, lake_of(layout)):
        assert again.add(some(3, range(20, 50), "new"), NOW) is None
        assert again.add(some(3, range(5_000, 5_100), "old"), NOW) is None
    step = lake_of(layout).add(some(3, range(40, 60), "new"), NOW, run=run)
    assert (step.row_count, step.duplicate_count, step.reset_count, dict(step.offsets)) == (10, 10, 0, {3: 60})
    assert step.runs[-1].reset_count == 1
    # the same places in the new numbering are other events
    step = lake_of(layout).add(some(3, range(4_000, 5_100), "new"), NOW)
    assert (step.row_count, step.duplicate_count) == (1_100, 0)
    assert dict(step.highest) == {}


def test_a_place_that_is_far_ahead_counts_with_the_second_event_there(layout, caplog):
    lake = lake_of(layout)
    assert dict(lake.add(some(3, [7], "a"), NOW).offsets) == {3: 8}
    # a single one may be poisoned: the stream goes on behind the others, and nobody asks for what will never be
    step = lake.add(some(3, [2**53 - 1], "a"), NOW)
    assert (step.row_count, dict(step.offsets)) == (1, {3: 8})
    step = lake.add(some(3, [8, 9], "a"), NOW)
    assert (step.row_count, dict(step.offsets), step.reset_count) == (2, {3: 10}, 0)
    assert caplog.text == ""
    step = lake.add(some(3, [90_000, 90_001], "a"), NOW)
    assert (step.row_count, dict(step.offsets), step.reset_count) == (2, {3: 90_002}, 0)
    assert caplog.text.count("stream partition 3 jumped ahead from 10 to 90,000.") == 1
    assert lake_of(layout).add(some(3, [2**53 - 1, 8, 90_001], "a"), NOW) is None


def test_hours_that_pass_let_offsets_go_further(layout):
    def at(hours, offset):
        return [line_of(event(3, offset, f"a-{offset}", NOW + timedelta(hours=hours))) + b"\n"]

    lake = lake_of(layout)
    lake.add(at(0, 1), NOW)
    assert dict(lake.add(at(3, 30_000_000), NOW).offsets) == {3: 30_000_001}
    assert dict(lake.add(at(4, 50_000_000), NOW).offsets) == {3: 30_000_001}
    assert dict(lake.add(at(6, 50_000_001) + at(7, 70_000_000), NOW).offsets) == {3: 50_000_002}


def test_events_of_a_service_whose_clock_was_wrong_are_kept(layout):
    lake = lake_of(layout)
    for number, hours in enumerate((0, 20, 0, -300, 0)):
        moment = NOW + timedelta(hours=hours)
        moments = [moment - timedelta(minutes=n) for n in range(10)]
        events = [event(3, 10 * number + n, f"{number}-{n}", at) for n, at in enumerate(moments)]
        step = lake.add([line_of(one) + b"\n" for one in events], NOW)
        assert (step.row_count, step.duplicate_count, step.reject_count, step.reset_count) == (10, 0, 0, 0)
        assert step.published_at[3] == moment


def test_files_are_looked_through_only_for_what_memory_does_not_know(layout, monkeypatch):
    looks = []
    monkeypatch.setattr(
        Continuity, "_read", lambda self, now, read=Continuity._read: looks.append(now) or read(self, now)
    )
    lake = lake_of(layout)
    for first in range(0, 40, 10):
        lake.add(some(3, range(max(0, first - 5), first + 10), "a"), NOW)
    assert looks == []
    # more than memory knows
    monkeypatch.setattr("resources.lake.stream_events._RECENT", 5)
    step = lake.add(some(3, range(50), "a"), NOW)
    assert (step.row_count, step.duplicate_count) == (10, 40)
    step = lake.add(some(3, range(30, 60), "a"), NOW)
    assert (step.row_count, step.duplicate_count) == (10, 20)
    assert len(looks) == 1
    assert stored(layout) == Counter((3, offset) for offset in range(60))


def test_a_damaged_file_stops_no_stream_that_goes_back(layout, caplog):
    lake = lake_of(layout)
    damaged = lake.add(some(3, range(10, 20), "a"), NOW).path
    lake.add(some(3, range(20, 30), "a"), NOW)
    damaged.write_bytes(damaged.read_bytes()[:100])
    step = lake_of(layout).add(some(3, range(15, 31), "a"), NOW)
    # those of the damaged file are stored once that can be read
    assert (step.row_count, step.duplicate_count) == (6, 10)
    assert f"{damaged} cannot be read" in caplog.text
