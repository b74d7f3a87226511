"""Compaction of several lake files into a few sorted files.

A job and its result are plain data with paths relative to the lake. Any engine can therefore run the job, even on
another machine. A job holds no lock and does not change existing files. The new files are not read until the ledger
lists them.
"""

import itertools
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from resources.datasets import named
from resources.datasets.paths import PARQUET, ROWS, name_of, with_bodies
from resources.errors import clause
from resources.files import UnusableFileError, within
from resources.lake.archives import Layout
from resources.lake.errors import DamagedFileError, LakeError
from resources.lake.parquet import footer
from resources.lake.parquet.sorting import GROUP_ROWS, in_order, joined, row_groups
from resources.lake.parquet.writer import ParquetFile, encode
from resources.lake_files import APART, COMPACTED, FILE_ROW, CompactedFile, CompactionSource
from resources.storage import UNREADABLE, Storage, is_damage, rows_at_once
from resources.tables import Table

#: Values of the columns that an archive determines (`Dataset.given`): project and namespace, with either an hour or a
#: snapshot version.
Part = tuple[Any, ...]

#: Maximum number of row groups without bodies to merge into one, and the maximum size of the merged group. Fewer row
#: groups keep the footer short, because the footer describes a hundred columns per row group.
_TOGETHER = 16
_TOGETHER_BYTES = 32 << 20
_READ_BYTES = 4 << 20


@dataclass(frozen=True)
class CompactionJob:
    """Compaction options and the files to compact, each written by a conversion or an earlier compaction.

    `name` is the prefix of the new files' names. The hexadecimal `digest` covers all inputs that affect the rows. A
    file ends after `file_bytes`, and a row group after `group_bytes` uncompressed bytes. `memory_bytes` limits the
    memory for rows. `level` is the zstd level.
    """

    table_name: str
    sources: tuple[CompactionSource, ...]
    name: str
    digest: str
    file_bytes: int
    group_bytes: int
    memory_bytes: int
    level: int
    threads: int


#: Files written by a job, and their row count per part.
Compaction = tuple[tuple[CompactedFile, ...], dict[Part, int]]


def compact(job: CompactionJob, layout: Layout, progress: Callable[[int], None] = lambda _count: None) -> Compaction:
    """Compact a job's files.

    `progress` is called with the size of each file after the file has been read. The job's `memory_bytes` limits the
    memory, regardless of the files' size and number. Raises LakeError if a file is missing or damaged or contradicts
    the ledger, or if the disk is full.
    """
    table = COMPACTED[job.table_name]
    counts: Counter[Part] = Counter()
    folder = layout.compacted_folder(job.table_name)
    read = (
        batch
        for source in job.sources
        for batch in _rows(layout, source, table, counts, named(job.table_name).given, progress)
    )
    groups = row_groups(in_order(read, table.key, folder / _name(job, 0), job.memory_bytes), job.group_bytes)
    files = tuple(_written(job, layout, _encoded(groups, job)))
    if sum(file.row_count for file in files) != counts.total():
        raise LakeError(
            f"The compaction {job.name} wrote more or fewer rows than it read; nothing was changed. Report this defect."
        )
    return files, dict(counts)


def _name(job: CompactionJob, number: int) -> str:
    return name_of(f"{job.name}_{number:03}", job.digest, ROWS if job.table_name in APART else PARQUET)


def _rows(
    layout: Layout,
    source: CompactionSource,
    table: Table,
    counts: Counter[Part],
    given: tuple[str, ...],
    progress: Callable[[int], None],
) -> Iterator[pa.RecordBatch]:
    """Yield a file's rows in the form of compacted files, without the dropped rows."""
    try:
        path = within(layout.lake, source.lake_path)
    except UnusableFileError as error:
        raise LakeError(f"{error.what} Nothing was changed. Find out which program wrote to the warehouse.") from None
    beside = path.with_name(with_bodies(path.name))
    paths = [path] if beside == path else [path, beside]
    names = [one.relative_to(layout.lake).as_posix() for one in paths]
    with ExitStack() as stack:
        files = [
            _opened(stack, one, layout.storage, name, source, table) for one, name in zip(paths, names, strict=True)
        ]
        start = 0
        for batches in _side_by_side(files, names):
            found = _chosen(_of_form(batches, table, start), start, source)
            start += len(batches[0])
            if len(found):
                for row in pa.table(found).group_by([*given]).aggregate([([], "count_all")]).to_pylist():
                    counts[tuple(row[name] for name in given)] += row["count_all"]
                yield found
    progress(sum(map(layout.storage.size, paths)))


