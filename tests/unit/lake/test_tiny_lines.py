"""Bad lines by the million: they cost about as much per byte as good lines, and none is lost."""

import json
import random
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from resources.datasets import SNAPSHOT_ARTICLES
from resources.lake import Archive, convert
from resources.lake.archive.buffers import Block, Span
from resources.lake.decode.records import RecordReader
from resources.lake.live import _Rejects
from resources.lake.parquet.writer import encode
from resources.lake.rejects import RejectsFile
from resources.tables import REJECTED_LINES

TINY = {"empty objects": b"{}\n", "lists": b"[]\n", "numbers": b"1\n", "nulls": b"null\n", "objects": b'{"a":1}\n'}
TINY |= {"invalid utf-8": b"\xff\xfe\n", "unterminated": b'{"name\n', "nuls": b"\x00\n", "carriage returns": b"{}\r\n"}
TINY |= {"halves of surrogate pairs": b'{"name":"\\ud800"}\n'}
TINY |= {"all sorts": b'{}\n[]\n \n1\n\n\t\nnull\n{"a":1}\n\xff\n{"n\n\x00\n'}
LINES = 15_000
#: Processor time per byte that bad lines may take, where good ones take 1. Measured in files of a megabyte: 6 to 9 for
#: lines of two bytes, 1 to 7 for all others. In files of 10 MB, lines of two bytes take 11 to 16: the bound is one of
#: files of a megabyte, which have the cost of a file itself as well.
FACTOR = 10
#: A ratio counts that is beyond the factor whenever it is measured, beside good lines of the same moments.
ROUNDS = 6


def spoilt(number: int, **changes: Any) -> bytes:
    """A record of about 200 bytes with other fields; those that are None are missing."""
    record = {"name": f"P{number}", "identifier": number, "version": {"identifier": 1}, "namespace": {"identifier": 0}}
    record |= {"is_part_of": {"identifier": "enwiki"}}
    record |= {"event": {"type": "update", "date_created": "2026-11-19T05:10:11Z"}} | changes
    return json.dumps({name: value for name, value in record.items() if value is not None}).encode()


#: Bad lines that are long enough for a record, each from a number.
LONG: dict[str, Callable[[int], bytes]] = {
    "noise": lambda number: b"%0150d" % number + b"x",
    "nuls": lambda number: bytes(140) + b"%d" % number,
    "no end": lambda number: spoilt(number)[:-1],
    "invalid utf-8": lambda number: spoilt(number).replace(b"P", b"\xff"),
    "a key twice": lambda number: spoilt(number)[:-1] + b',"name":"x"}',
    "no number": lambda number: spoilt(number)[:-1] + b',"new":NaN}',
    "half a surrogate pair": lambda number: spoilt(number).replace(b"P", b"\\ud800"),
    "another type": lambda number: spoilt(number, identifier=f"{number}"),
    "no date": lambda number: spoilt(number, event={"type": "update", "date_created": "2026-13-19T05:10:11Z"}),
    "a late date": lambda number: spoilt(number, event={"type": "update", "date_created": "2036-01-19T05:10:11Z"}),
    "no name": lambda number: spoilt(number, name=None, comment="x"),
    "another project": lambda number: spoilt(number, is_part_of={"identifier": "frwiki"}),
    "another kind": lambda number: spoilt(number, event={"type": "new", "date_created": "2026-11-19T05:10:11Z"}),
    "another form": lambda number: json.dumps({f"field {number} {n}": n for n in range(12)}).encode(),
}
EVERY = [*TINY, "all different", *(f"{name}, different" for name in LONG)]
EQUAL = [f"{name}, equal" for name in ("noise", "no end", "no date", "no name")]


