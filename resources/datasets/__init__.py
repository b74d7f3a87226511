"""Declarations of the datasets: the service's endpoint, and the table of each.

Everything else is derived from these declarations: requests and quota, paths, conversion, ledger and loads, coverage
and checks, Dagster assets, jobs and sensors, the data dictionary, and the commands that list and fetch. Code for a
single dataset is elsewhere (the current articles, the planning of chunks within a quota). This package imports only the
tables.
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
