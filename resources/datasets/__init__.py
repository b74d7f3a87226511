"""The datasets: one declaration each, of what the service offers and which table it becomes.

What follows from a declaration: the requests and the quota they draw on, the paths in archive and lake, conversion, the
ledger and the loads, coverage and checks, the Dagster assets, jobs and sensors, the dictionary, and the commands that
list and fetch. What is particular to one dataset stands in code of its own: the current articles, planning chunks
within a quota.

This package is a leaf: it imports the tables alone.
"""

from __future__ import annotations

from resources.datasets.declaration import AHEAD, LATE, RETENTION, Dataset, Family, last_complete_hour
from resources.datasets.registry import (
    ARTICLE_CHANGES,
    ENTITY_CHANGES,
    LISTS,
    LOOKUPS,
    SNAPSHOT_ARTICLES,
    SNAPSHOT_ENTITIES,
    STRUCTURED_ARTICLES,
    also,
    base_of,
    datasets,
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
