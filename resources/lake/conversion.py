"""One archive becomes one Parquet file, and a second one of its rejects where there are any.

Belongs here: the pipeline of threads, the count of rows in against rows out, and what is told of a conversion.
Does not belong here: reading tars (archive), reading records (records), writing Parquet (files).

Three kinds of threads work beside one another, since all of them leave the interpreter to native code: one gunzips and
cuts blocks, `workers` parse them, the caller's own writes row groups in the order of the archive.
"""

from __future__ import annotations

import hashlib
import json
import os
import queue
import threading
import time
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from resources.lake.archive import BLOCK_BYTES, Archive, Block, Buffers, Closed, read_blocks
from resources.lake.errors import ConversionError, LakeError
from resources.lake.files import COMPRESSION_LEVEL, ROW_GROUP_BYTES, ParquetFile
from resources.lake.records import Drift, RecordReader, Reject, Rows
from resources.tables import ARTICLE_CHANGES, REJECTS, SCHEMA_VERSION, ChangeType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime
    from pathlib import Path

    from resources.lake.layout import Layout

#: Raised by one whenever the same archive would give other rows: part of every file's digest, so that files made by an
#: older converter are made again.
CONVERTER_VERSION = 1
#: Bodies that a conversion can keep.
BODIES = frozenset(column.name for column in ARTICLE_CHANGES if column.body)
MEMORY_BYTES = 512 << 20

_METADATA_KEY = "conversion"
#: The interpreter with its libraries, and what the Parquet writer holds beside the rows.
_BASE_BYTES = 176 << 20


@dataclass(frozen=True)
class Conversion:
    """What a conversion made. Counts are of records; `drift` names the fields that went to `extra`.

    `seconds` is 0 and `converted` False where the file was there already.
    """

    identifier: str
    version: str
    batch_hour: datetime
    project_id: str
    namespace_id: int
    digest: str
    path: Path
    rejects_path: Path | None
    row_count: int
    reject_count: int
    update_count: int
    delete_count: int
    visibility_change_count: int
    archive_bytes: int
    ndjson_bytes: int
    lake_bytes: int
    seconds: float
    converted: bool
    drift: tuple[Drift, ...] = ()


def parsers_for(cores: int) -> int:
    """Threads to parse with on so many cores: writing keeps one of them busy, and a thread too many only holds it up.

    On two cores one parser is a tenth faster than two, and needs 40 MB less.
    """
    return max(1, cores - 1)


