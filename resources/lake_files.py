"""Descriptions of converted and compacted lake files, and table definitions for compacted files.

A compacted file contains the rows of many lake files, sorted by key. For hourly datasets, page text is in separate
files. A lookup of one row then reads the file metadata of a dozen columns instead of a hundred.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from resources.datasets import Family, datasets
from resources.tables.declaration import INT, SNAPSHOT_VERSION, Column, Table


@dataclass(frozen=True)
class Drift:
    """An undeclared field, with its path, the number of occurrences, and an example value as JSON."""

    path: str
    count: int
    example: str


@dataclass(frozen=True, kw_only=True)
class ConvertedFile:
    """A Parquet file in the lake with the rows of one archive.

    Paths are absolute. Files with equal digests have equal rows. The digest covers the archive and the converter.

    Attributes:
        path: Parquet file with the rows.
        rejects_path: Parquet file with the rejected records, or None if no records were rejected.
        identifier: The archive's identifier.
        version: The archive's version (MD5).
        batch_hour: Hour of an hourly batch, or None for other archives.
        source_at: Start time of the run that looked up the pages, or None for other archives.
        update_count: Number of rows with the change type `update`, or 0 if the table has no change types.
            `delete_count` and `visibility_change_count` count the other change types.
        remarks: Sentences about archive members that contain no records.
        drift: Undeclared fields that were stored in `extra`.
        seconds: Duration of the conversion, or 0 if the file already existed.
        converted: True if this conversion wrote the file, or False if the file existed.
    """

    path: Path
    rejects_path: Path | None
    identifier: str
    version: str
    digest: str
    row_count: int
    reject_count: int
    update_count: int
    delete_count: int
    visibility_change_count: int
    archive_bytes: int
    ndjson_bytes: int
    lake_bytes: int
    project_id: str = ""
    namespace_id: int = 0
    batch_hour: datetime | None = None
    source_at: datetime | None = None
    drift: tuple[Drift, ...] = ()
    remarks: tuple[str, ...] = ()
    seconds: float = 0.0
    converted: bool = False


FILE_ROW = Column("file_row", INT, "Row number in the original lake file, starting at 0.", required=True)
#: Columns for looking up single rows by page, revision or title.
_LOOKED_UP = frozenset({"article_id", "version_id", "name"})


def _columns(table: Table) -> tuple[Column, ...]:
    return tuple(replace(column, lookup=column.lookup or column.name in _LOOKED_UP) for column in table)


def _of_hours(table: Table, *by: str) -> Table:
    """Return the compacted version of an hourly table.

    Masked rows are kept with their positions, because other files for the same hour may change the set of masked rows.
    """
    narrow = (column for column in _columns(table) if not column.body)
    bodies = (column for column in table if column.body)
    key = ("project_id", *by, "batch_hour", "namespace_id", FILE_ROW.name)
    return Table(f"compacted_{table.name}", table.description, (*narrow, FILE_ROW, *bodies), key)


def _of_versions(table: Table) -> Table:
    """Return the compacted version of a snapshot table.

    Masked rows are dropped, because the set of masked rows depends only on the snapshot version.
    """
    of_version = {column.name for column in SNAPSHOT_VERSION}
    key = tuple(name for name in table.key if name not in of_version)
    return Table(f"compacted_{table.name}", table.description, _columns(table), key)


#: Tables of compacted files, by dataset name.
COMPACTED = {one.name: _of_hours(one.table, *one.compacted_by) for one in datasets(Family.HOURLY)}
COMPACTED |= {one.name: _of_versions(one.table) for one in datasets(Family.SNAPSHOT)}


def _apart(table: Table, *by: str) -> tuple[Table, Table]:
    """Split a compacted table into a table without page text and a table with page text and the key."""
    found = {column.name for column in table if column.body or column.name in {*table.key, *by}}
    bodies = tuple(column for column in table if column.name in found)
    return table.narrow, Table(f"{table.name}_bodies", table.description, bodies, table.key)


#: Tables for both files, for datasets that store page text in separate files.
APART = {one.name: _apart(COMPACTED[one.name], "change_type") for one in datasets(Family.HOURLY)}


@dataclass(frozen=True)
class CompactionSource:
    """A file that a compaction reads.

    Attributes:
        lake_path: Path relative to the lake's folder.
        row_count: Expected number of rows in the file.
        dropped_rows: Positions of duplicate rows to drop.
        dropped_parts: Hours, projects and namespaces whose rows are dropped.
    """

    lake_path: str
    row_count: int
    dropped_rows: tuple[int, ...] = ()
    dropped_parts: tuple[tuple[datetime, str, int], ...] = ()


@dataclass(frozen=True)
class CompactedFile:
    """A file that a compaction wrote.

    `first_project_id` and `last_project_id` are the first and last projects in sort order. `lake_path` is relative to
    the lake's folder. `lake_bytes` includes the separate page text file (`with_bodies`), if it exists.
    """

    lake_path: str
    row_count: int
    lake_bytes: int
    first_project_id: str
    last_project_id: str
