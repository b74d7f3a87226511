"""The views of bodies that datasets of snapshots declare, over the lake files of their loaded versions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from resources.datasets import Family, datasets
from resources.warehouse.database.schema import comments
from resources.warehouse.database.sql import identifier, nulls
from resources.warehouse.load.once import kept_versions

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import duckdb

    from resources.warehouse.load.once import Kept


def kept(connection: duckdb.DuckDBPyConnection, lake_root: Path) -> list[Kept]:
    """The versions whose bodies are asked for."""
    wanted = [dataset for dataset in datasets(Family.SNAPSHOT) if dataset.bodies is not None]
    return [version for dataset in wanted for version in kept_versions(connection, dataset, lake_root)]


def make_body_views(connection: duckdb.DuckDBPyConnection, versions: Sequence[Kept]) -> None:
    """Make the views, or make them again."""
    for dataset in datasets(Family.SNAPSHOT):
        if (view := dataset.bodies) is None:
            continue
        parts = [version.bodies() for version in versions if version.dataset is dataset and version.paths]
        query = "\nUNION ALL\n".join(parts or [f"SELECT {nulls(view)} WHERE false"])
        connection.execute(f"CREATE OR REPLACE VIEW {identifier(view.name)} AS\n{query}")
        for comment in comments(view, "VIEW"):
            connection.execute(comment)
