"""Files of the lake: their storage, signs of damage, and the records and tables of converted and of compacted ones.

Files are named by their paths as `Layout` computes them, and DuckDB reads them by the same paths. It does not verify
the checksums of data pages: code that relies on rows reads them with pyarrow, which does.

Compacted files hold the rows of many lake files, ordered by their key. Compacted hours grow in number, so their page
text is in separate files: a lookup of one row then reads footers of a dozen columns and not of a hundred.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Protocol

<<<<<<< HEAD
from resources.datasets import Family, datasets
=======
import pyarrow as pa
import pyarrow.parquet as pq

from resources import files
from resources.tables.articles import ARTICLE_CHANGES, SNAPSHOT_ARTICLES
>>>>>>> 0d88a7d9 (Tell the stream's part of the status and the lake's files in one module each)
from resources.tables.declaration import INT, SNAPSHOT_VERSION, Column, Table


class Storage(Protocol):
    """The seven operations that the lake needs from a file system; all raise OSError if the storage refuses.

    A file appears complete or not at all, is never changed, and is written once: a new version has a new name.
    """

    def put(self, finished: Path, path: Path) -> None:
        """Move a complete local file into the storage, durably; a file of that name is replaced."""

    def open(self, path: Path) -> pa.NativeFile:
        """Open a file for reading, also from several threads.

        Raises:
            FileNotFoundError: There is no such file.
            ValueError: There is something other than a file.
        """

    def exists(self, path: Path) -> bool:
        """Return whether there is such a file."""

    def list(self, folder: Path, pattern: str = "**/*.*") -> list[Path]:
        """Return the sorted paths below a folder that match a pattern. Folders of a lake have no dot in their names."""

    def delete(self, path: Path) -> None:
        """Delete a file, if it exists, and its folder if that is empty then."""

    def modified(self, path: Path) -> datetime:
        """Return when a file was put. Raises FileNotFoundError if there is none."""

    def size(self, path: Path) -> int:
        """Return the size of a file in bytes. Raises FileNotFoundError if there is none."""


class LocalStorage:
    """A local file system; the files are where their paths say."""

    def put(self, finished: Path, path: Path) -> None:
        files.sync(finished)
        path.parent.mkdir(parents=True, exist_ok=True)
        finished.replace(path)

    def open(self, path: Path) -> pa.NativeFile:
        files.require_file(path)  # opening a named pipe would wait for a writer
        return pa.OSFile(str(path))

    def exists(self, path: Path) -> bool:
        return path.exists()

    def list(self, folder: Path, pattern: str = "**/*.*") -> list[Path]:
        return sorted(folder.glob(pattern))

    def delete(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # the folder has other files
            path.parent.rmdir()

    def modified(self, path: Path) -> datetime:
        return datetime.fromtimestamp(path.stat().st_mtime, UTC)

    def size(self, path: Path) -> int:
        return path.stat().st_size


LOCAL = LocalStorage()


#: Raised by pyarrow for a file that it cannot read, whatever the reason.
UNREADABLE: Final = (OSError, ValueError, pa.ArrowException)
#: Errors of the system that say nothing about the file's bytes.
_NOT_OF_THE_FILE: Final = frozenset(
    {errno.EACCES, errno.EPERM, errno.EMFILE, errno.ENFILE, errno.ENOENT, errno.ENOMEM, errno.ESTALE, errno.ETIMEDOUT}
)
_READ_BYTES: Final = 4 << 20


def is_damage(error: BaseException) -> bool:
    """Return whether an error of `UNREADABLE` means wrong bytes, and not a file that cannot be read now."""
    return not isinstance(error, MemoryError) and getattr(error, "errno", None) not in _NOT_OF_THE_FILE


def read_footer(path: Path, storage: Storage = LOCAL) -> pq.FileMetaData:
    """Return the footer of a Parquet file.

    Raises:
        OSError, ValueError, pyarrow.ArrowException: It cannot be read (`UNREADABLE`).
    """
    with storage.open(path) as file:
        return pq.read_metadata(file)


def verify(path: Path, columns: Sequence[str] | None = None, storage: Storage = LOCAL) -> int:
    """Read a Parquet file, or some of its columns, and compare every data page with its checksum.

    Returns the number of its rows.

    Raises:
        OSError, ValueError, pyarrow.ArrowException: It is damaged or cannot be read (`UNREADABLE`).
    """
    with (
        storage.open(path) as opened,
        pq.ParquetFile(opened, page_checksum_verification=True, buffer_size=_READ_BYTES) as file,
    ):
        there = None if columns is None else [name for name in columns if name in file.schema_arrow.names]
        return sum(map(len, file.iter_batches(rows_at_once(file.metadata, _READ_BYTES), columns=there)))


def rows_at_once(metadata: pq.FileMetaData, most_bytes: int, most_rows: int = 8192) -> int:
    """Return the number of rows to read at once, so that they take about `most_bytes`."""
    size = sum(metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups))
    return max(1, min(most_rows, int(most_bytes * metadata.num_rows // max(1, size))))


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
