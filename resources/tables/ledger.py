"""Tables about the mirror itself: loaded files, stored snapshots, covered hours, rejected records and exactness."""

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
    """The state of one hour of one project and namespace."""

    LOADED = "loaded"  # its file is in `article_changes`
    EMPTY = "empty"  # its file was there and held no record
    ABSENT = "absent"  # the service's batch listing does not name it: quiet, or its export failed
    MISSING = "missing"  # should be there and is not
    NOT_YET = "not_yet"  # the service has not published the hour
    PAST_RETENTION = "past_retention"  # never fetched, and the service no longer keeps it


#: The states of an hour that are final.
COVERED = frozenset({HourState.LOADED, HourState.EMPTY, HourState.ABSENT})
#: Times after the start of an hour at which a project missing from the batch listing is looked up again: the export may
#: have been repeated. There is no lookup after the last time.
RECHECKS = (timedelta(hours=3), timedelta(hours=47))
#: Message about a project and namespace without a base snapshot.
NO_SNAPSHOT = "no snapshot: only changed pages are known. `wme run --snapshots` fetches it, if the service has one"
_TABLE_NAME = Column("table_name", TEXT, "Table of the dataset that this row is about.", required=True)
_FILE = (BATCH_HOUR_OR_NULL, *PROJECT_AND_NAMESPACE)
LOADS = Table(
    "loads",
    "Ledger: which file was loaded when, and what it held. One row per file that is in the warehouse now.",
    (
        _TABLE_NAME,
        SOURCE_AT,
        *_FILE,
        Column("identifier", TEXT, "The service's identifier of the archive.", required=True),
        Column("version", TEXT, "MD5 of the archive, the service's version.", required=True),
        Column("digest", TEXT, "Digest of archive version, schema version and converter version.", required=True),
        Column("lake_path", TEXT, "Parquet file, relative to the lake's folder.", required=True),
        Column("row_count", INT, "Rows in the Parquet file, duplicates included.", required=True),
        Column(
            "duplicate_count", INT, "Rows of the file that repeat an event and were not loaded again.", required=True
        ),
        Column("reject_count", INT, "Lines of the archive that could not be converted.", required=True),
        Column("update_count", INT, "Rows by change: update.", required=True),
        Column("delete_count", INT, "Rows by change: delete.", required=True),
        Column("visibility_change_count", INT, "Rows by change: visibility-change.", required=True),
        Column("archive_bytes", INT, "Bytes of the archive.", required=True),
        Column("ndjson_bytes", INT, "Bytes of the NDJSON in it.", required=True),
        Column("lake_bytes", INT, "Bytes of the Parquet file.", required=True),
        Column("loaded_at", TIMESTAMP, "When the load was committed.", required=True),
        Column(
            "applied_at",
            TIMESTAMP,
            "When `articles` took it in; null while pending. Files of other datasets: loaded_at.",
        ),
        Column(
            "compaction_id",
            TEXT,
            "The compaction in whose files its rows are now (`compacted_files`); null: they are in lake_path.",
        ),
    ),
    key=("table_name", "source_at", "project_id", "namespace_id", "identifier"),
)
COMPACTED_FILES = Table(
    "compacted_files",
    "Files of the lake into which the rows of many files of hours, or of the chunks of a snapshot, were written "
    "together, sorted by page. `loads` says which files those are.",
    (
        _TABLE_NAME,
        Column(
            "compaction_id", TEXT, "Digest of what was compacted together; several files may share it.", required=True
        ),
        Column(
            "span",
            TEXT,
            "Length of time whose hours were compacted together, for example `day`; `snapshot`: a version of a "
            "snapshot.",
            required=True,
        ),
        Column("first_hour", TIMESTAMP, "First hour of its span; null for a snapshot."),
        Column("end_hour", TIMESTAMP, "First hour after its span; null for a snapshot."),
        Column("lake_path", TEXT, "Parquet file, relative to the lake's folder.", required=True),
        Column("first_project_id", TEXT, "Project of its first row.", required=True),
        Column("last_project_id", TEXT, "Project of its last row.", required=True),
        Column("row_count", INT, "Rows in the Parquet file.", required=True),
        Column("lake_bytes", INT, "Bytes of the Parquet file.", required=True),
        Column("compacted_at", TIMESTAMP, "When the compaction was committed.", required=True),
    ),
    key=("lake_path",),
)
SNAPSHOTS = Table(
    "snapshots",
    "The kept versions of each snapshot. Of `snapshot_articles` the one with the greatest boundary_at (then "
    "exported_at) lies underneath `articles`; replaced ones stay for a while, for the pages as they were. Other "
    "datasets keep the version loaded last.",
    (
        _TABLE_NAME,
        *SNAPSHOT_VERSION,
        *PROJECT_AND_NAMESPACE,
        Column(
            "boundary_at",
            TIMESTAMP,
            "newest_event_at less ten minutes: older changes are in the snapshot, and their updates no longer count. "
            "Null where the dataset has no event_at.",
        ),
        Column(
            "source_at",
            TIMESTAMP,
            "The source_at of the rows that came from this version: within a second of boundary_at (else of "
            "exported_at), never a full hour, and different from every other version's.",
            required=True,
        ),
        Column("newest_event_at", TIMESTAMP, "Greatest event_at of its rows; null where the dataset has none."),
        Column("exported_at", TIMESTAMP, "When the service made it (date_modified of the snapshot)."),
        Column("file_count", INT, "Files it was loaded from.", required=True),
        Column("row_count", INT, "Rows of the files, duplicates included.", required=True),
        Column("duplicate_count", INT, "Rows that repeat a page and revision and are passed over.", required=True),
        Column("loaded_at", TIMESTAMP, "When the load was committed.", required=True),
        Column("applied_at", TIMESTAMP, "When `articles` took it in; null while pending."),
    ),
    key=("table_name", "snapshot_id", "snapshot_version"),
)
#: Rejected lines as a conversion writes them to the lake: the folder of the file says which table they are not in.
REJECTED_LINES = Table(
    "rejects",
    "Lines that could not be converted, whole and with their reason. Nothing is dropped.",
    (
        *_FILE,
        Column("archive", TEXT, "Archive, relative to the archive's folder.", required=True),
        Column("member", TEXT, "Member of the tar.", required=True),
        Column("line_number", INT, "Line in the member, from 1.", required=True, rising=True),
        Column("byte_offset", INT, "Offset of the line in the member, from 0.", required=True, rising=True),
        Column("reason", TEXT, "Why it could not be converted.", required=True),
        Column("raw", pa.binary(), "The line's bytes; of a line over 1 MiB the first 4,096.", required=True),
        Column("raw_bytes", INT, "Bytes of the line."),
        Column(
            "raw_path",
            TEXT,
            "File with the whole of a line over 1 MiB, relative to the lake's folder; null: `raw` is whole.",
        ),
        Column("raw_offset", INT, "Where in that file the line's gzip member begins, from 0."),
    ),
    key=("archive", "member", "line_number"),
)
REJECTS = replace(
    REJECTED_LINES, columns=(_TABLE_NAME, SOURCE_AT, *REJECTED_LINES), key=("table_name", *REJECTED_LINES.key)
)
HOURS = Table(
    "hours",
    "Coverage: one row per dataset, hour, project and namespace, so that gaps are never silent.",
    (
        _TABLE_NAME,
        BATCH_HOUR,
        *PROJECT_AND_NAMESPACE,
        Column("state", TEXT, "One of " + ", ".join(HourState) + ".", required=True),
        Column("row_count", INT, "Rows loaded."),
        Column("reject_count", INT, "Lines rejected."),
        Column("load_count", INT, "How often the hour was loaded with different content; over 1: redone."),
        Column("checked_at", TIMESTAMP, "When this was last looked at.", required=True),
        Column("reason", TEXT, "Why the hour is not loaded, in a sentence."),
    ),
    key=("table_name", "batch_hour", "project_id", "namespace_id"),
)
PROJECT_STATE = Table(
    "project_state",
    "From when until when `articles` is exact, per project and namespace.",
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
            "First hour, from the base snapshot on (without one, from the first loaded hour on), that is neither "
            "loaded, empty nor absent; null: none.",
        ),
        Column(
            "exact_from_at",
            TIMESTAMP,
            "Earliest exact moment: just after newest_event_at of the oldest kept snapshot from which hours follow "
            "unbroken. Exact means: complete as far as the service's files are. Null without a snapshot.",
        ),
        Column("exact_until_at", TIMESTAMP, "End of the last hour of that unbroken run. Null without a snapshot."),
        Column("reason", TEXT, "Why no moment is exact, and the command that helps; null: there is an exact range."),
        Column(
            "absent_count",
            INT,
            "Hours of the exact range that the batch listing did not name and that were last looked for less than "
            f"{RECHECKS[-1] // timedelta(hours=1)} hours after they began: a quiet project, or an "
            "export that failed and may still be repeated. Null without an exact range.",
        ),
        Column(
            "reject_count",
            INT,
            "Records of the exact range, of its hours and snapshots, that could not be converted: they are in "
            "`rejects`, and `articles` lacks them. Null without an exact range.",
        ),
        Column(
            "uncertain_count",
            INT,
            "Pages of `articles` that may have changed in an hour that is lost for good: no later change of them is "
            "known, and no lookup has found them since. 0: none. Pages that were created in that hour and have not "
            "changed since are not in `articles` and not counted.",
        ),
        Column("repaired_count", INT, "Pages that a repair has looked up since the last lost hour."),
    ),
    key=("project_id", "namespace_id"),
)
ABOUT = Table(
    "about",
    "What this file is: service, licence and attribution, versions, when it was published.",
    (Column("name", TEXT, "Name of the fact.", required=True), Column("value", TEXT, "The answer.", required=True)),
    key=("name",),
)
