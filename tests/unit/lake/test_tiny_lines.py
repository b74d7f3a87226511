"""Lines that are too short for a record: millions of them cost about as much per byte as good lines, and none is lost."""

from __future__ import annotations

import gzip
import json
import random
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from resources.datasets import ARTICLE_CHANGES, datasets
from resources.lake import SnapshotArchive, convert
from resources.lake.archive.buffers import Block, Span
from resources.lake.decode.records import RecordReader
from resources.lake.decode.shape import shape_of
from resources.lake.live import LiveLake
from resources.lake.parquet.writer import encode
from resources.lake.rejects import RejectTable
from resources.tables import REJECTED_LINES

if TYPE_CHECKING:
    from collections.abc import Callable

TINY = {
    "empty objects": b"{}\n",
    "lists": b"[]\n",
    "numbers": b"1\n",
    "nulls": b"null\n",
    "objects": b'{"a":1}\n',
    "invalid utf-8": b"\xff\xfe\n",
    "unterminated": b'{"name\n',
    "nuls": b"\x00\n",
    "halves of surrogate pairs": b'{"name":"\\ud800"}\n',
    "carriage returns": b"{}\r\n",
    "all sorts": b'{}\n[]\n \n1\n\n\t\nnull\n{"a":1}\n\xff\n{"n\n\x00\n',
}
LINES = 30_000
#: As much per byte as good lines is 1. It was from 100 to 2,000 when each line was looked at by itself.
FACTOR = 40


