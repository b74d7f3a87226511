"""Sensors that request runs for missing or pending data, end killed runs, and report failures."""

import hashlib
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from itertools import takewhile

import dagster as dg

from assets import layers
from assets.describe import sentence
from assets.layers import RunTag, key_of, unprefixed
from assets.published import WHEN_DUE
from assets.steps import snapshot, stream
from pipelines.automation import discovery, failure_hook, jobs
from pipelines.embedding import Prefix, deferred
from pipelines.process import processes
from resources.adapters import EnterpriseResource, LakeResource, WarehouseResource
from resources.datasets import Dataset, Family, datasets
from resources.enterprise.errors import AuthenticationError
from resources.errors import MirrorError
from resources.formatting import counted, moment_text
from resources.settings import Settings
from resources.warehouse import next_text

#: Tags that describe a run's work, not its origin.
_KEPT_TAGS = frozenset({RunTag.RANGE_START, RunTag.RANGE_END, *WHEN_DUE})

#: Response timeout in seconds. An evaluation must end well before Dagster's timeout, even if the service hangs.
_ANSWER_SECONDS = 10.0
#: Delays before a failed stream is started again, by number of failures. The last delay repeats.
STREAM_WAITS = (timedelta(minutes=1), timedelta(minutes=10), timedelta(hours=1))


@deferred(
    dg.sensor,
    jobs.HOURS,
    minimum_interval_seconds=600,
    description="Compares the service's last 48 hours with the loaded hours, and requests missing hours in at most "
    "three runs. Leave this sensor on, because an outage of 48 hours loses data.",
)
def discover_hours(
    context: dg.SensorEvaluationContext, enterprise: EnterpriseResource, warehouse: WarehouseResource, prefix: Prefix
) -> dg.SensorResult | dg.SkipReason:
    """Request one run per span of missing hours. Each evaluation sends only a few requests to the service."""
    now, settings = datetime.now(UTC), enterprise.settings
    if (why := discovery.waiting(context.cursor, now)) is not None:
        return dg.SkipReason(why)
    requests, reasons = [], []
    for dataset in filter(settings.scope_of, datasets(Family.HOURLY)):
        keys = [prefix.key(key) for key in layers.keys(dataset)]
        partitions = context.repository_def.asset_graph.get(keys[-1]).partitions_def if context.repository_def else None
        try:
            missing = discovery.missing_hours(now, warehouse.glance, settings.scope_of(dataset), dataset)
            # the operator might have set a first hour that is later than the service's oldest hour
            missing = [hour for hour in missing if partitions is None or partitions.has_partition_key(key_of(hour))]
            open_ = discovery.without_busy(missing, context.instance, now, keys)
            if not (wanted := open_.wanted):
                reasons.append(open_.sentence if missing else "Every hour of the last two days is loaded.")
                continue
            with enterprise.client(_ANSWER_SECONDS) as client:
                why = discovery.hindrance(wanted, client, settings, now, dataset) if open_.have_failed else None
                wanted = [] if why else discovery.published(wanted, client, now, dataset)
        except MirrorError as error:
            return _refused(context, error)
        if not wanted:
            reasons.append(
                why or "The service has not published the newest hours yet. The next evaluation checks again."
            )
        requests += [
            dg.RunRequest(
                # the key only has to distinguish evaluations, because hours in progress are not requested
                run_key=f"{key_of(first)} {key_of(last)} {now:%Y-%m-%dT%H:%M} {dataset.name}",
                tags={RunTag.RANGE_START: key_of(first), RunTag.RANGE_END: key_of(last)},
                asset_selection=keys,
            )
            for first, last in discovery.spans(wanted)
        ]
    return dg.SensorResult(run_requests=requests) if requests else dg.SkipReason(" ".join(dict.fromkeys(reasons)))


def _refused(context: dg.SensorEvaluationContext, error: MirrorError) -> dg.SkipReason:
    """Return the reason why no run is requested. Record the refusal if the service refused the account."""
    if isinstance(error, AuthenticationError):
        context.update_cursor(discovery.noted(context.cursor, datetime.now(UTC)))
    return dg.SkipReason(sentence(error))


def discover_snapshots(dataset: Dataset, prefix: Prefix) -> dg.SensorDefinition:
    """Build the sensor that requests new versions of a dataset's snapshots."""

    @dg.sensor(
        name=prefix.name(f"discover_{dataset.archive}"),
        job_name=prefix.name(dataset.archive),
        # the interval is short, because an evaluation does not wait for a slow service, and listing presumably is free
        minimum_interval_seconds=600,
        description="Compares the service's snapshot versions with the archived versions, and requests a run for each "
        "new version. This sensor is off by default, because each run uses quota and disk space for an entire project.",
    )
    @prefix.adapted
    def look(
        context: dg.SensorEvaluationContext, enterprise: EnterpriseResource, lake: LakeResource
    ) -> dg.SensorResult | dg.SkipReason:
        if not (scope := enterprise.settings.scope_of(dataset)):
            return dg.SkipReason(f"{dataset.name} is not mirrored.")
        if (why := discovery.waiting(context.cursor, datetime.now(UTC))) is not None:
            return dg.SkipReason(why)
        try:
            with enterprise.client(_ANSWER_SECONDS) as client:
                listing = client.snapshots.listing(dataset)
        except MirrorError as error:
            return _refused(context, error)
        changed = {
            record.identifier: record.version
            for record in snapshot.mirrored(listing, scope)
            if not snapshot.is_archived(record, lake.layout, dataset)
        } | snapshot.odd(listing, scope)
        if not changed:
            return dg.SkipReason("The current version of every mirrored snapshot is archived.")
        # add partitions here, because Dagster resolves run requests before it adds partitions from the result
        context.instance.add_dynamic_partitions(prefix.name(dataset.archive), list(changed))
        return dg.SensorResult(
            run_requests=[
                dg.RunRequest(run_key=f"{identifier} {what}", partition_key=identifier)
                for identifier, what in changed.items()
            ]
        )

    return look


