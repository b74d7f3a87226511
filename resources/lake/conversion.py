"""One archive becomes one Parquet file, and a second one of its rejects where there are any.

Belongs here: the threads, the memory, the count of rows in against rows out, and what is told of a conversion.
Does not belong here: reading tars (archive), reading records (records), writing Parquet (files).

Whoever calls `Converter.convert` gunzips and cuts blocks, and puts row groups into the file as they are done, in the order
of the archive. The converter's workers make row groups of blocks: parse, encode, compress. All of that happens in native
code, beside one another. One archive is read by one thread, and its blocks keep all workers busy; many small archives are
converted by calling from several threads, and share the same workers and the same memory.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections import Counter, deque
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, nullcontext
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from resources.lake.archive import BLOCK_BYTES, Archive, Block, Buffers, SnapshotArchive, read_blocks
from resources.lake.drift import Drift, DriftCount
from resources.lake.errors import ConversionError, LakeError
from resources.lake.files import COMPRESSION_LEVEL, ParquetFile, encode
from resources.lake.native import trim
from resources.lake.records import RecordReader, Reject
from resources.tables import ARTICLE_CHANGES, REJECTS, SCHEMA_VERSION, ChangeType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime
    from pathlib import Path

    from resources.lake.footer import Group
    from resources.lake.layout import Layout

#: Raised by one whenever the same archive would give other rows: part of every file's digest, so that files made by an
#: older converter are made again.
CONVERTER_VERSION = 2
#: Bodies that a conversion can keep.
BODIES = frozenset(column.name for column in ARTICLE_CHANGES if column.body)
MEMORY_BYTES = 512 << 20

_METADATA_KEY = "conversion"
#: The interpreter with its libraries, as measured.
_BASE_BYTES = 80 << 20
#: What a worker takes, as measured: a block, its rows, their largest column as a page before and after compression, the
#: row group made of them, and one that waits for its turn.
_WORKER_BYTES = 7 * BLOCK_BYTES


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


def digest_of(archive: Archive, bodies: frozenset[str] = BODIES) -> str:
    """Digest (hex) over all that decides the rows: the archive, the schema, the converter, the bodies kept."""
    parts = [archive.identifier, archive.version, SCHEMA_VERSION, CONVERTER_VERSION, sorted(bodies)]
    if isinstance(archive, SnapshotArchive):
        parts.append(archive.snapshot_version)
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


class Converter:
    """Threads and memory that any number of conversions share. Its methods may be called from several threads at once.

    Leaving the context ends the threads.

    Args:
        workers: Threads that make row groups. Default: as many as there are cores, as far as the memory allows.
        memory_bytes: Bound for the whole process, where it does nothing else.
        level: zstd level.

    Raises:
        ConversionError: The memory is too little for so many workers.
    """

    def __init__(
        self, *, workers: int | None = None, memory_bytes: int = MEMORY_BYTES, level: int = COMPRESSION_LEVEL
    ) -> None:
        spare = memory_bytes - _BASE_BYTES - BLOCK_BYTES
        wanted = max(1, min(_cores(), spare // _WORKER_BYTES)) if workers is None else workers
        if wanted * _WORKER_BYTES > spare:
            least = _BASE_BYTES + BLOCK_BYTES + wanted * _WORKER_BYTES
            raise ConversionError(
                f"{memory_bytes >> 20} MB are too little for {wanted} workers. Allow at least {least >> 20} MB, or fewer "
                "workers. Nothing was converted."
            )
        self.workers = wanted
        self._level = level
        self._buffers = Buffers(wanted + 1, BLOCK_BYTES)
        self._pool = ThreadPoolExecutor(wanted, thread_name_prefix="lake")
        self._alone = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._pool.shutdown()
        trim()

    def convert(
        self,
        archive: Archive,
        layout: Layout,
        *,
        bodies: frozenset[str] = BODIES,
        progress: Callable[[int, int], None] | None = None,
    ) -> Conversion:
        """Convert one archive of article records into the lake.

        Args:
            archive: The archive on disk and what it must hold.
            layout: Where the lake lies.
            bodies: Body columns to keep; the others stay null.
            progress: Called with bytes of the archive that are converted, and all of them.

        Returns:
            What was made; `converted` is False if the very same conversion was there before.

        Raises:
            ArchiveError: The archive is damaged, cut off, empty or holds no records. Nothing was landed.
            LakeError: The archive is not there, or the files could not be written (DiskFull among the reasons). Nothing
                was landed.
            ConversionError: Settings that cannot be met, or rows do not add up. Nothing was landed.
        """
        if unknown := bodies - BODIES:
            raise ConversionError(
                f"Unknown bodies: {', '.join(sorted(unknown))}. Known are {', '.join(sorted(BODIES))}."
            )
        started = time.perf_counter()
        digest = digest_of(archive, bodies)
        target, rejects_target = _targets(archive, layout, digest)
        if (known := _found(archive, target, rejects_target)) is not None:
            return known
        archive_bytes = _size_of(archive.path)
        tally = _Tally()
        with ExitStack() as stack:
            rows_file = stack.enter_context(ParquetFile(target, archive.table))
            rejects_file: ParquetFile | None = None
            work = _Work(
                RecordReader(archive.table, archive, bodies), _name_of(archive, layout), self._level, self._alone
            )
            for piece in stack.enter_context(_Pieces(archive.path, self._buffers, self._pool, work, 2 * self.workers)):
                tally.add(piece)
                if piece.rows is not None:
                    rows_file.write(piece.rows)
                if piece.rejects is not None:
                    if rejects_file is None:
                        rejects_file = stack.enter_context(ParquetFile(rejects_target, REJECTS))
                    rejects_file.write(piece.rejects)
                if progress is not None:
                    progress(piece.archive_bytes, archive_bytes)
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
    """Convert one archive by a converter of its own. See `Converter` for the arguments, the result and the errors."""
    with Converter(workers=workers, memory_bytes=memory_bytes, level=level) as converter:
        return converter.convert(archive, layout, bodies=bodies, progress=progress)


def find_conversion(archive: Archive, layout: Layout, bodies: frozenset[str] = BODIES) -> Conversion | None:
    """What was made of the archive before, told by the file's own metadata; None if it was not converted like this."""
    return _found(archive, *_targets(archive, layout, digest_of(archive, bodies)))


