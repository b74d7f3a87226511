"""Rows of snapshots that are not of articles: each key once, the newest row of it; what follows from them; and their bodies."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from resources.datasets.paths import short
from resources.warehouse.database.connect import answer
from resources.warehouse.database.parts import derived
from resources.warehouse.database.sql import column_list, identifier, moment, nulls, quoted, statement
from resources.warehouse.load.files import files_of_versions

if TYPE_CHECKING:
    from collections.abc import Container
    from datetime import datetime
    from pathlib import Path

    import duckdb

    from resources.datasets import Dataset
    from resources.tables import Table


@dataclass(frozen=True)
class Kept:
    """One kept version of a dataset's snapshot, and where its files lie."""

    dataset: Dataset
    snapshot_id: str
    snapshot_version: str
    project_id: str
    namespace_id: int
    paths: tuple[str, ...]
    source_at: datetime | None = None

    @property
    def files(self) -> tuple[str, ...]:
        """Its files."""
        return self.paths

    def without(self, missing: Container[str]) -> Kept:
        """The same less the files that are gone."""
        return replace(self, paths=tuple(path for path in self.paths if path not in missing))

    def bodies(self) -> str:
        """A query for its rows with the columns of the view of bodies.

        What is the same for the whole version is a constant, so that a question for something else opens none of its files.
        """
        assert self.dataset.bodies is not None
        own = {"project_id": quoted(self.project_id), "namespace_id": f"CAST({self.namespace_id} AS BIGINT)"}
        if self.source_at is not None:
            own["source_at"] = moment(self.source_at)
        columns = ", ".join(
            f"{own.get(c.name, identifier(c.name))} AS {identifier(c.name)}" for c in self.dataset.bodies
        )
        return f"SELECT {columns} FROM {self._written('once_rows')}"  # noqa: S608  declared names

    def insert_derived(self, table: Table) -> str:
        """The statement that puts what follows from its bodies into a table."""
        query = derived(table.name, f"({self.bodies()})")
        return f"INSERT INTO {identifier(table.name)} SELECT {column_list(table)} FROM ({query})"  # noqa: S608  declared names

    def _written(self, name: str) -> str:
        """A statement with the version's own values written in, where DuckDB takes no parameter (views)."""
        table = self.dataset.table
        return statement(
            f"load/{name}",
            nothing=nulls(table),
            folder=quoted(f"{table.name}/{self.snapshot_id}/{short(self.snapshot_version)}/"),
            files=f"[{', '.join(quoted(path) for path in self.paths)}]",
        )


def kept_versions(connection: duckdb.DuckDBPyConnection, dataset: Dataset, lake_root: Path) -> list[Kept]:
    """The loaded versions of a dataset of snapshots. The names of their files are not checked: `read.faults` does that."""
    found = answer(
        connection,
        "SELECT snapshot_id, snapshot_version, project_id, namespace_id, source_at FROM snapshots WHERE table_name = ? ORDER BY ALL",
        [dataset.name],
    )
    files = files_of_versions(connection, lake_root, dataset.name, checked=False)
    return [
        Kept(
            dataset, identifier, version, project, namespace, files.get((project, namespace, source_at), ()), source_at
        )
        for identifier, version, project, namespace, source_at in found
    ]
