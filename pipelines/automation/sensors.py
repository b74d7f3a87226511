"""Sensors that request runs for missing or pending data, end killed runs and report failures."""

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
from pipelines.embedding import ALONE, Prefix, deferred
from pipelines.process import processes
from resources.adapters import EnterpriseResource, LakeResource, WarehouseResource
from resources.datasets import Dataset, Family, datasets
from resources.enterprise.errors import AuthenticationError
from resources.errors import MirrorError
from resources.formatting import counted, moment_text
from resources.settings import Settings
from resources.warehouse import next_text

_UNDER_WAY = [dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.QUEUED]
#: Tags that describe the work of a run; the others describe its origin.
_KEPT_TAGS = frozenset({RunTag.RANGE_START, RunTag.RANGE_END, *WHEN_DUE})

#: Failure reason of a run whose process was asked to end, because the UI or the daemon was stopped.
_STOPPED = "UNEXPECTED_TERMINATION"
#: Seconds to wait for a response. An evaluation must end well before Dagster's timeout, even if the service hangs.
_ANSWER_SECONDS = 10.0
#: Waits before a failed stream is started again: after its first failure, its second, and so on; the last value
#: repeats.
STREAM_WAITS = (timedelta(minutes=1), timedelta(minutes=10), timedelta(hours=1))
#: Maximum number of earlier runs of the stream that an evaluation reads.
_RUNS = 20


@deferred(
    lambda prefix: dg.sensor(
        name=prefix.name("discover_hours"),
        job_name=prefix.name(jobs.HOURS),
        minimum_interval_seconds=600,
        description="Compares the service's last 48 hours with what is loaded and requests what is missing, in at most "
        "three runs. An outage of 48 hours is data loss, so leave this sensor on.",
    )
)
def discover_hours(
    context: dg.SensorEvaluationContext,
    enterprise: EnterpriseResource,
    lake: LakeResource,
    warehouse: WarehouseResource,
    prefix: Prefix,
) -> dg.SensorResult | dg.SkipReason:
    """Request a run per span of missing hours. Sends a few requests, however many hours are missing."""
    if (why := discovery.waiting(context.cursor, datetime.now(UTC))) is not None:
        return dg.SkipReason(why)
    requests, reasons = [], []
    for dataset in datasets(Family.HOURLY):
        if not enterprise.scope_of(dataset):
            continue
        try:
            found = _missing(context, dataset, enterprise, lake, warehouse, prefix)
        except MirrorError as error:
            return _refused(context, error)
        if isinstance(found, str):
            reasons.append(found)
        else:
            requests += found
    return dg.SensorResult(run_requests=requests) if requests else dg.SkipReason(" ".join(dict.fromkeys(reasons)))


def _refused(context: dg.SensorEvaluationContext, error: MirrorError) -> dg.SkipReason:
    """Return the reason why no run is requested; if the service refused the account, record that."""
    if isinstance(error, AuthenticationError):
        context.update_cursor(discovery.noted(context.cursor, datetime.now(UTC)))
    return dg.SkipReason(sentence(error))


def _missing(
    context: dg.SensorEvaluationContext,
    dataset: Dataset,
    enterprise: EnterpriseResource,
    lake: LakeResource,
    warehouse: WarehouseResource,
    prefix: Prefix,
) -> list[dg.RunRequest] | str:
    """Return a run request per span of a dataset's missing hours, or the reason why there is none."""
    now = datetime.now(UTC)
    missing = discovery.missing_now(now, enterprise, lake, warehouse, dataset)
    keys = [prefix.key(key) for key in layers.keys(dataset)]
    key = keys[-1]
    partitions = context.repository_def.asset_graph.get(key).partitions_def if context.repository_def else None
    # the operator may have set a first hour that is later than the oldest hour of the service
    missing = [hour for hour in missing if partitions is None or partitions.has_partition_key(key_of(hour))]
    if not missing:
        return "Every hour of the last two days is loaded."
    open_ = discovery.without_busy(missing, context.instance, now, keys)
    if not (wanted := open_.wanted):
        return open_.sentence
    with enterprise.client(_ANSWER_SECONDS) as client:
        if discovery.have_failed(wanted, context.instance, now, keys):
            hindrance = discovery.hindrance(wanted, client, lake.layout, enterprise.scope_of(dataset), now, dataset)
            if hindrance is not None:
                return hindrance
        wanted = discovery.published(wanted, client, now, dataset)
    if not wanted:
        return "The service has not published the newest hours yet. The next evaluation checks again."
    # no selection, thus one run over all datasets of the job, if only one is mirrored
    mirrored = [one for one in datasets(Family.HOURLY) if enterprise.scope_of(one)]
    selection = keys if len(mirrored) > 1 else None
    return [
        dg.RunRequest(
            # hours under way are not requested, so the key only has to distinguish evaluations
            run_key=" ".join(
                [key_of(first), key_of(last), f"{now:%Y-%m-%dT%H:%M}", *([dataset.name] if selection else [])]
            ),
            tags={RunTag.RANGE_START: key_of(first), RunTag.RANGE_END: key_of(last)},
            asset_selection=selection,
        )
        for first, last in discovery.spans(wanted)
    ]


