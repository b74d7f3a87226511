"""Tables that describe the mirror: loaded files, stored snapshots, covered hours, rejected records and exact ranges."""

import enum
from dataclasses import replace
from datetime import timedelta

import pyarrow as pa

from resources.tables.declaration import (
    BATCH_HOUR,
    BATCH_HOUR_OR_NULL,
    INT,
    PROJECT_AND_NAMESPACE,
    SNAPSHOT_VERSION,
    SOURCE_AT,
    TEXT,
    TIMESTAMP,
    Column,
    Table,
    required,
)


class HourState(enum.StrEnum):
    """State of a project and namespace for one hour."""

    LOADED = "loaded"  # its file is in `article_changes`
    EMPTY = "empty"  # its file had no records
    ABSENT = "absent"  # not in the service's batch listing, because nothing changed or the export failed
    MISSING = "missing"  # should be loaded but is not
    NOT_YET = "not_yet"  # not published by the service yet
    PAST_RETENTION = "past_retention"  # never fetched, and no longer available from the service


#: Final states of an hour.
COVERED = frozenset({HourState.LOADED, HourState.EMPTY, HourState.ABSENT})
#: Delays after the start of an hour at which a project missing from the batch listing is checked again, because a
#: failed export might have been repeated. No further checks follow the last delay.
RECHECKS = (timedelta(hours=3), timedelta(hours=47))
#: Message for a project and namespace without a base snapshot.
NO_SNAPSHOT = "no snapshot: only changed pages are known. `wme run --snapshots` fetches it, if the service has one"
_TABLE_NAME = required("table_name", TEXT, "Table of the dataset that this row describes.")
_FILE = (BATCH_HOUR_OR_NULL, *PROJECT_AND_NAMESPACE)
LOADS = Table(
    "loads",
    "Ledger with one row per file loaded into the warehouse, including load time and counts.",
    (
        _TABLE_NAME,
        SOURCE_AT,
        *_FILE,
        required("identifier", TEXT, "The service's identifier for the archive."),
        required("version", TEXT, "MD5 of the archive, which the service uses as the version."),
        required("digest", TEXT, "Digest of the archive version, schema version and converter version."),
        required("lake_path", TEXT, "Path of the Parquet file, relative to the lake's folder."),
        required("row_count", INT, "Number of rows in the Parquet file, including duplicates."),
        required("duplicate_count", INT, "Number of rows that were not loaded because they repeat an event."),
        required("reject_count", INT, "Number of archive records that could not be converted."),
        required("update_count", INT, "Number of updates."),
        required("delete_count", INT, "Number of deletes."),
        required("visibility_change_count", INT, "Number of visibility changes."),
        required("archive_bytes", INT, "Size of the archive in bytes."),
        required("ndjson_bytes", INT, "Size of the NDJSON in the archive, in bytes."),
        required("lake_bytes", INT, "Size of the Parquet file in bytes."),
        required("loaded_at", TIMESTAMP, "Time when the load was committed."),
        Column(
            "applied_at",
            TIMESTAMP,
            "Time when the file was applied to `articles`, or null while pending. For other datasets, loaded_at.",
        ),
        Column(
            "compaction_id",
            TEXT,
            "Compaction in `compacted_files` that now contains the rows, or null if the rows are in lake_path.",
        ),
    ),
    key=("table_name", "source_at", "project_id", "namespace_id", "identifier"),
)
COMPACTED_FILES = Table(
    "compacted_files",
    "Merged lake files. Each file contains the rows of many hourly files, or of a snapshot's chunks, sorted by page. "
    "`loads` lists the original files.",
    (
        _TABLE_NAME,
        required("compaction_id", TEXT, "Digest of the compacted files, which several rows can share."),
        required("span", TEXT, "Compaction window, for example `day`, or `snapshot` for a snapshot version."),
        Column("first_hour", TIMESTAMP, "First hour of the window, or null for a snapshot."),
        Column("end_hour", TIMESTAMP, "First hour after the window, or null for a snapshot."),
        required("lake_path", TEXT, "Path of the Parquet file, relative to the lake's folder."),
        required("first_project_id", TEXT, "Project of the file's first row."),
        required("last_project_id", TEXT, "Project of the file's last row."),
        required("row_count", INT, "Number of rows in the Parquet file."),
        required("lake_bytes", INT, "Size of the Parquet file in bytes."),
        required("compacted_at", TIMESTAMP, "Time when the compaction was committed."),
    ),
    key=("lake_path",),
)
SNAPSHOTS = Table(
    "snapshots",
    "Stored snapshot versions. `articles` is based on the version with the latest boundary_at. If several versions "
    "share this boundary_at, the version with the latest exported_at is used. Replaced versions are retained for a "
    "while to provide historical page states. Other datasets store only the most recently loaded version.",
    (
        _TABLE_NAME,
        *SNAPSHOT_VERSION,
        *PROJECT_AND_NAMESPACE,
        Column(
            "boundary_at",
            TIMESTAMP,
            "newest_event_at minus ten minutes. The snapshot contains all older changes, so their updates are ignored. "
            "Null if the dataset has no event_at.",
        ),
        required(
            "source_at",
            TIMESTAMP,
            "The source_at of this version's rows. This value is unique, within a second of boundary_at (or of "
            "exported_at if boundary_at is null), and never a full hour.",
        ),
        Column("newest_event_at", TIMESTAMP, "Latest event_at in the rows, or null if the dataset has no event_at."),
        Column("exported_at", TIMESTAMP, "Time when the service exported the snapshot (its date_modified)."),
        required("file_count", INT, "Number of files in the snapshot."),
        required("row_count", INT, "Number of rows in the files, including duplicates."),
        required("duplicate_count", INT, "Number of filtered-out rows that repeat a page and revision."),
        required("loaded_at", TIMESTAMP, "Time when the load was committed."),
        Column("applied_at", TIMESTAMP, "Time when the version was applied to `articles`, or null while pending."),
    ),
    key=("table_name", "snapshot_id", "snapshot_version"),
)
#: Rejected records, as a conversion writes them to the lake. The file's folder identifies their table.
REJECTED_LINES = Table(
    "rejects",
    "Records that could not be converted, stored unchanged, with the reason. No record is dropped.",
    (
        *_FILE,
        required("archive", TEXT, "Path of the archive file, relative to the archive folder."),
        required("member", TEXT, "Tar member that contains the line."),
        required("line_number", INT, "Line number in the member, starting at 1.", rising=True),
        required("byte_offset", INT, "Byte offset of the line in the member, starting at 0.", rising=True),
        required("reason", TEXT, "Reason why the record could not be converted."),
        required("raw", pa.binary(), "Raw line, or its first 4,096 bytes if the line is over 1 MiB."),
        Column("raw_bytes", INT, "Size of the line in bytes."),
        Column(
            "raw_path",
            TEXT,
            "Path, relative to the lake's folder, of the file with the complete line. Null if `raw` is complete.",
        ),
        Column("raw_offset", INT, "Byte offset of the line's gzip member in that file, starting at 0."),
    ),
    key=("archive", "member", "line_number"),
)
REJECTS = replace(
    REJECTED_LINES, columns=(_TABLE_NAME, SOURCE_AT, *REJECTED_LINES), key=("table_name", *REJECTED_LINES.key)
)
HOURS = Table(
    "hours",
    "Coverage by dataset, hour, project and namespace. Every gap is visible.",
    (
        _TABLE_NAME,
        BATCH_HOUR,
        *PROJECT_AND_NAMESPACE,
        required("state", TEXT, "One of " + ", ".join(HourState) + "."),
        Column("row_count", INT, "Number of loaded rows."),
        Column("reject_count", INT, "Number of rejected records."),
        Column("load_count", INT, "Number of loads with different content, greater than 1 after a reload."),
        required("checked_at", TIMESTAMP, "Time of the last check."),
        Column("reason", TEXT, "Sentence that explains why the hour is not loaded."),
    ),
    key=("table_name", "batch_hour", "project_id", "namespace_id"),
)
PROJECT_STATE = Table(
    "project_state",
    "Time range in which `articles` is exact, per project and namespace.",
    (
        *PROJECT_AND_NAMESPACE,
        Column(
            "base_snapshot",
            TEXT,
            "Version of the base snapshot. If null, only pages that changed in the loaded hours are known, and no "
            "exact range exists.",
        ),
        Column("base_boundary_at", TIMESTAMP, "Boundary of the base snapshot."),
        Column(
            "first_gap_at",
            TIMESTAMP,
            "First hour after the base snapshot (or after the first loaded hour if no snapshot exists) that is neither "
            "loaded, empty nor absent. Null if there is no gap.",
        ),
        Column(
            "exact_from_at",
            TIMESTAMP,
            "Start of the exact range, just after newest_event_at of the oldest stored snapshot that is followed by "
            "hours without a gap. Exact means as complete as the service's files. Null if there is no snapshot.",
        ),
        Column("exact_until_at", TIMESTAMP, "End of the last hour before the first gap. Null if there is no snapshot."),
        Column(
            "reason",
            TEXT,
            "Reason why no exact range exists, and the command that fixes it. Null if there is an exact range.",
        ),
        Column(
            "absent_count",
            INT,
            "Number of hours in the exact range that were absent from the batch listing when last checked, less than "
            f"{RECHECKS[-1] // timedelta(hours=1)} hours after they started. Either the project was quiet, or the "
            "export failed and might still be repeated. Null if there is no exact range.",
        ),
        Column(
            "reject_count",
            INT,
            "Number of records in the exact range that could not be converted. These records are in `rejects` but not "
            "in `articles`. Null if there is no exact range.",
        ),
        Column(
            "uncertain_count",
            INT,
            "Number of pages in `articles` that might have changed in a permanently lost hour and have no later change "
            "or lookup. Pages created in such an hour and not changed since are not in `articles` and are not counted.",
        ),
        Column("repaired_count", INT, "Number of pages looked up for repair since the last lost hour."),
    ),
    key=("project_id", "namespace_id"),
)
ABOUT = Table(
    "about",
    "Facts about this file: service, licence, attribution, versions and publication time.",
    (required("name", TEXT, "Name of the fact."), required("value", TEXT, "Value of the fact.")),
    key=("name",),
)
