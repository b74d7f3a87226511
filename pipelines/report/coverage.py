"""Coverage of the newest hours as an operator looks at it: a cell for every hour, and every gap as a sentence."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from resources.datasets import ARTICLE_CHANGES, LATE
from resources.formatting import counted, hour_text
from resources.tables import COVERED, HourState
from resources.warehouse.database.sql import statement

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    from resources.datasets import Dataset
    from resources.warehouse.read.reading import Reader

#: Nothing is noted of an hour that should be there.
UNKNOWN: Final = "unknown"
#: An hour before the first one that was brought in, or after the last one of a project that is mirrored no longer.
OUTSIDE: Final = "outside"
_HOUR: Final = timedelta(hours=1)


@dataclass(frozen=True)
class Cell:
    """One hour of one project and namespace.

    Attributes:
        batch_hour: Its start, in UTC.
        state: A state of the table `hours`, or `unknown` or `outside`.
        row_count: Rows loaded.
        redone: Whether it was loaded again with other content.
        reason: Why it is not loaded, where that is known.
    """

    batch_hour: datetime
    state: str
    row_count: int | None = None
    redone: bool = False
    reason: str | None = None


@dataclass(frozen=True)
class Place:
    """One project and namespace over some hours.

    Attributes:
        cells: One for every hour, in order.
        newest_hour: Newest hour, of all times, of which nothing more is to come.
        older_gap_count: Hours before the first cell that are gaps.
        older_gap_at: The first of them.
        dataset: Name of the dataset.
    """

    project_id: str
    namespace_id: int
    cells: tuple[Cell, ...]
    newest_hour: datetime | None = None
    older_gap_count: int = 0
    older_gap_at: datetime | None = None
    dataset: str = ARTICLE_CHANGES.name

    @property
    def name(self) -> str:
        """How people see it: the dataset is named only where it is not that of the articles."""
        return f"{_prefix(self.dataset)}{self.project_id} namespace {self.namespace_id}"

    def counts(self) -> dict[str, int]:
        """Hours by state of the table `hours`."""
        return {state.value: sum(cell.state == state for cell in self.cells) for state in HourState}


@dataclass(frozen=True)
class Gap:
    """Hours in a row that are not there, for one reason."""

    project_id: str
    namespace_id: int
    first: datetime
    last: datetime
    state: str
    reason: str | None
    dataset: str = ARTICLE_CHANGES.name

    @property
    def hour_count(self) -> int:
        """How many hours it has."""
        return (self.last - self.first) // _HOUR + 1

    @property
    def sentence(self) -> str:
        """Which hours, what became of them, and what to do."""
        span = hour_text(self.first)
        if self.hour_count > 1:
            span += f" to {hour_text(self.last)} ({counted(self.hour_count, 'hour')})"
        return f"{_prefix(self.dataset)}{self.project_id} namespace {self.namespace_id} {span}: {self.state}. {self.reason or ''}".strip()


def survey(
    warehouse: Reader,
    scope: Sequence[tuple[str, int]],
    since: datetime,
    until: datetime,
    dataset: Dataset = ARTICLE_CHANGES,
) -> list[Place]:
    """Hour by hour what is known of some hours, by project and namespace.

    Args:
        warehouse: Its published file is read.
        scope: The mirrored (project, namespace) pairs; others appear where one of these hours has a row.
        since: The first hour.
        until: The last hour.
        dataset: The dataset of hourly files.

    Raises:
        NotPublishedError: Nothing was published yet.
    """
    covered = ", ".join(f"'{state}'" for state in sorted(COVERED))
    gap = f"batch_hour BETWEEN coalesce(first_hour, batch_hour) AND ? AND state NOT IN ({covered})"
    history = warehouse.sql(
        "SELECT project_id, namespace_id, coalesce(first_hour, min(batch_hour)), max(batch_hour), "  # noqa: S608  constant texts
        f"max(batch_hour) FILTER (state IN ({covered})), "
        f"count(*) FILTER ({gap}), min(batch_hour) FILTER ({gap}) "
        f"FROM hours LEFT JOIN ({statement('load/beginnings')}) AS begun USING (table_name, project_id, namespace_id) "
        "WHERE table_name = ? GROUP BY project_id, namespace_id, first_hour",
        [since - _HOUR, since - _HOUR, dataset.name],
    ).rows
    known: dict[tuple[str, int], list[Any]] = {(project, namespace): rest for project, namespace, *rest in history}
    found: dict[tuple[str, int], dict[datetime, Cell]] = {}
    for row in warehouse.coverage(since, until + _HOUR, dataset=dataset):
        cell = Cell(row.batch_hour, row.state, row.row_count, (row.load_count or 0) > 1, row.reason)
        found.setdefault((row.project_id, row.namespace_id), {})[row.batch_hour] = cell
    hours = [since + number * _HOUR for number in range((until - since) // _HOUR + 1)]
    places = []
    for place in sorted({*scope, *found}):
        first, last, newest, gap_count, gap_at = known.get(place, [None, None, None, 0, None])
        end = until if place in scope else last
        there = found.get(place, {})
        cells = tuple(
            there.get(hour) or Cell(hour, UNKNOWN if first is not None and first <= hour <= end else OUTSIDE)
            for hour in hours
        )
        places.append(Place(*place, cells, newest, gap_count, gap_at, dataset.name))
    return places


def gaps(places: Iterable[Place], now: datetime) -> list[Gap]:
    """What is not there of the hours surveyed; hours of which it is too early to say so are left out."""
    return [gap for place in places for gap in _gaps(place, now)]


def gap_hours(found: Iterable[Gap]) -> Counter[tuple[str, str, int]]:
    """Hours of gaps by dataset, project and namespace. The newest hours of a place that is behind are none: how old its newest is tells them."""
    counts: Counter[tuple[str, str, int]] = Counter()
    for gap in found:
        counts[gap.dataset, gap.project_id, gap.namespace_id] += gap.hour_count
    return counts


def remedy(found: Iterable[Gap]) -> str | None:
    """The command that brings in all that the service still keeps of these gaps; None: it keeps nothing of them.

    Hours in between that are there already cost nothing.
    """
    open_ = [gap for gap in found if gap.state != HourState.PAST_RETENTION]
    if not open_:
        return None
    first, last = (f"{hour:%Y-%m-%dT%H}" for hour in (min(g.first for g in open_), max(g.last for g in open_)))
    return f"`wme run --from {first} --to {last}` fetches those of these hours that the service still keeps."


def _gaps(place: Place, now: datetime) -> Iterator[Gap]:
    known = [n for n, cell in enumerate(place.cells) if cell.state not in {UNKNOWN, OUTSIDE}]
    under_way: Gap | None = None
    for number, cell in enumerate(place.cells):
        state, reason = cell.state, cell.reason
        early = state == HourState.NOT_YET and now - cell.batch_hour < LATE
        # what lies behind the last known hour is told by how old that is
        behind = state == UNKNOWN and (not known or number > known[-1])
        if state in COVERED or state == OUTSIDE or early or behind:
            found = None
        else:
            if state == UNKNOWN:
                reason = "Nothing is recorded about it. A run fetches it while the service keeps it."
            found = Gap(
                place.project_id, place.namespace_id, cell.batch_hour, cell.batch_hour, state, reason, place.dataset
            )
        if found and under_way and (found.state, found.reason) == (under_way.state, under_way.reason):
            under_way = replace(under_way, last=cell.batch_hour)
            continue
        if under_way:
            yield under_way
        under_way = found
    if under_way:
        yield under_way


def _prefix(dataset: str) -> str:
    return "" if dataset == ARTICLE_CHANGES.name else f"{dataset} "


def place_json(place: Place) -> dict[str, Any]:
    """A place and its hours with values that JSON has."""
    return {
        "dataset": place.dataset,
        "project_id": place.project_id,
        "namespace_id": place.namespace_id,
        "newest_hour": _iso(place.newest_hour),
        "older_gap_count": place.older_gap_count,
        "older_gap_at": _iso(place.older_gap_at),
        "hours": [
            {
                "batch_hour": cell.batch_hour.isoformat(),
                "state": cell.state,
                "row_count": cell.row_count,
                "redone": cell.redone,
                "reason": cell.reason,
            }
            for cell in place.cells
        ],
    }


def gap_json(gap: Gap) -> dict[str, Any]:
    """A gap with values that JSON has."""
    return {
        "dataset": gap.dataset,
        "project_id": gap.project_id,
        "namespace_id": gap.namespace_id,
        "first_hour": gap.first.isoformat(),
        "last_hour": gap.last.isoformat(),
        "hour_count": gap.hour_count,
        "state": gap.state,
        "reason": gap.reason,
    }


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()