def discover_snapshots(dataset: Dataset, prefix: Prefix) -> dg.SensorDefinition:
    """Build the sensor that requests new versions of a dataset's snapshots."""

    @dg.sensor(
        name=prefix.name(f"discover_{dataset.archive}"),
        job_name=prefix.name(jobs.of_snapshots(dataset)),
        # often, because an evaluation gives up on a slow service after seconds; listing costs no quota (assumed)
        minimum_interval_seconds=600,
        description="Compares the versions of the service's snapshots with the archived ones, and requests a run for "
        "each that differs. A run costs quota, and disk space for a whole project, so this sensor is off by default.",
    )
    @prefix.adapted
    def look(
        context: dg.SensorEvaluationContext, enterprise: EnterpriseResource, lake: LakeResource
    ) -> dg.SensorResult | dg.SkipReason:
        if not (scope := enterprise.scope_of(dataset)):
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
            return dg.SkipReason("Every snapshot of the mirrored projects is archived in its current version.")
        # added here, not in the result, because Dagster resolves run requests before it adds partitions
        context.instance.add_dynamic_partitions(prefix.name(dataset.archive), list(changed))
        return dg.SensorResult(
            run_requests=[
                dg.RunRequest(run_key=f"{identifier} {what}", partition_key=identifier)
                for identifier, what in changed.items()
            ]
        )

    return look


@deferred(
    lambda prefix: dg.sensor(
        name=prefix.name("publish_pending"),
        job_name=prefix.name(jobs.PUBLISH),
        minimum_interval_seconds=60,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Applies loaded hours and snapshots to the current articles and publishes, as often as WME_PUBLISH "
        "allows. It only works locally, so it is on by default.",
    )
)
def publish_pending(
    context: dg.SensorEvaluationContext, warehouse: WarehouseResource, prefix: Prefix
) -> dg.RunRequest | dg.SkipReason:
    """Request a publication if it is due, data is pending and no run loads hours; one run per set of pending data."""
    active = sum(_brings_hours(run, prefix) for run in context.instance.get_runs(dg.RunsFilter(statuses=_UNDER_WAY)))
    if active:
        return dg.SkipReason(f"{counted(active, 'run')} under way. Pending hours and snapshots are applied afterwards.")
    store = warehouse.glance
    try:
        hours, snapshots, revision = store.pending_hours(), store.pending_snapshots(), store.unpublished_revision()
    except MirrorError as error:
        return dg.SkipReason(sentence(error))
    if not (hours or snapshots or revision):
        return dg.SkipReason("Every loaded hour and snapshot is in the current articles.")
    if not store.publish_is_due(warehouse.publish_every):
        when = next_text(store.publication(), warehouse.publish_every)
        return dg.SkipReason(
            f"Pending: {counted(len(hours), 'hour')} and {counted(len(snapshots), 'snapshot')}. They are published "
            f"{when}."
        )
    digest = hashlib.md5(repr((hours, snapshots, revision)).encode(), usedforsecurity=False).hexdigest()[:12]
    # the hour in the key: a failed run is requested again once an hour, not at every tick
    return dg.RunRequest(run_key=f"{digest} {datetime.now(UTC):%Y-%m-%d-%H}", tags=WHEN_DUE)


