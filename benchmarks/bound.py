"""What the machine allows: gunzip, parse and write each measured alone, on all cores, then added up.

Belongs here: the three parts that no converter of this kind can do without. Does not belong here: a converter.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.json as pj
from isal import igzip

from benchmarks import ours
from resources.tables import ARTICLE_CHANGES

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.contenders import Job

#: Enough for steady figures, little enough to hold in memory.
_SAMPLE_BYTES = 128 << 20
_READ_BYTES = 1 << 20
_ROUNDS = 3


@dataclass(frozen=True)
class Bound:
    """MB of NDJSON a second: of each part on one core while all cores do the same, and what all cores could convert.

    `bound_mb_s` is cores / (1/gunzip + 1/parse + 1/write) with our own parser, `bound_pyarrow_mb_s` the same with pyarrow's.
    `bound_cpu_s` is the processor time of the three (our parser) for the whole archive, which other work on the machine
    changes little.
    """

    gunzip_mb_s: float
    parse_mb_s: float
    parse_pyarrow_mb_s: float
    write_mb_s: float
    bound_mb_s: float
    bound_pyarrow_mb_s: float
    bound_cpu_s: float


def bound(job: Job) -> Bound:
    """Measure the parts on the first archive of the job, the best of a few rounds each."""
    blocks: list[bytes] = []
    for block in ours.blocks(job.workload):
        blocks.append(block)
        if sum(map(len, blocks)) >= _SAMPLE_BYTES:
            break
    size = sum(map(len, blocks)) / 1e6
    reader = ours.reader(job.workload)

    def rows(block: bytes) -> pa.RecordBatch:
        return reader.read(memoryview(block), "", 1, 0, block.count(b"\n")).batch

    def gunzip() -> None:
        scratch = memoryview(bytearray(_READ_BYTES))
        with job.workload.archives[0].open("rb") as file, igzip.IGzipFile(fileobj=file) as unzipped:  # type: ignore[no-untyped-call]
            while unzipped.readinto(scratch):
                pass

    def parse() -> None:
        for block in blocks:
            rows(block)

    def parse_pyarrow() -> None:
        for block in blocks:
            options = pj.ReadOptions(use_threads=False, block_size=len(block) + 1)
            wanted = pj.ParseOptions(explicit_schema=ours.RECORD_SCHEMA, unexpected_field_behavior="ignore")
            pj.read_json(pa.BufferReader(block), read_options=options, parse_options=wanted)

    gunzipped = _times(gunzip, job.cores)
    parsed = _times(parse, job.cores)
    parsed_by_pyarrow = _times(parse_pyarrow, job.cores)
    # Only now, since the rows of all blocks would keep memory from being used again in the rounds above.
    batches = [rows(block) for block in blocks]
    one_at_a_time = threading.Lock()
    with ours.ParquetFile(job.folder / "bound.parquet", ARTICLE_CHANGES) as file:  # never landed, so it goes away

        def write() -> None:
            for batch in batches:
                group = ours.encode(batch, ARTICLE_CHANGES, level=job.level)
                with one_at_a_time:
                    file.add(group)

        written = _times(write, job.cores)

    whole = job.workload.megabytes

    def together(parse_seconds: float) -> float:
        return job.cores / (gunzipped.wall / whole + parse_seconds / size + written.wall / size)

    return Bound(
        gunzip_mb_s=whole / gunzipped.wall,
        parse_mb_s=size / parsed.wall,
        parse_pyarrow_mb_s=size / parsed_by_pyarrow.wall,
        write_mb_s=size / written.wall,
        bound_mb_s=together(parsed.wall),
        bound_pyarrow_mb_s=together(parsed_by_pyarrow.wall),
        bound_cpu_s=gunzipped.busy + (parsed.busy + written.busy) * whole / size,
    )


class _Times(NamedTuple):
    wall: float
    busy: float


def _times(work: Callable[[], None], cores: int) -> _Times:
    """The shortest time in which each of `cores` threads does the whole of `work`, and the least that one is busy."""

    def once(pool: ThreadPoolExecutor) -> _Times:
        started, busy = time.perf_counter(), time.process_time()
        for done in [pool.submit(work) for _ in range(cores)]:
            done.result()
        return _Times(time.perf_counter() - started, (time.process_time() - busy) / cores)

    with ThreadPoolExecutor(cores) as pool:
        return _Times(*map(min, zip(*(once(pool) for _ in range(_ROUNDS)), strict=True)))
