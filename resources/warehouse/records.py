"""Arguments, results and errors of the warehouse methods. Records are frozen, and some have a readable `str()`."""

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import duckdb
import pyarrow as pa

from resources.datasets import Dataset
from resources.datasets.paths import short
from resources.errors import DiskFullError, MirrorError
from resources.formatting import counted
from resources.lake_files import ConvertedFile
from resources.tables import HourState

#: A row of a table or query, with its columns as attributes. Timestamps are time-zone-aware and in UTC.
Row = SimpleNamespace


class WarehouseError(MirrorError):
    """Base class for failed warehouse operations."""


class _UnavailableError(WarehouseError):
    """The build file cannot be used, so the run ends."""

    ends_run = True
    unavailable = "warehouse"


class WarehouseBusyError(_UnavailableError):
    """Another process did not release the lock before the timeout."""

    retryable = True


class WarehouseFullError(WarehouseError, DiskFullError):
    """Disk space or memory ran out, and the transaction was rolled back."""


class WarehouseDamagedError(_UnavailableError):
    """DuckDB cannot read the build file."""


class WarehouseVersionError(_UnavailableError):
    """The build file cannot be opened with the requested storage version."""


class LakeFileError(WarehouseError):
    """A lake file is missing or damaged, or contradicts the ledger or the announced counts."""


class QueryError(WarehouseError):
    """DuckDB could not open or query the published file."""


class NotPublishedError(WarehouseError):
    """No published file exists yet."""

    retryable = True


def utc_text(moment: datetime) -> str:
    """Format a timestamp as `2026-11-20T09:00Z`, with an explicit time zone."""
    return moment.strftime("%Y-%m-%dT%H:%MZ")


def _values(column: pa.ChunkedArray) -> list[Any]:
    """Return a column as Python values. Values that Python cannot represent, such as `infinity`, become strings."""
    try:
        values: list[Any] = column.to_pylist()
    except (OverflowError, ValueError):
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            texts = connection.from_arrow(pa.table({"value": column})).project("CAST(value AS VARCHAR)")
            return [text for (text,) in texts.fetchall()]
    return values


@dataclass(frozen=True)
class Snapshot:
    """One snapshot version with all its files. `file_count` is the number of files that the service lists.

    `snapshot_version` is the version of the complete snapshot; `exported_at` is the service's date_modified.
    """

    snapshot_id: str
    snapshot_version: str
    project_id: str
    namespace_id: int
    files: tuple[ConvertedFile, ...]
    file_count: int
    exported_at: datetime | None
    dataset: Dataset


@dataclass(frozen=True)
class SnapshotLoad:
    """Outcome of a snapshot load. `changed` is False if the version was already loaded with identical content.

    `is_base` is True if `articles` will be based on this version after the next update. `dropped_versions` contains the
    versions that this load removed. `boundary_at` is the time until which the version is complete, or None if its
    dataset has no `event_at`.
    """

    snapshot_id: str
    snapshot_version: str
    changed: bool
    is_base: bool
    boundary_at: datetime | None
    file_count: int
    row_count: int
    duplicate_count: int
    reject_count: int
    dropped_versions: tuple[str, ...]
    seconds: float

    def __str__(self) -> str:
        name = f"Snapshot {self.snapshot_id} {short(self.snapshot_version)}"
        if not self.changed:
            return f"{name}: nothing to do, {counted(self.file_count, 'file')} already loaded with the same content."
        place = "" if self.is_base else " A newer version remains the base of `articles`."
        until = f", complete until {utc_text(self.boundary_at)}" if self.boundary_at else ""
        dropped = f" Dropped: {counted(len(self.dropped_versions), 'older version')}." if self.dropped_versions else ""
        return (
            f"{name}: {counted(self.file_count, 'file')}, {counted(self.row_count, 'row')}, "
            f"{counted(self.duplicate_count, 'duplicate')}, {counted(self.reject_count, 'reject')}{until}, "
            f"in {self.seconds:.2f} s.{place}{dropped}"
        )


@dataclass(frozen=True)
class HourStatus:
    """State of a project and namespace in one hour. `checked_at` is the service's response time (default: now)."""

    batch_hour: datetime
    project_id: str
    namespace_id: int
    state: HourState
    reason: str | None = None
    checked_at: datetime | None = None


@dataclass(frozen=True)
class HourLoad:
    """Outcome of loading an hour. `changed` is False if all files were already loaded with the same digests.

    `held_row_count` and `held_duplicate_count` cover all of the hour's files that are in the warehouse after the load.
    The other counts cover only this load. Duplicates, which are omitted, are exact copies within a file.
    """

    hour: datetime
    changed: bool
    loaded_file_count: int
    unchanged_file_count: int
    row_count: int
    duplicate_count: int
    reject_count: int
    held_row_count: int
    held_duplicate_count: int
    seconds: float

    def __str__(self) -> str:
        hour = utc_text(self.hour)
        if not self.changed:
            files = counted(self.unchanged_file_count, "file")
            return f"Hour {hour}: nothing to do, {files} already loaded with the same content."
        return (
            f"Hour {hour}: {counted(self.loaded_file_count, 'file')} loaded ({self.unchanged_file_count} unchanged), "
            f"{counted(self.row_count, 'row')}, {counted(self.duplicate_count, 'duplicate')}, "
            f"{counted(self.reject_count, 'reject')} in {self.seconds:.2f} s."
        )


@dataclass(frozen=True)
class Applied:
    """Outcome of updating a current state such as `articles`. `row_count` is the number of rows after the update.

    `noun` is the word for a row in messages. `file_count` counts hourly files; `lookup_file_count` counts lookup files.
    `renewed_projects` contains the projects that were rebuilt from a new snapshot.
    """

    state: str
    noun: str
    hours: tuple[datetime, ...]
    file_count: int
    lookup_file_count: int
    renewed_projects: tuple[str, ...]
    written_count: int
    removed_count: int
    row_count: int
    seconds: float

    @property
    def changed(self) -> bool:
        """Return False if nothing was pending."""
        return self.file_count + self.lookup_file_count > 0 or bool(self.renewed_projects)

    def __str__(self) -> str:
        if not self.changed:
            return f"{self.state.capitalize()}: nothing pending, {counted(self.row_count, self.noun)}."
        files = []
        if self.file_count:
            files.append(f"{counted(self.file_count, 'file')} of {counted(len(self.hours), 'hour')}")
        if self.lookup_file_count:
            files.append(f"{counted(self.lookup_file_count, 'file')} of lookups")
        how = [f"advanced by {' and '.join(files)}"] if files else []
        if self.renewed_projects:
            how.append(f"{', '.join(self.renewed_projects)} rebuilt from snapshots and changes")
        return (
            f"{self.state.capitalize()}: {', '.join(how)}, {counted(self.written_count, self.noun)} written, "
            f"{self.removed_count:,} removed, {counted(self.row_count, self.noun)} now, {self.seconds:.2f} s."
        )


@dataclass(frozen=True)
class QueryResult:
    """Query result as an Arrow table, with access to plain Python values."""

    table: pa.Table

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.table.column_names)

    @cached_property
    def rows(self) -> list[tuple[Any, ...]]:
        """Rows as tuples. Timestamps are time-zone-aware and in UTC."""
        return list(zip(*(_values(column) for column in self.table.columns), strict=True))
