"""Arguments and results of the warehouse's methods: frozen records, some of which print as a sentence."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

import duckdb
import pyarrow as pa

from resources.datasets import SNAPSHOT_ARTICLES, Dataset
from resources.datasets.paths import short
from resources.formatting import counted
from resources.lake_files import ConvertedFile
from resources.tables import HourState


def utc_text(moment: datetime) -> str:
    """The moment as `2026-11-20T09:00Z`: short, and without doubt about the zone."""
    return moment.strftime("%Y-%m-%dT%H:%MZ")


def _values(column: pa.ChunkedArray) -> list[Any]:
    """The values of a column as plain Python, or as DuckDB's texts where Python lacks one, such as `infinity`."""
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
    """One version of a snapshot with all its files; `file_count` is their number in the service's listing.

    `snapshot_version` is the version of the whole; `exported_at` the service's date_modified of it.
    """

    snapshot_id: str
    snapshot_version: str
    project_id: str
    namespace_id: int
    files: tuple[ConvertedFile, ...]
    file_count: int
    exported_at: datetime | None = None
    dataset: Dataset = SNAPSHOT_ARTICLES


@dataclass(frozen=True)
class SnapshotLoad:
    """Outcome of loading a snapshot. `changed` is False when this version was loaded with the same content already.

    `is_base`: it lies underneath `articles` once they are brought up to date. `dropped_versions` are no longer kept;
    `boundary_at`: until when it is complete; None where its dataset has no `event_at`. `released_lake_paths` (relative
    to the lake) are files that nothing refers to any more but readers of what is published.
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
    released_lake_paths: tuple[str, ...]
    seconds: float

    def __str__(self) -> str:
        """The load in one sentence."""
        name = f"Snapshot {self.snapshot_id} {short(self.snapshot_version)}"
        if not self.changed:
            return f"{name}: nothing to do, {counted(self.file_count, 'file')} loaded with the same content before."
        place = "" if self.is_base else " A newer one stays underneath the articles."
        until = f", complete until {utc_text(self.boundary_at)}" if self.boundary_at else ""
        dropped = f" Dropped: {counted(len(self.dropped_versions), 'older version')}." if self.dropped_versions else ""
        return (
            f"{name}: {counted(self.file_count, 'file')}, {counted(self.row_count, 'row')}, "
            f"{counted(self.duplicate_count, 'duplicate')}, {counted(self.reject_count, 'reject')}{until}, "
            f"in {self.seconds:.2f} s.{place}{dropped}"
        )


@dataclass(frozen=True)
class HourStatus:
    """The state of one hour of one project and namespace; `checked_at` is when the service was asked (None: now)."""

    batch_hour: datetime
    project_id: str
    namespace_id: int
    state: HourState
    reason: str | None = None
    checked_at: datetime | None = None


@dataclass(frozen=True)
class HourLoad:
    """Outcome of one load. `changed` is False when everything was there under the same digests already.

    The counts are of what this load wrote; `held_row_count` and `held_duplicate_count` (left out as exact copies within
    a file) are of all that the hour has in the warehouse afterwards, whenever it was loaded.
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
        """The load in one sentence."""
        hour = utc_text(self.hour)
        if not self.changed:
            files = counted(self.unchanged_file_count, "file")
            return f"Hour {hour}: nothing to do, {files} loaded with the same content before."
        return (
            f"Hour {hour}: {counted(self.loaded_file_count, 'file')} loaded ({self.unchanged_file_count} unchanged), "
            f"{counted(self.row_count, 'row')}, {counted(self.duplicate_count, 'duplicate')}, "
            f"{counted(self.reject_count, 'reject')} in {self.seconds:.2f} s."
        )


@dataclass(frozen=True)
class Applied:
    """Outcome of bringing a current state up to date, for example `articles`. `row_count` is all its rows afterwards.

    `noun`: what a row is. `file_count` counts files of hours, `lookup_file_count` those of pages that were looked up.
    `renewed_projects` were rebuilt because of a new snapshot. `recomputed_count` counts what was looked up again.
    """

    state: str
    noun: str
    hours: tuple[datetime, ...]
    file_count: int
    lookup_file_count: int
    renewed_projects: tuple[str, ...]
    written_count: int
    removed_count: int
    recomputed_count: int
    row_count: int
    rebuilt: bool
    seconds: float

    @property
    def changed(self) -> bool:
        """False when nothing was pending."""
        return self.rebuilt or self.file_count + self.lookup_file_count > 0 or bool(self.renewed_projects)

    def __str__(self) -> str:
        """The step in one sentence."""
        if not self.changed:
            return f"{self.state.capitalize()}: nothing pending, {counted(self.row_count, self.noun)}."
        return (
            f"{self.state.capitalize()}: {self._how()}, {counted(self.written_count, self.noun)} written, "
            f"{self.removed_count:,} removed, {counted(self.row_count, self.noun)} now, {self.seconds:.2f} s."
        )

    def _how(self) -> str:
        """The kinds of files that were applied, without those of which there were none."""
        if self.rebuilt:
            return "rebuilt from everything loaded"
        files = []
        if self.file_count:
            files.append(f"{counted(self.file_count, 'file')} of {counted(len(self.hours), 'hour')}")
        if self.lookup_file_count:
            files.append(f"{counted(self.lookup_file_count, 'file')} of lookups")
        how = [f"advanced by {' and '.join(files)}"] if files else []
        if self.renewed_projects:
            how.append(f"{', '.join(self.renewed_projects)} recreated from snapshots")
        return ", ".join(how)


@dataclass(frozen=True)
class SummaryRow:
    """One hour, project and namespace in figures. Rows by change count the file's rows, duplicates included."""

    batch_hour: datetime
    project_id: str
    namespace_id: int
    state: str
    file_count: int
    row_count: int
    duplicate_count: int
    update_count: int
    delete_count: int
    visibility_change_count: int
    reject_count: int
    archive_bytes: int
    ndjson_bytes: int
    lake_bytes: int


@dataclass(frozen=True)
class HourAudit:
    """One hour: its rows, the rows its ledger promises, rows whose key is there already, events before the hour."""

    batch_hour: datetime
    row_count: int
    expected_count: int
    repeated_count: int
    early_count: int


@dataclass(frozen=True)
class CoverageRow:
    """One row of `hours`."""

    table_name: str
    batch_hour: datetime
    project_id: str
    namespace_id: int
    state: str
    row_count: int | None
    reject_count: int | None
    load_count: int | None
    checked_at: datetime
    reason: str | None


@dataclass(frozen=True)
class ProjectState:
    """One row of `project_state`: from when until when `articles` is exact."""

    project_id: str
    namespace_id: int
    base_snapshot: str | None
    base_boundary_at: datetime | None
    first_gap_at: datetime | None
    exact_from_at: datetime | None
    exact_until_at: datetime | None
    reason: str | None
    absent_count: int | None
    reject_count: int | None
    uncertain_count: int | None
    repaired_count: int | None


@dataclass(frozen=True)
class QueryResult:
    """Answer of a query: an Arrow table, and the same as plain Python."""

    table: pa.Table

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns, in order."""
        return tuple(self.table.column_names)

    @cached_property
    def rows(self) -> list[tuple[Any, ...]]:
        """Rows as tuples; times are aware and in UTC."""
        return list(zip(*(_values(column) for column in self.table.columns), strict=True))