def _found(archive: Archive, target: Path, rejects_target: Path) -> Conversion | None:
    if not target.exists():
        return None
    facts = json.loads(pq.read_metadata(target).metadata[_METADATA_KEY.encode()])
    if facts["reject_count"] and not rejects_target.exists():
        return None  # somebody removed them: the rows alone cannot be loaded
    return _conversion(facts, archive, target, rejects_target, seconds=None)


def _targets(archive: Archive, layout: Layout, digest: str) -> tuple[Path, Path]:
    """The files of the rows and of the rejects."""
    return archive.lake_file(layout, archive.table.name, digest), archive.lake_file(layout, REJECTS.name, digest)


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


@dataclass(frozen=True)
class _Piece:
    """What came of one block: its row groups, and what there is to count."""

    rows: Group | None
    rejects: Group | None
    line_count: int
    reject_count: int
    changes: Counter[str]
    drift: list[Drift]
    byte_count: int
    archive_bytes: int


@dataclass(frozen=True)
class _Work:
    """What a worker does with a block. Blocks that had to grow for a long line are worked on one after another."""

    reader: RecordReader
    archive_name: str
    level: int
    alone: threading.Lock

    def __call__(self, block: Block) -> _Piece:
        with self.alone if block.byte_count > BLOCK_BYTES else nullcontext():
            return self._convert(block)

    def _convert(self, block: Block) -> _Piece:
        try:
            rows = self.reader.read(block.view, block.member, block.first_line, block.offset, block.line_count)
        finally:
            block.release()
        counts = pc.value_counts(rows.batch.column("change_type"))
        return _Piece(
            rows=encode(rows.batch, self.reader.table, level=self.level) if len(rows.batch) else None,
            rejects=encode(self._reject_rows(rows.rejects), REJECTS) if rows.rejects else None,
            line_count=rows.line_count,
            reject_count=len(rows.rejects),
            changes=Counter({entry["values"]: entry["counts"] for entry in counts.to_pylist()}),
            drift=rows.drift,
            byte_count=block.byte_count,
            archive_bytes=block.archive_bytes,
        )

    def _reject_rows(self, rejects: list[Reject]) -> pa.RecordBatch:
        archive = self.reader.archive
        same = {
            "batch_hour": archive.batch_hour,
            "project_id": archive.project_id,
            "namespace_id": archive.namespace_id,
            "archive": self.archive_name,
        }
        return pa.RecordBatch.from_pylist([{**same, **asdict(reject)} for reject in rejects], schema=REJECTS.schema)


@dataclass
class _Pieces:
    """The pieces of every block of an archive, in its order, made ahead of the consumer, `ahead` at most.

    Leaving the context waits for what is under way, and gives every buffer back.
    """

    path: Path
    buffers: Buffers
    pool: ThreadPoolExecutor
    work: _Work
    ahead: int
    _waiting: deque[tuple[Block, Future[_Piece]]] = field(default_factory=deque)

    def __enter__(self) -> Iterator[_Piece]:
        return self._pieces()

    def __exit__(self, *_exception: object) -> None:
        for block, future in self._waiting:
            if future.cancel():
                block.release()
        wait([future for _, future in self._waiting])

    def _pieces(self) -> Iterator[_Piece]:
        for block in read_blocks(self.path, self.buffers):
            self._waiting.append((block, self.pool.submit(self.work, block)))
            while self._waiting and (len(self._waiting) > self.ahead or self._waiting[0][1].done()):
                yield self._next()
        while self._waiting:
            yield self._next()

    def _next(self) -> _Piece:
        piece = self._waiting[0][1].result()
        self._waiting.popleft()
        return piece


class _Tally:
    """The sums over all blocks of an archive."""

    def __init__(self) -> None:
        self.line_count = 0
        self.reject_count = 0
        self._ndjson_bytes = 0
        self._changes: Counter[str] = Counter()
        self._drift = DriftCount()

    def add(self, piece: _Piece) -> None:
        """Count one block."""
        self.line_count += piece.line_count
        self.reject_count += piece.reject_count
        self._ndjson_bytes += piece.byte_count
        self._changes += piece.changes
        self._drift.merge(piece.drift)

    def facts(self) -> dict[str, Any]:
        """The sums as they stand in the file's metadata."""
        return {
            "reject_count": self.reject_count,
            "update_count": self._changes[ChangeType.UPDATE],
            "delete_count": self._changes[ChangeType.DELETE],
            "visibility_change_count": self._changes[ChangeType.VISIBILITY_CHANGE],
            "ndjson_bytes": self._ndjson_bytes,
            "drift": [asdict(drift) for drift in self._drift.result()],
        }


def _name_of(archive: Archive, layout: Layout) -> str:
    """The archive as the rejects name it: its place in the data folder."""
    try:
        return archive.path.relative_to(layout.archive).as_posix()
    except ValueError:  # an archive that was handed over from elsewhere
        return archive.path.name


def _cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError as error:
        raise LakeError(
            f"The archive {path} is not there. Nothing was converted; fetch the batches of its hour first."
        ) from error
