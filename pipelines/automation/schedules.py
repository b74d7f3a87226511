"""The schedules: every hour, lookups, compaction and the report too, and the reference lists once a day.

All are off until they are turned on in Dagster.
"""

import dagster as dg

from assets import current, layers, published
from assets.partitions import key_of
from assets.published import WHEN_DUE
from pipelines.automation import discovery, jobs
from pipelines.embedding import ALONE, Prefix, deferred
from resources.adapters import EnterpriseResource, LakeResource, WarehouseResource
from resources.datasets import Family, datasets, last_complete_hour
from resources.errors import MirrorError
from resources.formatting import hour_text


@deferred(
    lambda prefix: dg.schedule(
        name=prefix.name("each_hour"),
        job_name=prefix.name(jobs.HOUR_TO_PUBLISHED),
        # a batch listing appears 4 to 12 minutes after the hour in most hours, later in busy ones: the discovery sensor
        # asks again for an hour that was not there yet
        cron_schedule="20 * * * *",
        execution_timezone="UTC",
        description="Takes the hour that has just ended from the service to the published file, if a publication is "
        "due. An hour that is loaded already "
        "is not fetched again.",
    )
)
def each_hour(
    context: dg.ScheduleEvaluationContext,
    enterprise: EnterpriseResource,
    lake: LakeResource,
    warehouse: WarehouseResource,
    prefix: Prefix,
) -> dg.RunRequest | dg.SkipReason:
    """Request the last complete hour of what is mirrored if it is not loaded; else what is pending."""
    moment, store = context.scheduled_execution_time, warehouse.glance
    hour = last_complete_hour(moment)
    key, state = key_of(hour), [prefix.key(one) for one in (*current.KEYS, published.KEY)]
    mirrored = [one for one in datasets(Family.HOURLY) if enterprise.scope_of(one)]
    try:
        missing = [one for one in mirrored if hour in discovery.missing_now(moment, enterprise, lake, warehouse, one)]
        is_pending = bool(store.pending_hours() or store.pending_snapshots() or store.unpublished_revision())
    except MirrorError:
        missing = mirrored  # somebody writes the warehouse, and the run waits for them
    keys = {one: [prefix.key(layer) for layer in layers.keys(one)] for one in missing}
    wanted = [one for one in missing if discovery.without_busy([hour], context.instance, moment, keys[one]).busy == []]
    if wanted:
        some = [layer for one in wanted for layer in keys[one]] + state if wanted != mirrored else None
        return dg.RunRequest(run_key=key, partition_key=key, tags=WHEN_DUE, asset_selection=some)
    if missing:
        return dg.SkipReason(f"A run has {hour_text(hour)} UTC under way. The sensor publish_pending publishes it.")
    if is_pending:
        return dg.RunRequest(run_key=f"{key} loaded", tags=WHEN_DUE, asset_selection=state)
    return dg.SkipReason(f"{hour_text(hour)} UTC is loaded already, and nothing is pending.")


def build_schedules(prefix: Prefix = ALONE) -> list[dg.ScheduleDefinition]:
    """The schedules of the jobs with the same prefix."""
    return [
        each_hour(prefix),
        dg.ScheduleDefinition(
            name=prefix.name("reference_each_day"),
            job_name=prefix.name(jobs.REFERENCE),
            cron_schedule="40 3 * * *",
            execution_timezone="UTC",
            description="Fetches the reference lists. They change rarely, and the service asks clients to cache them.",
        ),
        dg.ScheduleDefinition(
            name=prefix.name("lookups_each_hour"),
            job_name=prefix.name(jobs.LOOKUPS),
            cron_schedule="50 * * * *",
            execution_timezone="UTC",
            description="Looks up watched and uncertain pages, up to WME_LOOKUPS_PER_DAY a day. Each costs a unit of "
            "the account's quota.",
        ),
        dg.ScheduleDefinition(
            name=prefix.name("compact_each_hour"),
            job_name=prefix.name(jobs.COMPACT),
            # soon after each_hour has loaded its hour, whose files are read one by one until then
            cron_schedule="35 * * * *",
            execution_timezone="UTC",
            description="Compacts the lake: hours that have ended, and longer spans. The next publication shows it.",
        ),
        dg.ScheduleDefinition(
            name=prefix.name("report_each_hour"),
            job_name=prefix.name(jobs.REPORT),
            # each_hour has published its hour by then
            cron_schedule="45 * * * *",
            execution_timezone="UTC",
            description="Writes the page about the mirror, report.html in the data folder, of what is published.",
        ),
    ]
