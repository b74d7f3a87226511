"""Table declarations, with names, Arrow types, descriptions, keys, and paths of values in the service's records.

Arrow schemas, DuckDB tables and comments, Dagster column schemas, checks and the data dictionary are derived from these
declarations. This package depends only on pyarrow.
"""

from __future__ import annotations

from resources.tables.articles import (
    ARTICLE_BODIES,
    ARTICLE_CHANGES,
    ARTICLES,
    LOOKUPS,
    SNAPSHOT_ARTICLES,
    VISIBILITY_CHANGES,
    ChangeType,
    Purpose,
)
from resources.tables.declaration import TIMESTAMP, Column, Table, version_of
from resources.tables.entities import ENTITIES
from resources.tables.ledger import (
    COMPACTED_FILES,
    COVERED,
    HOURS,
    LOADS,
    NO_SNAPSHOT,
    PROJECT_STATE,
    RECHECKS,
    REJECTED_LINES,
    REJECTS,
    SNAPSHOTS,
    HourState,
)

__all__ = [
    "ARTICLES",
    "ARTICLE_BODIES",
    "ARTICLE_CHANGES",
    "COMPACTED_FILES",
    "COVERED",
    "ENTITIES",
    "HOURS",
    "LOADS",
    "LOOKUPS",
    "NO_SNAPSHOT",
    "PROJECT_STATE",
    "RECHECKS",
    "REJECTED_LINES",
    "REJECTS",
    "SNAPSHOTS",
    "SNAPSHOT_ARTICLES",
    "TIMESTAMP",
    "VISIBILITY_CHANGES",
    "ChangeType",
    "Column",
    "HourState",
    "Purpose",
    "Table",
    "version_of",
]
