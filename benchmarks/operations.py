"""Data folder operations for the warehouse and growth benchmarks. Each operation runs in a child process."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from resources.datasets import ARTICLE_CHANGES
from resources.warehouse import Warehouse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from resources.warehouse import ConvertedFile, Snapshot

_COUNTS = Path("/proc/self/io")


def load_snapshots(data: Path, snapshots: Sequence[Snapshot]) -> None:
    """Load snapshots into the warehouse."""
    warehouse = Warehouse(data)
    for snapshot in snapshots:
        warehouse.load_snapshot(snapshot)


def load_hours(data: Path, hours: Sequence[list[ConvertedFile]]) -> None:
    """Load each hour's files into `article_changes` and the ledger. Then, apply all changes to `articles`."""
    warehouse = Warehouse(data)
    for files in hours:
        hour = files[0].batch_hour
        assert hour is not None
        warehouse.load_hour(hour, files, dataset=ARTICLE_CHANGES)
    warehouse.apply_changes()


def apply_changes(data: Path) -> None:
    """Apply the loaded changes to `articles`."""
    Warehouse(data).apply_changes()


def rebuild(data: Path) -> None:
    """Rebuild `articles` from all loaded data."""
    Warehouse(data).rebuild_articles()


def maintain(data: Path) -> Path:
    """Merge small row groups and publish, as a run does. Return the path of the published file."""
    Warehouse(data).merge_row_groups()
    return publish(data)


def publish(data: Path) -> Path:
    """Publish the warehouse and return the path of the published file."""
    return Warehouse(data).publish().path


def published_sizes(path: Path) -> dict[str, float]:
    """Return the size of the published file and the amount that this process wrote to disk, both in GB."""
    found = {"GB published": path.stat().st_size / 1e9}
    if _COUNTS.exists():
        words = dict(line.split(": ") for line in _COUNTS.read_text().splitlines())
        found["GB written"] = int(words["write_bytes"]) / 1e9
    return found


def ask(data: Path, query: str, limit: float, expected: list[tuple[Any, ...]] | None = None) -> None:
    """Run a query in a new connection to the published file, and interrupt the query after `limit` seconds."""
    with Warehouse(data).connect_published() as connection:
        timer = threading.Timer(limit, connection.interrupt)
        timer.start()
        try:
            found = connection.execute(query).fetchall()
        except duckdb.InterruptException:
            return
        finally:
            timer.cancel()
    if expected is not None and found != expected:
        raise RuntimeError(f"The query returned {found} instead of {expected}: {query}")
