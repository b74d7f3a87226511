"""Layers and partitions of a dataset in Dagster: archive, lake and warehouse, one asset each.

Hours are partitions of all hourly files, and identifiers are partitions of snapshots. Projects and namespaces are
configuration, because hour x project would exceed Dagster's limit of 100,000 partitions within a year, and its range
backfills of two dimensions are unreliable.

Dagster's daemon evaluates automation conditions and freshness. The pipeline's own runs process an hour through all
layers and trigger no automation. `FOLLOW_UPSTREAM` is for assets that a user materialized manually, for example the
archive of some hours: their lake and then their tables follow. Only the automation sensors evaluate it, and they are
off by default. The sensor `publish_pending` updates the current states and the published file.

Freshness applies to assets, not to hours: materializing an old hour again makes its assets fresh as well. The check
`last_48_hours_covered` reports each missing hour; freshness reports that the pipeline does not run at all.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import dagster as dg
from pydantic import AwareDatetime, TypeAdapter

from assets.describe import OWNERS, lake_metadata, table_metadata
from resources import files
from resources.datasets import LATE, RETENTION, Dataset, Family, last_complete_hour
from resources.datasets.paths import hour_folders
from resources.errors import MirrorError
from resources.lake import conversion_version, list_version
from resources.tables import Table


class RunTag:
    """Run tags of Dagster, used to find and distinguish runs. The UI shows and stores them."""

    BACKFILL: Final = "dagster/backfill"
    FAILURE_REASON: Final = "dagster/failure_reason"
    MAX_RETRIES: Final = "dagster/max_retries"
    PARTITION: Final = "dagster/partition"
    RANGE_END: Final = "dagster/asset_partition_range_end"
    RANGE_START: Final = "dagster/asset_partition_range_start"
    ROOT_RUN: Final = "dagster/root_run_id"
    RUN_KEY: Final = "dagster/run_key"
    SCHEDULE: Final = "dagster/schedule_name"
    SENSOR: Final = "dagster/sensor_name"
    WILL_RETRY: Final = "dagster/will_retry"
    #: Prefix of tags that the UI does not show.
    HIDDEN: Final = ".dagster/"


#: Each change triggers one run; failures trigger none. Changes from before a sensor was turned on do not count.
FOLLOW_UPSTREAM: Final = (
    dg.AutomationCondition.any_deps_updated().since_last_handled()
    & ~dg.AutomationCondition.any_deps_missing()
    & ~dg.AutomationCondition.any_deps_in_progress()
    & ~dg.AutomationCondition.in_progress()
).with_label("the layer before it has changed")
#: For assets that change every hour. The policy fails long before the service deletes an hour.
HOURLY: Final = dg.FreshnessPolicy.time_window(warn_window=LATE, fail_window=RETENTION / 4)
#: Lists change rarely and are fetched once a day. Snapshots and lookups are fetched on demand, so they have no
#: deadline.
_FRESHNESS: Final = {
    Family.HOURLY: HOURLY,
    Family.LIST: dg.FreshnessPolicy.time_window(warn_window=timedelta(days=1.5), fail_window=timedelta(days=3)),
}

#: Source of all data: an external asset that is never materialized, shown as the root of the graph.
SERVICE: Final = dg.AssetSpec(
    "service",
    group_name="service",
    kinds={"http"},
    owners=list(OWNERS),
    description="The Enterprise Content Service, or the sandbox in its place: lists, snapshots, hourly files, "
    "lookups and streams. The resource `enterprise` shows which one is used.",
)

#: Families whose layers can be materialized one after the other. A lookup passes through all layers at once.
_STEPWISE: Final = frozenset({Family.LIST, Family.SNAPSHOT, Family.HOURLY})


#: Assets without partitions have a code version, so that the Dagster UI marks results of another declaration. Hours and
#: snapshots have none: each partition would have to be materialized again at once, or appear outdated forever.
_VERSIONS: Final[dict[Family, Callable[[Table], str]]] = {Family.LIST: list_version, Family.LOOKUP: conversion_version}


def archive_key(dataset: Dataset) -> dg.AssetKey:
    """Return the key of the asset with the bytes as the service sent them. All lists share one asset."""
    return dg.AssetKey(["archive", dataset.archive])


def lake_key(dataset: Dataset) -> dg.AssetKey:
    return dg.AssetKey(["lake", dataset.name])


def warehouse_key(dataset: Dataset) -> dg.AssetKey:
    return dg.AssetKey(["warehouse", dataset.name])


def keys(dataset: Dataset) -> tuple[dg.AssetKey, dg.AssetKey, dg.AssetKey]:
    """Return the keys of all three layers, in the order of the data."""
    return archive_key(dataset), lake_key(dataset), warehouse_key(dataset)


def own(keys: Iterable[dg.AssetKey]) -> dict[dg.AssetKey, dg.AssetKey]:
    """Map keys of this module to the project's keys, which may have a prefix (`pipelines.embedding`)."""
    return {unprefixed(key): key for key in keys}


