"""The rows of several lake files written again into few, sorted files.

A job is plain data and its result too, so that any engine can run it, in another process as well. It holds no lock and changes nothing
that is there: the files that it writes are read by nobody until the ledger names them.
"""

from __future__ import annotations

from collections import Counter, deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from resources.datasets.paths import PARQUET, name_of
from resources.lake.compaction.sorting import in_order
from resources.lake.errors import LakeError
from resources.lake.parquet.writer import ParquetFile, encode
from resources.tables.compacted import COMPACTED, FILE_ROW

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from datetime import datetime
    from pathlib import Path

    from resources.lake.parquet import footer
    from resources.tables import Table

    #: An hour, project and namespace.
    Part = tuple[datetime, str, int]

#: A row group has as many rows as DuckDB looks at together, so that statistics and Bloom filters pass over all others. Long bodies make
#: it smaller: whoever reads one of them unpacks those beside it as well.
_GROUP_ROWS = 2048
_GROUP_BYTES = 16 << 20
_READ_BYTES = 4 << 20


@dataclass(frozen=True)
class Source:
    """A file to be rewritten.

    Attributes:
        path: Absolute.
        row_count: Rows that it must hold.
        dropped_rows: Places of rows that are left out.
        dropped_parts: Hours, projects and namespaces whose rows are left out.
    """

    path: Path
    row_count: int
    dropped_rows: tuple[int, ...] = ()
    dropped_parts: tuple[Part, ...] = ()


@dataclass(frozen=True)
class CompactionJob:
    """What to rewrite, and how.

    Attributes:
        table_name: Table whose rows they are.
        sources: Files as a conversion or another compaction left them.
        folder: Where the new files go.
        name: What their names begin with.
        digest: Digest (hex) over all that decides their rows.
        file_bytes: Bytes after which another file is begun.
        memory_bytes: What the rows may take in memory.
        level: Of zstd's compression.
        threads: That compress.
    """

    table_name: str
    sources: tuple[Source, ...]
    folder: Path
    name: str
    digest: str
    file_bytes: int
    memory_bytes: int
    level: int
    threads: int


@dataclass(frozen=True)
class CompactedFile:
    """A file that was written: all its rows have a project from `first_project_id` to `last_project_id`."""

    path: Path
    row_count: int
    lake_bytes: int
    first_project_id: str
    last_project_id: str


@dataclass(frozen=True)
class Compaction:
    """What a job made: files, and the rows of each hour, project and namespace in them."""

    files: tuple[CompactedFile, ...]
    row_counts: dict[Part, int]


def _nobody(_count: int) -> None:
    """Progress that nobody wants to hear of."""


def compact(job: CompactionJob, progress: Callable[[int], None] = _nobody) -> Compaction:
    """Rewrite the files of a job; `progress` hears the bytes of each file when it was read.

    Memory is bounded by the job's, whatever the size and number of the files.

    Raises:
        LakeError: A file is gone, damaged or does not hold what the ledger says, or there is no room.
    """
    table = COMPACTED[job.table_name]
    counts: Counter[Part] = Counter()
    read = (batch for source in job.sources for batch in _rows(source, table, counts, progress))
    files: list[CompactedFile] = []
    groups = _groups(in_order(read, _target(job, 0), job.memory_bytes))
    for number, chunk in enumerate(_chunks(_encoded(groups, table, job), job.file_bytes)):
        files.append(_written(job, number, table, chunk))
    compaction = Compaction(tuple(files), dict(counts))
    if sum(file.row_count for file in files) != counts.total():
        raise LakeError(f"The compaction {job.name} wrote other rows than it read; nothing was changed. Report this.")
    return compaction


def _target(job: CompactionJob, number: int) -> Path:
    return job.folder / name_of(f"{job.name}_{number:03}", job.digest, PARQUET)


def _rows(
    source: Source, table: Table, counts: Counter[Part], progress: Callable[[int], None]
) -> Iterator[pa.RecordBatch]:
    """The rows of a file with the columns of compacted files, less those that are left out."""
    try:
        with pq.ParquetFile(source.path, buffer_size=_READ_BYTES) as file:
            if file.metadata.num_rows != source.row_count:
                raise LakeError(
                    f"The lake file {source.path.name} holds {file.metadata.num_rows} rows, and the ledger says {source.row_count}. It was "
                    "not compacted, and nothing was changed. Remove it and convert its archive again."
                )
            start = 0
            for batch in file.iter_batches(_batch_rows(file.metadata)):
                found = _chosen(_of_form(batch, table, start), source)
                start += len(batch)
                if len(found):
                    _count(found, counts)
                    yield found
    except FileNotFoundError as error:
        raise LakeError(
            f"The lake file {source.path.name} is gone, so its hours were not compacted; nothing was changed. Convert its archive again."
        ) from error
    except (OSError, ValueError) as error:
        raise LakeError(
            f"The lake file {source.path.name} cannot be read ({error}), so its hours were not compacted; nothing was changed. Remove it "
            "and convert its archive again."
        ) from error
    progress(source.path.stat().st_size)


