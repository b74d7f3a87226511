"""However long or short the lines are, and however many the members: memory and work stay in proportion."""

import base64
import gzip
import itertools
import json
import os
import subprocess
import sys
import tarfile
import threading
from codecs import BOM_UTF8
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from resources.lake import convert
from resources.lake.archive.blocks import BLOCK_LINES_MAX, read_blocks
from resources.lake.archive.buffers import NOTHING, Block, Buffers, Loan, LongLine
from resources.lake.encoded_blocks import encoded_blocks

ROOT = Path(__file__).resolve().parents[3]
#: Converts the same archive many times, more of them at a time than there are buffers.
CONVERT = """
import json, sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from resources.lake import Archive, Converter, Layout
hour = datetime(2026, 11, 19, 5, tzinfo=UTC)
workers, many, memory = map(int, sys.argv[3:])
archives = [Archive(Path(sys.argv[1]), f"enwiki_{n}", "0" * 32, hour, "enwiki", 0) for n in range(many)]
layout = Layout(Path(sys.argv[2]))
with Converter(workers=workers, memory_bytes=memory or None) as converter:
    with ThreadPoolExecutor(converter.readers) as readers:
        made = list(readers.map(lambda one: converter.convert(one, layout), archives))
peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) << 10
print(json.dumps({"made": [(one.row_count, one.reject_count, one.ndjson_bytes) for one in made], "peak": peak}))
"""


class Counted(Buffers):
    """Counts how often a buffer was asked for."""

    taken = 0

    def take(self) -> Loan:
        self.taken += 1
        assert self.taken < 100, "it goes round without end"
        return super().take()


def test_the_reader_waits_until_a_buffer_is_returned():
    pool = Buffers(1, 64)
    first = pool.take()
    memory = first.memory
    with ThreadPoolExecutor() as threads:
        second = threads.submit(pool.take)
        with pytest.raises(TimeoutError):
            second.result(0.1)
        first.drop()
        assert second.result().memory is memory
    line = pool.take_long(0)
    block = Block(memoryview(line.memory), (), 1, 0, line)
    for end, waits in ((block.release, True), (block.done, False)):  # the next one waits until this one is encoded
        end()
        assert (pool._long.locked(), line.memory is NOTHING) == (waits, True)
    assert first.memory is NOTHING