def _opened(
    stack: ExitStack, path: Path, storage: Storage, lake_path: str, source: CompactionSource, table: Table
) -> pq.ParquetFile:
    """Open a lake file and verify its page checksums, to avoid copying damage to another file."""
    with _reading(lake_path):
        opened = stack.enter_context(storage.open(path))
        file = stack.enter_context(pq.ParquetFile(opened, buffer_size=_READ_BYTES, page_checksum_verification=True))
        if file.metadata.num_rows != source.row_count:
            raise ValueError(f"it has {file.metadata.num_rows} rows, but the ledger says {source.row_count}")
    # A column that is missing from an older file becomes null. An undeclared column would be lost.
    known = {column.name: column.type for column in table}
    if wrong := [field.name for field in file.schema_arrow if known.get(field.name) != field.type]:
        raise LakeError(
            f"The lake file {lake_path} has undeclared columns ({', '.join(wrong)}), so it was not compacted; nothing "
            "was changed. Remove the file. If the archive still exists, the next publication converts it again."
        )
    return file


@contextmanager
def _reading(lake_path: str) -> Iterator[None]:
    """Convert errors raised in the context to a LakeError with the file's name."""
    try:
        yield
    except FileNotFoundError as error:
        raise LakeError(
            f"The lake file {lake_path} is missing, so it was not compacted; nothing was changed. If the archive still "
            "exists, the next publication converts it again."
        ) from error
    except UNREADABLE as error:
        if is_damage(error):
            raise DamagedFileError(lake_path, clause(error)) from error
        raise LakeError(
            f"The lake file {lake_path} cannot currently be read: {clause(error)}. The file was not compacted; nothing "
            "was changed."
        ) from error


def _side_by_side(files: list[pq.ParquetFile], names: list[str]) -> Iterator[tuple[pa.RecordBatch, ...]]:
    """Yield the same rows from all files, a few megabytes at a time. Readers can return fewer rows than requested."""
    rows = min(rows_at_once(file.metadata, _READ_BYTES, GROUP_ROWS) for file in files)

    def batches_of(file: pq.ParquetFile, lake_path: str) -> Iterator[pa.RecordBatch]:
        with _reading(lake_path):
            yield from file.iter_batches(rows)

    readers = [batches_of(file, name) for file, name in zip(files, names, strict=True)]
    held = [next(reader, None) for reader in readers]
    while batches := [batch for batch in held if batch is not None]:
        count = min(map(len, batches))
        yield tuple(batch.slice(0, count) for batch in batches)
        held = [
            batch.slice(count) if len(batch) > count else next(reader, None)
            for batch, reader in zip(batches, readers, strict=True)
        ]


def _of_form(batches: Iterable[pa.RecordBatch], table: Table, start: int) -> pa.RecordBatch:
    """Arrange batches as columns of compacted files, including bodies. Columns missing from an older file are null."""
    there = {name: column for batch in batches for name, column in zip(batch.schema.names, batch.columns, strict=True)}
    count = len(next(iter(there.values())))
    columns = []
    for column in table:
        if column.name in there:
            columns.append(there[column.name])
        elif column is FILE_ROW:
            columns.append(pa.array(range(start, start + count), column.type))
        else:
            columns.append(pa.nulls(count, column.type))
    return pa.RecordBatch.from_arrays(columns, schema=table.schema)


