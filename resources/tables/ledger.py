"""Tables about the mirror itself: loaded files, stored snapshots, covered hours, rejected records and exact ranges."""

from __future__ import annotations

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
)


class HourState(enum.StrEnum):
    """State of one hour of one project and namespace."""

    LOADED = "loaded"  # its file is in `article_changes`
    EMPTY = "empty"  # its file had no records
    ABSENT = "absent"  # not named in the service's batch listing: no changes, or a failed export
    MISSING = "missing"  # should be loaded but is not
    NOT_YET = "not_yet"  # not published by the service yet
    PAST_RETENTION = "past_retention"  # never fetched, and the service no longer keeps it


#: Final states of an hour.
COVERED = frozenset({HourState.LOADED, HourState.EMPTY, HourState.ABSENT})
#: Delays after the start of an hour at which a project missing from the batch listing is checked again, because a
#: failed export may have been repeated. There is no check after the last one.
RECHECKS = (timedelta(hours=3), timedelta(hours=47))
#: Message about a project and namespace without a base snapshot.
NO_SNAPSHOT = "no snapshot: only changed pages are known. `wme run --snapshots` fetches it, if the service has one"
_TABLE_NAME = Column("table_name", TEXT, "Table of the dataset described by this row.", required=True)
_FILE = (BATCH_HOUR_OR_NULL, *PROJECT_AND_NAMESPACE)
LOADS = Table(
    "loads",
    "Ledger: one row per file that is in the warehouse now, with its load time and counts.",
    (
        _TABLE_NAME,
        SOURCE_AT,
        *_FILE,
        Column("identifier", TEXT, "The service's identifier of the archive.", required=True),
        Column("version", TEXT, "MD5 of the archive, the service's version.", required=True),
        Column("digest", TEXT, "Digest of archive version, schema version and converter version.", required=True),
        Column("lake_path", TEXT, "Parquet file, relative to the lake's folder.", required=True),
        Column("row_count", INT, "Number of rows in the Parquet file, including duplicates.", required=True),
        Column("duplicate_count", INT, "Number of rows that repeat an event and were not loaded.", required=True),
        Column("reject_count", INT, "Number of records of the archive that could not be converted.", required=True),
        Column("update_count", INT, "Number of updates.", required=True),
        Column("delete_count", INT, "Number of deletes.", required=True),
        Column("visibility_change_count", INT, "Number of changes of visibility.", required=True),
        Column("archive_bytes", INT, "Bytes of the archive.", required=True),
        Column("ndjson_bytes", INT, "Bytes of the NDJSON in it.", required=True),
        Column("lake_bytes", INT, "Bytes of the Parquet file.", required=True),
        Column("loaded_at", TIMESTAMP, "Time when the load was committed.", required=True),
        Column(
            "applied_at",
            TIMESTAMP,
            "Time when it was applied to `articles`; null while pending. Files of other datasets: loaded_at.",
        ),
        Column(
            "compaction_id",
            TEXT,
            "Compaction whose files contain its rows now (`compacted_files`); null: the rows are in lake_path.",
        ),
    ),
    key=("table_name", "source_at", "project_id", "namespace_id", "identifier"),
)
COMPACTED_FILES = Table(
    "compacted_files",
    "Merged files of the lake: each has the rows of many hourly files, or of the chunks of a snapshot, sorted by "
    "page. `loads` names the original files.",
    (
        _TABLE_NAME,
        Column("compaction_id", TEXT, "Digest of the compacted files; several rows may share it.", required=True),
        Column(
            "span",
            TEXT,
            "Compaction window, for example `day`; `snapshot`: a version of a snapshot.",
            required=True,
        ),
        Column("first_hour", TIMESTAMP, "First hour of the window; null for a snapshot."),
        Column("end_hour", TIMESTAMP, "First hour after the window; null for a snapshot."),
        Column("lake_path", TEXT, "Parquet file, relative to the lake's folder.", required=True),
        Column("first_project_id", TEXT, "Project of its first row.", required=True),
        Column("last_project_id", TEXT, "Project of its last row.", required=True),
        Column("row_count", INT, "Number of rows in the Parquet file.", required=True),
        Column("lake_bytes", INT, "Bytes of the Parquet file.", required=True),
        Column("compacted_at", TIMESTAMP, "Time when the compaction was committed.", required=True),
    ),
    key=("lake_path",),
)
SNAPSHOTS = Table(
    "snapshots",
    "The stored versions of each snapshot. `articles` starts from the version with the greatest boundary_at (then "
    "exported_at). Replaced versions stay for a while, for earlier states of pages. Other datasets store the "
    "version loaded last.",
    (
        _TABLE_NAME,
        *SNAPSHOT_VERSION,
        *PROJECT_AND_NAMESPACE,
        Column(
            "boundary_at",
            TIMESTAMP,
            "newest_event_at minus ten minutes. Older changes are in the snapshot, so their updates no longer "
            "count. Null if the dataset has no event_at.",
        ),
        Column(
            "source_at",
            TIMESTAMP,
            "The source_at of this version's rows: within a second of boundary_at (else of exported_at), never a "
            "full hour, and unique.",
            required=True,
        ),
        Column("newest_event_at", TIMESTAMP, "Greatest event_at of its rows; null if the dataset has none."),
        Column("exported_at", TIMESTAMP, "Time when the service exported it (date_modified of the snapshot)."),
        Column("file_count", INT, "Number of its files.", required=True),
        Column("row_count", INT, "Number of rows in the files, including duplicates.", required=True),
        Column("duplicate_count", INT, "Rows that repeat a page and revision and are filtered out.", required=True),
        Column("loaded_at", TIMESTAMP, "Time when the load was committed.", required=True),
        Column("applied_at", TIMESTAMP, "Time when it was applied to `articles`; null while pending."),
    ),
    key=("table_name", "snapshot_id", "snapshot_version"),
)
#: Rejected records as a conversion writes them to the lake. The folder of the file identifies their table.
REJECTED_LINES = Table(
    "rejects",
    "Records that could not be converted, unmodified and with the reason. Nothing is dropped.",
    (
        *_FILE,
        Column("archive", TEXT, "Archive, relative to the archive's folder.", required=True),
        Column("member", TEXT, "Member of the tar.", required=True),
        Column("line_number", INT, "Line in the member, from 1.", required=True, rising=True),
        Column("byte_offset", INT, "Offset of the line in the member, from 0.", required=True, rising=True),
        Column("reason", TEXT, "Reason why it could not be converted.", required=True),
        Column("raw", pa.binary(), "Bytes of the line; for a line over 1 MiB the first 4,096.", required=True),
        Column("raw_bytes", INT, "Number of bytes of the line."),
        Column(
            "raw_path",
            TEXT,
            "File with the complete line if it is over 1 MiB, relative to the lake's folder; null: `raw` is complete.",
        ),
        Column("raw_offset", INT, "Offset of the line's gzip member in that file, from 0."),
    ),
    key=("archive", "member", "line_number"),
)
REJECTS = replace(
    REJECTED_LINES, columns=(_TABLE_NAME, SOURCE_AT, *REJECTED_LINES), key=("table_name", *REJECTED_LINES.key)
)
HOURS = Table(
    "hours",
    "Coverage: one row per dataset, hour, project and namespace, so that every gap is visible.",
    (
        _TABLE_NAME,
        BATCH_HOUR,
        *PROJECT_AND_NAMESPACE,
        Column("state", TEXT, "One of " + ", ".join(HourState) + ".", required=True),
        Column("row_count", INT, "Number of loaded rows."),
        Column("reject_count", INT, "Number of rejected records."),
        Column("load_count", INT, "Number of loads with different content; over 1: loaded again."),
        Column("checked_at", TIMESTAMP, "Time of the last check.", required=True),
        Column("reason", TEXT, "Reason why the hour is not loaded, as a sentence."),
    ),
    key=("table_name", "batch_hour", "project_id", "namespace_id"),
)
PROJECT_STATE = Table(
    "project_state",
    "The time range in which `articles` is exact, per project and namespace.",
    (
        *PROJECT_AND_NAMESPACE,
        Column(
            "base_snapshot",
            TEXT,
            "Version of the base snapshot; null: only pages that changed in the loaded hours are known, and no moment "
            "is exact.",
        ),
        Column("base_boundary_at", TIMESTAMP, "Boundary of that snapshot."),
        Column(
            "first_gap_at",
            TIMESTAMP,
            "First hour after the base snapshot (without one, after the first loaded hour) that is neither "
            "loaded, empty nor absent; null: none.",
        ),
        Column(
            "exact_from_at",
            TIMESTAMP,
            "Earliest exact moment: just after newest_event_at of the oldest stored snapshot that is followed by "
            "hours without a gap. Exact means: complete as far as the service's files are. Null without a "
            "snapshot.",
        ),
        Column("exact_until_at", TIMESTAMP, "End of the last hour before the first gap. Null without a snapshot."),
        Column(
            "reason", TEXT, "Reason why no moment is exact, and the command that helps; null: there is an exact range."
        ),
        Column(
            "absent_count",
            INT,
            "Number of hours of the exact range that the batch listing did not name when last checked, less than "
            f"{RECHECKS[-1] // timedelta(hours=1)} hours after their start: a quiet project, or a failed export that "
            "may still be repeated. Null without an exact range.",
        ),
        Column(
            "reject_count",
            INT,
            "Number of records of the exact range that could not be converted. They are in `rejects`, and "
            "`articles` lacks them. Null without an exact range.",
        ),
        Column(
            "uncertain_count",
            INT,
            "Number of pages of `articles` that may have changed in an hour that is lost for good, without a "
            "later change or lookup. Pages created in that hour and not changed since are not in `articles` and "
            "not counted.",
        ),
        Column("repaired_count", INT, "Number of pages looked up for repair since the last lost hour."),
    ),
    key=("project_id", "namespace_id"),
)
ABOUT = Table(
    "about",
    "Facts about this file: service, licence and attribution, versions, publication time.",
    (
        Column("name", TEXT, "Name of the fact.", required=True),
        Column("value", TEXT, "Value of the fact.", required=True),
    ),
    key=("name",),
)