def unprefixed(key: dg.AssetKey) -> dg.AssetKey:
    """Return the key of an asset of this package without the prefix of a project; such keys have two parts."""
    return dg.AssetKey(key.path[-2:])


def sibling(other: dg.AssetKey, key: dg.AssetKey) -> dg.AssetKey:
    """Return a key of this module with the same prefix as another asset in the project."""
    return dg.AssetKey([*other.path[:-2], *key.path])


#: Help for the partition of a snapshot, where Dagster asks for it.
SNAPSHOT_KEYS: Final = (
    "A partition is one snapshot, by the service's identifier: the project, `_namespace_` and the number of the "
    "namespace, for example `enwiki_namespace_0`. The discover_… sensors, `wme run --snapshots` and `wme snapshots "
    "download` add those of the mirrored projects."
)


def specs(dataset: Dataset, *, skippable: bool = False) -> tuple[dg.AssetSpec, dg.AssetSpec, dg.AssetSpec]:
    """Return the asset specs of all three layers, in the order of `keys`."""
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
    """Return the assets of a dataset that is not mirrored: shown in the graph, but not materializable."""
    return [
        spec.replace_attributes(partitions_def=partitions, automation_condition=None, freshness_policy=None)
        for spec in specs(dataset)
    ]


HOUR = timedelta(hours=1)
_NOTE = TypeAdapter(AwareDatetime)
_log = logging.getLogger(__name__)
_FORMAT = "%Y-%m-%d-%H:%M"

#: Oldest partition unless configured otherwise: no older hour can be in an archive.
EARLIEST = datetime(2026, 1, 1, tzinfo=UTC)


def hours_since(first: datetime) -> dg.HourlyPartitionsDefinition:
    """Return the hours from `first` on. In UTC, so that no hour is repeated or missing when clocks change."""
    return dg.HourlyPartitionsDefinition(start_date=key_of(first), timezone="UTC", fmt=_FORMAT)


def snapshots_of(dataset: Dataset) -> dg.DynamicPartitionsDefinition:
    """Return the snapshot partitions of a dataset, which sensors and commands add."""
    return dg.DynamicPartitionsDefinition(name=dataset.archive)


def hour_of(partition_key: str) -> datetime:
    return datetime.strptime(partition_key, _FORMAT).replace(tzinfo=UTC)


def key_of(hour: datetime) -> str:
    return hour.astimezone(UTC).strftime("%Y-%m-%d-%H:00")


#: Default partitions of the assets; the code location may begin later (see `pipelines.definitions`).
HOURS = hours_since(EARLIEST)


def oldest_hour(folder: Path) -> datetime | None:
    """Return the oldest hour that has a subfolder `date=…/hour=…` in a folder; None: there is none."""
    return next((hour for hour, _ in hour_folders(folder)), None)


def recent_hours(now: datetime) -> list[datetime]:
    """Return the complete hours that the service still retains, oldest first."""
    newest = last_complete_hour(now)
    hours = [newest - back * HOUR for back in reversed(range(RETENTION // HOUR))]
    return [hour for hour in hours if hour > now - RETENTION]


def first_of_mirror(data: Path, now: datetime) -> datetime:
    """Return the oldest hour that the service still had when the data folder was first used.

    Processes of one mirror load the definitions at different times, and a run over hours fails in a process whose
    partitions begin later. So the hour is recorded once, in `state/first_hour.json`, for all later processes. An absent
    or empty folder is not changed: the hour is then computed from `now`. The same applies if the folder cannot be
    written.
    """
    path, hour = data / "state" / "first_hour.json", recent_hours(now)[0]

    def noted() -> datetime | None:
        found = files.read_cache(path, _NOTE)
        # any other hour was recorded with a wrong clock
        return found.astimezone(UTC) if found is not None and EARLIEST <= found <= hour else None

    try:
        if (known := noted()) is not None:
            return known
        if not data.is_dir() or not any(data.iterdir()):
            return hour
        path.parent.mkdir(exist_ok=True)
        with files.held(path.with_name(f"{path.name}.lock"), wait_seconds=10):
            if (known := noted()) is not None:  # another process recorded it in the meantime
                return known
            files.write(path, json.dumps(hour.isoformat()).encode() + b"\n")
    except (OSError, MirrorError) as error:
        _log.info(
            "The first hour could not be recorded; the oldest hour that the service still has is used (%s): %s",
            path,
            error,
        )
    return hour
