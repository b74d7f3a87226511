"""The three layers of a dataset as Dagster has them: archive, lake and warehouse, an asset each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster as dg

from assets.describe import OWNERS, lake_metadata, table_metadata

if TYPE_CHECKING:
    from resources.datasets import Dataset


def archive_key(dataset: Dataset) -> dg.AssetKey:
    """What the service sent, byte for byte. All lists share one."""
    return dg.AssetKey(["archive", dataset.archive])


def lake_key(dataset: Dataset) -> dg.AssetKey:
    """The Parquet files."""
    return dg.AssetKey(["lake", dataset.name])


def warehouse_key(dataset: Dataset) -> dg.AssetKey:
    """The table in DuckDB."""
    return dg.AssetKey(["warehouse", dataset.name])


def keys(dataset: Dataset) -> tuple[dg.AssetKey, dg.AssetKey, dg.AssetKey]:
    """All three, in the order of the data."""
    return archive_key(dataset), lake_key(dataset), warehouse_key(dataset)


def archive_spec(dataset: Dataset, *, skippable: bool = False) -> dg.AssetSpec:
    """The asset of the archive."""
    return dg.AssetSpec(
        archive_key(dataset),
        skippable=skippable,
        group_name="archive",
        kinds={"http", "file"},
        owners=list(OWNERS),
        description=dataset.description,
    )


def lake_spec(dataset: Dataset, *, skippable: bool = False) -> dg.AssetSpec:
    """The asset of the lake."""
    return dg.AssetSpec(
        lake_key(dataset),
        deps=[archive_key(dataset)],
        skippable=skippable,
        group_name="lake",
        kinds={"parquet"},
        owners=list(OWNERS),
        description=dataset.table.description,
        metadata=lake_metadata(dataset.table),
    )


def warehouse_spec(dataset: Dataset, *, skippable: bool = False) -> dg.AssetSpec:
    """The asset of the warehouse."""
    return dg.AssetSpec(
        warehouse_key(dataset),
        deps=[lake_key(dataset)],
        skippable=skippable,
        group_name="warehouse",
        kinds={"duckdb", "table"},
        owners=list(OWNERS),
        description=dataset.table.description,
        metadata=table_metadata(dataset.table.narrow),
    )