@pytest.mark.parametrize(
    "line", [b"\n", b"x\n", b"x" * 198 + b"\n", b"x" * 700 + b"\n", b" \n" * 5 + b"x" * 3000 + b"\n"]
)
def test_a_buffer_is_used_up_before_the_next_is_asked_for(lake, line):
    """Lines that do not fit into a block are another block of the same buffer, not carried over again and again."""
    size, data = 1 << 20, line * ((5 << 20) // len(line))
    buffers, found = Counted(2, size), bytearray()
    for block in read_blocks(lake.archive(data).path, buffers):
        assert len(block.view) <= size
        assert block.line_count < BLOCK_LINES_MAX + (1 << 16)
        found += block.view
        block.done()
    assert found == data
    assert buffers.taken <= -(-len(data) // (size - len(line) - 1))


@pytest.mark.parametrize("end", [b"\n", b""])
def test_lines_and_members_may_end_anywhere_in_a_buffer(lake, monkeypatch, end):
    monkeypatch.setattr("resources.lake.archive.blocks.BLOCK_LINES_MAX", 4)
    for size in range(50, 132):
        first = b"\n" * (size % 3) + b"a" * size
        datas = [first, b"b", BOM_UTF8 + b"c", b"d\n\ne", b"f" * 20 + b"\n" + b"g" * 90, b"\nh"]
        found, expected = [], []
        for block in read_blocks(lake.archive(*(data + end for data in datas)).path, Counted(2, 64, 126)):
            if isinstance(block, LongLine):  # what nobody reads is passed over
                line = b"a" * size if size % 2 else b"".join(map(bytes, block.pieces))
                found.append((block.member, block.number, block.offset, line))
                continue
            lines = bytes(block.view).splitlines()
            assert block.line_count == len(lines) <= 4
            starts = [0, *itertools.accumulate(len(line) + 1 for line in lines)][:-1]
            places = block.where(*(pa.array(one, pa.int64()) for one in (range(len(lines)), starts)))
            found += zip(*(place.to_pylist() for place in places), lines, strict=True)
            block.done()
        for member, data in enumerate(datas):
            offset = len(data) - len(data.removeprefix(BOM_UTF8))
            for number, line in enumerate(data[offset:].split(b"\n"), 1):
                expected.append((f"enwiki_namespace_0_{member}.ndjson", number, offset, line))
                offset += len(line) + 1
        assert found == expected


@pytest.mark.parametrize("ending", [b"\n", b""])
def test_many_small_members_share_row_groups(lake, rows, ending):
    records = [lake.lines(lake.record(n)).removesuffix(b"\n") + ending if n % 100 else b"bad" for n in range(800)]
    made = convert(lake.archive(*records), lake.layout)
    assert pq.ParquetFile(made.path).num_row_groups == 1
    assert [row["article_id"] for row in rows(made.path)] == [100 + n for n in range(800) if n % 100]
    found = rows(made.rejects_path)
    assert [row["member"] for row in found] == [f"enwiki_namespace_0_{n}.ndjson" for n in range(0, 800, 100)]
    assert {(row["line_number"], row["byte_offset"], row["raw"]) for row in found} == {(1, 0, b"bad")}
    assert made.ndjson_bytes == sum(map(len, records))


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_places_in_members_of_one_buffer(lake, rows, mark):
    lines = [json.dumps(lake.record(n)).encode() for n in range(3)]
    data = mark + lines[0] + b"\n\n \nbad\n" + lines[1]
    # so many line feeds are a block of their own, and all else is a later one of the same buffer
    for before in (b"", b"\n" * 2 * BLOCK_LINES_MAX):
        made = convert(lake.archive(*[data] * 5, b"", mark, b"\n" + before, before + data, b"worse"), lake.layout)
        assert made.row_count == 12
        found = [(row["member"], row["line_number"], row["byte_offset"], row["raw"]) for row in rows(made.rejects_path)]
        assert found == [
            *((f"enwiki_namespace_0_{n}.ndjson", 4, data.index(b"bad"), b"bad") for n in range(5)),
            ("enwiki_namespace_0_8.ndjson", 4 + len(before), len(before) + data.index(b"bad"), b"bad"),
            ("enwiki_namespace_0_9.ndjson", 1, 0, b"worse"),
        ]


def archive_of(path: Path, pieces: list[tuple[bytes, int]], level: int = 1) -> int:
    """An archive with one member of pieces that are repeated; each is compressed once. Returns the member's bytes."""
    size = sum(len(data) * times for data, times in pieces)
    info = tarfile.TarInfo("enwiki_namespace_0_0.ndjson")
    info.size = size
    with path.open("wb") as file:
        file.write(gzip.compress(info.tobuf(tarfile.GNU_FORMAT)))
        for data, times in pieces:
            packed = gzip.compress(data, level)
            for _ in range(times):
                file.write(packed)
        file.write(gzip.compress(bytes(-size % 512 + 1024)))
    return size


def line_of(number: int, html: bytes) -> tuple[bytes, bytes]:
    """What stands before and behind a body in a record of its own."""
    before = (
        f'{{"name":"Page","identifier":{number},"date_modified":"2026-11-19T05:10:11Z","version":{{"identifier":1}},'
        '"namespace":{"identifier":0},"is_part_of":{"identifier":"enwiki"},"event":{"type":"delete"},'
        '"article_body":{"html":"'
    )
    return before.encode() + html, b'"}}\n'


def converted(folder: Path, *numbers: int) -> dict:
    """The counts of conversions in another process, and its peak of memory."""
    words = [sys.executable, "-c", CONVERT, folder / "a.tar.gz", folder / "data", *map(str, numbers)]
    return json.loads(subprocess.run(words, check=True, capture_output=True, cwd=ROOT, timeout=500).stdout)


SHORT = b"".join(b"".join(line_of(n, b"")) for n in range(5000))
RANDOM = os.urandom(500_000).hex().encode()
LIGHT = os.urandom(500).hex().encode() * 1000
BEFORE, BEHIND = line_of(1, b"")
CASES = {
    # name: pieces, then rows, rejects and MiB at the peak
    "short records, line feeds and tiny bad lines": (
        [(SHORT, 40), (b"\n" * 1_000_000, 30), (b"{}\n[]\n1\n\xff\n" * 10_000, 25)],
        (200_000, 1_000_000, 512),
    ),
    "bad lines of 250 MB": ([(b'{"name":"', 1), (LIGHT, 250), (b"\n", 1)], (0, 1, 512)),
    "bad lines of 1 MB, and one of texts alone": (
        [(b"x" + LIGHT + b"\n", 60), (b'{"x":[', 1), (b'"",' * 300_000, 18), (b'""]}\n', 1)],
        (0, 61, 512),
    ),
    "records and bad lines of 60 MB": (
        [(BEFORE, 1), (RANDOM, 60), (BEHIND, 1), ("🐿".encode(), 1), (LIGHT, 60), (BEHIND, 1)],
        (1, 1, 512 + 12 * 64),
    ),
}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the peak is read from /proc")
@pytest.mark.parametrize("case", CASES)
def test_memory_of_a_conversion_is_bounded(tmp_path, case):
    pieces, (row_count, reject_count, bound) = CASES[case]
    size, found = archive_of(tmp_path / "a.tar.gz", pieces), converted(tmp_path, 2, 1, 0)
    assert found["made"] == [[row_count, reject_count, size]]
    assert found["peak"] < bound << 20, found


UNIQUE = {
    # lines that hardly compress, each of its own bytes: of a megabyte, and of more than half a block
    "row groups as large as blocks": (60, 1 << 20),
    "lines of 10 MB": (8, 10_000_000),
    "lines of a block, all but": (2, (16 << 20) - 1000),
}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the peak is read from /proc")
@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=() if case.startswith("lines of a block") else pytest.mark.soak) for case in UNIQUE],
)
def test_four_workers_and_nine_archives_at_a_time_stay_within_the_memory_allowed(tmp_path, case):
    count, size = UNIQUE[case]
    lines = [(b"".join(line_of(n, base64.b64encode(os.urandom(size * 3 // 4)))), 1) for n in range(count)]
    archive_of(tmp_path / "a.tar.gz", lines, level=0)
    memory = (96 + 4 * 160) << 20
    found = converted(tmp_path, 4, 9, memory)
    assert [rows for rows, _, _ in found["made"]] == [count] * 9
    assert found["peak"] < memory, found


def room_left(shared):
    """How often it can be taken; more than there were would have been an error."""
    count = 0
    while shared.acquire(blocking=False):
        count += 1
    return count


@pytest.mark.parametrize("room", [1, 2, 7])
def test_archives_share_the_room_and_none_waits_for_another_for_ever(room):
    """Each is written in its order, however little room there is; what is under way in all of them is within it."""
    shared, lock = threading.BoundedSemaphore(room), threading.Lock()
    under_way, most = 0, 0

    def blocks():
        nonlocal under_way, most
        for number in range(30):
            with lock:
                under_way += 1
                most = max(most, under_way)
            yield number

    def archive(_name):
        nonlocal under_way
        made = []
        with closing(encoded_blocks(blocks(), pool, lambda number: number, shared)) as pieces:
            for piece in pieces:
                made.append(piece)
                with lock:
                    under_way -= 1
        return made

    with ThreadPoolExecutor(2) as pool, ThreadPoolExecutor(6) as readers:
        assert list(readers.map(archive, range(6))) == [list(range(30))] * 6
    assert most <= room
    assert room_left(shared) == room


def test_room_is_given_back_where_a_block_a_worker_or_a_writer_fails():
    shared = threading.BoundedSemaphore(3)

    def broken():
        yield Number(1)
        raise KeyError

    with ThreadPoolExecutor(2) as pool:
        with pytest.raises(KeyError), closing(encoded_blocks(broken(), pool, str, shared)) as pieces:
            list(pieces)
        with (
            pytest.raises(ZeroDivisionError),
            closing(encoded_blocks((Number(n) for n in (2, 0, 2)), pool, lambda n: 1 // n, shared)) as pieces,
        ):
            list(pieces)
        numbers = map(Number, (1, 2, 3))
        with pytest.raises(TypeError), closing(encoded_blocks((n for n in numbers), pool, str, shared)) as pieces:
            sum(pieces)
    assert room_left(shared) == 3


class Number(int):
    """A block without memory to give back: `done` is called where its work had not begun."""

    def done(self):
        pass
