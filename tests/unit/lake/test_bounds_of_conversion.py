"""However long or short the lines are, and however many the members: memory and work stay in proportion."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import tarfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from resources.lake import convert
from resources.lake.archive.blocks import BLOCK_LINES_MAX, read_blocks
from resources.lake.archive.buffers import Buffers, Loan
from resources.lake.pieces import Pieces

ROOT = Path(__file__).resolve().parents[3]
CONVERT = """
import json, resource, sys
from datetime import UTC, datetime
from pathlib import Path
from resources.lake import Archive, Layout, convert
archive = Archive(Path(sys.argv[1]), "enwiki_namespace_0", "0" * 32, datetime(2026, 11, 19, 5, tzinfo=UTC), "enwiki", 0)
made = convert(archive, Layout(Path(sys.argv[2])), workers=2)
peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) << 10
print(json.dumps({"rows": made.row_count, "rejects": made.reject_count, "bytes": made.ndjson_bytes, "peak": peak}))
"""


class Counted(Buffers):
    """Counts how often a buffer was asked for."""

    taken = 0

    def take(self) -> Loan:
        self.taken += 1
        return super().take()


@pytest.mark.parametrize(
    "line", [b"\n", b"x\n", b"x" * 198 + b"\n", b"x" * 700 + b"\n", b" \n" * 5 + b"x" * 3000 + b"\n"]
)
def test_a_buffer_is_used_up_before_the_next_is_asked_for(lake, line):
    """Lines that do not fit into a block are another block of the same buffer, not carried over again and again."""
    size, data = 1 << 20, line * ((10 << 20) // len(line))
    buffers, found = Counted(2, size), bytearray()
    for block in read_blocks(lake.archive(data).path, buffers):
        assert len(block.view) <= size
        assert block.line_count < BLOCK_LINES_MAX + (1 << 16)
        found += block.view
        block.done()
    assert found == data
    assert buffers.taken <= -(-len(data) // (size - len(line) - 1))


@pytest.mark.parametrize("ending", [b"\n", b""])
def test_many_small_members_share_row_groups(lake, rows, ending):
    records = [lake.lines(lake.record(n)).removesuffix(b"\n") + ending if n % 100 else b"bad" for n in range(2000)]
    made = convert(lake.archive(*records), lake.layout)
    assert pq.ParquetFile(made.path).num_row_groups == 1
    assert [row["article_id"] for row in rows(made.path)] == [100 + n for n in range(2000) if n % 100]
    found = rows(made.rejects_path)
    assert [row["member"] for row in found] == [f"enwiki_namespace_0_{n}.ndjson" for n in range(0, 2000, 100)]
    assert {(row["line_number"], row["byte_offset"], row["raw"]) for row in found} == {(1, 0, b"bad")}
    assert made.ndjson_bytes == sum(map(len, records))


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_places_in_members_of_one_buffer(lake, rows, mark):
    lines = [json.dumps(lake.record(n)).encode() for n in range(3)]
    data = mark + lines[0] + b"\n\n \nbad\n" + lines[1]
    made = convert(lake.archive(*[data] * 5, b"", mark, b"\n", b"worse"), lake.layout)
    assert made.row_count == 10
    found = [(row["member"], row["line_number"], row["byte_offset"], row["raw"]) for row in rows(made.rejects_path)]
    assert found == [
        *((f"enwiki_namespace_0_{n}.ndjson", 4, data.index(b"bad"), b"bad") for n in range(5)),
        ("enwiki_namespace_0_8.ndjson", 1, 0, b"worse"),
    ]


def archive_of(path: Path, pieces: list[tuple[bytes, int]]) -> int:
    """An archive with one member of pieces that are repeated; each is compressed once. Returns the member's bytes."""
    size = sum(len(data) * times for data, times in pieces)
    info = tarfile.TarInfo("enwiki_namespace_0_0.ndjson")
    info.size = size
    with path.open("wb") as file:
        file.write(gzip.compress(info.tobuf(tarfile.GNU_FORMAT)))
        for data, times in pieces:
            packed = gzip.compress(data, 1)
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


SHORT = b"".join(b"".join(line_of(n, b"")) for n in range(5000))
RANDOM = os.urandom(500_000).hex().encode()
LIGHT = os.urandom(500).hex().encode() * 1000
BEFORE, BEHIND = line_of(1, b"")
CASES = {
    # name: pieces, rows, rejects, MiB at the peak
    "short records": ([(SHORT, 160)], 800_000, 0, 512),
    "line feeds": ([(b"\n" * 1_000_000, 60)], 0, 0, 512),
    "bad lines of 250 MB": ([(b'{"name":"', 1), (LIGHT, 250), (b"\n", 1)] * 3, 0, 3, 512),
    "bad lines of 1 MB": ([(b"x" + LIGHT + b"\n", 300)], 0, 300, 512),
    "a line of texts alone": ([(b'{"x":[', 1), (b'"",' * 300_000, 60), (b'""]}\n', 1)], 0, 1, 512),
    "records of 60 MB": ([(BEFORE, 1), (RANDOM, 60), (BEHIND, 1)] * 2, 2, 0, 512 + 12 * 64),
    "bad lines of 60 MB": ([("🐿".encode(), 1), (LIGHT, 60), (BEHIND, 1)] * 2, 0, 2, 512 + 12 * 64),
}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the peak is read from /proc")
@pytest.mark.parametrize("case", CASES)
def test_memory_of_a_conversion_is_bounded(tmp_path, case):
    pieces, row_count, reject_count, bound = CASES[case]
    size = archive_of(tmp_path / "a.tar.gz", pieces)
    done = subprocess.run(
        [sys.executable, "-c", CONVERT, tmp_path / "a.tar.gz", tmp_path / "data"],
        check=True,
        capture_output=True,
        cwd=ROOT,
        timeout=300,
    )
    found = json.loads(done.stdout)
    assert (found["rows"], found["rejects"], found["bytes"]) == (row_count, reject_count, size)
    assert found["peak"] < bound << 20, found


def test_no_more_is_made_ahead_of_the_consumer_than_is_allowed():
    ahead = 4
    asked: list[int] = []
    beyond = threading.Event()

    def blocks():
        for number in range(50):
            asked.append(number)
            if len(asked) > ahead + 1:
                beyond.set()
            yield number

    def work(number):
        # the first is slow: whoever did not heed the bound would go on meanwhile
        if number == 0:
            beyond.wait(0.3)
        return number, len(asked)

    with (
        ThreadPoolExecutor(2) as pool,
        Pieces(blocks(), pool, work, ahead) as pieces,
    ):
        made = list(pieces)
    assert [number for number, _ in made] == list(range(50))
    assert made[0][1] <= ahead + 1