def tiny(name: str, size: int) -> bytes:
    """About so many bytes of tiny lines."""
    if name == "all different":
        rng = random.Random(1)
        return b"".join(rng.randbytes(5).replace(b"\n", b"x") + b"\n" for _ in range(size // 6))
    if name not in TINY:
        kind, _, how = name.rpartition(", ")
        count = size // len(LONG[kind](10**6))
        return b"".join(LONG[kind](10**6 + n * (how == "different")) + b"\n" for n in range(count))
    return TINY[name] * (size // len(TINY[name]))


def calls(work: Callable[[], object]) -> int:
    """How many functions of Python are called meanwhile, by this thread."""
    count = 0

    def seen(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    sys.setprofile(seen)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.usefixtures("how")
def test_many_different_ones_share_a_reason_and_equal_ones_have_theirs(lake, rows):
    """Lines without an end are no JSON, and each of the first has its own reason; so have those of another type."""
    kinds = {
        "no end": "It is not a single UTF-8 JSON object without duplicate keys.",
        "another type": "One of its values is not as declared.",
    }
    for name, common in kinds.items():
        made = lake.convert(*(LONG[name](n % 100) for n in range(200)))
        reasons = [row["reason"] for row in rows(made.rejects_path)]
        assert {*reasons[64:100]} == {*reasons[164:]} == {common}
        assert reasons[:64] == reasons[100:164]
        assert common not in reasons[:64]
    made = lake.convert(b"{}", *[b"%d" % n for n in range(1000)], b"{}", b"0")
    reasons = [row["reason"] for row in rows(made.rejects_path)]
    assert reasons[0] == reasons[-2] == "is_part_of.identifier is missing, and no row can be without it."
    assert reasons[1] == reasons[-1] == "A JSON object was expected, not the number 0."
    place = b'{"is_part_of":{"identifier":""},"namespace":{"identifier":0},"identifier":0,"version":{"identifier":0},'
    least = len(place + b'"name":"","date_modified":"0001-01-01"}')
    assert reasons[64] == reasons[1000] == f"It is shorter than any possible record ({least} bytes)."


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("name", EVERY + EQUAL)
def test_the_calls_do_not_grow_with_the_lines(lake, name):
    archive = lake.archive(b"{}\n")
    rejects = RejectsFile(lake.layout.lake / "x.parquet", archive, lake.layout, 3)

    def work(data: bytes) -> None:
        block = Block(memoryview(data), (Span("m", 0, 0, 0, 1),), data.count(b"\n"), 0)
        reader = RecordReader(archive.table, archive.given, archive.table.bodies, archive.latest)
        found = reader.read(block.view).rejects
        rows, _ = rejects.of_block(found, block)
        assert len(rows) > len(data) // 300
        encode(rows, REJECTED_LINES)
        _Rejects().add(found)  # those of a stream

    small, large = (tiny(name, LINES * size) for size in (8, 32))
    work(small)
    fewer, more = calls(lambda: work(small)), calls(lambda: work(large))
    assert more < fewer + 500
    assert more < (LINES if name.endswith("different") else LINES // 5)


def too_dear(work: Callable[[str, bytes, int], float], good: bytes, every: dict[str, bytes]) -> dict[str, float]:
    """The ratios beyond FACTOR in every round: processor time per byte, beside that of good lines before and after."""
    left = dict.fromkeys(every, 0.0)
    for number in range(ROUNDS):
        before = work("good", good, number)
        found = {name: work(name, every[name], number) / len(every[name]) for name in left}
        usual = min(before, work("good again", good, number)) / len(good)
        left = {name: round(cost / usual, 1) for name, cost in found.items() if cost > FACTOR * usual}
        if not left:
            break
    return left


@pytest.mark.usefixtures("untraced")
def test_the_cost_per_byte_is_that_of_good_lines_within_a_factor(lake, how):
    # good records without a body have about 400 bytes
    records = map(lake.record, range(2000 if how == "native" else 750))
    good = lake.lines(*({k: v for k, v in one.items() if k != "article_body"} for one in records))
    # one kind of each verdict: the calls of the others are counted above
    kinds = ["nuls", "all sorts", "no end, different", "no date, different", "no name, different"]
    every = {name: tiny(name, len(good)) for name in kinds + ["empty objects"] * (how == "native")} | {
        "good and bad in turn": good.replace(b"\n", b"\n{}\n"),
        "times without a zone": good.replace(b'11Z"', b'11"'),
    }
    strangers = spoilt(1) + b"\n"  # an archive of another project alone is damaged

    def work(name: str, data: bytes, number: int) -> float:
        archive = lake.archive(data + strangers)
        if name == "empty objects" and number % 2:
            known = (archive.path, archive.identifier, archive.version, None, "enwiki", 0)
            archive = Archive(*known, snapshot_id="s", snapshot_version="1" * 32, dataset=SNAPSHOT_ARTICLES)
        layout, began = lake.elsewhere(f"{number}-{name}").layout, time.process_time()
        convert(archive, layout, workers=1)
        return time.process_time() - began

    work("good", good, ROUNDS)
    assert too_dear(work, good, every) == {}


def test_the_rejects_of_a_file_of_tiny_lines_are_small(lake):
    made = lake.convert(*[b"{}"] * 200_000)
    assert made.reject_count == 200_000
    assert made.rejects_path is not None
    # 6.6 bytes a line when places were not differences
    assert made.rejects_path.stat().st_size < 200_000 * 0.2