@deferred(
    dg.sensor,
    jobs.PUBLISH,
    minimum_interval_seconds=60,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Applies loaded hours and snapshots to the current articles, then publishes as often as "
    "WME_PUBLISH allows. This sensor is on by default, because it does not contact the service.",
)
def publish_pending(
    context: dg.SensorEvaluationContext, warehouse: WarehouseResource, prefix: Prefix
) -> dg.RunRequest | dg.SkipReason:
    """Request a publication if it is due, data is pending, and no run is loading hours."""
    active = sum(
        _brings_hours(run, prefix) for run in context.instance.get_runs(dg.RunsFilter(statuses=processes.UNDER_WAY))
    )
    if active:
        return dg.SkipReason(
            f"Waiting for {counted(active, 'run')}. Pending hours and snapshots will be applied later."
        )
    store = warehouse.glance
    try:
        hours, snapshots, revision = store.pending_hours(), store.pending_snapshots(), store.unpublished_revision()
    except MirrorError as error:
        return dg.SkipReason(sentence(error))
    if not (hours or snapshots or revision):
        return dg.SkipReason("All loaded hours and snapshots have been applied and published.")
    if not store.publish_is_due(warehouse.settings.publish_every):
        when = next_text(store.publication(), warehouse.settings.publish_every)
        return dg.SkipReason(
            f"Pending data ({counted(len(hours), 'hour')}, {counted(len(snapshots), 'snapshot')}) will be published "
            f"{when}."
        )
    digest = hashlib.md5(repr((hours, snapshots, revision)).encode(), usedforsecurity=False).hexdigest()[:12]
    # the key contains the hour, so that a failed run is requested again once an hour, not at every tick
    return dg.RunRequest(run_key=f"{digest} {datetime.now(UTC):%Y-%m-%d-%H}", tags=WHEN_DUE)


def _brings_hours(run: dg.DagsterRun, prefix: Prefix) -> bool:
    """Return True if publications wait for a run. Publications do not wait for snapshots, which can take hours."""
    of_snapshots = datasets(Family.SNAPSHOT)
    if run.asset_selection:  # an empty selection means all assets of the job, as in runs that commands start
        others = {key for dataset in of_snapshots for key in layers.keys(dataset)}
        return not {unprefixed(key) for key in run.asset_selection if prefix.covers(key)} <= others
    ours = (jobs.REFERENCE, jobs.LOOKUPS, jobs.STREAM, *(dataset.archive for dataset in of_snapshots))
    return prefix.runs(run) and run.job_name not in set(map(prefix.name, ours))


@deferred(
    dg.sensor,
    jobs.STREAM,
    minimum_interval_seconds=30,
    description="Requests the next run of the realtime stream when no run is in progress. This sensor is off by "
    "default, because it needs an account with access to streams.",
)
def keep_streaming(
    context: dg.SensorEvaluationContext, enterprise: EnterpriseResource, prefix: Prefix
) -> dg.RunRequest | dg.SkipReason:
    """Request a run, unless a process is already reading the stream or the last run failed recently."""
    job = prefix.name(jobs.STREAM)
    if context.instance.get_runs(dg.RunsFilter(job_name=job, statuses=processes.UNDER_WAY), limit=1):
        return dg.SkipReason("A run is reading the stream.")
    if stream.is_kept(enterprise.settings.data / "state"):
        return dg.SkipReason("Another process is reading the stream, for example `wme stream`.")
    now = datetime.now(UTC)
    failed = list(
        takewhile(
            lambda record: (
                record.dagster_run.status is dg.DagsterRunStatus.FAILURE
                # a killed run did not fail because of the stream
                and record.dagster_run.tags.get(RunTag.FAILURE_REASON) == "STEP_FAILURE"
            ),
            context.instance.get_run_records(dg.RunsFilter(job_name=job), limit=20),
        )
    )
    # ignore runs that users started or retried manually
    asked = [
        record
        for record in failed
        if RunTag.SENSOR in record.dagster_run.tags and RunTag.ROOT_RUN not in record.dagster_run.tags
    ]
    if failed and (why := discovery.refusal_of(context.instance, failed[0].dagster_run, failed[0].update_timestamp)):
        return dg.SkipReason(
            f"{why} No run is requested until the definitions are reloaded, or until a manually started run succeeds."
        )
    if asked and now < (again := asked[0].update_timestamp + STREAM_WAITS[min(len(asked), len(STREAM_WAITS)) - 1]):
        return dg.SkipReason(
            f"The last run failed. Its page shows the reason. The next run will start at {moment_text(again)} UTC."
        )
    return dg.RunRequest(run_key=f"{now:%Y-%m-%dT%H:%M:%S}")


