"""The sensors: they look for what is missing at the service or pending here, and ask for runs."""

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
#: What of a run's tags says what it does; the others say who began it.
_KEPT_TAGS = frozenset({RunTag.RANGE_START, RunTag.RANGE_END, *WHEN_DUE})

#: Reason of a failure: the process was asked to end, by whoever stops the UI or the daemon.
_STOPPED = "UNEXPECTED_TERMINATION"
#: Seconds that an answer may take. A look must be over long before Dagster gives it up, whatever the service does.
_ANSWER_SECONDS = 10.0
#: How long a stream that failed is left alone, after its first failure, its second, ...; the last of them repeats.
STREAM_WAITS = (timedelta(minutes=1), timedelta(minutes=10), timedelta(hours=1))
#: Runs of the stream that a look goes back at the most.
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
    """Ask for a run per span of missing hours. A few requests, whatever is missing."""
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
    """Return the reason why no run is requested, and record that the service refused the account."""
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
    """A run request per span of a dataset's missing hours, or why there is none."""
    now = datetime.now(UTC)
    missing = discovery.missing_now(now, enterprise, lake, warehouse, dataset)
    keys = [prefix.key(key) for key in layers.keys(dataset)]
    key = keys[-1]
    partitions = context.repository_def.asset_graph.get(key).partitions_def if context.repository_def else None
    # an operator may want to begin later than the service could
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
        return "The service has not published the newest hours yet. They are looked for again."
    # a run over all datasets where there is but one
    mirrored = [one for one in datasets(Family.HOURLY) if enterprise.scope_of(one)]
    selection = keys if len(mirrored) > 1 else None
    return [
        dg.RunRequest(
            # what is under way is not asked for, so the key has only to tell two looks at the same moment apart
            run_key=" ".join(
                [key_of(first), key_of(last), f"{now:%Y-%m-%dT%H:%M}", *([dataset.name] if selection else [])]
            ),
            tags={RunTag.RANGE_START: key_of(first), RunTag.RANGE_END: key_of(last)},
            asset_selection=selection,
        )
        for first, last in discovery.spans(wanted)
    ]


def discover_snapshots(dataset: Dataset, prefix: Prefix) -> dg.SensorDefinition:
    """The sensor that looks for new versions of a dataset's snapshots."""

    @dg.sensor(
        name=prefix.name(f"discover_{dataset.archive}"),
        job_name=prefix.name(jobs.of_snapshots(dataset)),
        # often, because a look at a service that is slow to answer ends after seconds; listing costs no quota (assumed)
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
        # added here and not by a request of the result: Dagster resolves run requests before it adds partitions
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
    """Ask for one run per set of what is not published, once no hours are under way and publishing is due."""
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
    # the hour in the key: a run that failed is asked for again once an hour, never at every tick
    return dg.RunRequest(run_key=f"{digest} {datetime.now(UTC):%Y-%m-%d-%H}", tags=WHEN_DUE)


def _brings_hours(run: dg.DagsterRun, prefix: Prefix = ALONE) -> bool:
    """Return True if publishing waits for a run. It does not wait for a run over snapshots, which may take hours."""
    of_snapshots = datasets(Family.SNAPSHOT)
    if run.asset_selection:  # runs of commands have an empty one, which is all of their job
        others = {key for dataset in of_snapshots for key in layers.keys(dataset)}
        return not {unprefixed(key) for key in run.asset_selection if prefix.covers(key)} <= others
    ours = (jobs.REFERENCE, jobs.LOOKUPS, jobs.STREAM, *map(jobs.of_snapshots, of_snapshots))
    return prefix.runs(run) and run.job_name not in set(map(prefix.name, ours))


@deferred(
    lambda prefix: dg.sensor(
        name=prefix.name("keep_streaming"),
        job_name=prefix.name(jobs.STREAM),
        minimum_interval_seconds=30,
        description="Keeps the realtime stream read: asks for the next run when none is under way. It needs an account "
        "that may read streams, so it is off by default.",
    )
)
def keep_streaming(
    context: dg.SensorEvaluationContext, enterprise: EnterpriseResource, prefix: Prefix
) -> dg.RunRequest | dg.SkipReason:
    """Ask for a run, unless one is under way, the command keeps the stream, or it failed a moment ago."""
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
                # a run that was killed says nothing about the stream
                and record.dagster_run.tags.get(RunTag.FAILURE_REASON) == "STEP_FAILURE"
            ),
            context.instance.get_run_records(dg.RunsFilter(job_name=job), limit=_RUNS),
        )
    )
    # not what people started or repeated by hand
    asked = [
        record
        for record in failed
        if RunTag.SENSOR in record.dagster_run.tags and RunTag.ROOT_RUN not in record.dagster_run.tags
    ]
    if failed and (why := discovery.refusal_of(context.instance, failed[0].dagster_run, failed[0].update_timestamp)):
        return dg.SkipReason(
            f"{why} No run is asked for until the definitions are loaded again, or a run that is started by hand "
            "succeeds."
        )
    if asked and now < (again := asked[0].update_timestamp + STREAM_WAITS[min(len(asked), len(STREAM_WAITS)) - 1]):
        return dg.SkipReason(
            f"The last run failed; its page says why. The next one begins at {moment_text(again)} UTC."
        )
    return dg.RunRequest(run_key=f"{now:%Y-%m-%dT%H:%M:%S}")


