"""Rows of hourly files that are not of articles: each key once in its file, and the bodies that stay in the lake."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from resources.datasets.paths import with_bodies
from resources.warehouse.database.connect import has_table
from resources.warehouse.database.sql import column_list, identifier, quoted, statement
from resources.warehouse.load.once import newest_first

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence
    from pathlib import Path

    import duckdb

    from resources.datasets import Dataset


@dataclass(frozen=True)
class KeptHours:
    """The lake files with the bodies of the loaded hours of a dataset: those of single hours, and compacted ones."""

    dataset: Dataset
    paths: tuple[str, ...]
    compacted: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.paths, *self.compacted)

    def without(self, missing: Container[str]) -> KeptHours:
        """The same less the files that are gone."""
        return KeptHours(
            self.dataset,
            tuple(path for path in self.paths if path not in missing),
            tuple(path for path in self.compacted if path not in missing),
        )

    def bodies(self, passed_over: str) -> Iterator[str]:
        """The queries for the rows of updates with the columns of the view of bodies; `passed_over` leaves out what is of compacted files."""
        assert self.dataset.bodies is not None
        own = {"source_at": "batch_hour"}
        columns = ", ".join(
            f"{identifier(own.get(c.name, c.name))} AS {identifier(c.name)}" for c in self.dataset.bodies
        )
        more = {"columns": columns, "table_name": quoted(self.dataset.name), "passed_over": passed_over}
        for name, paths in (("bodies_of_hours", self.paths), ("bodies_of_hours_compacted", self.compacted)):
            if paths:
                yield statement(f"load/{name}", files=f"[{', '.join(quoted(path) for path in paths)}]", **more)


def insert_hours_once(connection: duckdb.DuckDBPyConnection, dataset: Dataset, paths: Sequence[str]) -> int:
    """Insert the rows of the files of `incoming`, less their bodies, each key of a file once; returns the number of rows.

    Of several rows of a key the newest stays; the others are noted, so that the views over the lake pass over them as well.
    """
    table = dataset.table
    key = ", ".join(identifier(name) for name in table.key if name not in dataset.given)
    connection.execute(
        "DELETE FROM internal.shadowed_hours AS old USING incoming WHERE old.table_name = incoming.table_name "
        "AND old.batch_hour = incoming.batch_hour AND old.project_id = incoming.project_id AND old.namespace_id = incoming.namespace_id"
    )
    if key:
        text = statement("load/once_hours", key=key, newest_first=newest_first(table))
        connection.execute(text, {"paths": list(paths)})
    else:
        connection.execute("CREATE OR REPLACE TEMP TABLE repeated (path VARCHAR, file_row BIGINT)")
    connection.execute(
        "UPDATE incoming SET duplicate_count = copies.number "
        "FROM (SELECT path, count(*) AS number FROM repeated GROUP BY path) AS copies WHERE incoming.path = copies.path"
    )
    connection.execute(
        "INSERT INTO internal.shadowed_hours SELECT table_name, batch_hour, project_id, namespace_id, file_row "
        "FROM repeated JOIN incoming USING (path)"
    )
    columns = column_list(table.narrow)
    return int(
        connection.execute(
            f"INSERT INTO {identifier(table.name)} BY NAME SELECT {columns} "  # noqa: S608  declared names
            "FROM read_parquet($paths, filename := true, file_row_number := true, hive_partitioning := false) AS file "
            "ANTI JOIN repeated ON file.filename = repeated.path AND file.file_row_number = repeated.file_row",
            {"paths": list(paths)},
        ).fetchall()[0][0]
    )


def kept_hours(connection: duckdb.DuckDBPyConnection, dataset: Dataset, lake_root: Path) -> KeptHours:
    """The lake files of the loaded hours of a dataset. Their names are not checked: `read.faults` does that."""
    root = lake_root.resolve()
    found = connection.execute(
        "SELECT lake_path FROM loads WHERE table_name = ? AND row_count > 0 AND compaction_id IS NULL ORDER BY batch_hour, lake_path",
        [dataset.name],
    ).fetchall()
    compacted = []
    if has_table(connection, "compacted_files"):
        compacted = connection.execute(
            "SELECT lake_path FROM compacted_files WHERE table_name = ? ORDER BY first_hour, lake_path", [dataset.name]
        ).fetchall()
    return KeptHours(
        dataset,
        tuple(str(root / path) for (path,) in found),
        tuple(str(root / with_bodies(path)) for (path,) in compacted),
    )
