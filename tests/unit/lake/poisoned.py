"""Lines of a stream with faults of every kind, and `Service`: its log, and what it sends from given offsets on."""

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from tests.unit.lake.conftest import put
from tests.unit.lake.test_bad_lines import BAD_LINES

NOW, SCOPE = datetime(2026, 11, 1, 5, 30, tzinfo=UTC), [("enwiki", 0)]
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


class Entry(NamedTuple):
    """A line of a log: where it is, and the event that it is (None: none that counts)."""

    slot: int
    line: bytes
    good: tuple[int, int, str] | None = None


class Service:
    """Logs of partitions. Each may be numbered anew (another log) or restored to the one before."""

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
            log.append(Entry(slot, line_of(record | {"is_part_of": {"identifier": "frwiki"}})))
        elif kind == "rejected":
            log.append(Entry(slot, self.chance.choice([*REJECTED.values()])(record)))
        elif kind == "blank":
            log.append(Entry(slot, self.chance.choice((b"", b"\r", b"  \t"))))
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
