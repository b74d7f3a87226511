"""Layers and partitions of a dataset in Dagster. The archive, the lake and the warehouse are separate assets.

Hourly datasets are partitioned by hour, and snapshots are partitioned by identifier. Projects and namespaces are
settings, not partitions. Partitioning by hour and project would exceed Dagster's limit of 100,000 partitions within a
year. Dagster's range backfills over two dimensions are also unreliable.

The pipeline's own runs process an hour through all layers and trigger no automation. `FOLLOW_UPSTREAM` applies to
assets that a user materialized manually. Only the automation sensors, which are off by default, evaluate this
condition. Freshness applies to assets, not to hours. Stale assets show only that the pipeline is not running at all.
"""

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
    """Dagster run tags that identify and classify runs. The UI shows these tags."""

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


#: Each change triggers one run. Failures trigger none. Changes made before a sensor was turned on are ignored.
FOLLOW_UPSTREAM: Final = (
    dg.AutomationCondition.any_deps_updated().since_last_handled()
    & ~dg.AutomationCondition.any_deps_missing()
    & ~dg.AutomationCondition.any_deps_in_progress()
    & ~dg.AutomationCondition.in_progress()
).with_label("the upstream layer has changed")
#: Freshness policy for assets that change every hour. The policy fails long before the service deletes an hour.
HOURLY: Final = dg.FreshnessPolicy.time_window(warn_window=LATE, fail_window=RETENTION / 4)
#: Lists change rarely and are fetched once a day. Snapshots and lookups are fetched on demand, without a deadline.
_FRESHNESS: Final = {
    Family.HOURLY: HOURLY,
    Family.LIST: dg.FreshnessPolicy.time_window(warn_window=timedelta(days=1.5), fail_window=timedelta(days=3)),
}

#: External asset that represents the service, the source of all data, as the root of the asset graph.
SERVICE: Final = dg.AssetSpec(
    "service",
    group_name="service",
    kinds={"http"},
    owners=list(OWNERS),
    description="The Enterprise Content Service or its sandbox, which provides lists, snapshots, hourly files, "
    "lookups and streams. The `enterprise` resource shows the configured service.",
)

#: Unpartitioned assets have a code version, so that the Dagster UI marks results of an older table declaration. Hours
#: and snapshots have no code version, because every partition would appear outdated until materialized again.
_VERSIONS: Final[dict[Family, Callable[[Table], str]]] = {Family.LIST: list_version, Family.LOOKUP: conversion_version}


def archive_key(dataset: Dataset) -> dg.AssetKey:
    """Return the key of the asset that stores the service's unmodified files. All lists share one asset."""
    return dg.AssetKey(["archive", dataset.archive])


def lake_key(dataset: Dataset) -> dg.AssetKey:
    return dg.AssetKey(["lake", dataset.name])


def warehouse_key(dataset: Dataset) -> dg.AssetKey:
    return dg.AssetKey(["warehouse", dataset.name])


def keys(dataset: Dataset) -> tuple[dg.AssetKey, dg.AssetKey, dg.AssetKey]:
    return archive_key(dataset), lake_key(dataset), warehouse_key(dataset)


def own(keys: Iterable[dg.AssetKey]) -> dict[dg.AssetKey, dg.AssetKey]:
    """Map keys without a prefix to a project's keys, which can have a prefix (see `pipelines.embedding`)."""
    return {unprefixed(key): key for key in keys}


def unprefixed(key: dg.AssetKey) -> dg.AssetKey:
    """Return the last two parts of an asset key, without a project's prefix."""
    return dg.AssetKey(key.path[-2:])


#: Help text about snapshot partitions, shown in descriptions and messages.
SNAPSHOT_KEYS: Final = (
    "A partition is one snapshot, named by the service's identifier: the project, `_namespace_` and the namespace "
    "number, for example `enwiki_namespace_0`. The discover_… sensors, `wme run --snapshots` and `wme snapshots "
    "download` add partitions for the mirrored projects."
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
    if dataset.family is not Family.LOOKUP:  # a lookup passes through all layers in one step
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


HOUR = timedelta(hours=1)
_NOTE = TypeAdapter(AwareDatetime)
_log = logging.getLogger(__name__)
_FORMAT = "%Y-%m-%d-%H:%M"

#: Default first partition. No archive can contain an older hour.
EARLIEST = datetime(2026, 1, 1, tzinfo=UTC)


def hours_since(first: datetime) -> dg.HourlyPartitionsDefinition:
    """Return hourly partitions that begin at `first`, in UTC to avoid daylight saving changes."""
    return dg.HourlyPartitionsDefinition(start_date=key_of(first), timezone="UTC", fmt=_FORMAT)


def hour_of(partition_key: str) -> datetime:
    return datetime.strptime(partition_key, _FORMAT).replace(tzinfo=UTC)


def key_of(hour: datetime) -> str:
    return hour.astimezone(UTC).strftime("%Y-%m-%d-%H:00")


#: Default partitions of the assets. The code location can begin later (see `pipelines.definitions`).
HOURS = hours_since(EARLIEST)


def oldest_hour(folder: Path) -> datetime | None:
    """Return the oldest hour with a `date=…/hour=…` subfolder in the folder, or None if there is no such subfolder."""
    return next((hour for hour, _ in hour_folders(folder)), None)


def recent_hours(now: datetime) -> list[datetime]:
    """Return the complete hours that the service still retains, oldest first."""
    newest = last_complete_hour(now)
    hours = [newest - back * HOUR for back in reversed(range(RETENTION // HOUR))]
    return [hour for hour in hours if hour > now - RETENTION]


def first_of_mirror(data: Path, now: datetime) -> datetime:
    """Return the oldest hour that the service retained when the data folder was first used.

    A run fails if its process's partitions begin after the requested hours. Therefore, the first process records the
    hour in `state/first_hour.json`. If the folder is absent, empty or not writable, the hour is computed from `now`.
    """
    path, hour = data / "state" / "first_hour.json", recent_hours(now)[0]

    try:
        known = files.read_cache(path, _NOTE)
        # hours outside this range were recorded with a wrong clock
        if known is not None and EARLIEST <= known <= hour:
            return known.astimezone(UTC)
        if data.is_dir() and any(data.iterdir()):
            files.write(path, json.dumps(hour.isoformat()).encode() + b"\n")
    except (OSError, MirrorError) as error:
        _log.info(
            "The first hour could not be recorded in %s. The oldest hour that the service retains is used instead. %s",
            path,
            error,
        )
    return hour
