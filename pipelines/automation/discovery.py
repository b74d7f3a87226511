"""Selection of hours and snapshots to fetch and load, and of runs to request.

The selection depends on the loaded hours and the runs in progress, not on earlier requests. A published hour that is
not loaded is requested again, even if earlier runs were killed. Apart from refusals, evaluations store no state.

A permanent failure, such as a refused account, an unknown name or an exhausted quota, would recur in each run. Repeated
logins with a wrong password lock the account. Therefore, the cause is checked before failed hours are requested again.
"""

import json
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import dagster as dg

from assets.layers import HOUR, RunTag, hour_of, keys, recent_hours
from assets.steps import hour as batches
from assets.steps import snapshot as snapshot_sets
from assets.steps.converting import NotArchivedError
from pipelines.embedding import prefix_of
from pipelines.process.processes import UNDER_WAY
from resources import connection, datasets
from resources.datasets import ARTICLE_CHANGES, RETENTION, Dataset, Family
from resources.enterprise import EnterpriseClient, read_listing
from resources.enterprise.data_api import UNCOUNTED
from resources.enterprise.errors import NotPublishedYet, RetentionPassed
from resources.errors import MirrorError
from resources.formatting import counted, moment_text
from resources.lake import Layout
from resources.settings import Settings
from resources.tables import RECHECKS, HourState
from resources.warehouse import Warehouse

#: Maximum number of hours per run. An outage of two days needs three runs.
SPAN: Final = 16
#: Time after which an hour is assumed to be published. Most hours are published minutes after their end.
LATE: Final = timedelta(hours=6)
#: Time in seconds after which an evaluation sends no more requests. Dagster's limit is 60 seconds.
ASKING_SECONDS: Final = 15.0
#: Delays before a failed hour is requested again, by number of failures. The last delay repeats until the service
#: deletes the hour after two days.
WAITS: Final = (timedelta(minutes=10), timedelta(hours=1), timedelta(hours=4))
#: Maximum age of reference lists, which change rarely. The service asks clients to cache these lists.
REFERENCE_AGE: Final = timedelta(days=1)
#: Time at which definitions and settings were loaded. Earlier refusals are ignored, as settings might have changed.
LOADED_AT = datetime.now(UTC)
_ARTICLES: Final = keys(ARTICLE_CHANGES)
#: Coverage states that another run over the hour would not change.
DONE: Final = frozenset({HourState.LOADED, HourState.EMPTY, HourState.ABSENT, HourState.PAST_RETENTION})
#: First and last hour of a range.
Span = tuple[datetime, datetime]


def missing_hours(
    now: datetime,
    store: Warehouse,
    scope: Collection[tuple[str, int]],
    dataset: Dataset,
    beginnings: Mapping[tuple[str, int], datetime] | None = None,
) -> list[datetime]:
    """Return recent hours in which a mirrored project's data is missing, and hours to fetch again, oldest first.

    `beginnings` contains each project's first hour to consider. By default, all recent hours are considered. Raises
    MirrorError if the warehouse is in use.
    """
    rows = store.coverage(since=now - RETENTION, published=False, dataset=dataset) if store.build_path.exists() else []
    done: dict[datetime, set[tuple[str, int]]] = {}
    for row in rows:
        if row.state in DONE:
            done.setdefault(row.batch_hour, set()).add((row.project_id, row.namespace_id))
    found, layout = [], Layout(store.data)
    for hour in recent_hours(now):
        places = {place for place in scope if beginnings is None or beginnings.get(place, now) <= hour}
        if places - done.get(hour, set()) or _is_due(layout.batch_list(dataset, hour), hour, now, places):
            found.append(hour)
    return found


def _is_due(listing: Path, hour: datetime, now: datetime, places: set[tuple[str, int]]) -> bool:
    """Return True if an hour's listing is damaged, or if it omits one of the places and is due for another fetch."""
    try:
        named = {(record.project_id, record.namespace_id) for record in read_listing(listing)}
        looked_at = datetime.fromtimestamp(listing.stat().st_mtime, UTC)
    except FileNotFoundError:
        return False
    except MirrorError:
        return bool(places)  # a run over the hour replaces the listing
    return bool(places - named) and any(looked_at < hour + recheck <= now for recheck in RECHECKS)


