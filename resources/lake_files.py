"""Files of the lake: records of converted and of compacted ones, and the tables of compacted ones.

Compacted files hold the rows of many lake files, ordered by their key. Compacted hours grow in number, so their page
text is in separate files: a lookup of one row then reads footers of a dozen columns and not of a hundred.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from resources.datasets import Family, datasets
from resources.tables.declaration import INT, SNAPSHOT_VERSION, Column, Table


@dataclass(frozen=True)
class Drift:
    """A field without a column: its path, the number of its occurrences, and one of its values as JSON."""

    path: str
    count: int
    example: str


@dataclass(frozen=True, kw_only=True)
class ConvertedFile:
    """A Parquet file of the lake with the rows of one archive.

    Paths are absolute. Equal digests mean equal rows: they cover the archive's version and the converter's.

    Attributes:
        path: Parquet file of the rows.
        rejects_path: Parquet file of the rejected records; None if there are none.
        identifier: Identifier of the archive.
        version: Version of the archive, its MD5.
        batch_hour: Hour of an hourly batch; None for other archives.
        source_at: Start of the run that looked pages up; None for other archives.
        update_count: Rows of this change type; 0 where the table has no change types, as are the next two.
        remarks: Sentences about members of the archive that hold no records.
        drift: Fields that were stored in `extra`.
        seconds: Duration of the conversion; 0 if the file existed.
        converted: Whether this conversion wrote the file.
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


FILE_ROW = Column(
    "file_row", INT, "Place of the row in the lake file that it was converted into, from 0.", required=True
)
#: A row is found by its page, its revision or its title.
_LOOKED_UP = frozenset({"article_id", "version_id", "name"})


def _columns(table: Table) -> tuple[Column, ...]:
    return tuple(replace(column, lookup=column.lookup or column.name in _LOOKED_UP) for column in table)


def _of_hours(table: Table, *by: str) -> Table:
    """Return the compacted form of a table of hours.

    The set of masked rows may change with other files of the hour, so each row keeps its place.
    """
    narrow = (column for column in _columns(table) if not column.body)
    bodies = (column for column in table if column.body)
    key = ("project_id", *by, "batch_hour", "namespace_id", FILE_ROW.name)
    return Table(f"compacted_{table.name}", table.description, (*narrow, FILE_ROW, *bodies), key)


def _of_versions(table: Table) -> Table:
    """Return the compacted form of a table of one version of a snapshot.

    The set of masked rows depends on the version alone, so masked rows are left out.
    """
    of_version = {column.name for column in SNAPSHOT_VERSION}
    key = tuple(name for name in table.key if name not in of_version)
    return Table(f"compacted_{table.name}", table.description, _columns(table), key)


#: The form of compacted files, by the dataset whose rows they hold.
COMPACTED = {one.name: _of_hours(one.table, *one.compacted_by) for one in datasets(Family.HOURLY)}
COMPACTED |= {one.name: _of_versions(one.table) for one in datasets(Family.SNAPSHOT)}


def _apart(table: Table, *by: str) -> tuple[Table, Table]:
    """Return the two files of a compacted one: all columns but the bodies, and the bodies with their key."""
    found = {column.name for column in table if column.body or column.name in {*table.key, *by}}
    bodies = tuple(column for column in table if column.name in found)
    return table.narrow, Table(f"{table.name}_bodies", table.description, bodies, table.key)


#: Tables with a separate file of bodies: the forms of both files.
APART = {one.name: _apart(COMPACTED[one.name], "change_type") for one in datasets(Family.HOURLY)}


@dataclass(frozen=True)
class CompactionSource:
    """A file to be rewritten by a compaction.

    Attributes:
        lake_path: Relative to the lake.
        row_count: Rows that it must hold.
        dropped_rows: Places of rows that are left out: repeated ones.
        dropped_parts: Hours, projects and namespaces whose rows are left out.
    """

    lake_path: str
    row_count: int
    dropped_rows: tuple[int, ...] = ()
    dropped_parts: tuple[tuple[datetime, str, int], ...] = ()


@dataclass(frozen=True)
class CompactedFile:
    """A file that a compaction has written.

    All its rows have a project from `first_project_id` to `last_project_id`. `lake_path` is relative to the lake.
    `lake_bytes` includes the separate file with its page text (`with_bodies`), if there is one.
    """

    lake_path: str
    row_count: int
    lake_bytes: int
    first_project_id: str
    last_project_id: str
