"""The rows of snapshots, as queries over the lake: what a kept version adds to `articles`, to the views and to the past."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from resources.datasets.paths import short
from resources.tables import ARTICLES, SNAPSHOT_ARTICLES
from resources.warehouse.database.connect import answer
from resources.warehouse.database.sql import identifier, moment, nulls, quoted, statement
from resources.warehouse.load.files import files_of_versions

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    import duckdb

    from resources.tables import Table


@dataclass(frozen=True)
class Version:
    """One kept version of a snapshot, and where its files lie."""

    snapshot_id: str
    snapshot_version: str
    project_id: str
    namespace_id: int
    source_at: datetime
    paths: tuple[str, ...]

    def states(self) -> str:
        """A query for its rows as they compete for titles and pages."""
        return self._written("snapshot_states")

    def rows(self) -> str:
        """Its rows without the repeated ones, as something to select from; all declared columns, bodies too."""
        return self._written("snapshot_rows")

    def pages(self) -> str:
        """A query for its rows with the narrow columns of `snapshot_articles`."""
        own = {"snapshot_id": quoted(self.snapshot_id), "snapshot_version": quoted(self.snapshot_version)}
        return self._selected(SNAPSHOT_ARTICLES.narrow, own)

    def articles(self) -> str:
        """A query for its rows with the columns of `articles`."""
        return self._selected(ARTICLES, {"source_at": moment(self.source_at)})

    def bodies(self) -> str:
        """A query for its bodies with the columns of `article_bodies`."""
        return self._written("article_bodies_of_snapshot")

    def insert(self) -> str:
        """The statement that puts those of its rows that decide into `articles`."""
        return self._written("insert_articles_of_snapshot")

    def _selected(self, table: Table, own: dict[str, str]) -> str:
        """A query for the columns of a table.

        What is the same for the whole version is a constant (`own` besides the project and namespace), so that a question for
        something else opens none of its files.
        """
        own |= {"project_id": quoted(self.project_id), "namespace_id": f"CAST({self.namespace_id} AS BIGINT)"}
        columns = ", ".join(
            f"{own[c.name]} AS {identifier(c.name)}" if c.name in own else identifier(c.name) for c in table
        )
        return f"SELECT {columns} FROM {self.rows()}"  # noqa: S608  declared names

    def _written(self, name: str) -> str:
        """A statement with the version's own values written in, where DuckDB takes no parameter (views)."""
        return statement(
            f"load/{name}",
            rows=statement("load/snapshot_rows"),
            nothing=nulls(SNAPSHOT_ARTICLES),
            columns=", ".join(identifier(column.name) for column in ARTICLES if column.name != "source_at"),
            folder=quoted(f"{SNAPSHOT_ARTICLES.name}/{self.snapshot_id}/{short(self.snapshot_version)}/"),
            project_id=quoted(self.project_id),
            namespace_id=f"CAST({self.namespace_id} AS BIGINT)",
            source_at=moment(self.source_at),
            files=f"[{', '.join(quoted(path) for path in self.paths)}]",
        )


def versions(
    connection: duckdb.DuckDBPyConnection, lake_root: Path, *, bases_only: bool = False, checked: bool = True
) -> list[Version]:
    """The kept versions, or those underneath `articles` alone; for `checked` see `files_of_versions`."""
    source = "internal.bases" if bases_only else "snapshots WHERE table_name = 'snapshot_articles'"
    found = answer(
        connection,
        "SELECT snapshot_id, snapshot_version, project_id, namespace_id, source_at "  # noqa: S608  constant words
        f"FROM {source} ORDER BY boundary_at, snapshot_id, snapshot_version",
    )
    files = files_of_versions(connection, lake_root, SNAPSHOT_ARTICLES.name, checked=checked)
    return [
        Version(identifier, version, project, namespace, source_at, files.get((project, namespace, source_at), ()))
        for identifier, version, project, namespace, source_at in found
    ]
