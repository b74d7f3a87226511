"""What the machine allows: gunzip, parse and write each measured alone, on all cores, then added up.

Belongs here: the three parts that no converter of this kind can do without. Does not belong here: a converter.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.json as pj
import pyarrow.parquet as pq
from isal import igzip

from benchmarks.workload import HOUR
from resources.lake import Archive
from resources.lake.archive import BLOCK_BYTES, Block, Buffers, read_blocks
from resources.lake.files import ROW_GROUP_BYTES
from resources.lake.records import RecordReader
from resources.lake.shape import shape_of
from resources.tables import ARTICLE_CHANGES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from benchmarks.workload import Workload

#: Enough for steady figures, little enough to hold in memory.
_SAMPLE_BYTES = 128 << 20
_ROUNDS = 2


def bound_mb_s(workload: Workload, folder: Path, cores: int, level: int) -> float:
    """MB of NDJSON a second that `cores` cores could convert if they did nothing but the three parts."""
    blocks = _blocks(workload)
    archive = Archive(workload.archive, "archive", "0" * 32, HOUR, workload.project_id, 0)
    reader = RecordReader(ARTICLE_CHANGES, archive, frozenset({"html", "wikitext"}))
    sizes = [len(block) for block in blocks]
    rows = [reader.read(memoryview(block), "", 1, 0, block.count(b"\n")).batch for block in blocks]
    groups: list[list[pa.RecordBatch]] = [[]]
    size = 0
    for batch in rows:
        if size >= ROW_GROUP_BYTES:
            groups.append([])
            size = 0
        groups[-1].append(batch)
        size += batch.nbytes
    tables = [pa.Table.from_batches(group) for group in groups]

    def gunzip(_core: int) -> None:
        scratch = memoryview(bytearray(BLOCK_BYTES))
        with workload.archive.open("rb") as file, igzip.IGzipFile(fileobj=file) as unzipped:  # type: ignore[no-untyped-call]
            while unzipped.readinto(scratch):
                pass

    def parse(block: bytes) -> None:
        options = pj.ReadOptions(use_threads=False, block_size=len(block) + 1)
        wanted = pj.ParseOptions(explicit_schema=shape_of(ARTICLE_CHANGES).schema, unexpected_field_behavior="ignore")
        pj.read_json(pa.BufferReader(block), read_options=options, parse_options=wanted)

    narrow = [column.name for column in ARTICLE_CHANGES if not column.body]

    def write(item: tuple[int, pa.Table]) -> None:
        number, table = item
        path = folder / f"bound-{number}.parquet"
        pq.write_table(
            table,
            path,
            row_group_size=len(table),
            compression="zstd",
            compression_level=level,
            use_dictionary=narrow,
            write_statistics=narrow,
        )
        path.unlink()

    total = sum(sizes) / 1e6
    speeds = (
        workload.megabytes * cores / _seconds(gunzip, range(cores), cores),
        total / _seconds(parse, blocks, cores),
        total / _seconds(write, list(enumerate(tables)), cores),
    )
    return 1 / sum(1 / speed for speed in speeds)


def _blocks(workload: Workload) -> list[bytes]:
    buffers = Buffers(1, BLOCK_BYTES)
    found: list[bytes] = []
    for block in read_blocks(workload.archive, buffers):
        found.append(_taken(block))
        if sum(map(len, found)) >= _SAMPLE_BYTES:
            break
    return found


def _taken(block: Block) -> bytes:
    data = bytes(block.view)
    block.release()
    return data


def _seconds(function: Callable[[Any], None], items: Iterable[Any], cores: int) -> float:
    """The shortest time that `cores` threads need for all items."""
    items = list(items)

    def once(pool: ThreadPoolExecutor) -> float:
        started = time.perf_counter()
        list(pool.map(function, items))
        return time.perf_counter() - started

    with ThreadPoolExecutor(cores) as pool:
        return min(once(pool) for _ in range(_ROUNDS))