def _brings_hours(run: dg.DagsterRun, prefix: Prefix = ALONE) -> bool:
    """Return True if publishing waits for a run. It does not wait for runs over snapshots, which may take hours."""
    of_snapshots = datasets(Family.SNAPSHOT)
    if run.asset_selection:  # an empty selection, as in runs of commands, means all assets of the job
        others = {key for dataset in of_snapshots for key in layers.keys(dataset)}
        return not {unprefixed(key) for key in run.asset_selection if prefix.covers(key)} <= others
    ours = (jobs.REFERENCE, jobs.LOOKUPS, jobs.STREAM, *map(jobs.of_snapshots, of_snapshots))
    return prefix.runs(run) and run.job_name not in set(map(prefix.name, ours))


@deferred(
    lambda prefix: dg.sensor(
        name=prefix.name("keep_streaming"),
        job_name=prefix.name(jobs.STREAM),
        minimum_interval_seconds=30,
        description="Consumes the realtime stream: requests the next run when none is under way. It needs an account "
        "that may read streams, so it is off by default.",
    )
)
def keep_streaming(
    context: dg.SensorEvaluationContext, enterprise: EnterpriseResource, prefix: Prefix
) -> dg.RunRequest | dg.SkipReason:
    """Request a run, unless a process already reads the stream or the last run failed recently."""
    job = prefix.name(jobs.STREAM)
    if context.instance.get_runs(dg.RunsFilter(job_name=job, statuses=discovery.UNDER_WAY), limit=1):
        return dg.SkipReason("A run is reading the stream.")
    if stream.is_kept(enterprise.settings.data / "state"):
        return dg.SkipReason("Another process reads the stream, `wme stream` for example.")
    now = datetime.now(UTC)
    failed = list(
        takewhile(
            lambda record: (
                record.dagster_run.status is dg.DagsterRunStatus.FAILURE
                # the failure of a killed run is not caused by the stream
                and record.dagster_run.tags.get(RunTag.FAILURE_REASON) == "STEP_FAILURE"
            ),
            context.instance.get_run_records(dg.RunsFilter(job_name=job), limit=_RUNS),
        )
    )
    # without runs that people started or repeated by hand
    asked = [
        record
        for record in failed
        if RunTag.SENSOR in record.dagster_run.tags and RunTag.ROOT_RUN not in record.dagster_run.tags
    ]
    if failed and (why := discovery.refusal_of(context.instance, failed[0].dagster_run, failed[0].update_timestamp)):
        return dg.SkipReason(
            f"{why} No run is requested until the definitions are reloaded, or a run that is started by hand succeeds."
        )
    if asked and now < (again := asked[0].update_timestamp + STREAM_WAITS[min(len(asked), len(STREAM_WAITS)) - 1]):
        return dg.SkipReason(
            f"The last run failed; its page says why. The next one begins at {moment_text(again)} UTC."
        )
    return dg.RunRequest(run_key=f"{now:%Y-%m-%dT%H:%M:%S}")


@deferred(
    lambda prefix: dg.sensor(
        name=prefix.name("end_killed_runs"),
        # targets assets, because the UI would show the sensor as a trigger of each target job
        asset_selection=dg.AssetSelection.key_prefixes(prefix.text) if prefix.text else dg.AssetSelection.all(),
        minimum_interval_seconds=30,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Ends runs whose process was killed or whose machine stopped; otherwise other runs would wait for "
        "them for "
        "ever. Dagster's daemon retries runs that it launched; this sensor requests runs of commands again.",
    )
)
def end_killed_runs(context: dg.SensorEvaluationContext, prefix: Prefix) -> dg.SensorResult | dg.SkipReason:
    """End runs without a process, and request again those that Dagster does not retry."""
    origin, repository = context.code_location_origin, context.repository_def
    # in another project, only our jobs use our executor, which records the process of a run
    ended = processes.end_killed(context.instance, None if origin is None else origin.location_name, prefix.name(""))
    again = [
        _again(run, repository.get_job(run.job_name))
        for run in processes.wanted_again(context.instance)
        if repository is not None and repository.has_job(run.job_name)
    ]
    again = [
        request
        for request in again
        if not context.instance.get_runs(dg.RunsFilter(tags={RunTag.RUN_KEY: str(request.run_key)}), limit=1)
    ]
    if again:
        return dg.SensorResult(run_requests=again)
    if ended:
        return dg.SkipReason(f"Ended because their process is gone: {', '.join(run.run_id for run in ended)}.")
    return dg.SkipReason("Every run that is under way has its process.")


