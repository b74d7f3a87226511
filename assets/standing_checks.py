"""Checks that must hold at any time: no gap in the last two days, no failed hour.

A blocking check stops assets of its own run only, so no check is relied on to keep bad data out: the loader refuses
unverified input by itself. Checks are there for people.
"""

from datetime import UTC, datetime, timedelta

import dagster as dg

from assets import layers
from assets.checks.findings import NAMED, told
from assets.failures import sentence
from assets.families import lookups
from assets.partitions import HOUR, HOURS, key_of
from resources import datasets
from resources.adapters import EngineResource, EnterpriseResource, LakeResource, WarehouseResource
from resources.datasets import RETENTION, Family, last_complete_hour
from resources.errors import MirrorError
from resources.formatting import counted, hour_text, listed
from resources.tables import COVERED, HourState

_PUBLISHED = dg.AssetKey(["published", "warehouse"])

#: States that need no attention. `not_yet` is not a gap either: the service has not published the hour.
NO_GAP = COVERED | {HourState.NOT_YET}

#: How far back a failed hour is told: two months.
_WATCHED = timedelta(days=62)


@dg.asset_check(
    asset=_PUBLISHED,
    name="last_48_hours_covered",
    description="Since the first loaded hour, every mirrored project has each of the last 48 hours loaded, empty or absent. "
    "The service keeps two days: an hour that is missing longer is lost.",
)
def last_48_hours_covered(enterprise: EnterpriseResource, warehouse: WarehouseResource) -> dg.AssetCheckResult:
    """Name the hours of the last two days that are missing."""
    since = last_complete_hour(datetime.now(UTC)) - RETENTION
    wrong = [
        f"{row.project_id} namespace {row.namespace_id} {hour_text(row.batch_hour)}: {row.state}"
        for dataset in datasets.datasets(Family.HOURLY)
        # not of the published file, which may be older, or not be there
        for row in warehouse.warehouse.coverage(since=since, published=False, dataset=dataset)
        if (row.project_id, row.namespace_id) in set(enterprise.scope_of(dataset)) and row.state not in NO_GAP
    ]
    return dg.AssetCheckResult(
        passed=not wrong,
        severity=dg.AssetCheckSeverity.WARN,
        description=told(wrong, "The command that `wme status` names fetches what the service still keeps."),
        metadata={"missing": len(wrong)},
    )


@dg.asset_check(
    # on the published file, because a check of the hours is skipped with them when one of them fails
    asset=_PUBLISHED,
    name="no_failed_hours",
    description="No hour has failed. To repair one, read its message in the asset's partitions, remove the cause, and materialize the "
    "hour again; what was fetched is kept.",
)
def no_failed_hours(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
    """Count the hours whose last attempt failed; a quiet failure is the dangerous one."""
    graph = context.op_execution_context.job_def.asset_layer.asset_graph
    # not by listing the partitions, of which there are more every hour
    newest = last_complete_hour(datetime.now(UTC))
    recent = [key_of(newest - back * HOUR) for back in range(_WATCHED // HOUR)]
    keys = []
    for dataset in datasets.datasets(Family.HOURLY):
        key = layers.warehouse_key(dataset)
        # of the code location and not the module's own: Dagster keeps what it knows of partitions by their definition
        hours = graph.get(key).partitions_def if graph.has(key) else None
        found = context.instance.get_status_by_partition(key, recent, hours or HOURS) or {}
        keys += sorted(name for name, status in found.items() if status is not None and status.value == "FAILED")
    return dg.AssetCheckResult(
        passed=not keys,
        severity=dg.AssetCheckSeverity.WARN,
        description=told(
            keys and [f"{counted(len(keys), 'hour')} failed: {listed(keys, NAMED)}"],
            "Read the message in the asset's partitions, remove the cause, and materialize the hour again.",
        ),
        metadata={"failed": len(keys)},
    )


@dg.asset_check(
    asset=_PUBLISHED,
    name="lake_files_whole",
    description="Every lake file that is loaded is there, has the size that the ledger says, and has not lost its footer. Data pages are not read.",
)
def lake_files_whole(warehouse: WarehouseResource) -> dg.AssetCheckResult:
    """Name the lake files that are gone or damaged, after the publication tried to make them again."""
    wrong = [str(file) for file in warehouse.warehouse.faulty_lake_files()]
    return dg.AssetCheckResult(
        passed=not wrong,
        severity=dg.AssetCheckSeverity.WARN,
        description=told(wrong, "The log of the publication says why they were not made again from the archive."),
        metadata={"wrong": len(wrong)},
    )


@dg.asset_check(
    # where units are spent anyhow: nothing that publishes asks the service
    asset=layers.warehouse_key(datasets.LOOKUPS),
    name="articles_as_looked_up",
    description="Once a day, a random sample of `articles` (WME_CHECK_PAGES) agrees with the service. Each page costs a unit of the account's quota; "
    "a page that has changed since the last loaded hour is not compared.",
)
def articles_as_looked_up(
    context: dg.AssetCheckExecutionContext,
    enterprise: EnterpriseResource,
    lake: LakeResource,
    warehouse: WarehouseResource,
    engine: EngineResource,
) -> dg.AssetCheckResult:
    """Look up a sample, and name the pages that differ. A service that does not answer is no difference."""
    try:
        found = lookups.reconcile(enterprise, lake, warehouse.warehouse, engine, context.log.info)
    except MirrorError as error:
        return dg.AssetCheckResult(passed=True, description=f"Nothing was compared: {sentence(error)}")
    return dg.AssetCheckResult(
        passed=not found.different,
        severity=dg.AssetCheckSeverity.WARN,
        description=told(found.different, "A newer snapshot repairs all pages of a project."),
        metadata={
            "compared": found.compared_count,
            "not_found": found.missing_count,
            "different": len(found.different),
        },
    )


STANDING = [last_48_hours_covered, no_failed_hours, lake_files_whole, articles_as_looked_up]
