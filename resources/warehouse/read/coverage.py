"""The health of what is mirrored, of which `wme status`, the report, the metrics and the checks all report the same.

Its scope is what is configured: each mirrored dataset, project and namespace, over the newest hours since it began. It
began with the first hour that had a file, or with the hour of the newest snapshot's boundary where that is earlier.
It excludes data that is no longer mirrored, and hours before the beginning that the service no longer has.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from resources.datasets import ARTICLE_CHANGES, LATE, RETENTION, Dataset, base_of, last_complete_hour
from resources.formatting import counted, hour_text, listed
from resources.tables import COVERED, NO_SNAPSHOT, HourState
from resources.warehouse.read.reading import Reader

#: Nothing is noted of an hour that should be there.
UNKNOWN: Final = "unknown"
#: An hour from before the mirror began.
OUTSIDE: Final = "outside"
#: Hours that are looked at, unless asked otherwise: those that the service keeps.
WATCHED: Final = RETENTION // timedelta(hours=1)
_HOUR: Final = timedelta(hours=1)
#: Projects and namespaces that a sentence names.
_NAMED: Final = 20


@dataclass(frozen=True)
class Cell:
    """One hour of one project and namespace. `state` is one of the table `hours`, or `unknown` or `outside`.

    `redone`: it was loaded again with other content. `reason`: for which it is not loaded, if known.
    """

    batch_hour: datetime
    state: str
    row_count: int | None = None
    redone: bool = False
    reason: str | None = None


@dataclass(frozen=True)
class Place:
    """One project and namespace over some hours, a cell for each.

    `newest_hour` is the newest of all times of which nothing more is to come. `older_gap_count` counts gaps before the
    first cell, `older_gap_at` is the first of them. `has_snapshot`: None where the dataset needs none.
    """

    project_id: str
    namespace_id: int
    cells: tuple[Cell, ...]
    newest_hour: datetime | None = None
    older_gap_count: int = 0
    older_gap_at: datetime | None = None
    dataset: str = ARTICLE_CHANGES.name
    has_snapshot: bool | None = None

    @property
    def name(self) -> str:
        """Name for messages; the dataset appears only if it is not that of the articles."""
        return f"{_prefix(self.dataset)}{self.project_id} namespace {self.namespace_id}"

    def counts(self) -> dict[str, int]:
        """Hours by state of the table `hours`."""
        return {state.value: sum(cell.state == state for cell in self.cells) for state in HourState}


@dataclass(frozen=True)
class Gap:
    """Consecutive hours that are missing for one reason; `varies`: the reasons differ in files or numbers."""

    project_id: str
    namespace_id: int
    first: datetime
    last: datetime
    state: str
    reason: str | None
    dataset: str = ARTICLE_CHANGES.name
    varies: bool = False

    @property
    def hour_count(self) -> int:
        """Number of hours."""
        return (self.last - self.first) // _HOUR + 1

    @property
    def hours(self) -> list[datetime]:
        """The start of each of them."""
        return [self.first + number * _HOUR for number in range(self.hour_count)]

    @property
    def place(self) -> str:
        """The project and namespace, as `Place.name` has them."""
        return f"{_prefix(self.dataset)}{self.project_id} namespace {self.namespace_id}"

    @property
    def sentence(self) -> str:
        """Sentence that names the hours, their state, and the remedy."""
        span = hour_text(self.first)
        if self.hour_count > 1:
            span += f" to {hour_text(self.last)} ({counted(self.hour_count, 'hour')})"
        more = " The other hours failed alike: the table `hours` has the reason of each." if self.varies else ""
        return f"{self.place} {span}: {self.state}. {self.reason or ''}{more}".strip()


@dataclass(frozen=True)
class Health:
    """Health of the newest hours of each mirrored project and namespace of each mirrored dataset.

    `lagging` and `without_snapshot` are sentences, about places without a loaded or a new hour, and about datasets.
    `unmirrored` names places that are in the file and are mirrored no longer.
    """

    places: list[Place] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    lagging: list[str] = field(default_factory=list)
    without_snapshot: list[str] = field(default_factory=list)
    unmirrored: list[str] = field(default_factory=list)

    @property
    def uncovered(self) -> list[str]:
        """Everything that is wrong with hours, in sentences."""
        return [*self.lagging, *(gap.sentence for gap in self.gaps)]

    @property
    def troubles(self) -> list[str]:
        """Everything that needs attention, in sentences; behind the gaps, the command that closes them."""
        command = remedy(self.gaps)
        return [*self.lagging, *self.without_snapshot, *(gap.sentence for gap in self.gaps), *filter(None, [command])]


def health(
    warehouse: Reader,
    scopes: Mapping[Dataset, Sequence[tuple[str, int]]],
    now: datetime,
    hours: int = WATCHED,
    *,
    published: bool = True,
) -> Health:
    """The health of the mirror over its newest complete hours, from its published file or its build file.

    `scopes` are the mirrored (project, namespace) pairs of each dataset of hourly files. Raises NotPublishedError.
    """
    newest = last_complete_hour(now)
    found = Health()
    for dataset, scope in scopes.items():
        if not scope:
            continue
        places, others = _survey(warehouse, dataset, scope, newest - (hours - 1) * _HOUR, newest, published=published)
        found.places.extend(places)
        found.unmirrored.extend(f"{_prefix(dataset.name)}{project} namespace {number}" for project, number in others)
        if bare := [place.name.removeprefix(_prefix(dataset.name)) for place in places if place.has_snapshot is False]:
            found.without_snapshot.append(f"{_prefix(dataset.name)}{listed(bare, _NAMED)}: {NO_SNAPSHOT}.")
    found.lagging.extend(sentence for place in found.places if (sentence := _lag(place, now)) is not None)
    found.gaps.extend(gaps(found.places, now))
    return found


def _survey(
    warehouse: Reader,
    dataset: Dataset,
    scope: Sequence[tuple[str, int]],
    since: datetime,
    until: datetime,
    *,
    published: bool = True,
) -> tuple[list[Place], list[tuple[str, int]]]:
    """Return the mirrored projects and namespaces with their hours, and the known pairs that are not mirrored."""
    known = {(one.project_id, one.namespace_id): one for one in warehouse.scopes(since, dataset, published=published)}
    base = base_of(dataset)
    bases = None if base is None else warehouse.snapshot_scopes(base, published=published)
    found: dict[tuple[str, int], dict[datetime, Cell]] = {}
    for row in warehouse.coverage(since, until + _HOUR, published=published, dataset=dataset):
        cell = Cell(row.batch_hour, row.state, row.row_count, (row.load_count or 0) > 1, row.reason)
        found.setdefault((row.project_id, row.namespace_id), {})[row.batch_hour] = cell
    hours = [since + number * _HOUR for number in range((until - since) // _HOUR + 1)]
    places = []
    for place in sorted(set(scope)):
        here = known.get(place)
        there = found.get(place, {})
        cells = []
        for hour in hours:
            is_before = here is None or hour < here.first_hour
            cell = there.get(hour, Cell(hour, OUTSIDE if is_before else UNKNOWN))
            if here is not None and here.has_begun and is_before and cell.state == HourState.PAST_RETENTION:
                cell = Cell(hour, OUTSIDE)  # it was asked for, and nothing can be done
            cells.append(cell)
        places.append(
            Place(
                *place,
                tuple(cells),
                newest_hour=None if here is None else here.newest_hour,
                older_gap_count=0 if here is None else here.older_gap_count,
                older_gap_at=None if here is None else here.older_gap_at,
                dataset=dataset.name,
                has_snapshot=None if bases is None else place in bases,
            )
        )
    return places, sorted(known.keys() - set(scope))


def _lag(place: Place, now: datetime) -> str | None:
    """Return a sentence about a place without a loaded hour, or without new ones."""
    trouble = None
    if place.newest_hour is None:
        trouble = f"{place.name}: no hour of it was loaded so far. `wme run` fetches the newest ones."
    elif now - place.newest_hour > LATE:
        behind = (last_complete_hour(now) - place.newest_hour) // _HOUR
        trouble = (
            f"{place.name}: the newest hour is {hour_text(place.newest_hour)}, {counted(behind, 'hour')} behind. "
            f"The service keeps two days; `wme run --hours {min(behind, WATCHED)}` fetches what is still there."
        )
    return trouble


def gaps(places: Iterable[Place], now: datetime) -> list[Gap]:
    """Return the gaps in the hours surveyed; hours that may still appear are left out."""
    return [gap for place in places for gap in _gaps(place, now)]


def gap_hours(found: Iterable[Gap]) -> Counter[tuple[str, str, int]]:
    """Count hours of gaps by dataset, project and namespace; the newest hours of a place that is behind are none."""
    counts: Counter[tuple[str, str, int]] = Counter()
    for gap in found:
        counts[gap.dataset, gap.project_id, gap.namespace_id] += gap.hour_count
    return counts


def remedy(found: Iterable[Gap]) -> str | None:
    """The command that fetches all that the service still keeps of these gaps; None: it keeps nothing of them."""
    open_ = [gap for gap in found if gap.state != HourState.PAST_RETENTION]
    if not open_:
        return None
    first, last = (f"{hour:%Y-%m-%dT%H}" for hour in (min(g.first for g in open_), max(g.last for g in open_)))
    return f"`wme run --from {first} --to {last}` fetches those of these hours that the service still keeps."


def is_early(cell: Cell, now: datetime) -> bool:
    """Return whether an hour is not published yet and not late enough to need attention."""
    return cell.state == HourState.NOT_YET and now - cell.batch_hour < LATE


def _gaps(place: Place, now: datetime) -> Iterator[Gap]:
    known = [n for n, cell in enumerate(place.cells) if cell.state not in {UNKNOWN, OUTSIDE}]
    under_way: Gap | None = None
    for number, cell in enumerate(place.cells):
        state, reason = cell.state, cell.reason
        # what lies behind the last known hour depends on how old that is
        behind = state == UNKNOWN and (not known or number > known[-1])
        if state in COVERED or state == OUTSIDE or is_early(cell, now) or behind:
            found = None
        else:
            if state == UNKNOWN:
                reason = "Nothing is recorded about it. A run fetches it while the service keeps it."
            found = Gap(
                place.project_id, place.namespace_id, cell.batch_hour, cell.batch_hour, state, reason, place.dataset
            )
        if found and under_way and (found.state, _kind(found.reason)) == (under_way.state, _kind(under_way.reason)):
            varies = under_way.varies or found.reason != under_way.reason
            under_way = replace(under_way, last=cell.batch_hour, varies=varies)
            continue
        if under_way:
            yield under_way
        under_way = found
    if under_way:
        yield under_way


def _kind(reason: str | None) -> str | None:
    """A reason without what is of one hour alone: paths, dates and numbers."""
    return None if reason is None else re.sub(r"\S*[/\d]\S*", "", reason)


def _prefix(dataset: str) -> str:
    return "" if dataset == ARTICLE_CHANGES.name else f"{dataset} "
