"""The three layers of a dataset as Dagster has them: archive, lake and warehouse, an asset each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import dagster as dg

from assets.automation import FOLLOW_UPSTREAM, OF_FAMILY
from assets.describe import OWNERS, lake_metadata, table_metadata
from resources.datasets import Family
from resources.lake import conversion_version, list_version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from resources.datasets import Dataset
    from resources.tables import Table


#: Where everything comes from: no asset of ours, so it is never materialized, but the graph begins there.
SERVICE: Final = dg.AssetSpec(
    "service",
    group_name="service",
    kinds={"http"},
    owners=list(OWNERS),
    description="The Enterprise Content Service, or the sandbox in its place: lists, snapshots, hourly files, lookups "
    "and streams. The resource "
    "`enterprise` says which service it is.",
)

#: Families whose layers can be made one after the other. A lookup goes through all of them at once.
_STEPWISE: Final = frozenset({Family.LIST, Family.SNAPSHOT, Family.HOURLY})


#: What a run makes as a whole has a code version, so that the Dagster UI shows that it was made by another declaration.
#: Of hours and snapshots each
#: partition would have to be made again at once: whatever was made alone before the version was there would be shown as
#: out of date for good.
_VERSIONS: Final[dict[Family, Callable[[Table], str]]] = {Family.LIST: list_version, Family.LOOKUP: conversion_version}


def archive_key(dataset: Dataset) -> dg.AssetKey:
    """The asset with the bytes as the service sent them. All lists share one."""
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


def own(keys: Iterable[dg.AssetKey]) -> dict[dg.AssetKey, dg.AssetKey]:
    """Keys of our assets in a project, by those in this module.

    In another project they have a prefix (`pipelines.embedding`).
    """
    return {unprefixed(key): key for key in keys}


def unprefixed(key: dg.AssetKey) -> dg.AssetKey:
    """The key of one of our assets without the prefix of a project: they all have two parts."""
    return dg.AssetKey(key.path[-2:])


def beside(other: dg.AssetKey, key: dg.AssetKey) -> dg.AssetKey:
    """A key of this module with the prefix that another of our assets has in a project."""
    return dg.AssetKey([*other.path[:-2], *key.path])


#: What people type where Dagster asks for a partition of a snapshot.
SNAPSHOT_KEYS: Final = (
    "A partition is one snapshot, by the service's identifier: the project, `_namespace_` and the number of the "
    "namespace, for example "
    "`enwiki_namespace_0`. The discover_… sensors, `wme run --snapshots` and `wme snapshots download` add those of the "
    "mirrored projects."
)


def specs(dataset: Dataset, *, skippable: bool = False) -> tuple[dg.AssetSpec, dg.AssetSpec, dg.AssetSpec]:
    """The assets of all three, in the same order."""
    archive, lake, warehouse = keys(dataset)
    table = dataset.table
    common: dict[str, Any] = {
        "skippable": skippable,
        "owners": list(OWNERS),
        "freshness_policy": OF_FAMILY.get(dataset.family),
    }
    made_by = _VERSIONS.get(dataset.family)
    more = f"\n\n{SNAPSHOT_KEYS}" if dataset.family is Family.SNAPSHOT else ""
    of_table: dict[str, Any] = common | {
        "description": f"{table.description}{more}",
        "code_version": None if made_by is None else made_by(table),
    }
    if dataset.family in _STEPWISE:
        of_table["automation_condition"] = FOLLOW_UPSTREAM
    return (
        dg.AssetSpec(
            archive,
            deps=[SERVICE],
            group_name="archive",
            kinds={"http", "file"},
            description=f"{dataset.description}{more}",
            **common,
        ),
        dg.AssetSpec(
            lake, deps=[archive], group_name="lake", kinds={"parquet"}, metadata=lake_metadata(table), **of_table
        ),
        dg.AssetSpec(
            warehouse,
            deps=[lake],
            group_name="warehouse",
            kinds={"duckdb", "table"},
            metadata=table_metadata(table.narrow),
            **of_table,
        ),
    )


def without_steps(dataset: Dataset, partitions: dg.PartitionsDefinition[str]) -> list[dg.AssetSpec]:
    """The assets of a dataset that is not mirrored: shown in the graph, and not materializable."""
    return [
        spec.replace_attributes(partitions_def=partitions, automation_condition=None, freshness_policy=None)
        for spec in specs(dataset)
    ]
