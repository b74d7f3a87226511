"""The ledger as those look at it who tidy up: which lake files are named, and since when.

Belongs here: reading names. Does not belong here: deciding what may go (see `assets.housekeeping`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from resources.warehouse.connect import answer

if TYPE_CHECKING:
    from datetime import datetime

    import duckdb


@dataclass(frozen=True)
class LoadedFile:
    """One row of `loads`. `lake_path` is relative to the lake."""

    table_name: str
    lake_path: str
    identifier: str
    version: str
    loaded_at: datetime


@dataclass(frozen=True)
class Ledger:
    """What the build file and the published file name at one moment.

    Attributes:
        files: The loaded files of the build file.
        snapshots: Kept versions of snapshots as (identifier, version, loaded_at).
        published_paths: Lake files that the published file names, relative to the lake.
    """

    files: tuple[LoadedFile, ...]
    snapshots: tuple[tuple[str, str, datetime], ...]
    published_paths: frozenset[str]

    @property
    def named(self) -> frozenset[str]:
        """Lake files that somebody may read because they are named, relative to the lake."""
        return self.published_paths | {file.lake_path for file in self.files}


def read(build: duckdb.DuckDBPyConnection, published: duckdb.DuckDBPyConnection | None) -> Ledger:
    """The ledger of the build file, and what the published file names."""
    rows = answer(build, "SELECT table_name, lake_path, identifier, version, loaded_at FROM loads ORDER BY ALL")
    kept = answer(build, "SELECT snapshot_id, snapshot_version, loaded_at FROM snapshots ORDER BY ALL")
    names = [] if published is None else answer(published, "SELECT lake_path FROM loads")
    return Ledger(tuple(LoadedFile(*row) for row in rows), tuple(kept), frozenset(path for (path,) in names))
