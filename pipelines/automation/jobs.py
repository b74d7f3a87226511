"""Jobs for declared datasets, and their schedules, which are off by default.

To backfill hours, start from the assets in the Dagster UI. The `dagster job backfill` command ignores the backfill
policy and starts one run per hour.
"""

from collections.abc import Collection, Iterable
from typing import Any

import dagster as dg

from assets import current, layers, published, streams
from assets.layers import RunTag, key_of
from assets.published import WHEN_DUE
from pipelines.automation import discovery
from pipelines.embedding import Prefix, deferred
from pipelines.process.processes import executor
from resources.adapters import STREAM_POOL, EnterpriseResource, WarehouseResource, run_fields
from resources.datasets import Dataset, Family, datasets, last_complete_hour
from resources.errors import MirrorError
from resources.formatting import hour_text

REFERENCE, HOURS, HOUR_TO_PUBLISHED, LOOKUPS, PUBLISH = "reference", "hours", "hour_to_published", "lookups", "publish"
COMPACT, STREAM, REPORT = "compact", "stream", "report"
#: Schedules in addition to `each_hour`: job, cron line (UTC) and description by name.
_SCHEDULES = {
    "reference_each_day": (
        *(REFERENCE, "40 3 * * *"),
        "Fetches the reference lists once a day. The service asks clients to cache these lists.",
    ),
    "lookups_each_hour": (
        *(LOOKUPS, "50 * * * *"),
        "Looks up watched and uncertain pages, up to WME_LOOKUPS_PER_DAY a day. Each lookup costs one unit of quota.",
    ),
    # runs soon after each_hour, because an hour's uncompacted files are slow to read
    "compact_each_hour": (
        *(COMPACT, "35 * * * *"),
        "Compacts the lake files of completed hours and periods. Readers see the result after the next publication.",
    ),
    # runs after each_hour has published its hour
    "report_each_hour": (
        *(REPORT, "45 * * * *"),
        "Writes the report about the published data to report.html in the data folder.",
    ),
}


def build_jobs(mirrored: Collection[Dataset], offered: Collection[Dataset], prefix: Prefix) -> list[Any]:
    """Build the jobs for hours of `mirrored` datasets, for snapshots of `offered` datasets, and for all other work.

    Each snapshot dataset has a separate job, named after its archive, because its partitions are separate.
    """
    state = [*current.KEYS, published.KEY]
    hours = _all_of(one for one in datasets(Family.HOURLY) if one in mirrored)

    def job(name: str, keys: Iterable[dg.AssetKey], description: str) -> Any:
        return dg.define_asset_job(
            prefix.name(name),
            selection=dg.AssetSelection.assets(*map(prefix.key, keys)),
            executor_def=executor,  # set explicitly, because an embedding project might have another default
            description=description,
        )

    return [
        job(REFERENCE, _all_of(datasets(Family.LIST)), "Fetches the reference lists and loads them into DuckDB."),
        *(
            job(one.archive, layers.keys(one), "Fetches the newest version of one snapshot and loads it into DuckDB.")
            for one in datasets(Family.SNAPSHOT)
            if one in offered
        ),
        job(
            HOURS,
            hours,
            "Fetches hourly files for one or more hours and loads them into DuckDB. The `publish` job then publishes "
            "the hours.",
        ),
        job(
            HOUR_TO_PUBLISHED,
            [*hours, *state],
            "Fetches, loads and publishes one hour. This job combines `hours` and `publish`.",
        ),
        job(
            LOOKUPS,
            _all_of(datasets(Family.LOOKUP)),
            "Looks up watched pages, and pages that are uncertain because of a missing hour or a rejected record, up "
            "to WME_LOOKUPS_PER_DAY a day.",
        ),
        job(PUBLISH, state, "Applies pending snapshots and hours to the current articles, then publishes."),
        job(REPORT, [published.REPORT_KEY], "Writes the report about the mirror."),
        job(COMPACT, [published.COMPACTED_KEY], "Merges small lake files into a few sorted files."),
        _stream(prefix),
    ]


def _stream(prefix: Prefix) -> dg.JobDefinition:
    step: Any = dg.op(
        name=prefix.name(streams.STEP),
        out=dg.Out(dg.Nothing),
        pool=prefix.name(STREAM_POOL),
        config_schema=run_fields(streams.StreamConfig.model_fields),
        description="Reads the realtime stream for a while and reports the stored events as lake/live_changes.",
    )(prefix.adapted(streams.read_stream))

    @dg.job(
        name=prefix.name(STREAM),
        executor_def=executor,
        # no Dagster retries, because the sensor requests the next run after increasing delays
        tags={RunTag.MAX_RETRIES: "0"},
        description="Reads the realtime stream for an hour. The next run resumes at the last offset.",
    )
    def read() -> None:
        step()

    return read


def _all_of(some: Iterable[Dataset]) -> list[dg.AssetKey]:
    return list(dict.fromkeys(key for dataset in some for key in layers.keys(dataset)))


@deferred(
    dg.schedule,
    HOUR_TO_PUBLISHED,
    # most listings appear 4 to 12 minutes after the hour. The discovery sensor requests hours that were published
    # later
    cron_schedule="20 * * * *",
    execution_timezone="UTC",
    description="Fetches and loads the hour that has just ended, then publishes if a publication is due. Loaded "
    "hours are not fetched again.",
)
def each_hour(
    context: dg.ScheduleEvaluationContext, enterprise: EnterpriseResource, warehouse: WarehouseResource, prefix: Prefix
) -> dg.RunRequest | dg.SkipReason:
    """Request the last complete hour if it is not loaded. Otherwise, request a publication if data is pending."""
    moment, store = context.scheduled_execution_time, warehouse.glance
    hour = last_complete_hour(moment)
    key, state = key_of(hour), [prefix.key(one) for one in (*current.KEYS, published.KEY)]
    scopes = {one: scope for one in datasets(Family.HOURLY) if (scope := enterprise.settings.scope_of(one))}
    mirrored = list(scopes)
    try:
        missing = [one for one in mirrored if hour in discovery.missing_hours(moment, store, scopes[one], one)]
        is_pending = bool(store.pending_hours() or store.pending_snapshots() or store.unpublished_revision())
    except MirrorError:
        missing = mirrored  # the run waits for the process that writes the warehouse
    keys = {one: [prefix.key(layer) for layer in layers.keys(one)] for one in missing}
    wanted = [one for one in missing if discovery.without_busy([hour], context.instance, moment, keys[one]).busy == []]
    if wanted:
        some = [layer for one in wanted for layer in keys[one]] + state if wanted != mirrored else None
        return dg.RunRequest(run_key=key, partition_key=key, tags=WHEN_DUE, asset_selection=some)
    if missing:
        return dg.SkipReason(f"A run for {hour_text(hour)} UTC is in progress and will be followed by a publication.")
    if is_pending:
        return dg.RunRequest(run_key=f"{key} loaded", tags=WHEN_DUE, asset_selection=state)
    return dg.SkipReason(f"{hour_text(hour)} UTC is already loaded, and nothing is pending.")


def build_schedules(prefix: Prefix) -> list[dg.ScheduleDefinition]:
    others = [
        dg.ScheduleDefinition(
            name=prefix.name(name),
            job_name=prefix.name(job),
            cron_schedule=cron,
            execution_timezone="UTC",
            description=description,
        )
        for name, (job, cron, description) in _SCHEDULES.items()
    ]
    return [each_hour(prefix), *others]