@dataclass
class Open:
    """Missing hours that can be requested, that have a run in progress, or that wait until a time after a failure.

    `have_failed` is true if a recently failed run included one of the `wanted` hours.
    """

    wanted: list[datetime] = field(default_factory=list)
    busy: list[datetime] = field(default_factory=list)
    waiting: dict[datetime, datetime] = field(default_factory=dict)
    have_failed: bool = False

    @property
    def sentence(self) -> str:
        """Sentence that explains why no run is requested."""
        parts = [f"{len(self.busy)} in progress"] if self.busy else []
        if self.waiting:
            parts.append(
                f"{len(self.waiting)} failed, and the next run is requested at "
                f"{moment_text(min(self.waiting.values()))} UTC (runs started manually do not change this time)"
            )
        return f"{counted(len(self.busy) + len(self.waiting), 'hour')} missing: {', '.join(parts)}."


def without_busy(
    hours: Iterable[datetime], instance: dg.DagsterInstance, now: datetime, layers: Collection[dg.AssetKey] = _ARTICLES
) -> Open:
    """Group missing hours into hours to request, hours in progress and recently failed hours."""
    runs = instance.get_runs(dg.RunsFilter(statuses=UNDER_WAY))
    running = [span for run in runs if (span := _span_of(run, layers))]
    statuses = [dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]
    records = instance.get_run_records(dg.RunsFilter(statuses=statuses, updated_after=now - RETENTION))
    failed: list[Span] = []
    # hours and end of each failed run that a sensor or schedule requested, without its retries
    requested: dict[str, tuple[Span, datetime]] = {}
    for record in sorted(records, key=lambda record: record.update_timestamp):
        run = record.dagster_run
        # a killed run did not fail because of its hours
        own = run.status is dg.DagsterRunStatus.CANCELED or run.tags.get(RunTag.FAILURE_REASON) == "STEP_FAILURE"
        if own and (span := _span_of(run, layers)):
            failed.append(span)
            if run.tags.keys() & {RunTag.SENSOR, RunTag.SCHEDULE}:
                requested.setdefault(run.tags.get(RunTag.ROOT_RUN, run.run_id), (span, record.update_timestamp))
    found = Open()
    for hour in hours:
        ends = [end for (first, last), end in requested.values() if first <= hour <= last]
        until = max(ends) + WAITS[min(len(ends), len(WAITS)) - 1] if ends else now
        if any(first <= hour <= last for first, last in running):
            found.busy.append(hour)
        elif now < until:
            found.waiting[hour] = until
        else:
            found.wanted.append(hour)
            found.have_failed |= any(first <= hour <= last for first, last in failed)
    return found


def _span_of(run: dg.DagsterRun, layers: Collection[dg.AssetKey]) -> Span | None:
    """Return a run's range of hours, or None if the run has no hours or does not include any of these assets."""
    # an empty selection means all assets of the job, as in runs that commands start
    is_over = not run.asset_selection.isdisjoint(layers) if run.asset_selection else prefix_of(layers).runs(run)
    first, last = partitions_of(run)
    with suppress(ValueError):  # the partition is a snapshot
        return (hour_of(first), hour_of(last)) if is_over and first and last else None
    return None


def partitions_of(run: dg.DagsterRun) -> tuple[str | None, str | None]:
    """Return a run's first and last partition key, or None for each if the run has no partitions."""
    one = run.tags.get(RunTag.PARTITION)
    return run.tags.get(RunTag.RANGE_START, one), run.tags.get(RunTag.RANGE_END, one)


