"""A stream of poisoned events goes on, loses no good one, and recognizes each by partition, offset and identifier."""

import gzip
from collections import Counter
from datetime import timedelta

import pyarrow as pa

from resources.datasets.live import Run, Step
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
    told = f"{len(bad)} lines of the stream cannot be read (first reason: event.date_published is missing, "
    assert told in caplog.text
    assert f"The rejected lines were stored in {path}, and the reasons in the .reasons.gz file" in caplog.text
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
    good = [line_of(event(3, 9, "é" * 255)), line_of(event(3, 10, "old", NOW - timedelta(days=31)))]
    assert lake_of(layout).add([b"\n".join([*lines.values(), *good]) + b"\n"], NOW).row_count == 2
    found = (gzip.decompress(next(layout.lake.rglob(f"*.{one}.gz")).read_bytes()) for one in ("reasons", "ndjson"))
    assert {reason.decode(): line for reason, line in zip(*map(bytes.splitlines, found), strict=True)} == lines


def some(partition, offsets, of):
    return [b"".join(line_of(event(partition, offset, f"{of}-{offset}")) + b"\n" for offset in offsets)]


def test_offsets_that_begin_anew_lose_nothing(layout):
    lake, run = lake_of(layout), Run(NOW, NOW, 1)
    lake.add(some(3, range(5_000, 5_100), "old"), NOW, run=run)
    step = lake.add(some(3, range(50), "new"), NOW, run=run)
    assert (step.row_count, step.duplicate_count, step.reset_count, dict(step.offsets)) == (50, 0, 1, {3: 50})
    # what comes again adds nothing: of the new numbering, and of the old one, in this process and in another
    for again in (lake, lake_of(layout)):
        assert again.add(some(3, range(20, 50), "new"), NOW) is None
        assert again.add(some(3, range(5_000, 5_100), "old"), NOW) is None
    step = lake_of(layout).add(some(3, range(40, 60), "new"), NOW, run=run)
    assert (step.row_count, step.duplicate_count, step.reset_count, dict(step.offsets)) == (10, 10, 0, {3: 60})
    assert step.runs[-1].reset_count == 1


#: Steps on later days: events as partition, offset, identifier and hours; then which are new, the offsets that follow,
#: the highest ones with their days, the number of resets, and the hour that partition 3 has reached.
STEPS = [
    (0, [(3, 7, "a", 0), (5, 1_008, "a", 0), (6, 1_500, "a", 0), (8, 2_502, "a", 0)],
     "1111", {3: 8, 5: 1_009, 6: 1_501}, {8: (2_503, 0)}, 0, 0),
    (1, [(8, 2_502, "b", 0)], "1", {3: 8, 5: 1_009, 6: 1_501}, {8: (2_503, 0)}, 0, 0),
    (1, [(8, 3_503, "a", 0)], "1", {3: 8, 5: 1_009, 6: 1_501}, {8: (3_504, 1)}, 0, 0),
    (1, [(8, 4_503, "a", 0), (3, 50_000, "a", 0), (3, 50_001, "a", 0)],
     "111", {3: 50_002, 5: 1_009, 6: 1_501, 8: 4_504}, {}, 0, 0),
    (2, [(3, 5, "b", 0), (5, 4, "b", 0)],
     "11", {3: 6, 5: 5, 6: 1_501, 8: 4_504}, {3: (50_002, 2), 5: (1_009, 2)}, 2, 0),
    (5, [(3, 6, "b", 0), (3, 50_001, "a", 0), (3, 6, "b", 0), (3, 7, "a", 0)],
     "1000", {3: 8, 5: 5, 6: 1_501, 8: 4_504}, {3: (50_002, 2), 5: (1_009, 2)}, 0, 0),
    (6, [(5, 5, "b", 0), (3, 8, "b", 0)], "11", {3: 9, 5: 6, 6: 1_501, 8: 4_504}, {}, 0, 0),
    (6, [(3, 10_001_009, "a", 0.5), (3, 10_003_010, "a", -1), (3, 10_001_010, "a", -2)],
     "111", {3: 10_001_011, 5: 6, 6: 1_501, 8: 4_504}, {3: (10_003_011, 6)}, 0, 0.5),
    (6, [(3, 10_001_011, "a", -2), (3, 40_002_012, "a", 1)], "11", {3: 40_002_013, 5: 6, 6: 1_501, 8: 4_504}, {}, 0, 1),
    (6, [(3, 0, "c", -300)], "1", {3: 1, 5: 6, 6: 1_501, 8: 4_504}, {3: (40_002_013, 6)}, 1, -300),
]  # fmt: skip