def tiny(name: str, size: int) -> bytes:
    """About so many bytes of tiny lines."""
    if name == "all different":
        rng = random.Random(1)
        return b"".join(rng.randbytes(5).replace(b"\n", b"x") + b"\n" for _ in range(size // 6))
    return TINY[name] * (size // len(TINY[name]))


def reader(archive: Any) -> RecordReader:
    return RecordReader(archive.table, archive.given, archive.table.bodies)


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


def seconds(work: Callable[[int], object], times: int = 3) -> float:
    """Seconds of the processor, the least of several times."""
    found = []
    for number in range(times):
        began = time.process_time()
        work(number)
        found.append(time.process_time() - began)
    return min(found)


@pytest.mark.parametrize("name", [*TINY, "all different"])
def test_each_is_kept_with_its_place_and_a_reason(lake, rows, how, small_blocks, name):
    first, second = (lake.lines(lake.record(n)) for n in (1, 2))
    data = first + tiny(name, 2000) + second + tiny(name, 3000) + b"tail"
    made = convert(lake.archive(data, data), lake.layout)
    assert [row["article_id"] for row in rows(made.path)] == [101, 102] * 2
    expected, place = [], 0
    for number, line in enumerate(data.split(b"\n"), 1):
        if line.strip(b" \t\r") and line not in (first.rstrip(b"\n"), second.rstrip(b"\n")):
            expected.append((number, place, line))
        place += len(line) + 1
    found = rows(made.rejects_path)
    assert [(row["line_number"], row["byte_offset"], row["raw"]) for row in found] == expected * 2
    assert all(row["reason"] and row["raw_bytes"] == len(row["raw"]) for row in found)
    assert [row["member"][-8:] for row in found] == ["0.ndjson"] * len(expected) + ["1.ndjson"] * len(expected)


@pytest.mark.usefixtures("how")
def test_many_different_ones_share_a_reason_and_equal_ones_have_theirs(lake, rows):
    lines = [b"%d" % n for n in range(1000)]
    made = lake.convert(b"{}", *lines, b"{}", b"0")
    reasons = [row["reason"] for row in rows(made.rejects_path)]
    assert reasons[0] == reasons[-2] == "is_part_of.identifier is missing, and no row can be without it."
    assert reasons[1] == reasons[-1] == "A JSON object was expected, not the number 0."
    assert (
        reasons[64]
        == reasons[1000]
        == f"It has fewer bytes than any record ({shape_of(ARTICLE_CHANGES.table).least_bytes})."
    )


@pytest.mark.parametrize("dataset", datasets(), ids=lambda one: one.name)
def test_no_record_has_fewer_bytes_than_the_least(dataset, how):
    """The shortest values that are taken for what is required, under the shortest names, make a record."""
    record: dict[str, Any] = {}
    given = {"project_id": "e", "namespace_id": 0}
    for column in dataset.table:
        of_event = column.name == "modified_at" and dataset.table["event_at"].required
        if column.path is None or not ((column.required and column.default is None) or of_event):
            continue
        *parents, last = column.path.split(".")
        place = record
        for part in parents:
            place = place.setdefault(part, {})
        plain = {"string": "x" if column.lookup else "", "int64": 0, "bool": True}.get(str(column.type), "2026-11-19")
        place[last] = given.get(column.name, column.values[0] if column.values else plain)
    line = json.dumps(record, separators=(",", ":")).encode()
    known = {name: given[name] for name in dataset.given if name in given}
    made = RecordReader(dataset.table, known, dataset.table.bodies).read(memoryview(line), "", 1, 0)
    least = shape_of(dataset.table).least_bytes
    # what the declaration does not decide: a title has a letter, a purpose is one of some
    assert least <= len(line) <= least + 12
    assert [reject.reason for reject in made.rejects] == []


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("name", [*TINY, "all different"])
def test_the_calls_do_not_grow_with_the_lines(lake, name):
    archive = lake.archive(b"{}\n")
    table = RejectTable(archive, "x", "y")

    def work(data: bytes) -> None:
        block = Block(memoryview(data), (Span("m", 0, 0, 0, 1),), data.count(b"\n"), 0, None)
        found = table.of_block(reader(archive).read(block.view, "", 0, 0, block.line_count).rejects, block)
        assert len(found.rows) > LINES // 3
        encode(found.rows, REJECTED_LINES)

    small, large = (tiny(name, LINES * size) for size in (8, 32))
    work(small)
    fewer, more = calls(lambda: work(small)), calls(lambda: work(large))
    assert more < fewer + 500
    assert more < LINES // 5


@pytest.mark.usefixtures("library")
def test_the_cost_per_byte_is_that_of_good_lines_within_a_factor(lake, tmp_path):
    size = 1_000_000
    good = lake.lines(*({k: v for k, v in lake.record(n).items() if k != "article_body"} for n in range(2000)))
    odd = good.replace(b'11Z"', b'11"')  # good as well, but each is looked at by itself
    every = {name: tiny(name, size) for name in ("empty objects", "all sorts", "all different")} | {
        "good and bad in turn": good.replace(b"\n", b"\n{}\n"),
        "times without a zone": odd,
    }

    def per_byte(data: bytes) -> float:
        archive = lake.archive(data)
        return seconds(lambda number: convert(archive, lake.elsewhere(f"{number}-{id(data)}").layout, workers=1)) / len(
            data
        )

    usual = per_byte(good * (size // len(good) + 1))
    found = {name: per_byte(data) / usual for name, data in every.items()}
    assert {name: round(ratio) for name, ratio in found.items() if ratio > FACTOR} == {}

    archive = lake.archive(every["empty objects"])
    of_snapshot = SnapshotArchive(archive.path, archive.identifier, archive.version, "enwiki", 0, "s", "1" * 32)
    assert (
        seconds(lambda number: convert(of_snapshot, lake.elsewhere(f"s{number}").layout, workers=1))
        < FACTOR * usual * size
    )


@pytest.mark.usefixtures("library")
def test_tiny_lines_of_a_stream_cost_as_little_and_are_kept(lake):
    records = ({k: v for k, v in lake.record(n).items() if k != "article_body"} for n in range(3000))
    good = lake.lines(*(one | {"event": one["event"] | {"partition": 0, "offset": n}} for n, one in enumerate(records)))
    bad = tiny("all sorts", len(good))

    def per_byte(name: str, data: bytes) -> float:
        def work(number: int) -> None:
            live = LiveLake(lake.elsewhere(f"{name}{number}").layout, "live_changes", ARTICLE_CHANGES.table)
            lines = data.splitlines(keepends=True)
            live.add([b"".join(lines[place : place + 1000]) for place in range(0, len(lines), 1000)], lake.hour)

        return seconds(work) / len(data)

    assert per_byte("bad", bad) < FACTOR * per_byte("good", good)
    (kept,) = (lake.elsewhere("bad0").layout.lake / "live_changes_rejects").rglob("*.ndjson.gz")
    assert gzip.decompress(kept.read_bytes()).split(b"\n") == [
        *(line for line in bad.split(b"\n") if line.strip(b" \t\r")),
        b"",
    ]


def test_the_rejects_of_a_file_of_tiny_lines_are_small(lake):
    made = lake.convert(*[b"{}"] * 200_000)
    assert made.reject_count == 200_000
    assert made.rejects_path is not None
    # 6.6 bytes a line when places were not differences
    assert made.rejects_path.stat().st_size < 200_000 * 0.2