def published(hours: Sequence[datetime], client: EnterpriseClient, now: datetime, dataset: Dataset) -> list[datetime]:
    """Return the published hours, oldest first. Raises EnterpriseError if the service does not respond.

    Sends at most six requests, starting with the newest hour.
    """
    there = [hour for hour in hours if now - hour > LATE + HOUR]
    late = hours[len(there) :]
    end = time.monotonic() + ASKING_SECONDS
    for number, hour in reversed(list(enumerate(late))):
        if time.monotonic() > end:
            break  # the next evaluation continues
        try:
            client.hours.listing(hour, dataset)
        except (NotPublishedYet, RetentionPassed):
            continue
        return [*there, *late[: number + 1]]
    return there


def spans(hours: Iterable[datetime]) -> list[Span]:
    """Group hours into a few spans, and return the oldest span, the newest span, and then the remaining spans."""
    rest, found = sorted(hours), []
    while rest:
        within = [hour for hour in rest if hour < rest[0] + SPAN * HOUR]
        found.append((within[0], within[-1]))
        rest = rest[len(within) :]
    return [*found[:1], *found[1:][-1:], *found[1:-1]]


def hindrance(
    hours: Sequence[datetime], client: EnterpriseClient, settings: Settings, now: datetime, dataset: Dataset
) -> str | None:
    """Return the reason why a run over these hours would fail again, or None if the run can succeed.

    `hours` must be sorted, oldest first. Sends at most five requests. Raises MirrorError if the service refuses the
    account, does not recognise a name, or does not respond.
    """
    certain = [hour for hour in hours if now - hour > LATE] or hours
    with suppress(NotPublishedYet, RetentionPassed):
        named = {(one.project_id, one.namespace_id) for one in client.hours.listing(certain[-1], dataset).records}
        absent = [place for place in settings.scope_of(dataset) if place not in named]
        projects, namespaces = [project for project, _ in absent], [number for _, number in absent]
        connection.check_names(client, Layout(settings.data), projects, namespaces)
    quota = client.account.quotas().get(UNCOUNTED)
    if quota is None or quota.left != 0:
        return None
    return (
        f"The account has used {quota.used:,} of its {quota.limit:,} {UNCOUNTED} units. No hours are requested until "
        "the vendor resets the monthly counters or raises the limit."
    )


def waiting(cursor: str | None, now: datetime) -> str | None:
    """Return the reason for waiting after a refusal that `noted` recorded in the sensor cursor, or None."""
    refused_at, count = _refused(cursor)
    if not count or now >= (again := refused_at + WAITS[min(count, len(WAITS)) - 1]):
        return None
    return (
        f"The service denied access to the account. Repeated logins can lock an account, so the next attempt is at "
        f"{moment_text(again)} UTC, or after the definitions are reloaded."
    )


def noted(cursor: str | None, now: datetime) -> str:
    """Return a new sensor cursor that records a refusal at `now`."""
    return json.dumps([now.isoformat(), _refused(cursor)[1] + 1])


def _refused(cursor: str | None) -> tuple[datetime, int]:
    """Return the time of the last refusal and the number of consecutive refusals since the definitions were loaded."""
    at, count = json.loads(cursor) if cursor else (LOADED_AT.isoformat(), 0)
    refused_at = datetime.fromisoformat(at)
    return refused_at, count if refused_at >= LOADED_AT else 0


def refusal_of(instance: dg.DagsterInstance, run: dg.DagsterRun, ended_at: datetime) -> str | None:
    """Return a failed run's message if the service has refused the account since the definitions were loaded."""
    if ended_at < LOADED_AT:
        return None
    for record in instance.get_records_for_run(run.run_id, of_type=dg.DagsterEventType.STEP_FAILURE).records:
        event = record.event_log_entry.dagster_event
        told = None if event is None else event.step_failure_data.user_failure_data
        said = {} if told is None else {name: value.value for name, value in told.metadata.items()}
        if told is not None and (said.get("unavailable"), said.get("retryable")) == ("service", False):
            return told.description
    return None


