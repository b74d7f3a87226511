"""The sensors: what is missing upstream, and what is pending here.

Belongs here: looking, and asking for runs. Does not belong here: doing the work.
"""

import hashlib
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg

from assets import snapshot_sets
from assets.failures import sentence
from assets.partitions import HOUR, RETENTION, key_of, last_complete_hour
from assets.published import WHEN_DUE, next_text
from assets.snapshots import SNAPSHOTS
from pipelines.jobs import hours_job, publish_job, snapshots_job
from resources.adapters import EnterpriseResource, LakeResource, WarehouseResource
from resources.enterprise import EnterpriseClient
from resources.enterprise.errors import EnterpriseError, NotPublishedYet, RetentionPassed

#: When a project that an hour's list did not name is looked for again: its export may have been repeated.
RECHECKS = (timedelta(hours=3), timedelta(hours=47))


def missing_hours(
    now: datetime, client: EnterpriseClient, lake: LakeResource, scope: tuple[tuple[str, int], ...]
) -> Iterator[tuple[datetime, str]]:
    """The hours of the service's two days that should be fetched (again), each with the digest of what it lists.

    Asked of the service are only hours that are not archived, and those whose list lacked a mirrored project and whose
    time to look again has come.
    """
    hour = last_complete_hour(now)
    while hour > now - RETENTION:
        listing = lake.layout.batch_list(hour)
        if not listing.exists() or _due_again(listing, hour, now, scope):
            try:
                answer = client.batches(hour)
            except (NotPublishedYet, RetentionPassed):
                pass
            else:
                yield hour, hashlib.md5(answer.raw, usedforsecurity=False).hexdigest()[:12]
        hour -= HOUR


def _due_again(listing: Path, hour: datetime, now: datetime, scope: tuple[tuple[str, int], ...]) -> bool:
    named = {
        (record["is_part_of"]["identifier"], record["namespace"]["identifier"])
        for record in json.loads(listing.read_bytes())
    }
    if named.issuperset(scope):
        return False
    looked_at = datetime.fromtimestamp(listing.stat().st_mtime, UTC)
    return any(looked_at < hour + recheck <= now for recheck in RECHECKS)


@dg.sensor(
    name="discover_hours",
    job=hours_job,
    minimum_interval_seconds=600,
    description="Compares the service's last 48 hours with the archive and asks for what is missing. An outage of 48 hours "
    "is data loss, so leave it on.",
)
def discover_hours(enterprise: EnterpriseResource, lake: LakeResource) -> dg.SensorResult | dg.SkipReason:
    """Ask for one run per missing hour."""
    try:
        with enterprise.client() as client:
            found = list(missing_hours(datetime.now(UTC), client, lake, enterprise.scope))
    except EnterpriseError as error:
        return dg.SkipReason(sentence(error))
    if not found:
        return dg.SkipReason("Every hour of the service's two days is archived.")
    # the oldest first: they are the next to be lost
    return dg.SensorResult(
        run_requests=[
            dg.RunRequest(run_key=f"{key_of(hour)} {digest}", partition_key=key_of(hour))
            for hour, digest in sorted(found)
        ]
    )


@dg.sensor(
    name="discover_snapshots",
    job=snapshots_job,
    minimum_interval_seconds=3600,
    description="Compares the versions of the service's snapshots with those that are archived, and asks for the ones that "
    "differ. A run costs quota, and disk for the whole of a project, so it is off until it is switched on.",
)
def discover_snapshots(
    context: dg.SensorEvaluationContext, enterprise: EnterpriseResource, lake: LakeResource
) -> dg.SensorResult | dg.SkipReason:
    """Ask for one run per new version of a mirrored snapshot."""
    try:
        with enterprise.client() as client:
            records = snapshot_sets.mirrored(client.snapshots().records, enterprise.scope)
    except EnterpriseError as error:
        return dg.SkipReason(sentence(error))
    changed = [record for record in records if not snapshot_sets.is_archived(record, lake.layout)]
    if not changed:
        return dg.SkipReason("Every snapshot of the mirrored projects is archived in its present version.")
    # added here and not by a request of the result: Dagster resolves run requests before it adds partitions
    context.instance.add_dynamic_partitions(str(SNAPSHOTS.name), [record.identifier for record in changed])
    return dg.SensorResult(
        run_requests=[
            dg.RunRequest(run_key=f"{record.identifier} {record.version}", partition_key=record.identifier)
            for record in changed
        ]
    )


@dg.sensor(
    name="publish_pending",
    job=publish_job,
    minimum_interval_seconds=60,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="When hours or snapshots were loaded that the current articles do not know yet, takes them in and publishes, "
    "as often as WME_PUBLISH allows. Local work only, so it is on by default.",
)
def publish_pending(context: dg.SensorEvaluationContext, warehouse: WarehouseResource) -> dg.RunRequest | dg.SkipReason:
    """Ask for one run per set of what is not published, once no run is under way and publishing is due."""
    under_way = context.instance.get_runs(
        dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.QUEUED])
    )
    # a snapshot may be under way for hours, and must not keep the hours from being published
    active = sum(run.job_name != snapshots_job.name for run in under_way)
    if active:
        return dg.SkipReason(f"{active} runs are under way; what is pending is taken in after them.")
    store = warehouse.warehouse
    hours, snapshots, revision = store.pending_hours(), store.pending_snapshots(), store.unpublished_revision()
    if not (hours or snapshots or revision):
        return dg.SkipReason("Every loaded hour and snapshot is in the current articles.")
    if not store.publish_is_due(warehouse.publish_every):
        when = next_text(store.publication(), warehouse.publish_every)
        return dg.SkipReason(f"{len(hours)} hours and {len(snapshots)} snapshots are pending; published {when}.")
    digest = hashlib.md5(repr((hours, snapshots, revision)).encode(), usedforsecurity=False).hexdigest()[:12]
    # the hour in the key: a run that failed is asked for again once an hour, never at every tick
    return dg.RunRequest(run_key=f"{digest} {datetime.now(UTC):%Y-%m-%d-%H}", tags=WHEN_DUE)


SENSORS = (discover_hours, discover_snapshots, publish_pending)