def _batch_rows(metadata: pq.FileMetaData) -> int:
    """How many rows of a file to read at once, so that they take no more than some megabytes."""
    size = sum(metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups))
    return max(1, min(_GROUP_ROWS, int(_READ_BYTES * metadata.num_rows // max(1, size))))


def _of_form(batch: pa.RecordBatch, table: Table, start: int) -> pa.RecordBatch:
    """The columns of compacted files; what an older file lacks is null."""
    there = set(batch.schema.names)
    columns = []
    for column in table:
        if column.name in there:
            columns.append(batch.column(column.name))
        elif column is FILE_ROW:
            columns.append(pa.array(range(start, start + len(batch)), column.type))
        else:
            columns.append(pa.nulls(len(batch), column.type))
    return pa.RecordBatch.from_arrays(columns, schema=table.schema)


def _chosen(batch: pa.RecordBatch, source: Source) -> pa.RecordBatch:
    """The rows that are not left out."""
    if source.dropped_rows:
        rows = pa.array(source.dropped_rows, pa.int64())
        batch = batch.filter(pc.invert(pc.is_in(batch.column(FILE_ROW.name), rows)))
    if source.dropped_parts:
        columns = ("batch_hour", "project_id", "namespace_id")
        values = zip(columns, zip(*source.dropped_parts, strict=True), strict=True)
        dropped = _part(*(pa.array(list(some), batch.schema.field(name).type) for name, some in values))
        found = pc.is_in(_part(*(batch.column(name) for name in columns)), dropped)
        batch = batch.filter(pc.invert(found))
    return batch


def _part(hours: pa.Array, projects: pa.Array, namespaces: pa.Array) -> pa.Array:
    """Hour, project and namespace as one text."""
    return pc.binary_join_element_wise(
        pc.cast(hours.cast("int64"), "string"), projects, pc.cast(namespaces, "string"), " "
    )


def _count(batch: pa.RecordBatch, counts: Counter[Part]) -> None:
    keys = ["batch_hour", "project_id", "namespace_id"]
    found = pa.Table.from_batches([batch]).group_by(keys).aggregate([([], "count_all")])
    for row in found.to_pylist():
        counts[row["batch_hour"], row["project_id"], row["namespace_id"]] += row["count_all"]


def _groups(tables: Iterable[pa.Table]) -> Iterator[pa.RecordBatch]:
    """Row groups: as many rows, or bytes, as they may have."""
    waiting: list[pa.Table] = []
    rows = size = 0
    for table in tables:
        start = 0
        for row, row_bytes in enumerate(_row_bytes(table)):
            if rows and (rows == _GROUP_ROWS or size + row_bytes > _GROUP_BYTES):
                yield _joined([*waiting, table.slice(start, row - start)])
                waiting, rows, size, start = [], 0, 0, row
            rows += 1
            size += row_bytes
        waiting.append(table.slice(start))
    if rows:
        yield _joined(waiting)


def _joined(tables: list[pa.Table]) -> pa.RecordBatch:
    return pa.concat_tables(tables).combine_chunks().to_batches()[0]


def _row_bytes(table: pa.Table) -> list[int]:
    """Bytes of each row: of its texts, and as many as all have on average besides."""
    sizes = pa.chunked_array([pa.array([0] * len(table), "int64")])
    texts = 0
    for name in table.schema.names:
        if table.schema.field(name).type == pa.string():
            lengths = pc.fill_null(pc.cast(pc.binary_length(table[name]), "int64"), 0)
            texts += pc.sum(lengths).as_py() or 0
            sizes = pc.add(sizes, lengths)
    rest = max(0, table.nbytes - texts) // max(1, len(table))
    return [size + rest for size in sizes.to_pylist()]


@dataclass(frozen=True)
class _Group:
    """A row group, encoded, with its first and last project."""

    encoded: footer.Group
    first: str
    last: str


def _encoded(groups: Iterable[pa.RecordBatch], table: Table, job: CompactionJob) -> Iterator[_Group]:
    """The row groups, encoded beside one another, in their order."""

    def one(batch: pa.RecordBatch) -> _Group:
        projects = batch.column("project_id")
        return _Group(encode(batch, table, level=job.level), projects[0].as_py(), projects[-1].as_py())

    pool = ThreadPoolExecutor(job.threads, thread_name_prefix="compact")
    try:
        under_way: deque[Future[_Group]] = deque()
        for batch in groups:
            under_way.append(pool.submit(one, batch))
            if len(under_way) > job.threads:
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _chunks(groups: Iterator[_Group], file_bytes: int) -> Iterator[Iterator[_Group]]:
    """The row groups of each file; each is to be read to its end before the next."""
    first = next(groups, None)
    while first is not None:
        rest: list[_Group] = []

        def chunk(group: _Group, rest: list[_Group] = rest) -> Iterator[_Group]:
            size = 0
            found: _Group | None = group
            while found is not None:
                size += sum(len(pages) for pages in found.encoded.pages)
                yield found
                found = next(groups, None)
                if found is not None and size >= file_bytes:
                    rest.append(found)
                    return

        yield chunk(first)
        first = rest[0] if rest else None


def _written(job: CompactionJob, number: int, table: Table, groups: Iterable[_Group]) -> CompactedFile:
    target = _target(job, number)
    projects: list[str] = []
    with ParquetFile(target, table) as file:
        for group in groups:
            file.add(group.encoded)
            projects += group.first, group.last
        file.finish({"compaction": job.digest})
        return CompactedFile(target, file.row_count, target.stat().st_size, projects[0], projects[-1])
