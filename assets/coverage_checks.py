"""Checks that must pass at all times, for example that no hour has failed and that the last two days have no gaps.

The checks inform operators but do not block bad data, because a blocking check stops only the assets in the same run.
The loader refuses unverified input.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import dagster as dg

from assets import layers, lookups
from assets.checks import NAMED, format_findings
from assets.describe import sentence
from assets.layers import HOURS, key_of, recent_hours
from resources import datasets
from resources.adapters import EngineResource, EnterpriseResource, LakeResource, WarehouseResource
from resources.datasets import Dataset, Family
from resources.errors import MirrorError
from resources.formatting import counted, hour_text, listed, markdown_text
from resources.tables import COVERED
from resources.warehouse.read.coverage import OUTSIDE, Health, health, is_early, remedy

_PUBLISHED = dg.AssetKey(["published", "warehouse"])


def health_of(enterprise: EnterpriseResource, warehouse: WarehouseResource, now: datetime) -> Health:
    """Return the mirror's health from the build file, because the published file can be outdated or absent."""
    scopes = {one: scope for one in datasets.datasets(Family.HOURLY) if (scope := enterprise.settings.scope_of(one))}
    return health(warehouse.warehouse, scopes, now, published=False)


def _warning(description: str | None, **metadata: Any) -> dg.AssetCheckResult:
    """Return a check result that warns if there is a description."""
    return dg.AssetCheckResult(
        passed=not description, severity=dg.AssetCheckSeverity.WARN, description=description or None, metadata=metadata
    )


@dg.asset_check(
    asset=_PUBLISHED,
    name="last_48_hours_covered",
    description="For every mirrored dataset, project and namespace, each of the last 48 hours is loaded, empty or "
    "absent, except hours before the mirror began. `wme status` reports the same hours. The service retains files for "
    "two days. After two days, a missing hour is lost.",
)
def last_48_hours_covered(enterprise: EnterpriseResource, warehouse: WarehouseResource) -> dg.AssetCheckResult:
    found = health_of(enterprise, warehouse, datetime.now(UTC))
    more = [f"And {len(found.uncovered) - NAMED:,} more."] if len(found.uncovered) > NAMED else []
    counts = Counter(OUTSIDE if cell.state == OUTSIDE else None for place in found.places for cell in place.cells)
    return _warning(
        " ".join([*map(markdown_text, found.uncovered[:NAMED]), *more, *filter(None, [remedy(found.gaps)])]),
        missing=sum(gap.hour_count for gap in found.gaps),
        lagging=len(found.lagging),
        looked_at=counts[None],
        before_the_mirror=counts[OUTSIDE],
    )


@dg.asset_check(
    asset=_PUBLISHED,
    name="snapshots_loaded",
    description="Each mirrored project and namespace has a loaded snapshot. Without a snapshot, `articles` contains "
    "only changed pages, and no past state is exact.",
)
def snapshots_loaded(enterprise: EnterpriseResource, warehouse: WarehouseResource) -> dg.AssetCheckResult:
    found = health_of(enterprise, warehouse, datetime.now(UTC))
    return _warning(
        " ".join(map(markdown_text, found.without_snapshot)),
        missing=sum(place.has_snapshot is False for place in found.places),
    )


@dg.asset_check(
    # attached to the published file, because Dagster skips checks of the hourly assets after a failure
    asset=_PUBLISHED,
    name="no_failed_hours",
    description="None of the hours in `last_48_hours_covered` has failed. Hours that the service has not published are "
    "ignored. To repair a failed hour, read its error message on the asset's Partitions page, fix the cause, and "
    "materialize the hour again. Downloaded files are kept.",
)
def no_failed_hours(
    context: dg.AssetCheckExecutionContext, enterprise: EnterpriseResource, warehouse: WarehouseResource
) -> dg.AssetCheckResult:
    now, key = datetime.now(UTC), next(iter(context.selected_asset_check_keys)).asset_key
    found, job = health_of(enterprise, warehouse, now), context.op_execution_context.job_def
    wrong, count = [], 0
    for dataset in filter(enterprise.settings.scope_of, datasets.datasets(Family.HOURLY)):
        cells = [cell for place in found.places if place.dataset == dataset.name for cell in place.cells]
        open_ = {cell.batch_hour for cell in cells if cell.state not in COVERED and not is_early(cell, now)}
        early = {cell.batch_hour for cell in cells if is_early(cell, now)}
        if failed := sorted(failed_hours(context.instance, job, dataset, now, key) - (early - open_)):
            count += len(failed)
            names = listed([hour_text(hour) for hour in failed], NAMED)
            wrong.append(f"{dataset.name}: {counted(len(failed), 'hour')} failed: {names}")
    what_to_do = "Read the error message on the asset's Partitions page, fix the cause, and materialize the hour again."
    return _warning(format_findings(wrong, what_to_do), failed=count)