def _chosen(batch: pa.RecordBatch, start: int, source: CompactionSource) -> pa.RecordBatch:
    """Remove the dropped rows. `start` is the batch's position in the file."""
    if source.dropped_rows:
        rows = pa.array(range(start, start + len(batch)), pa.int64())
        batch = batch.filter(pc.invert(pc.is_in(rows, pa.array(source.dropped_rows, pa.int64()))))
    if source.dropped_parts:
        columns = ("batch_hour", "project_id", "namespace_id")
        values = zip(columns, zip(*source.dropped_parts, strict=True), strict=True)
        dropped = _part(*(pa.array(list(some), batch.schema.field(name).type) for name, some in values))
        found = pc.is_in(_part(*(batch.column(name) for name in columns)), dropped)
        batch = batch.filter(pc.invert(found))
    return batch


def _part(hours: pa.Array, projects: pa.Array, namespaces: pa.Array) -> pa.Array:
    """Combine hour, project and namespace into a single string."""
    return pc.binary_join_element_wise(
        pc.cast(hours.cast("int64"), "string"), projects, pc.cast(namespaces, "string"), " "
    )


#: An encoded row group, with the index of its file in `_forms`, and its first and last project.
_Group = tuple[int, footer.Group, str, str]


def _forms(job: CompactionJob) -> tuple[Table, ...]:
    """Return the forms of a job's files, either one with all columns, or one without bodies and one with bodies."""
    return APART.get(job.table_name, (COMPACTED[job.table_name],))


def _apart(groups: Iterable[pa.RecordBatch], forms: tuple[Table, ...]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield row groups with their file index: first several with bodies, then a single one with the other columns."""
    rows, *beside = (form.schema.names for form in forms)
    waiting: list[pa.Table] = []
    size = 0
    for batch in groups:
        found = pa.Table.from_batches([batch.select(rows)])
        if waiting and (not beside or len(waiting) == _TOGETHER or size + found.nbytes > _TOGETHER_BYTES):
            yield 0, joined(waiting)
            waiting, size = [], 0
        yield from ((place, batch.select(names)) for place, names in enumerate(beside, 1))
        waiting.append(found)
        size += found.nbytes
    if waiting:
        yield 0, joined(waiting)


def _encoded(groups: Iterable[pa.RecordBatch], job: CompactionJob) -> Iterator[_Group]:
    """Yield the row groups in order, encoded in parallel."""
    forms = _forms(job)

    def one(place: int, batch: pa.RecordBatch) -> _Group:
        projects = batch.column("project_id")
        return place, encode(batch, forms[place], level=job.level), projects[0].as_py(), projects[-1].as_py()

    pool = ThreadPoolExecutor(job.threads, thread_name_prefix="compact")
    try:
        under_way: deque[Future[_Group]] = deque()
        for place, batch in _apart(groups, forms):
            under_way.append(pool.submit(one, place, batch))
            if len(under_way) > job.threads:
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _written(job: CompactionJob, layout: Layout, groups: Iterator[_Group]) -> Iterator[CompactedFile]:
    """Write row groups to files, or to pairs of files with the same rows, and yield each finished file or pair."""
    forms, group = _forms(job), next(groups, None)
    for number in itertools.count():
        if group is None:
            return
        target = layout.compacted_folder(job.table_name) / _name(job, number)
        targets = [target, target.with_name(with_bodies(target.name))][: len(forms)]
        projects: list[str] = []
        size, is_full = 0, False
        with ExitStack() as stack:
            files = [
                stack.enter_context(ParquetFile(one, form, layout.storage))
                for one, form in zip(targets, forms, strict=True)
            ]
            while group is not None and not is_full:
                place, encoded, *first_and_last = group
                files[place].add(encoded)
                projects += first_and_last
                size += len(encoded.pages)
                # a group of the first form follows the groups that contain its rows' bodies
                is_full = place == 0 and size >= job.file_bytes
                group = next(groups, None)
            for file in files:
                file.finish({"compaction": job.digest})
        lake_bytes, lake_path = sum(map(layout.storage.size, targets)), target.relative_to(layout.lake).as_posix()
        yield CompactedFile(lake_path, files[0].row_count, lake_bytes, projects[0], projects[-1])
