"""The hours to fetch and load, and the runs that do it.

The decision depends on the loaded hours and the runs in progress, never on earlier requests. An hour that the service
has and that is not loaded is requested again, even if earlier runs were killed. So nothing is stored between two
evaluations, and an evaluation costs a few requests, however many hours are missing.

A run that failed for good (a refused account, an unknown name, a used-up quota) would fail alike each time, and a wrong
password that is sent again and again locks the account. So the cause is checked before such hours are requested again,
and each refusal makes the wait longer.
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

#: Hours of one run at the most: the two days of an outage are three runs.
SPAN: Final = 16
#: An hour is published minutes after its end, at worst some hours. Older ones are there without being asked for.
LATE: Final = timedelta(hours=6)
#: Seconds after which a look asks for nothing more. Dagster waits for 60.
ASKING_SECONDS: Final = 15.0
#: How long a failed hour is left alone, after its first failure, its second, ...; the last of them repeats. Never given
#: up while the service has the hour: what fails for a day may heal, and two days later the hour is lost.
WAITS: Final = (timedelta(minutes=10), timedelta(hours=1), timedelta(hours=4))

#: How long the runs of a backfill may take to be there. They say which hours it brings in.
LAUNCHING: Final = timedelta(minutes=5)
#: Definitions are loaded with the settings: what was refused before then may be mended.
LOADED_AT = datetime.now(UTC)

_ARTICLES: Final = keys(ARTICLE_CHANGES)
#: States of which a run over the hour changes nothing.
DONE: Final = frozenset({HourState.LOADED, HourState.EMPTY, HourState.ABSENT, HourState.PAST_RETENTION})
#: Of a run that is asked for and not ended.
UNDER_WAY: Final = [
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]


class Span(NamedTuple):
    """Hours from the first to the last, both included."""

    first: datetime
    last: datetime


def missing_hours(
    now: datetime,
    rows: Iterable[CoverageRow],
    layout: Layout,
    scope: Collection[tuple[str, int]],
    dataset: Dataset = ARTICLE_CHANGES,
) -> list[datetime]:
    """The hours of the last two days to load, oldest first: a mirrored project is not loaded, or is due again."""
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
    """The same of what is mirrored of a dataset, by the warehouse as it is. Waits for nobody who writes it.

    Raises:
        MirrorError: The warehouse cannot be read now.
    """
    store = warehouse.glance
    rows = store.coverage(since=now - RETENTION, published=False, dataset=dataset) if store.build_path.exists() else []
    return missing_hours(now, rows, lake.layout, enterprise.scope_of(dataset), dataset)


def due_again(listing: Path, hour: datetime, now: datetime, scope: Collection[tuple[str, int]]) -> bool:
    """Return whether the listing of an hour lacked a mirrored project and the time to fetch it again has come."""
    try:
        named = {(record.project_id, record.namespace_id) for record in read_listing(listing)}
    except FileNotFoundError:
        return False
    if named.issuperset(scope):
        return False
    looked_at = datetime.fromtimestamp(listing.stat().st_mtime, UTC)
    return any(looked_at < hour + recheck <= now for recheck in RECHECKS)


class Open(NamedTuple):
    """Missing hours by what is done about them.

    `wanted` can be requested, `busy` have a run under way (or a backfill is being launched), `waiting` failed lately
    and are left alone, each until a moment.
    """

    wanted: list[datetime]
    busy: list[datetime]
    waiting: dict[datetime, datetime]

    @property
    def sentence(self) -> str:
        """The reason why no run is requested."""
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
    """Separate hours that a run has under way, and hours that failed so lately that they are left alone."""
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
    """Return True if a run of these assets failed at one of the hours recently."""
    failed = [span for _, span, _ in _failed_runs(instance, now, layers)]
    return any(span.first <= hour <= span.last for hour in hours for span in failed)


def _requested_failures(
    instance: dg.DagsterInstance, now: datetime, layers: Collection[dg.AssetKey]
) -> list[tuple[Span, datetime]]:
    """The hours of each failed request of a sensor or schedule, and its first failure. Re-executions do not count."""
    first: dict[str, tuple[Span, datetime]] = {}
    for run, span, end in _failed_runs(instance, now, layers):
        if run.tags.keys() & {RunTag.SENSOR, RunTag.SCHEDULE}:
            root = run.tags.get(RunTag.ROOT_RUN, run.run_id)
            first[root] = min(first.get(root, (span, end)), (span, end), key=lambda one: one[1])
    return list(first.values())


def _failed_runs(
    instance: dg.DagsterInstance, now: datetime, layers: Collection[dg.AssetKey]
) -> Iterator[tuple[dg.DagsterRun, Span, datetime]]:
    """Each run of these assets that failed of itself, its hours, and when that was."""
    for record in instance.get_run_records(
        dg.RunsFilter(
            statuses=[dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED], updated_after=now - RETENTION
        )
    ):
        run, span = record.dagster_run, _span_of(record.dagster_run, layers)
        # a run that was killed says nothing about its hours
        own = run.status is dg.DagsterRunStatus.CANCELED or run.tags.get(RunTag.FAILURE_REASON) == "STEP_FAILURE"
        if span and own:
            yield run, span, record.update_timestamp


def _span_of(run: dg.DagsterRun, layers: Collection[dg.AssetKey]) -> Span | None:
    """The hours of a run; None: it is not over hours, or over none of these assets."""
    # runs of commands have an empty selection, which is all of their job
    is_over = not run.asset_selection.isdisjoint(layers) if run.asset_selection else prefix_of(layers).runs(run)
    if not is_over:
        return None
    one = run.tags.get(RunTag.PARTITION)
    first, last = run.tags.get(RunTag.RANGE_START, one), run.tags.get(RunTag.RANGE_END, one)
    if first is None or last is None:
        return None
    with suppress(ValueError):  # a snapshot's name
        return Span(hour_of(first), hour_of(last))
    return None


def published(
    hours: Sequence[datetime], client: EnterpriseClient, now: datetime, dataset: Dataset = ARTICLE_CHANGES
) -> list[datetime]:
    """The hours of these (oldest first) that the service has published. At most six requests, the newest hour's first.

    Raises:
        EnterpriseError: The service did not answer.
    """
    there = [hour for hour in hours if now - hour > LATE + HOUR]
    late = hours[len(there) :]
    end = time.monotonic() + ASKING_SECONDS
    for number, hour in reversed(list(enumerate(late))):
        if time.monotonic() > end:
            break  # the next look asks again
        try:
            client.hours.listing(hour, dataset)
        except (NotPublishedYet, RetentionPassed):
            continue
        return [*there, *late[: number + 1]]
    return there


def spans(hours: Iterable[datetime]) -> list[Span]:
    """The hours in few runs: first those that are lost next, then the newest, then the rest. Gaps are filled."""
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
    """Return the reason why a run over hours (oldest first) would fail as the last one did; None: it need not.

    At most five requests.

    Raises:
        MirrorError: The account is refused, the service does not have a name, or does not answer.
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
        f"The account has used {quota.used:,} of its {quota.limit:,} {UNCOUNTED} units. No hour is asked for until the "
        "vendor has reset the counters (monthly) or allows more."
    )