def snapshots_to_fetch(
    client: EnterpriseClient, settings: Settings, wanted: Iterable[Dataset] = (), *, newer: bool = False
) -> dict[Dataset, list[str]]:
    """Return the identifiers of mirrored snapshots that are not loaded, by dataset.

    By default, all datasets are included. With `newer`, also return snapshots whose current version is not archived.
    """
    found = {}
    layout, warehouse = Layout(settings.data), Warehouse(settings.data)
    for dataset in tuple(wanted) or filter(settings.scope_of, datasets.datasets(Family.SNAPSHOT)):
        scope = settings.scope_of(dataset) or dataset.places
        loaded = warehouse.snapshot_scopes(dataset) if warehouse.build_path.exists() else frozenset()
        listing = client.snapshots.listing(dataset)
        records = [
            record
            for record in snapshot_sets.mirrored(listing, scope)
            if (record.project_id, record.namespace_id) not in loaded
            or (newer and not snapshot_sets.is_archived(record, layout, dataset))
        ]
        records.sort(key=lambda one: scope.index((one.project_id, one.namespace_id)))
        odd = snapshot_sets.odd(listing, scope if newer else [one for one in scope if one not in loaded])
        found[dataset] = [one.identifier for one in records] + list(odd)
    return found


def lacking_hours(settings: Settings, newest: datetime, now: datetime) -> list[datetime]:
    """Return missing hours up to `newest` that the service still retains and that a run can complete, oldest first."""
    warehouse, lacking = Warehouse(settings.data), set[datetime]()
    for dataset in datasets.datasets(Family.HOURLY) if warehouse.build_path.exists() else ():
        scope, beginnings = settings.scope_of(dataset), warehouse.beginnings(dataset)
        lacking.update(missing_hours(now, warehouse, scope, dataset, beginnings))
    return sorted(hour for hour in lacking if hour <= newest)


def archived_hours(dataset: Dataset, settings: Settings) -> list[datetime]:
    """Return a dataset's hours that are fully archived but not fully loaded, oldest first."""
    found = []
    layout, warehouse, scope = Layout(settings.data), Warehouse(settings.data), settings.scope_of(dataset)
    for hour in warehouse.lacking_hours(dataset) if warehouse.build_path.exists() else ():
        try:
            archived = batches.archived_hour(hour, layout, scope, dataset)
        except MirrorError:
            continue  # a file is missing or damaged: a run over the hour fetches it, or reports the failure
        if not archived.plan.odd:
            found.append(hour)
    return found


def archived_snapshots(dataset: Dataset, settings: Settings) -> tuple[list[str], list[str]]:
    """Return snapshots whose archived version is newer than the loaded version, and a message for each failure."""
    newest, failures = [], []
    layout, warehouse = Layout(settings.data), Warehouse(settings.data)
    for project, namespace in settings.scope_of(dataset):
        name = f"{project}_namespace_{namespace}"
        if not layout.snapshot_archive(dataset, name).is_dir():
            continue
        try:
            newest.append(snapshot_sets.archived_snapshot(name, layout, dataset))
        except NotArchivedError:
            continue  # its download is not complete yet
        except MirrorError as error:
            failures.append(str(error))
    # another process may hold the warehouse, so open it only if there is something to compare
    loaded = warehouse.snapshot_versions(dataset) if newest and warehouse.build_path.exists() else {}
    found = []
    for one in newest:
        versions = loaded.get(one.identifier, {})
        if one.version not in versions and all(one.exported_at > moment for moment in versions.values()):
            found.append(one.identifier)
    return found, failures


def reference_due(layout: Layout, warehouse: Warehouse, now: datetime) -> bool:
    """Return True if a reference list is missing, at least a day old, or not loaded."""
    lists = datasets.datasets(Family.LIST)
    paths = [layout.list_archive(dataset) for dataset in lists]
    oldest = now - REFERENCE_AGE
    if any(not path.exists() or datetime.fromtimestamp(path.stat().st_mtime, UTC) < oldest for path in paths):
        return True
    # an interrupted run can leave lists that are archived but not loaded
    if not warehouse.build_path.exists():
        return True
    with warehouse.opened(published=False) as build:
        return not all(map(build.has_rows, lists))