def digest_of(archive: Archive, bodies: frozenset[str] = BODIES) -> str:
    """Digest (hex) over all that decides the rows: the archive, the schema, the converter, the bodies kept."""
    parts = (archive.identifier, archive.version, SCHEMA_VERSION, CONVERTER_VERSION, sorted(bodies))
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def convert(
    archive: Archive,
    layout: Layout,
    *,
    bodies: frozenset[str] = BODIES,
    workers: int | None = None,
    memory_bytes: int = MEMORY_BYTES,
    level: int = COMPRESSION_LEVEL,
    progress: Callable[[int, int], None] | None = None,
) -> Conversion:
    """Convert one archive of article records into the lake.

    Args:
        archive: The archive on disk and what it must hold.
        layout: Where the lake lies.
        bodies: Body columns to keep; the others stay null.
        workers: Threads that parse, beside the one that gunzips and the caller's own, which writes. Default: what this
            machine's cores leave beside the writer.
        memory_bytes: Bound for the whole process. Lines of many megabytes may pass it by a few times their length.
        level: zstd level.
        progress: Called with the bytes of the archive read so far and its size.

    Returns:
        What was made; read from the file's metadata where a file of the same digest is there already.

    Raises:
        ArchiveError: The archive is damaged, cut off, empty or holds no records. Nothing was landed.
        LakeError: The archive is not there, or the files could not be written (DiskFull among the reasons). Nothing was
            landed.
        ConversionError: Settings that cannot be met, or rows do not add up. Nothing was landed.
    """
    if unknown := bodies - BODIES:
        raise ConversionError(f"Unknown bodies: {', '.join(sorted(unknown))}. Known are {', '.join(sorted(BODIES))}.")
    digest = digest_of(archive, bodies)
    target = layout.lake_file(ARTICLE_CHANGES.name, archive.batch_hour, archive.identifier, digest)
    rejects_target = layout.lake_file(REJECTS.name, archive.batch_hour, archive.identifier, digest)
    if target.exists():
        return read_conversion(target, rejects_target, archive)
    workers = parsers_for(os.cpu_count() or 1) if workers is None else workers
    slots = _slots(workers, memory_bytes)
    started = time.perf_counter()
    archive_bytes = _size_of(archive.path)
    reader = RecordReader(ARTICLE_CHANGES, archive, bodies)
    tally = _Tally()
    with ExitStack() as stack:
        rows_file = stack.enter_context(ParquetFile(target, ARTICLE_CHANGES, level=level))
        rejects_file: ParquetFile | None = None
        blocks = stack.enter_context(_RowsInOrder(archive.path, reader, workers, slots))
        for block, rows in blocks:
            tally.add(block, rows)
            rows_file.write(rows.batch)
            if rows.rejects:
                if rejects_file is None:
                    rejects_file = stack.enter_context(ParquetFile(rejects_target, REJECTS))
                rejects_file.write(_reject_rows(archive, layout, rows.rejects))
            if progress is not None:
                progress(block.archive_bytes, archive_bytes)
        if tally.line_count != rows_file.row_count + tally.reject_count:
            raise ConversionError(
                f"{archive.path.name} holds {tally.line_count:,} lines, but {rows_file.row_count:,} rows and "
                f"{tally.reject_count:,} rejects came of them. Nothing was landed. This is a defect: keep the archive."
            )
        facts = {
            "identifier": archive.identifier,
            "version": archive.version,
            "batch_hour": archive.batch_hour.isoformat(),
            "project_id": archive.project_id,
            "namespace_id": archive.namespace_id,
            "schema_version": SCHEMA_VERSION,
            "converter_version": CONVERTER_VERSION,
            "bodies": sorted(bodies),
            "digest": digest,
            "archive_bytes": archive_bytes,
            "row_count": rows_file.row_count,
            **tally.facts(),
        }
        # The rejects land first: whoever sees the rows can rely on their rejects being there.
        if rejects_file is not None:
            rejects_file.land({_METADATA_KEY: json.dumps(facts)})
        rows_file.land({_METADATA_KEY: json.dumps(facts)})
    return _conversion(facts, archive, target, rejects_target, seconds=time.perf_counter() - started)


def read_conversion(target: Path, rejects_target: Path, archive: Archive) -> Conversion:
    """What was made when `target` was written, from its own metadata."""
    metadata = pq.read_metadata(target).metadata
    return _conversion(json.loads(metadata[_METADATA_KEY.encode()]), archive, target, rejects_target, seconds=None)


def _conversion(
    facts: dict[str, Any], archive: Archive, target: Path, rejects_target: Path, seconds: float | None
) -> Conversion:
    counts = {name: facts[name] for name in facts if name.endswith("_count")}
    return Conversion(
        identifier=archive.identifier,
        version=archive.version,
        batch_hour=archive.batch_hour,
        project_id=archive.project_id,
        namespace_id=archive.namespace_id,
        digest=facts["digest"],
        path=target,
        rejects_path=rejects_target if facts["reject_count"] else None,
        **counts,
        archive_bytes=facts["archive_bytes"],
        ndjson_bytes=facts["ndjson_bytes"],
        lake_bytes=target.stat().st_size,
        seconds=seconds or 0.0,
        converted=seconds is not None,
        drift=tuple(Drift(**item) for item in facts["drift"]),
    )