@deferred(
    lambda prefix: dg.sensor(
        name=prefix.name("end_killed_runs"),
        # assets and no jobs: the UI would show it as what starts each of them
        asset_selection=dg.AssetSelection.key_prefixes(prefix.text) if prefix.text else dg.AssetSelection.all(),
        minimum_interval_seconds=30,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Ends runs whose process was killed or whose machine stopped; otherwise other runs would wait for "
        "them for "
        "ever. Dagster's daemon retries the runs that it launched; this sensor requests those of commands again.",
    )
)
def end_killed_runs(context: dg.SensorEvaluationContext, prefix: Prefix) -> dg.SensorResult | dg.SkipReason:
    """End what is dead, and ask again for what nobody else does."""
    origin, repository = context.code_location_origin, context.repository_def
    # in another project, only our jobs have our executor, which says what process a run has
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
        # runs of commands have an empty selection, which is all of their job
        asset_selection=sorted(run.asset_selection or job.asset_layer.executable_asset_keys),
    )


def report_failures(settings: Settings, prefix: Prefix = ALONE) -> dg.SensorDefinition:
    """The sensor that hands each failed run to the operator's hook (WME_ON_FAILURE)."""

    @dg.run_failure_sensor(
        name=prefix.name("report_failures"),
        minimum_interval_seconds=30,
        default_status=dg.DefaultSensorStatus.STOPPED
        if settings.on_failure is None
        else dg.DefaultSensorStatus.RUNNING,
        description="Sends a JSON document about each failed run to the address, or the program, in WME_ON_FAILURE; on "
        "by default where that is set. Runs that Dagster runs again, and runs that ended because the UI was stopped, "
        "are left out. A hook that fails shows as a failed tick here, and fails no run.",
    )
    def look(context: dg.RunFailureSensorContext) -> dg.SkipReason | None:
        """Report one run, or say why not. A hook that fails is not tried again."""
        run = context.dagster_run
        if settings.on_failure is None:
            return dg.SkipReason("WME_ON_FAILURE is not set.")
        if not prefix.runs(run):
            return dg.SkipReason(f"{run.run_id} is a run of another part of the project.")
        if run.tags.get(RunTag.WILL_RETRY) == "true":
            return dg.SkipReason(f"Dagster runs {run.run_id} again.")
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
    """The sensor that lets the assets of a layer follow those of the layer before it (`assets.layers`)."""
    return dg.AutomationConditionSensorDefinition(
        prefix.name(f"carry_to_{layer}"),
        target=dg.AssetSelection.groups(prefix.name(layer)),
        description=f"{what}, when somebody materialized it alone: the same hours, snapshots or lists follow. Runs "
        "that go through all layers are followed by nothing. Off by default.",
    )


def build_sensors(
    settings: Settings, offered: Collection[Dataset] | None = None, prefix: Prefix = ALONE
) -> list[dg.SensorDefinition]:
    return [
        discover_hours(prefix),
        *(discover_snapshots(one, prefix) for one in datasets(Family.SNAPSHOT) if offered is None or one in offered),
        carry_to("lake", "Converts what is new in the archive", prefix),
        carry_to("warehouse", "Loads what is new in the lake", prefix),
        publish_pending(prefix),
        keep_streaming(prefix),
        end_killed_runs(prefix),
        report_failures(settings, prefix),
    ]