@deferred(
    dg.sensor,
    # no job, because the UI would show the sensor as its trigger
    minimum_interval_seconds=30,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Ends runs whose process was killed or whose machine stopped, because other runs would wait for "
    "these runs forever. Dagster's daemon retries runs that it launched. This sensor retries runs that commands "
    "launched.",
)
def end_killed_runs(context: dg.SensorEvaluationContext, prefix: Prefix) -> dg.SensorResult | dg.SkipReason:
    """End runs that no longer have a process, and request these runs again if Dagster does not retry them."""
    origin, repository = context.code_location_origin, context.repository_def
    # in another project, only jobs of this package use the executor that records a run's process
    ended = processes.end_killed(context.instance, None if origin is None else origin.location_name, prefix.name(""))
    again = []
    for run in processes.wanted_again(context.instance):
        key = f"again {run.run_id}"
        is_requested = context.instance.get_runs(dg.RunsFilter(tags={RunTag.RUN_KEY: key}), limit=1)
        if not is_requested and repository is not None and repository.has_job(run.job_name):
            # an empty selection means all assets of the job, as in runs that commands start
            selected = run.asset_selection or repository.get_job(run.job_name).asset_layer.executable_asset_keys
            again.append(
                dg.RunRequest(
                    run_key=key,
                    tags={name: value for name, value in run.tags.items() if name in _KEPT_TAGS},
                    partition_key=run.tags.get(RunTag.PARTITION),
                    asset_selection=sorted(selected),
                )
            )
    if again:
        return dg.SensorResult(run_requests=again)
    if ended:
        return dg.SkipReason(f"Runs without a process were ended: {', '.join(run.run_id for run in ended)}.")
    return dg.SkipReason("Every run in progress has a process.")


def report_failures(settings: Settings, prefix: Prefix) -> dg.SensorDefinition:
    """Build the sensor that reports each failed run to the operator's hook (WME_ON_FAILURE)."""

    @dg.run_failure_sensor(
        name=prefix.name("report_failures"),
        minimum_interval_seconds=30,
        default_status=dg.DefaultSensorStatus.STOPPED
        if settings.on_failure is None
        else dg.DefaultSensorStatus.RUNNING,
        description="Sends a JSON document about each failed run to the URL or program in WME_ON_FAILURE. This sensor "
        "is on by default if WME_ON_FAILURE is set. The sensor ignores runs that Dagster retries and runs that ended "
        "because the UI was stopped. If the delivery fails, the tick fails, but the run is not affected.",
    )
    def look(context: dg.RunFailureSensorContext) -> dg.SkipReason | None:
        """Report one run, or return the reason why the run is not reported. Failed deliveries are not retried."""
        run = context.dagster_run
        if settings.on_failure is None:
            return dg.SkipReason("WME_ON_FAILURE is not set.")
        if not prefix.runs(run):
            return dg.SkipReason(f"{run.run_id} belongs to another part of the project.")
        if run.tags.get(RunTag.WILL_RETRY) == "true":
            return dg.SkipReason(f"Dagster will retry {run.run_id}.")
        if run.tags.get(RunTag.FAILURE_REASON) == "UNEXPECTED_TERMINATION":
            return dg.SkipReason(f"{run.run_id} was terminated, because the UI or the daemon was stopped.")
        steps = ((str(event.step_key), _sentence_of(event)) for event in context.get_step_failure_events())
        content = failure_hook.document(settings, run, context.failure_event.message or "", steps)
        failure_hook.deliver(settings.on_failure.get_secret_value(), content)
        return None

    return look


def _sentence_of(event: dg.DagsterEvent) -> str:
    data = event.step_failure_data
    if data.user_failure_data is not None and data.user_failure_data.description:
        return data.user_failure_data.description
    error = None if data.error is None else data.error.cause or data.error
    return "" if error is None else error.message.strip()


def build_sensors(settings: Settings, offered: Collection[Dataset], prefix: Prefix) -> list[dg.SensorDefinition]:
    return [
        discover_hours(prefix),
        *(discover_snapshots(one, prefix) for one in datasets(Family.SNAPSHOT) if one in offered),
        *(
            dg.AutomationConditionSensorDefinition(
                prefix.name(f"carry_to_{layer}"),
                target=dg.AssetSelection.groups(prefix.name(layer)),
                description=f"{what} if only the upstream layer was materialized. Runs that include all layers do not "
                "trigger this sensor. The sensor is off by default.",
            )
            for layer, what in (("lake", "Converts new archives"), ("warehouse", "Loads new lake files"))
        ),
        publish_pending(prefix),
        keep_streaming(prefix),
        end_killed_runs(prefix),
        report_failures(settings, prefix),
    ]