def _again(run: dg.DagsterRun, job: dg.JobDefinition) -> dg.RunRequest:
    own = {name: value for name, value in run.tags.items() if name in _KEPT_TAGS}
    return dg.RunRequest(
        run_key=f"again {run.run_id}",
        tags=own,
        partition_key=run.tags.get(RunTag.PARTITION),
        # an empty selection, as in runs of commands, means all assets of the job
        asset_selection=sorted(run.asset_selection or job.asset_layer.executable_asset_keys),
    )


def report_failures(settings: Settings, prefix: Prefix = ALONE) -> dg.SensorDefinition:
    """Build the sensor that reports each failed run to the operator's hook (WME_ON_FAILURE)."""

    @dg.run_failure_sensor(
        name=prefix.name("report_failures"),
        minimum_interval_seconds=30,
        default_status=dg.DefaultSensorStatus.STOPPED
        if settings.on_failure is None
        else dg.DefaultSensorStatus.RUNNING,
        description="Sends a JSON document about each failed run to the address, or the program, in WME_ON_FAILURE; on "
        "by default if that is set. Runs that Dagster retries, and runs that ended because the UI was stopped, are "
        "left out. A failure of the hook appears as a failed tick here, and does not affect the run.",
    )
    def look(context: dg.RunFailureSensorContext) -> dg.SkipReason | None:
        """Report one run, or return why it is not reported. A failed delivery is not repeated."""
        run = context.dagster_run
        if settings.on_failure is None:
            return dg.SkipReason("WME_ON_FAILURE is not set.")
        if not prefix.runs(run):
            return dg.SkipReason(f"{run.run_id} is a run of another part of the project.")
        if run.tags.get(RunTag.WILL_RETRY) == "true":
            return dg.SkipReason(f"Dagster retries {run.run_id}.")
        if run.tags.get(RunTag.FAILURE_REASON) == _STOPPED:
            return dg.SkipReason(f"{run.run_id} ended because its process was asked to end.")
        single = run.tags.get(RunTag.PARTITION)
        hours = (
            run.tags.get(RunTag.RANGE_START, single),
            run.tags.get(RunTag.RANGE_END, single),
        )
        steps = ((str(event.step_key), _sentence_of(event)) for event in context.get_step_failure_events())
        message = context.failure_event.message or ""
        failure_hook.deliver(
            settings.on_failure.get_secret_value(),
            failure_hook.document(settings, run, message, steps, hours, datetime.now(UTC)),
        )
        return None

    return look


def _sentence_of(event: dg.DagsterEvent) -> str:
    data = event.step_failure_data
    if data.user_failure_data is not None and data.user_failure_data.description:
        return data.user_failure_data.description
    error = None if data.error is None else data.error.cause or data.error
    return "" if error is None else error.message.strip()


def carry_to(layer: str, what: str, prefix: Prefix) -> dg.AutomationConditionSensorDefinition:
    """Build the sensor that materializes a layer's assets after those of the layer before (`assets.layers`)."""
    return dg.AutomationConditionSensorDefinition(
        prefix.name(f"carry_to_{layer}"),
        target=dg.AssetSelection.groups(prefix.name(layer)),
        description=f"{what}, if only the layer before was materialized: the same hours, snapshots or lists follow. "
        "Runs over all layers trigger nothing. Off by default.",
    )


def build_sensors(
    settings: Settings, offered: Collection[Dataset] | None = None, prefix: Prefix = ALONE
) -> list[dg.SensorDefinition]:
    return [
        discover_hours(prefix),
        *(discover_snapshots(one, prefix) for one in datasets(Family.SNAPSHOT) if offered is None or one in offered),
        carry_to("lake", "Converts new archives", prefix),
        carry_to("warehouse", "Loads new lake files", prefix),
        publish_pending(prefix),
        keep_streaming(prefix),
        end_killed_runs(prefix),
        report_failures(settings, prefix),
    ]
