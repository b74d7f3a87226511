"""Sequences of a stream with faults of every kind.

Good events come among poisoned lines, restarts, repeated events, and offsets that are numbered anew. `Service` is the
log of a service and what it sends from given offsets on; `play` lets a lake consume it and reports contradictions.
"""

import gzip
import json
import random
from collections import Counter
from datetime import UTC, datetime, timedelta

import pyarrow.dataset as ds

from resources.lake.live import LiveLake
from resources.tables import ARTICLE_CHANGES
from tests.unit.lake.conftest import put
from tests.unit.lake.test_bad_lines import BAD_LINES

NOW = datetime(2026, 11, 1, 5, 30, tzinfo=UTC)
SCOPE = [("enwiki", 0)]
#: Far apart, as a poisoned event of another partition could not be told from a good one otherwise.
PARTITIONS = {0: 0, 7: 10**11, 24: 2 * 10**11, 49: 3 * 10**11}


def event(partition, offset, identifier, published=NOW, **more):
    """A record of the stream."""
    place = {"identifier": identifier, "type": "update", "date_published": published.isoformat()}
    # the service leaves out what is zero
    place |= {name: value for name, value in (("partition", partition), ("offset", offset)) if value}
    return {
        "name": f"Page {partition}",
        "identifier": partition + 1,
        "date_modified": NOW.isoformat(),
        "version": {"identifier": 1},
        "namespace": {"identifier": 0},
        "is_part_of": {"identifier": "enwiki"},
        "event": place,
    } | more


def line_of(record):
    return json.dumps(record).encode()


def changed(**changes):
    """A line whose event has another member; `...` leaves it out."""
    [(name, value)] = changes.items()
    return lambda record: line_of(put(record | {"event": {**record["event"]}}, f"event.{name}", value))


def _raw(change):
    return lambda record: change(line_of(record))


