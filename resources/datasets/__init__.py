"""Dataset declarations, with the service's endpoint and the table for each dataset.

Requests, quota, paths, conversion, ledger, loads, coverage, checks, Dagster definitions, the data dictionary, and the
commands that list and fetch data are derived from these declarations. Code for a single dataset, such as the current
articles or the planning of chunks within a quota, belongs elsewhere. This package imports only the tables.
"""

from __future__ import annotations

from resources.datasets.declaration import (
    AHEAD,
    ARTICLE_CHANGES,
    ENTITY_CHANGES,
    LATE,
    LISTS,
    LOOKUPS,
    RETENTION,
    SNAPSHOT_ARTICLES,
    SNAPSHOT_ENTITIES,
    STRUCTURED_ARTICLES,
    Dataset,
    Family,
    also,
    base_of,
    datasets,
    last_complete_hour,
    named,
    tables,
)

__all__ = [
    "AHEAD",
    "ARTICLE_CHANGES",
    "ENTITY_CHANGES",
    "LATE",
    "LISTS",
    "LOOKUPS",
    "RETENTION",
    "SNAPSHOT_ARTICLES",
    "SNAPSHOT_ENTITIES",
    "STRUCTURED_ARTICLES",
    "Dataset",
    "Family",
    "also",
    "base_of",
    "datasets",
    "last_complete_hour",
    "named",
    "tables",
]
