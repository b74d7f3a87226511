"""The views of bodies that datasets declare, over the lake files of their loaded hours and versions of snapshots."""

from __future__ import annotations

from typing import TYPE_CHECKING

from resources.datasets import Family, datasets
from resources.warehouse.load.once import kept_versions
from resources.warehouse.load.once_hours import KeptHours, kept_hours

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import duckdb

    from resources.tables import Table
    from resources.warehouse.load.once import Kept


def kept(connection: duckdb.DuckDBPyConnection, lake_root: Path) -> list[Kept | KeptHours]:
    """The hours and versions whose bodies are asked for."""
    found: list[Kept | KeptHours] = []
    for dataset in datasets():
        if dataset.bodies is not None and dataset.family is Family.HOURLY:
            found.append(kept_hours(connection, dataset, lake_root))
        elif dataset.bodies is not None:
            found += kept_versions(connection, dataset, lake_root)
    return found


def views() -> tuple[Table, ...]:
    """The views that datasets declare. Hours and snapshots may have one together."""
    return tuple(dict.fromkeys(dataset.bodies for dataset in datasets() if dataset.bodies is not None))


def parts(view: Table, sources: Sequence[Kept | KeptHours], passed_over: str) -> list[str]:
    """The queries for its rows; `passed_over` leaves out of compacted files what counts no longer."""
    found: list[str] = []
    for source in sources:
        if source.dataset.bodies is not view:
            continue
        if isinstance(source, KeptHours):
            found += source.bodies(passed_over)
        elif source.paths:
            found.append(source.bodies())
    return found