def waiting(cursor: str | None, now: datetime) -> str | None:
    """Return why the service, which refused the account, is left alone now, by a sensor's cursor (`noted`), or None."""
    refused_at, count = _refused(cursor)
    if not count or now >= (again := refused_at + WAITS[min(count, len(WAITS)) - 1]):
        return None
    return (
        f"The service refused the account, and refused passwords lock it: it is asked again at {moment_text(again)} "
        "UTC, or as soon as the definitions are loaded again."
    )


def noted(cursor: str | None, now: datetime) -> str:
    """Return the cursor of a sensor that the service has refused now."""
    return json.dumps([now.isoformat(), _refused(cursor)[1] + 1])


def _refused(cursor: str | None) -> tuple[datetime, int]:
    """The last refusal and the number of refusals in a row, since the definitions were loaded."""
    at, count = json.loads(cursor) if cursor else (LOADED_AT.isoformat(), 0)
    refused_at = datetime.fromisoformat(at)
    return refused_at, count if refused_at >= LOADED_AT else 0


def refusal_of(instance: dg.DagsterInstance, run: dg.DagsterRun, ended_at: datetime) -> str | None:
    """Return the sentence of a failed run whose account was refused since the definitions were loaded, or None."""
    if ended_at < LOADED_AT:
        return None
    for record in instance.get_records_for_run(run.run_id, of_type=dg.DagsterEventType.STEP_FAILURE).records:
        event = record.event_log_entry.dagster_event
        told = None if event is None else event.step_failure_data.user_failure_data
        said = {} if told is None else {name: value.value for name, value in told.metadata.items()}
        if told is not None and (said.get("unavailable"), said.get("retryable")) == ("service", False):
            return told.description
    return None