def test_what_a_step_says_of_each_partition(tmp_path, caplog):
    """Offsets go further with hours that pass, and what is known of days long ago is forgotten."""
    continuity, step = Continuity(tmp_path), Step(1, tmp_path, NOW)
    names = ["event_partition", "event_offset", "event_id", "event_published_at"]
    for days, events, *told in STEPS:
        *places, hours = zip(*events, strict=True)
        published = pa.array([NOW + timedelta(hours=one) for one in hours], pa.timestamp("us", "UTC"))
        is_new, step = continuity.judge(pa.table([*places, published], names), step, NOW + timedelta(days=days))
        continuity.landed(step)
        highest = {one: (offset, (at - NOW).days) for one, (offset, at) in step.highest.items()}
        found = ["".join("01"[one] for one in is_new.to_pylist()), step.offsets, highest, step.reset_count]
        assert [*found, (step.published_at[3] - NOW) / timedelta(hours=1)] == told
        assert step.duplicate_count == told[0].count("0")
    assert [one.removeprefix("The offsets of stream partition ").partition(".")[0] for one in caplog.messages] == [
        *("8 jumped ahead from 0 to 3,503", "3 went back from 50,002 to 5, and 1 time more"),
        "3 went back from 40,002,013 to 0",
    ]


def test_files_are_looked_through_only_for_what_memory_does_not_know(layout, monkeypatch):
    looks, read = [], Continuity._read
    monkeypatch.setattr(Continuity, "_read", lambda self, now: looks.append(now) or read(self, now))
    lake = lake_of(layout)
    for first in range(0, 40, 10):
        lake.add(some(3, range(max(0, first - 5), first + 10), "a"), NOW)
    assert looks == []
    # more than memory knows
    monkeypatch.setattr("resources.lake.stream_events._RECENT", 5)
    step = lake.add(some(3, range(50), "a"), NOW)
    assert (step.row_count, step.duplicate_count) == (10, 40)
    step = lake.add(some(3, range(30, 60), "a"), NOW)
    assert (step.row_count, step.duplicate_count, len(looks)) == (10, 20, 1)
    lake.add(some(3, range(9), "b"), NOW)
    assert lake.add(some(3, range(9), "b"), NOW) is None
    assert len(looks) == 2
    monkeypatch.setattr("resources.lake.stream_events._KNOWN", 1)
    assert lake_of(layout).add(some(3, range(9), "b"), NOW) is None  # the newest file is read first
    assert stored(layout) == Counter((3, offset) for offset in [*range(60), *range(9)])


def test_a_damaged_file_stops_no_stream_that_goes_back(layout, caplog):
    lake = lake_of(layout)
    lake.add(some(3, range(10), "a"), NOW)
    damaged = lake.add(some(3, range(10, 20), "a"), NOW).path
    lake.add(some(3, range(20, 30), "a"), NOW)
    damaged.write_bytes(damaged.read_bytes()[:100])
    step = lake_of(layout).add(some(3, range(5, 31), "a"), NOW)
    # those of the damaged file are stored once that can be read
    assert (step.row_count, step.duplicate_count) == (11, 15)
    assert caplog.text.count(f"{damaged} cannot be read") == 1
    # what is older than four days is forgotten
    assert lake_of(layout).add(some(3, range(20, 30), "a"), NOW + timedelta(days=3)) is None
    assert lake_of(layout).add(some(3, range(10, 20), "a"), NOW + timedelta(days=5)).row_count == 10
    assert caplog.text.count(f"{damaged} cannot be read") == 2
