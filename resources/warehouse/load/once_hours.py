"""The bodies of hourly files that are not of articles, which stay in the lake."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from resources.datasets.paths import with_bodies
from resources.warehouse.database.connect import has_table
from resources.warehouse.database.sql import identifier, quoted, statement

if TYPE_CHECKING:
    from collections.abc import Container, Iterator
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
        more = {"columns": columns, "table_folder": quoted(f"{self.dataset.name}/"), "passed_over": passed_over}
        for name, paths in (("bodies_of_hours", self.paths), ("bodies_of_hours_compacted", self.compacted)):
            if paths:
                yield statement(f"load/{name}", files=f"[{', '.join(quoted(path) for path in paths)}]", **more)


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
