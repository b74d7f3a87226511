"""Operations on a data folder that the benchmarks of warehouse and growth measure, each in a child process."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from resources.warehouse import Warehouse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from resources.warehouse import ConvertedFile, Snapshot

_COUNTS = Path("/proc/self/io")


def load_snapshots(data: Path, snapshots: Sequence[Snapshot]) -> None:
    """Load snapshots."""
    warehouse = Warehouse(data)
    for snapshot in snapshots:
        warehouse.load_snapshot(snapshot)


def load_hours(data: Path, hours: Sequence[list[ConvertedFile]]) -> None:
    """Load hours one after the other, from files to `article_changes` and the ledger, then apply all to `articles`."""
    warehouse = Warehouse(data)
    for files in hours:
        hour = files[0].batch_hour
        assert hour is not None
        warehouse.load_hour(hour, files)
    warehouse.apply_changes()


def apply_changes(data: Path) -> None:
    """Apply the loaded changes to `articles`."""
    Warehouse(data).apply_changes()


def rebuild(data: Path) -> None:
    """Rebuild `articles` from everything that is loaded."""
    Warehouse(data).rebuild_articles()


def publish(data: Path) -> Path:
    """Publish; returns the path of the published file."""
    return Warehouse(data).publish().path


def published_sizes(path: Path) -> dict[str, float]:
    """Return the size of the published file, and the bytes that this process caused to be written to disk."""
    found = {"GB published": path.stat().st_size / 1e9}
    if _COUNTS.exists():
        words = dict(line.split(": ") for line in _COUNTS.read_text().splitlines())
        found["GB written"] = int(words["write_bytes"]) / 1e9
    return found


def ask(data: Path, query: str, limit: float, expected: list[tuple[Any, ...]] | None = None) -> None:
    """Answer a query over a new connection to the published file; it is interrupted after `limit` seconds."""
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
        raise RuntimeError(f"The answer is {found} and not {expected}: {query}")
