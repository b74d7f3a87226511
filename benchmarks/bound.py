"""What the machine allows: gunzip, parse and write each measured alone, on all cores, then added up.

Belongs here: the three parts that no converter of this kind can do without. Does not belong here: a converter.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.json as pj
from isal import igzip

from benchmarks import ours
from resources.tables import ARTICLE_CHANGES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from benchmarks.contenders import Job

#: Enough for steady figures, little enough to hold in memory.
_SAMPLE_BYTES = 192 << 20
_ROUNDS = 3


@dataclass(frozen=True)
class Bound:
    """MB of NDJSON a second: of each part on one core while all cores do the same, and what all cores could convert.

    `bound_mb_s` is cores / (1/gunzip + 1/parse + 1/write) with our own parser, `bound_pyarrow_mb_s` the same with pyarrow's.
    """

    gunzip_mb_s: float
    parse_mb_s: float
    parse_pyarrow_mb_s: float
    write_mb_s: float
    bound_mb_s: float
    bound_pyarrow_mb_s: float


def bound(job: Job) -> Bound:
    """Measure the parts on the first archive of the job, the best of a few rounds each."""
    blocks: list[bytes] = []
    for block in ours.blocks(job.workload):
        blocks.append(block)
        if sum(map(len, blocks)) >= _SAMPLE_BYTES:
            break
    reader = ours.reader(job.workload)

    def gunzip(_core: int) -> None:
        scratch = memoryview(bytearray(ours.BLOCK_BYTES))
        with job.workload.archives[0].open("rb") as file, igzip.IGzipFile(fileobj=file) as unzipped:  # type: ignore[no-untyped-call]
            while unzipped.readinto(scratch):
                pass

    def parse(block: bytes) -> pa.RecordBatch:
        return reader.read(memoryview(block), "", 1, 0, block.count(b"\n")).batch

    def parse_pyarrow(block: bytes) -> None:
        options = pj.ReadOptions(use_threads=False, block_size=len(block) + 1)
        wanted = pj.ParseOptions(explicit_schema=ours.RECORD_SCHEMA, unexpected_field_behavior="ignore")
        pj.read_json(pa.BufferReader(block), read_options=options, parse_options=wanted)

    batches = [parse(block) for block in blocks]
    total = sum(map(len, blocks)) / 1e6 / job.cores
    gunzip_mb_s = job.workload.megabytes / _seconds(gunzip, range(job.cores), job.cores)
    parse_mb_s = total / _seconds(lambda block: parse(block) and None, blocks, job.cores)
    parse_pyarrow_mb_s = total / _seconds(parse_pyarrow, blocks, job.cores)
    one_at_a_time = threading.Lock()
    with ours.ParquetFile(job.folder / "bound.parquet", ARTICLE_CHANGES) as file:  # never landed, so it goes away

        def write(batch: pa.RecordBatch) -> None:
            group = ours.encode(batch, ARTICLE_CHANGES, level=job.level)
            with one_at_a_time:
                file.write(group)

        write_mb_s = total / _seconds(write, batches, job.cores)

    def together(parse: float) -> float:
        return job.cores / (1 / gunzip_mb_s + 1 / parse + 1 / write_mb_s)

    return Bound(
        gunzip_mb_s, parse_mb_s, parse_pyarrow_mb_s, write_mb_s, together(parse_mb_s), together(parse_pyarrow_mb_s)
    )


def _seconds(function: Callable[[Any], None], items: Iterable[Any], cores: int) -> float:
    """The shortest time that `cores` threads need for all items."""
    items = list(items)

    def once(pool: ThreadPoolExecutor) -> float:
        started = time.perf_counter()
        for _ in pool.map(function, items):
            pass
        return time.perf_counter() - started

    with ThreadPoolExecutor(cores) as pool:
        return min(once(pool) for _ in range(_ROUNDS))
