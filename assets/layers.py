"""The layers and partitions of a dataset as Dagster has them: archive, lake and warehouse, an asset each.

Hours are partitions of everything that comes in hourly files, and identifiers of snapshots. Projects and namespaces are
configuration, because hour x project would pass Dagster's limit of 100,000 partitions within a year and its range
backfills of two dimensions are unreliable.

Dagster's daemon acts on automation conditions and freshness. The pipeline's own runs bring an hour through all layers,
so nothing follows them. `FOLLOW_UPSTREAM` is for assets that somebody materialized by hand, for example the archive of
some hours: their lake and then their tables follow. Only the automation sensors evaluate it, and they are off until
somebody turns them on. The sensor `publish_pending` brings the current states and the published file up to date.

Freshness is of assets and not of hours: an old hour that is materialized again makes its assets fresh as well. The
check `last_48_hours_covered` reports each missing hour; freshness reports that the pipeline does not run at all.
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
    """Dagster's tags of runs, by which runs are found and distinguished. The UI shows them and keeps them."""

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
    #: Begins tags that the UI does not show.
    HIDDEN: Final = ".dagster/"


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
    return dg.AssetKey(["lake", dataset.name])


def warehouse_key(dataset: Dataset) -> dg.AssetKey:
    return dg.AssetKey(["warehouse", dataset.name])


def keys(dataset: Dataset) -> tuple[dg.AssetKey, dg.AssetKey, dg.AssetKey]:
    """All three, in the order of the data."""
    return archive_key(dataset), lake_key(dataset), warehouse_key(dataset)


def own(keys: Iterable[dg.AssetKey]) -> dict[dg.AssetKey, dg.AssetKey]:
    """Keys of our assets in a project, where they may have a prefix (`pipelines.embedding`), by those in here."""
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


HOUR = timedelta(hours=1)
_NOTE = TypeAdapter(AwareDatetime)
_log = logging.getLogger(__name__)
_FORMAT = "%Y-%m-%d-%H:%M"

#: What no partition is older than, unless an operator says so: nobody can have archived it.
EARLIEST = datetime(2026, 1, 1, tzinfo=UTC)


def hours_since(first: datetime) -> dg.HourlyPartitionsDefinition:
    """The hours from `first` on. In UTC, so that no hour is doubled or missing when clocks change."""
    return dg.HourlyPartitionsDefinition(start_date=key_of(first), timezone="UTC", fmt=_FORMAT)


def snapshots_of(dataset: Dataset) -> dg.DynamicPartitionsDefinition:
    """The snapshots of a dataset by the service's identifiers, which sensors and commands add."""
    return dg.DynamicPartitionsDefinition(name=dataset.archive)


def hour_of(partition_key: str) -> datetime:
    return datetime.strptime(partition_key, _FORMAT).replace(tzinfo=UTC)


def key_of(hour: datetime) -> str:
    return hour.astimezone(UTC).strftime("%Y-%m-%d-%H:00")


#: What the assets are made with; the code location begins where it has something to show (see `pipelines.definitions`).
HOURS = hours_since(EARLIEST)


def oldest_hour(folder: Path) -> datetime | None:
    """The oldest hour that has a place `date=…/hour=…` in a folder; None: none has."""
    return next((hour for hour, _ in hour_folders(folder)), None)


def recent_hours(now: datetime) -> list[datetime]:
    """The complete hours that the service still keeps, oldest first."""
    newest = last_complete_hour(now)
    hours = [newest - back * HOUR for back in reversed(range(RETENTION // HOUR))]
    return [hour for hour in hours if hour > now - RETENTION]


def first_of_mirror(data: Path, now: datetime) -> datetime:
    """Return the oldest hour that the service still had when the data folder was first used.

    Processes of one mirror load the definitions at different times, and a run over hours fails in a process whose
    partitions begin later. So the hour is recorded once, in `state/first_hour.json`, for all later processes. An absent
    or empty folder is not changed: the hour is then that of `now`, as it is if the folder cannot be written.
    """
    path, hour = data / "state" / "first_hour.json", recent_hours(now)[0]

    def noted() -> datetime | None:
        found = files.read_cache(path, _NOTE)
        # any other was noted by a clock that was wrong
        return found.astimezone(UTC) if found is not None and EARLIEST <= found <= hour else None

    try:
        if (known := noted()) is not None:
            return known
        if not data.is_dir() or not any(data.iterdir()):
            return hour
        path.parent.mkdir(exist_ok=True)
        with files.held(path.with_name(f"{path.name}.lock"), wait_seconds=10):
            if (known := noted()) is not None:  # by another process meanwhile
                return known
            files.write(path, json.dumps(hour.isoformat()).encode() + b"\n")
    except (OSError, MirrorError) as error:
        _log.info("The first hour is not noted, so it is the oldest that the service still has (%s): %s", path, error)
    return hour
