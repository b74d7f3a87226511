"""Selection of the hours to fetch and load, and of the runs that do it.

The decision depends on the loaded hours and the runs in progress, never on earlier requests. If the service has an
hour that is not loaded, the hour is requested again, even if earlier runs were killed. So no state is stored between
two evaluations, and an evaluation costs a few requests, however many hours are missing.

A permanent failure (a refused account, an unknown name, an exhausted quota) would recur in each run, and repeated
logins with a wrong password lock the account. So the cause is checked before such hours are requested again, and each
refusal lengthens the wait.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

import dagster as dg

from assets.layers import HOUR, RunTag, hour_of, keys, recent_hours
from pipelines.embedding import prefix_of
from resources import connection
from resources.adapters import EnterpriseResource, LakeResource, WarehouseResource
from resources.datasets import ARTICLE_CHANGES, RETENTION, Dataset
from resources.enterprise import EnterpriseClient, read_listing
from resources.enterprise.data_api import UNCOUNTED
from resources.enterprise.errors import NotPublishedYet, RetentionPassed
from resources.formatting import counted, moment_text
from resources.lake import Layout
from resources.tables import RECHECKS, HourState
from resources.warehouse import CoverageRow

#: Maximum number of hours per run: an outage of two days takes three runs.
SPAN: Final = 16
#: An hour is published minutes after its end, at worst hours. Older hours are assumed to be published.
LATE: Final = timedelta(hours=6)
#: Seconds after which an evaluation sends no further request. Dagster's limit is 60.
ASKING_SECONDS: Final = 15.0
#: Waits before a failed hour is requested again: after its first failure, its second, and so on; the last value
#: repeats. Retries continue while the service keeps the hour: a failure may pass after a day, and after two days the
#: hour is lost.
WAITS: Final = (timedelta(minutes=10), timedelta(hours=1), timedelta(hours=4))

#: Time that the runs of a backfill may take to appear. Until then, the hours of the backfill are unknown.
LAUNCHING: Final = timedelta(minutes=5)
#: Definitions are loaded together with the settings, so the cause of an earlier refusal may be fixed.
LOADED_AT = datetime.now(UTC)

_ARTICLES: Final = keys(ARTICLE_CHANGES)
#: States that another run over the hour would not change.
DONE: Final = frozenset({HourState.LOADED, HourState.EMPTY, HourState.ABSENT, HourState.PAST_RETENTION})
#: States of a run that is requested and has not ended.
UNDER_WAY: Final = [
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]


class Span(NamedTuple):
    """Range of hours, first and last included."""

    first: datetime
    last: datetime


def missing_hours(
    now: datetime,
    rows: Iterable[CoverageRow],
    layout: Layout,
    scope: Collection[tuple[str, int]],
    dataset: Dataset = ARTICLE_CHANGES,
) -> list[datetime]:
    """Return hours of the last two days that lack a mirrored project, or are due to be fetched again, oldest first."""
    done: dict[datetime, set[tuple[str, int]]] = {}
    for row in rows:
        if row.state in DONE:
            done.setdefault(row.batch_hour, set()).add((row.project_id, row.namespace_id))
    return [
        hour
        for hour in recent_hours(now)
        if (
            not done.get(hour, set()).issuperset(scope) or due_again(layout.batch_list(dataset, hour), hour, now, scope)
        )
    ]


def missing_now(
    now: datetime,
    enterprise: EnterpriseResource,
    lake: LakeResource,
    warehouse: WarehouseResource,
    dataset: Dataset,
) -> list[datetime]:
    """Return the `missing_hours` of a dataset's mirrored scope. Does not wait for a writer of the warehouse.

    Raises:
        MirrorError: The warehouse cannot be read now.
    """
    store = warehouse.glance
    rows = store.coverage(since=now - RETENTION, published=False, dataset=dataset) if store.build_path.exists() else []
    return missing_hours(now, rows, lake.layout, enterprise.scope_of(dataset), dataset)


def due_again(listing: Path, hour: datetime, now: datetime, scope: Collection[tuple[str, int]]) -> bool:
    """Return True if the batch listing of an hour lacked a mirrored project, and it is time to fetch it again."""
    try:
        named = {(record.project_id, record.namespace_id) for record in read_listing(listing)}
    except FileNotFoundError:
        return False
    if named.issuperset(scope):
        return False
    looked_at = datetime.fromtimestamp(listing.stat().st_mtime, UTC)
    return any(looked_at < hour + recheck <= now for recheck in RECHECKS)


class Open(NamedTuple):
    """Missing hours by the reason to request them or not.

    `wanted` hours can be requested. `busy` hours have a run under way, or a backfill is being launched. `waiting`
    hours failed recently; the value is the time until which they are not requested.
    """

    wanted: list[datetime]
    busy: list[datetime]
    waiting: dict[datetime, datetime]

    @property
    def sentence(self) -> str:
        """Reason why no run is requested."""
        parts = [f"{len(self.busy)} under way"] if self.busy else []
        if self.waiting:
            parts.append(
                f"{len(self.waiting)} failed, and no run is requested before {moment_text(min(self.waiting.values()))} "
                "UTC (runs that are started by hand do not change that)"
            )
        return f"{counted(len(self.busy) + len(self.waiting), 'hour')} missing: {', '.join(parts)}."


def without_busy(
    hours: Iterable[datetime], instance: dg.DagsterInstance, now: datetime, layers: Collection[dg.AssetKey] = _ARTICLES
) -> Open:
    """Separate hours that have a run under way and hours that failed recently from those to request."""
    spans_ = [span for run in instance.get_runs(dg.RunsFilter(statuses=UNDER_WAY)) if (span := _span_of(run, layers))]
    is_launching = _is_launching(instance, now, layers)
    first_failures = _requested_failures(instance, now, layers)
    found = Open([], [], {})
    for hour in hours:
        ends = [end for span, end in first_failures if span.first <= hour <= span.last]
        until = max(ends) + WAITS[min(len(ends), len(WAITS)) - 1] if ends else now
        if is_launching or any(span.first <= hour <= span.last for span in spans_):
            found.busy.append(hour)
        elif now < until:
            found.waiting[hour] = until
        else:
            found.wanted.append(hour)
    return found


def _is_launching(instance: dg.DagsterInstance, now: datetime, layers: Collection[dg.AssetKey]) -> bool:
    """Return True if a backfill of these assets has just been launched, whose runs may not exist yet."""
    return any(
        backfill.status.value == "REQUESTED"
        and now - datetime.fromtimestamp(backfill.backfill_timestamp, UTC) < LAUNCHING
        and not set(layers).isdisjoint(backfill.asset_selection or ())
        for backfill in instance.get_backfills(limit=10)
    )


def have_failed(
    hours: Iterable[datetime], instance: dg.DagsterInstance, now: datetime, layers: Collection[dg.AssetKey] = _ARTICLES
) -> bool:
    """Return True if a run of these assets failed recently and included one of the hours."""
    failed = [span for _, span, _ in _failed_runs(instance, now, layers)]
    return any(span.first <= hour <= span.last for hour in hours for span in failed)


def _requested_failures(
    instance: dg.DagsterInstance, now: datetime, layers: Collection[dg.AssetKey]
) -> list[tuple[Span, datetime]]:
    """Return the hours and first failure of each failed request by a sensor or schedule. Re-executions do not count."""
    first: dict[str, tuple[Span, datetime]] = {}
    for run, span, end in _failed_runs(instance, now, layers):
        if run.tags.keys() & {RunTag.SENSOR, RunTag.SCHEDULE}:
            root = run.tags.get(RunTag.ROOT_RUN, run.run_id)
            first[root] = min(first.get(root, (span, end)), (span, end), key=lambda one: one[1])
    return list(first.values())


def _failed_runs(
    instance: dg.DagsterInstance, now: datetime, layers: Collection[dg.AssetKey]
) -> Iterator[tuple[dg.DagsterRun, Span, datetime]]:
    """Yield each failed run of these assets, its hours and its end. Killed runs are left out."""
    for record in instance.get_run_records(
        dg.RunsFilter(
            statuses=[dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED], updated_after=now - RETENTION
        )
    ):
        run, span = record.dagster_run, _span_of(record.dagster_run, layers)
        # the failure of a killed run is not caused by its hours
        own = run.status is dg.DagsterRunStatus.CANCELED or run.tags.get(RunTag.FAILURE_REASON) == "STEP_FAILURE"
        if span and own:
            yield run, span, record.update_timestamp


def _span_of(run: dg.DagsterRun, layers: Collection[dg.AssetKey]) -> Span | None:
    """Return the hours of a run; None if it does not cover hours, or none of these assets."""
    # an empty selection, as in runs of commands, means all assets of the job
    is_over = not run.asset_selection.isdisjoint(layers) if run.asset_selection else prefix_of(layers).runs(run)
    if not is_over:
        return None
    one = run.tags.get(RunTag.PARTITION)
    first, last = run.tags.get(RunTag.RANGE_START, one), run.tags.get(RunTag.RANGE_END, one)
    if first is None or last is None:
        return None
    with suppress(ValueError):  # the partition is a snapshot
        return Span(hour_of(first), hour_of(last))
    return None


def published(
    hours: Sequence[datetime], client: EnterpriseClient, now: datetime, dataset: Dataset = ARTICLE_CHANGES
) -> list[datetime]:
    """Return the hours (oldest first) that the service has published. Sends at most six requests, newest hour first.

    Raises:
        EnterpriseError: The service did not answer.
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
    """Group hours into few spans: first the hours about to expire, then the newest, then the rest. Gaps are filled."""
    rest, found = sorted(hours), []
    while rest:
        within = [hour for hour in rest if hour < rest[0] + SPAN * HOUR]
        found.append(Span(within[0], within[-1]))
        rest = rest[len(within) :]
    return [*found[:1], *found[1:][-1:], *found[1:-1]]


