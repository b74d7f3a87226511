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
    REDIRECTS,
    SNAPSHOT_ARTICLES,
    VISIBILITY_CHANGES,
    ChangeType,
    Purpose,
)
from resources.tables.declaration import TIMESTAMP, Column, Macro, Table, version_of
from resources.tables.entities import ENTITIES, ENTITIES_AT, ENTITY_VIEWS
from resources.tables.ledger import (
    ABOUT,
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
from resources.tables.views import LIVE_VIEWS, MACROS, QUESTIONS, STREAM_RUNS, STREAM_VIEWS

__all__ = [
    "ABOUT",
    "ARTICLES",
    "ARTICLE_BODIES",
    "ARTICLE_CHANGES",
    "COMPACTED_FILES",
    "COVERED",
    "ENTITIES",
    "ENTITIES_AT",
    "ENTITY_VIEWS",
    "HOURS",
    "LIVE_VIEWS",
    "LOADS",
    "LOOKUPS",
    "MACROS",
    "NO_SNAPSHOT",
    "PROJECT_STATE",
    "QUESTIONS",
    "RECHECKS",
    "REDIRECTS",
    "REJECTED_LINES",
    "REJECTS",
    "SNAPSHOTS",
    "SNAPSHOT_ARTICLES",
    "STREAM_RUNS",
    "STREAM_VIEWS",
    "TIMESTAMP",
    "VISIBILITY_CHANGES",
    "ChangeType",
    "Column",
    "HourState",
    "Macro",
    "Purpose",
    "Table",
    "version_of",
]
