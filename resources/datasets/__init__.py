"""The datasets: one declaration each, of the service's offer and the table it becomes.

The rest follows from it: requests and their quota, paths, conversion, ledger and loads, coverage and checks, Dagster
assets, jobs and sensors, the dictionary, and the commands that list and fetch. Code for one dataset alone is elsewhere:
the current articles, and the planning of chunks within a quota. This package is a leaf: it imports the tables alone.
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