def hindrance(
    hours: Sequence[datetime],
    client: EnterpriseClient,
    layout: Layout,
    scope: Collection[tuple[str, int]],
    now: datetime,
    dataset: Dataset,
) -> str | None:
    """Return the reason why a run over hours (oldest first) would fail again, or None if it may succeed.

    Sends at most five requests.

    Raises:
        MirrorError: The account is refused, a name is unknown to the service, or the service does not answer.
    """
    certain = [hour for hour in hours if now - hour > LATE] or hours
    with suppress(NotPublishedYet, RetentionPassed):
        named = {(one.project_id, one.namespace_id) for one in client.hours.listing(certain[-1], dataset).records}
        absent = [place for place in scope if place not in named]
        connection.check_names(client, layout, [project for project, _ in absent], [number for _, number in absent])
    quota = client.account.quotas().get(UNCOUNTED)
    if quota is None or not quota.exhausted:
        return None
    return (
        f"The account has used {quota.used:,} of its {quota.limit:,} {UNCOUNTED} units. No hour is requested until the "
        "vendor resets the counters (monthly) or raises the limit."
    )


def waiting(cursor: str | None, now: datetime) -> str | None:
    """Return why the service is not contacted now, after it refused the account; None if it may be contacted.

    `cursor` is the sensor's cursor, written by `noted`.
    """
    refused_at, count = _refused(cursor)
    if not count or now >= (again := refused_at + WAITS[min(count, len(WAITS)) - 1]):
        return None
    return (
        f"The service refused the account, and repeated logins could lock it. The next attempt is at "
        f"{moment_text(again)} UTC, or as soon as the definitions are reloaded."
    )


def noted(cursor: str | None, now: datetime) -> str:
    """Return a sensor's cursor that records a refusal now."""
    return json.dumps([now.isoformat(), _refused(cursor)[1] + 1])


def _refused(cursor: str | None) -> tuple[datetime, int]:
    """Return the last refusal and the number of refusals in a row since the definitions were loaded."""
    at, count = json.loads(cursor) if cursor else (LOADED_AT.isoformat(), 0)
    refused_at = datetime.fromisoformat(at)
    return refused_at, count if refused_at >= LOADED_AT else 0


def refusal_of(instance: dg.DagsterInstance, run: dg.DagsterRun, ended_at: datetime) -> str | None:
    """Return the message of a failed run whose account was refused since the definitions were loaded, else None."""
    if ended_at < LOADED_AT:
        return None
    for record in instance.get_records_for_run(run.run_id, of_type=dg.DagsterEventType.STEP_FAILURE).records:
        event = record.event_log_entry.dagster_event
        told = None if event is None else event.step_failure_data.user_failure_data
        said = {} if told is None else {name: value.value for name, value in told.metadata.items()}
        if told is not None and (said.get("unavailable"), said.get("retryable")) == ("service", False):
            return told.description
    return None