def failed_hours(
    instance: dg.DagsterInstance, job: dg.JobDefinition, dataset: Dataset, now: datetime, ours: dg.AssetKey
) -> set[datetime]:
    """Return recent hours whose last attempt failed in Dagster. `ours` is an asset key with the project's prefix."""
    graph = job.asset_layer.asset_graph
    key = dg.AssetKey([*ours.path[:-2], *layers.warehouse_key(dataset).path])
    hours = {key_of(hour): hour for hour in recent_hours(now)}
    # use the code location's partitions, because Dagster stores partition states by partitions definition
    definition = graph.get(key).partitions_def if graph.has(key) else None
    found = instance.get_status_by_partition(key, list(hours), definition or HOURS) or {}
    return {hours[name] for name, status in found.items() if status is not None and status.value == "FAILED"}


@dg.asset_check(
    asset=_PUBLISHED,
    name="lake_files_whole",
    description="Every loaded lake file exists, has the recorded size, and has an intact footer. The check does not "
    "read data pages.",
)
def lake_files_whole(warehouse: WarehouseResource) -> dg.AssetCheckResult:
    wrong = [str(file) for file in warehouse.warehouse.faulty_lake_files()]
    what_to_do = "The publication's log explains why these files could not be restored from the archive."
    return _warning(format_findings(wrong, what_to_do), wrong=len(wrong))


@dg.asset_check(
    # attached to lookups, which spend quota anyway, because publishing must not contact the service
    asset=layers.warehouse_key(datasets.LOOKUPS),
    name="articles_as_looked_up",
    description="Once a day, a random sample of `articles` (WME_CHECK_PAGES) is compared with the service. Each page "
    "costs one unit of the account's quota. Pages that changed after the last loaded hour are not compared.",
)
def articles_as_looked_up(
    context: dg.AssetCheckExecutionContext,
    enterprise: EnterpriseResource,
    lake: LakeResource,
    warehouse: WarehouseResource,
    engine: EngineResource,
) -> dg.AssetCheckResult:
    try:
        compared, missing, different = lookups.reconcile(
            enterprise, lake, warehouse.warehouse, engine, context.log.info
        )
    except MirrorError as error:  # pages are not wrong because the service is unavailable
        return dg.AssetCheckResult(passed=True, description=f"Nothing was compared: {markdown_text(sentence(error))}")
    return _warning(
        format_findings(different, "Loading a newer snapshot repairs all of a project's pages."),
        compared=compared,
        not_found=missing,
        different=len(different),
    )


def nothing_needs_attention(sentences: Callable[[], Sequence[str]]) -> dg.AssetChecksDefinition:
    """Return an asset check that runs `wme status --check`. The caller provides the `sentences` function."""

    @dg.asset_check(
        asset=_PUBLISHED,
        name="nothing_needs_attention",
        description="Passes if `wme status --check` passes. That command reports gaps, projects that lag or have no "
        "snapshot, and problems with the disk, the account, the stream, the lake files or the engine.",
    )
    def check() -> dg.AssetCheckResult:
        found = list(sentences())
        what_to_do = "Run `wme status` for the full status."
        return _warning(format_findings(found, what_to_do), attention_count=len(found))

    return check


#: Checks that are independent of the layers above the assets.
CHECKS = (last_48_hours_covered, snapshots_loaded, no_failed_hours, lake_files_whole, articles_as_looked_up)