#: Values of the members of an event that make it none; `...`: it is left out.
_MEMBERS = {
    "date_published": (
        *(..., None, 1_700_000_000, "2026-11-01T05:30:00+99:99", "2026-09-01T05:30:00-23:59", "0001-01-01T00:00:00Z"),
        *("0000-01-01T00:00:00Z", "1969-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.999999Z"),
        *("292277-01-01T00:00:00Z", "2026-11-03T05:30:00Z", "2026-05-01T05:30:00Z"),
    ),
    "identifier": (..., None, "", 7, ["a"], "x" * 5_000),
    "offset": (2**63 - 1, 2**53, 2**64, -1, -(2**63), "17", 17.5, 17.0, True, [1]),
    "partition": (50, 51, -1, 10**9, "3", 2**70),
    "type": ("move", 3),
}
#: Values of the fields of a record that make it no event.
_FIELDS = {
    "event": (None, "update", {}),
    "is_part_of": ({}, None, ["enwiki"], {"identifier": 5}),
    "namespace": ({}, {"identifier": "0"}, [0]),
}
#: What is no event, by the record of one.
REJECTED = {
    **{(name, str(value)): changed(**{name: value}) for name, values in _MEMBERS.items() for value in values},
    **{
        (name, str(value)): lambda record, change={name: value}: line_of(record | change)
        for name, values in _FIELDS.items()
        for value in values
    },
    "no event": lambda record: line_of({name: value for name, value in record.items() if name != "event"}),
    "event as list": lambda record: line_of(record | {"event": [record["event"]]}),
    "no page": lambda record: line_of({"event": record["event"]}),
    "huge nesting": lambda record: line_of(record)[:-1] + b', "x": ' + b"[" * 5_000 + b"]" * 5_000 + b"}",
    "no UTF-8": _raw(lambda line: line.replace(b"Page", b"P\xff\xfege")),
    "event twice": _raw(lambda line: line[:-1] + b', "event": {}}'),
    "cut": _raw(lambda line: line[: len(line) // 2]),
    "two in a line": _raw(lambda line: line + line),
    "a carriage return in a text": _raw(lambda line: line.replace(b"Page", b"Pa\rge")),
    "byte order mark within": _raw(lambda line: line.replace(b": ", b": \xef\xbb\xbf", 1)),
    "empty object": lambda _record: b"{}",
    "list": _raw(lambda line: b"[" + line + b"]"),
    "a page of HTML": lambda _record: b"<html>Bad Gateway</html>",
    "server-sent event": _raw(lambda line: b"data: " + line),
    **{("line", name): lambda _record, bad=bad: bad for name, (bad, _reason) in BAD_LINES.items()},
}
#: What is a good event all the same.
ODD = {
    "byte order mark": _raw(lambda line: b"\xef\xbb\xbf" + line),
    "carriage return at the end": _raw(lambda line: line + b"\r"),
    "carriage return between values": _raw(lambda line: line.replace(b", ", b",\r", 1)),
    "unknown fields": lambda record: line_of(record | {"x": {"y": [1, {"z": None}]}}),
    "another zone": changed(date_published="2026-11-01T19:00:00+14:00"),
    "no zone": changed(date_published="2026-11-01T05:30:00"),
}
_BLANK = (b"", b"\r", b"  \t")


class Entry:
    """A line of a log: where it is, and the event that it is (None: none that counts)."""

    def __init__(self, slot, line, good=None, *, is_other=False):
        self.slot, self.line, self.good, self.is_other = slot, line, good, is_other


class Service:
    """Logs of partitions.

    Each may be numbered anew, which begins another log, and may be restored to the one before.
    """

    def __init__(self, chance):
        self.chance = chance
        self.logs = {partition: [[]] for partition in PARTITIONS}
        self.at = dict.fromkeys(PARTITIONS, 0)
        self.clock = timedelta(0)
        self.switched = Counter()
        self._next = dict(PARTITIONS)
        self._count = 0

    def publish(self, count):
        """Add entries of every kind."""
        for _ in range(count):
            kind = self.chance.choices(
                ("good", "odd", "other", "rejected", "lie", "gap", "jump", "anew", "restored", "clock", "blank"),
                (60, 4, 8, 18, 4, 3, 1, 1, 1, 1, 2),
            )[0]
            self._add(self.chance.choice([*PARTITIONS]), kind)

    def _add(self, partition, kind):
        if kind == "clock":
            # minutes: a poisoned event could otherwise be as far ahead as an event of another hour may be
            self.clock = timedelta(minutes=self.chance.choice((0, 0, -25, 20)))
            return
        if kind == "anew":
            self.switched[partition] += 1
            self.logs[partition].append([])
            self.at[partition] = len(self.logs[partition]) - 1
            self._next[partition] = self.chance.choice((0, self._next[partition] // 2, self._next[partition]))
            return
        if kind == "restored":
            self.switched[partition] += 1
            self.at[partition] = self.chance.randrange(len(self.logs[partition]))
            log = self.logs[partition][self.at[partition]]
            self._next[partition] = log[-1].slot + 1 if log else PARTITIONS[partition]
            return
        if kind in {"gap", "jump"}:
            ahead = self.chance.randint(1, 900) if kind == "gap" else self.chance.choice((2_000, 10**8, 10**12))
            self._next[partition] += ahead
            return
        slot = self._next[partition]
        self._next[partition] += 1
        self._count += 1
        identifier = f"{self._count:08d}-{partition}"
        published = NOW + self.clock + timedelta(milliseconds=self._count)
        record = event(partition, slot, identifier, published)
        good = (partition, slot, identifier)
        log = self.logs[partition][self.at[partition]]
        if kind == "good":
            log.append(Entry(slot, line_of(record), good))
        elif kind == "odd":
            log.append(Entry(slot, self.chance.choice([*ODD.values()])(record), good))
        elif kind == "other":
            log.append(Entry(slot, line_of(record | {"is_part_of": {"identifier": "frwiki"}}), is_other=True))
        elif kind == "rejected":
            log.append(Entry(slot, self.chance.choice([*REJECTED.values()])(record)))
        elif kind == "blank":
            log.append(Entry(slot, self.chance.choice(_BLANK)))
        else:
            # a place that it is not at, and all else as it should be
            where = self.chance.choice(
                ((partition, slot + 10**9), (partition, 2**53 - 1), (partition, 0), (partition, slot // 2),
                 (self.chance.choice([*PARTITIONS]), slot))
            )  # fmt: skip
            lie = (*where, f"lie-{identifier}")
            log.append(Entry(slot, line_of(event(*lie, published)), lie))

    def sent(self, partition, following):
        """The entries from an offset on; one that is beyond the end begins at the oldest."""
        log = self.logs[partition][self.at[partition]]
        found = [entry for entry in log if following is None or entry.slot >= following]
        is_beyond = following is not None and not found and (not log or following > log[-1].slot + 1)
        return log if is_beyond else found


def play(layout, seed, figures):
    """Consume a sequence; raises AssertionError where an event is lost, comes twice, or is in no count.

    What it did is added to the figures.
    """
    chance = random.Random(seed)
    service = Service(chance)
    lake = _lake(layout)
    lake.begin(NOW - timedelta(hours=1), NOW)
    delivered, rejected, places = set(), Counter(), {}
    for _ in range(chance.randint(6, 12)):
        service.publish(chance.randint(0, 40))
        if chance.random() < 0.25:
            figures["restarts"] += 1
            lake = _lake(layout)
            lake.begin(NOW, NOW)
            places = {}
        if chance.random() < 0.3:
            places = {}  # connections are opened again, at what is committed
        lines, entries = _taken(service, lake, places, chance)
        if chance.random() < 0.1:
            figures["killed"] += 1  # before the step is kept: nothing of it counts
            lake, places = _lake(layout), {}
            lake.begin(NOW, NOW)
            continue
        _step(lake, lines, entries, delivered, rejected, figures, chance)
        while chance.random() < 0.5 and lake.merge() is not None:
            pass
    # all that the service has now, over connections that stay and over some that are opened again
    for _ in range(3):
        places = {}
        lines, entries = _taken(service, lake, places, None)
        _step(lake, lines, entries, delivered, rejected, figures, chance)
    _check(layout, service, delivered, rejected)
    figures["sequences"] += 1


def _lake(layout):
    return LiveLake(layout, "live_changes", ARTICLE_CHANGES, scope=SCOPE)


def _taken(service, lake, places, chance):
    """What connections bring: of each partition its entries behind those that came over the same connection."""
    blocks, entries = [], []
    for partition in PARTITIONS:
        log = service.logs[partition][service.at[partition]]
        key = (partition, service.at[partition])
        following = lake.last().offsets.get(partition)
        found = log[places[key] :] if key in places else service.sent(partition, following)
        if chance is not None and chance.random() < 0.5:
            found = found[: chance.randint(0, len(found))]
        if found:
            places[key] = log.index(found[-1]) + 1
        entries += found
        if found:
            blocks.append(b"".join(entry.line + b"\n" for entry in found))
            if chance is not None and chance.random() < 0.1:  # a connection was opened again within the step
                blocks.append(blocks[-1])
                entries += found
    return blocks, entries


def _step(lake, lines, entries, delivered, rejected, figures, chance):
    step = lake.add(lines, NOW + timedelta(minutes=chance.randint(-20, 20)), always=chance.random() < 0.5)
    if step is None:
        return
    count = sum(bool(entry.line.strip(b" \t\r")) for entry in entries)
    for name in ("duplicate_count", "other_count", "reject_count", "reset_count"):
        figures[name] += getattr(step, name)
    # each line is in a count
    assert step.row_count + step.duplicate_count + step.other_count + step.reject_count == count
    assert all(0 <= partition < 50 for partition in step.offsets)
    assert all(0 <= offset <= 2**53 for offset in step.offsets.values())
    assert all(abs(moment - NOW) < timedelta(days=2) for moment in step.published_at.values())
    for entry in entries:
        if entry.good is not None:
            delivered.add(entry.good)
        elif not entry.is_other and entry.line.strip(b" \t\r"):
            rejected[entry.line] += 1


def _check(layout, service, delivered, rejected):
    lake = _lake(layout)
    names = ["event_partition", "event_offset", "event_id"]
    found = ds.dataset([str(path) for path in lake.files()]).to_table(names)
    stored = Counter(zip(*(found[name].to_pylist() for name in names), strict=True))
    assert {place: count for place, count in stored.items() if count > 1} == {}
    assert set(stored) == delivered
    for partition, logs in service.logs.items():
        missing = {entry.good for entry in logs[service.at[partition]] if entry.good is not None} - set(stored)
        # of a log that took the place of another one the service may not send what is before the offset that it is
        # asked for
        assert not missing or service.switched[partition]
    raw = Counter()
    for path in (layout.lake / "live_changes_rejects").rglob("*.ndjson.gz"):
        lines = gzip.decompress(path.read_bytes()).split(b"\n")[:-1]
        raw.update(lines)
        reasons = path.with_name(path.name.replace(".ndjson.gz", ".reasons.gz"))
        assert len(gzip.decompress(reasons.read_bytes()).splitlines()) == len(lines)
    assert raw == rejected
