"""Columns that tables of different groups have: one quantity, one name, one description."""

from __future__ import annotations

from resources.tables.declaration import INT, TEXT, TIMESTAMP, Column

BATCH_HOUR = Column(
    "batch_hour", TIMESTAMP, "Start (UTC) of the hour whose file this row came from. Count by event_at.", required=True
)
SOURCE_AT = Column(
    "source_at",
    TIMESTAMP,
    "Identifies the file this row came from: the batch_hour of an hourly file, the source_at of a snapshot's version "
    "in `snapshots`, or the moment at which a run of lookups began; the latter two are never a full hour. Count by "
    "event_at.",
    required=True,
)
BATCH_HOUR_OR_NULL = Column(
    "batch_hour", TIMESTAMP, "Start (UTC) of the hour whose file this row came from; null for a snapshot."
)
PROJECT_ID = Column("project_id", TEXT, "Project (database name of the wiki), for example enwiki.", required=True)
NAMESPACE_ID = Column("namespace_id", INT, "Namespace: 0 article, 6 file, 10 template, 14 category.", required=True)
PROJECT_AND_NAMESPACE = (PROJECT_ID, NAMESPACE_ID)
SNAPSHOT_VERSION = (
    Column(
        "snapshot_id", TEXT, "The service's identifier of the snapshot, for example enwiki_namespace_0.", required=True
    ),
    Column(
        "snapshot_version", TEXT, "Version of the whole snapshot (MD5); compare with <>, not with <.", required=True
    ),
)