class _Tally:
    """The sums over all blocks of an archive."""

    def __init__(self) -> None:
        self.line_count = 0
        self.reject_count = 0
        self._ndjson_bytes = 0
        self._changes: Counter[str] = Counter()
        self._drift: dict[str, Drift] = {}

    def add(self, block: Block, rows: Rows) -> None:
        """Count one block."""
        self.line_count += rows.line_count
        self.reject_count += len(rows.rejects)
        self._ndjson_bytes += block.byte_count
        for entry in pc.value_counts(rows.batch.column("change_type")).to_pylist():
            self._changes[entry["values"]] += entry["counts"]
        for path, seen in rows.drift.items():
            known = self._drift.get(path)
            self._drift[path] = seen if known is None else Drift(path, known.count + seen.count, known.example)

    def facts(self) -> dict[str, Any]:
        """The sums as they stand in the file's metadata."""
        return {
            "reject_count": self.reject_count,
            "update_count": self._changes[ChangeType.UPDATE],
            "delete_count": self._changes[ChangeType.DELETE],
            "visibility_change_count": self._changes[ChangeType.VISIBILITY_CHANGE],
            "ndjson_bytes": self._ndjson_bytes,
            "drift": [asdict(self._drift[path]) for path in sorted(self._drift)],
        }


def _reject_rows(archive: Archive, layout: Layout, rejects: list[Reject]) -> pa.RecordBatch:
    try:
        name = archive.path.relative_to(layout.archive).as_posix()
    except ValueError:  # an archive that was handed over from elsewhere
        name = archive.path.name
    same = {
        "batch_hour": archive.batch_hour,
        "project_id": archive.project_id,
        "namespace_id": archive.namespace_id,
        "archive": name,
    }
    return pa.RecordBatch.from_pylist([{**same, **asdict(reject)} for reject in rejects], schema=REJECTS.schema)


def _size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError as error:
        raise LakeError(
            f"The archive {path} is not there. Nothing was converted; fetch the batches of its hour first."
        ) from error


def _slots(workers: int, memory_bytes: int) -> int:
    """How many blocks may be read or parsed ahead of the writer within the memory allowed."""
    # Beside them stand two row groups (one fills, one is written), and for each worker its buffer and what it parses.
    slots = (memory_bytes - _BASE_BYTES - 2 * ROW_GROUP_BYTES) // BLOCK_BYTES - 2 * workers
    if slots < workers:
        least = _BASE_BYTES + 2 * ROW_GROUP_BYTES + 3 * workers * BLOCK_BYTES
        raise ConversionError(
            f"{memory_bytes >> 20} MB are too little for {workers} workers. Allow at least {least >> 20} MB, or fewer "
            "workers. Nothing was converted."
        )
    # What is parsed further ahead than the next row group is written at the end by one core alone, the others idle.
    return min(slots, ROW_GROUP_BYTES // BLOCK_BYTES + 2 * workers)


class _RowsInOrder:
    """The rows of every block, in the order of the archive, read and parsed ahead of the consumer.

    A reader thread waits for a slot, cuts a block and hands it to the pool; the slot is free again when the consumer
    has come back for the next rows. Leaving the context stops all threads.
    """

    def __init__(self, path: Path, reader: RecordReader, workers: int, slots: int) -> None:
        self._path = path
        self._reader = reader
        self._free = threading.Semaphore(slots)
        self._stopped = threading.Event()
        self._buffers = Buffers(workers + 1, BLOCK_BYTES)
        self._ready: queue.SimpleQueue[tuple[Block, Future[Rows]] | BaseException | None] = queue.SimpleQueue()
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="lake-parse")
        self._thread = threading.Thread(target=self._read, name="lake-gunzip", daemon=True)

    def __enter__(self) -> Iterator[tuple[Block, Rows]]:
        self._thread.start()
        return self._drain()

    def __exit__(self, *_exception: object) -> None:
        self._stopped.set()
        self._free.release()
        self._buffers.close()
        self._thread.join()
        self._pool.shutdown(cancel_futures=True)

    def _read(self) -> None:
        try:
            with closing(read_blocks(self._path, self._buffers)) as blocks:
                for block in blocks:
                    self._free.acquire()
                    if self._stopped.is_set():
                        return
                    self._ready.put((block, self._pool.submit(self._parse, block)))
            self._ready.put(None)
        except Closed:
            pass
        except BaseException as error:  # noqa: BLE001  handed to the consumer, who raises it
            self._ready.put(error)

    def _parse(self, block: Block) -> Rows:
        try:
            return self._reader.read(block.view, block.member, block.first_line, block.offset, block.line_count)
        finally:
            block.release()

    def _drain(self) -> Iterator[tuple[Block, Rows]]:
        while (item := self._ready.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            block, future = item
            yield block, future.result()
            self._free.release()
