"""The three layers of a dataset as Dagster has them: archive, lake and warehouse, an asset each.

Dagster's daemon acts on automation conditions and freshness. The pipeline's own runs bring an hour through all layers,
so nothing follows them. `FOLLOW_UPSTREAM` is for assets that somebody materialized by hand, for example the archive of
some hours: their lake and then their tables follow. Only the automation sensors evaluate it, and they are off until
somebody turns them on. The sensor `publish_pending` brings the current states and the published file up to date.

Freshness is of assets and not of hours: an old hour that is materialized again makes its assets fresh as well. The
check `last_48_hours_covered` reports each missing hour; freshness reports that the pipeline does not run at all.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import dagster as dg

from assets.describe import OWNERS, lake_metadata, table_metadata
from resources.datasets import LATE, RETENTION, Family
from resources.lake import conversion_version, list_version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from resources.datasets import Dataset
    from resources.tables import Table

#: Each change triggers one run; failures trigger none. The history from before a sensor was turned on is no change.
FOLLOW_UPSTREAM: Final = (
    dg.AutomationCondition.any_deps_updated().since_last_handled()
    & ~dg.AutomationCondition.any_deps_missing()
    & ~dg.AutomationCondition.any_deps_in_progress()
    & ~dg.AutomationCondition.in_progress()
).with_label("the layer before it has changed")
#: For assets that each hour changes. It fails long before the service forgets an hour.
HOURLY: Final = dg.FreshnessPolicy.time_window(warn_window=LATE, fail_window=RETENTION / 4)
#: Lists change rarely and are fetched once a day. Snapshots and lookups are fetched when there is reason to, so nothing
#: is late there.
_FRESHNESS: Final = {
    Family.HOURLY: HOURLY,
    Family.LIST: dg.FreshnessPolicy.time_window(warn_window=timedelta(days=1.5), fail_window=timedelta(days=3)),
}

#: Where everything comes from: no asset of ours, so it is never materialized, but the graph begins there.
SERVICE: Final = dg.AssetSpec(
    "service",
    group_name="service",
    kinds={"http"},
    owners=list(OWNERS),
    description="The Enterprise Content Service, or the sandbox in its place: lists, snapshots, hourly files, lookups "
    "and streams. The resource `enterprise` says which service it is.",
)

#: Families whose layers can be made one after the other. A lookup goes through all of them at once.
_STEPWISE: Final = frozenset({Family.LIST, Family.SNAPSHOT, Family.HOURLY})


#: Results of a whole run have a code version, so that the Dagster UI shows that they are of another declaration. Hours
#: and snapshots have none: each partition would have to be made again at once, or be shown as out of date for good.
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


def sibling(other: dg.AssetKey, key: dg.AssetKey) -> dg.AssetKey:
    """A key of this module with the prefix that another of our assets has in a project."""
    return dg.AssetKey([*other.path[:-2], *key.path])


#: What people type where Dagster asks for a partition of a snapshot.
SNAPSHOT_KEYS: Final = (
    "A partition is one snapshot, by the service's identifier: the project, `_namespace_` and the number of the "
    "namespace, for example `enwiki_namespace_0`. The discover_… sensors, `wme run --snapshots` and `wme snapshots "
    "download` add those of the mirrored projects."
)


def specs(dataset: Dataset, *, skippable: bool = False) -> tuple[dg.AssetSpec, dg.AssetSpec, dg.AssetSpec]:
    """The assets of all three, in the same order."""
    archive, lake, warehouse = keys(dataset)
    table = dataset.table
    common: dict[str, Any] = {
        "skippable": skippable,
        "owners": list(OWNERS),
        "freshness_policy": _FRESHNESS.get(dataset.family),
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
