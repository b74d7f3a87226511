"""The ledger for cleanup: the lake files that are named, and since when.

It is read a day at a time, because the ledger of years has millions of rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import TYPE_CHECKING, Any

import duckdb

from resources.datasets.paths import with_bodies
from resources.errors import clause
from resources.warehouse.database.connect import answer, has_table
from resources.warehouse.errors import WarehouseDamagedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import date
    from pathlib import Path

    from resources.datasets import Dataset

#: The lake files that are read, by the table that names them: those loaded and not compacted, and the compacted ones.
_NAMED = {
    "loads": "SELECT lake_path, lake_bytes, false FROM loads WHERE compaction_id IS NULL",
    "compacted_files": "SELECT lake_path, lake_bytes, true FROM compacted_files",
}
#: Rows of the ledger read at once.
_ROWS = 10_000


@dataclass(frozen=True)
class LoadedFile:
    """One row of `loads`.

    `lake_path` is relative to the lake; where `is_compacted`, its rows are in compacted files.
    """

    lake_path: str
    identifier: str
    version: str
    loaded_at: datetime
    is_compacted: bool = False


@dataclass(frozen=True)
class Named:
    """Files of a day's hours, or of all snapshots, that the build file and the published file name.

    Attributes:
        files: The loaded files of the build file.
        paths: Lake files that somebody may read, because either names them; relative to the lake.
    """

    files: tuple[LoadedFile, ...]
    paths: frozenset[str]


class Ledger:
    """Ledger of the build file and the published file (None: there is none) while both are held open."""

    def __init__(self, build: duckdb.DuckDBPyConnection, published: duckdb.DuckDBPyConnection | None) -> None:
        self._build, self._published = build, published

    def versions(self, dataset: Dataset) -> tuple[tuple[str, str, datetime], ...]:
        """Kept versions of a dataset's snapshots as (identifier, version, loaded_at)."""
        query = "SELECT snapshot_id, snapshot_version, loaded_at FROM snapshots WHERE table_name = ? ORDER BY ALL"
        return tuple(answer(self._build, query, [dataset.name]))

    def of_day(self, day: date, dataset: Dataset) -> Named:
        """Return the files of a dataset's hours of a day (UTC)."""
        start = datetime.combine(day, time(), UTC)
        return self._named(
            "table_name = ? AND batch_hour >= ? AND batch_hour < ?",
            [dataset.name, start, start + timedelta(days=1)],
        )

    def of_snapshots(self, dataset: Dataset) -> Named:
        """Return the files of a dataset's snapshots."""
        return self._named("table_name = ?", [dataset.name])

    def compacted(self, dataset: Dataset) -> frozenset[str]:
        """The compacted files of a dataset, those with bodies too, relative to the lake."""
        query = "SELECT lake_path FROM compacted_files WHERE table_name = ?"
        held = [self._build] if self._published is None else [self._build, self._published]
        return frozenset(
            path
            for file in held
            for (rows,) in answer(file, query, [dataset.name])
            for path in (rows, with_bodies(rows))
        )

    def _named(self, condition: str, parameters: Sequence[Any]) -> Named:
        rows = answer(
            self._build,
            "SELECT lake_path, identifier, version, loaded_at, compaction_id IS NOT NULL "  # noqa: S608  constant
            f"FROM loads WHERE {condition} ORDER BY ALL",
            parameters,
        )
        paths = {path for path, *_, is_compacted in rows if not is_compacted}
        if self._published is not None:
            query = f"SELECT lake_path FROM loads WHERE {condition} AND compaction_id IS NULL"  # noqa: S608  constant
            paths |= {path for (path,) in answer(self._published, query, parameters)}
        return Named(tuple(LoadedFile(*row) for row in rows), frozenset(paths))


def named_in(copy: Path) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yield the lake files that a copy of the build file reads, with their bytes.

    Paths are relative to the lake. Files whose bytes the ledger counts together form one item.

    Raises:
        WarehouseDamagedError: DuckDB cannot read the copy.
    """
    try:
        # the copy may come from anywhere, and its tables may be views of other files
        with duckdb.connect(copy, read_only=True, config={"enable_external_access": False}) as connection:
            # a table that is missing must not hide what the other one names: it is made when the copy is opened
            there = [query for table, query in _NAMED.items() if has_table(connection, table)]
            found = connection.execute("\nUNION ALL\n".join(there) or "SELECT 1 LIMIT 0")
            while rows := found.fetchmany(_ROWS):
                for path, size, is_compacted in rows:
                    yield tuple(dict.fromkeys((path, with_bodies(path)))) if is_compacted else (path,), size
    except duckdb.Error as error:
        raise WarehouseDamagedError(
            f"DuckDB cannot read {copy} ({clause(error)}). Nothing was changed. Use another copy, or make the "
            "warehouse from the archive: `wme rebuild`."
        ) from error
