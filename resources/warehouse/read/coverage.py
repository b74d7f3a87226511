"""Health of the mirror, as reported by `wme status`, the report, the metrics and the checks.

The health report covers the newest hours of each configured dataset, project and namespace. Each mirror begins with the
first hour that had a file. If the newest snapshot's boundary is in an earlier hour, the mirror begins with that hour.
Data that is no longer mirrored is excluded, as are earlier hours that the service no longer provides.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from itertools import groupby
from typing import Final

from resources.datasets import ARTICLE_CHANGES, LATE, RETENTION, Dataset, base_of, last_complete_hour
from resources.formatting import counted, hour_text, listed
from resources.tables import COVERED, NO_SNAPSHOT, HourState
from resources.warehouse.read.reading import Reader

#: State of an hour without a row in `hours`.
UNKNOWN: Final = "unknown"
#: State of an hour before the mirror began.
OUTSIDE: Final = "outside"
#: Default number of newest hours to examine, equal to the service's retention period.
WATCHED: Final = RETENTION // timedelta(hours=1)
_HOUR: Final = timedelta(hours=1)
_UNRECORDED: Final = "Nothing is recorded about this hour. A run fetches the hour while the service keeps its file."
#: Maximum number of projects and namespaces listed in a sentence.
_NAMED: Final = 20


@dataclass(frozen=True)
class Cell:
    """One hour of a project and namespace. `state` is a state from the `hours` table, `unknown` or `outside`.

    `redone` means that the hour was reloaded with different content. If known, `reason` explains why the hour is not
    loaded.
    """

    batch_hour: datetime
    state: str
    row_count: int | None = None
    redone: bool = False
    reason: str | None = None


@dataclass(frozen=True)
class Place:
    """One project and namespace, with a cell for each examined hour.

    `newest_hour` is the newest hour with a final state, even if it was not examined. `older_gap_count` counts gaps
    before the first cell; `older_gap_at` is the time of the first of these gaps. `has_snapshot` is None if the dataset
    does not need a snapshot.
    """

    project_id: str
    namespace_id: int
    cells: tuple[Cell, ...]
    dataset: str
    newest_hour: datetime | None = None
    older_gap_count: int = 0
    older_gap_at: datetime | None = None
    has_snapshot: bool | None = None

    @property
    def name(self) -> str:
        """Name used in messages, which includes the dataset unless it is `article_changes`."""
        return f"{_prefix(self.dataset)}{self.project_id} namespace {self.namespace_id}"

    def counts(self) -> dict[str, int]:
        """Return the number of hours in each state of the `hours` table."""
        return {state.value: sum(cell.state == state for cell in self.cells) for state in HourState}


@dataclass(frozen=True)
class Gap:
    """Consecutive hours that are missing for the same reason. `varies` means that the reasons' details differ."""

    project_id: str
    namespace_id: int
    first: datetime
    last: datetime
    state: str
    reason: str | None
    dataset: str
    varies: bool = False

    @property
    def hour_count(self) -> int:
        return (self.last - self.first) // _HOUR + 1

    @property
    def hours(self) -> list[datetime]:
        """Start time of each hour."""
        return [self.first + number * _HOUR for number in range(self.hour_count)]

    @property
    def place(self) -> str:
        """Project and namespace, in the same format as `Place.name`."""
        return f"{_prefix(self.dataset)}{self.project_id} namespace {self.namespace_id}"

    @property
    def sentence(self) -> str:
        """Sentence with the hours, their state and the remedy."""
        span = hour_text(self.first)
        if self.hour_count > 1:
            span += f" to {hour_text(self.last)} ({counted(self.hour_count, 'hour')})"
        more = " The other hours failed in the same way; the `hours` table gives each reason." if self.varies else ""
        return f"{self.place} {span}: {self.state}. {self.reason or ''}{more}".strip()


@dataclass(frozen=True)
class Health:
    """Health of each mirrored dataset, project and namespace over the newest hours, with human-readable sentences.

    `lagging` contains sentences about places without any loaded hours or without new hours. `without_snapshot` contains
    sentences about datasets without a base snapshot. `unmirrored` lists places with data that are no longer mirrored.
    """

    places: list[Place] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    lagging: list[str] = field(default_factory=list)
    without_snapshot: list[str] = field(default_factory=list)
    unmirrored: list[str] = field(default_factory=list)

    @property
    def uncovered(self) -> list[str]:
        """Sentences about all missing hours and all lagging places."""
        return [*self.lagging, *(gap.sentence for gap in self.gaps)]

    @property
    def troubles(self) -> list[str]:
        """Sentences about all problems that need attention, with the command that closes the gaps."""
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
    """Return the mirror's health over its newest complete hours, from the published file or the build file.

    `scopes` contains each hourly dataset's mirrored (project, namespace) pairs. Raises NotPublishedError.
    """
    newest = last_complete_hour(now)
    since = newest - (hours - 1) * _HOUR
    found = Health()
    for dataset, scope in scopes.items():
        if not scope:
            continue
        base, prefix = base_of(dataset), _prefix(dataset.name)
        with warehouse.opened(published=published) as reader:
            told = reader.scopes(since, dataset, published=published)
            bases = None if base is None else reader.snapshot_scopes(base, published=published)
            rows = reader.coverage(since, newest + _HOUR, published=published, dataset=dataset)
        known = {(project, namespace): about for project, namespace, *about in told}
        there = {
            (row.project_id, row.namespace_id, row.batch_hour): Cell(
                row.batch_hour, row.state, row.row_count, (row.load_count or 0) > 1, row.reason
            )
            for row in rows
        }
        places = []
        for place in sorted(set(scope)):
            first_hour, *newest_and_gaps = known.get(place) or (newest + _HOUR, None, 0, None)
            cells = []
            for hour in (since + number * _HOUR for number in range(hours)):
                is_before = hour < first_hour
                cell = there.get((*place, hour), Cell(hour, OUTSIDE if is_before else UNKNOWN))
                if is_before and cell.state == HourState.PAST_RETENTION:
                    cell = Cell(hour, OUTSIDE)  # the hour was requested but can no longer be fetched
                cells.append(cell)
            has_snapshot = None if bases is None else place in bases
            places.append(Place(*[*place, tuple(cells), dataset.name, *newest_and_gaps, has_snapshot]))
        found.places.extend(places)
        others = sorted(known.keys() - set(scope))
        found.unmirrored.extend(f"{prefix}{project} namespace {number}" for project, number in others)
        if bare := [place.name.removeprefix(prefix) for place in places if place.has_snapshot is False]:
            found.without_snapshot.append(f"{prefix}{listed(bare, _NAMED)}: {NO_SNAPSHOT}.")
    found.lagging.extend(sentence for place in found.places if (sentence := _lag(place, now)) is not None)
    found.gaps.extend(gaps(found.places, now))
    return found


def _lag(place: Place, now: datetime) -> str | None:
    """Return a sentence about a place without any loaded hours or without new hours."""
    if place.newest_hour is None:
        return f"{place.name}: no hours have been loaded yet. `wme run` fetches the newest hours."
    if now - place.newest_hour <= LATE:
        return None
    behind = (last_complete_hour(now) - place.newest_hour) // _HOUR
    return (
        f"{place.name}: the newest hour is {hour_text(place.newest_hour)}, {counted(behind, 'hour')} behind. The "
        f"service retains hours for two days. `wme run --hours {min(behind, WATCHED)}` fetches the available hours."
    )


def gaps(places: Iterable[Place], now: datetime) -> list[Gap]:
    """Return the gaps in the examined hours, except hours that might still be published."""
    found = []
    for place in places:
        known = [cell.batch_hour for cell in place.cells if cell.state not in {UNKNOWN, OUTSIDE}]
        # hours after the last known hour are a lag, not a gap
        kinds = groupby(place.cells, partial(_kind, now=now, last=max(known, default=None)))
        for some in (list(cells) for kind, cells in kinds if kind is not None):
            first, last = some[0], some[-1]
            reason = _UNRECORDED if first.state == UNKNOWN else first.reason
            varies = any(cell.reason != first.reason for cell in some)
            hours = first.batch_hour, last.batch_hour
            found.append(Gap(place.project_id, place.namespace_id, *hours, first.state, reason, place.dataset, varies))
    return found


def _kind(cell: Cell, now: datetime, last: datetime | None) -> tuple[str, str | None] | None:
    """Return the values that a gap's cells share, or None for a cell outside a gap. `last` is the last known hour."""
    is_behind = cell.state == UNKNOWN and (last is None or cell.batch_hour > last)
    if cell.state in COVERED or cell.state == OUTSIDE or is_early(cell, now) or is_behind:
        return None
    # a reason can contain hour-specific paths, dates and numbers
    return cell.state, re.sub(r"\S*[/\d]\S*", "", cell.reason or "")


def gap_hours(found: Iterable[Gap]) -> Counter[tuple[str, str, int]]:
    """Count the hours in gaps by dataset, project and namespace. The newest hours of a lagging place are not gaps."""
    counts: Counter[tuple[str, str, int]] = Counter()
    for gap in found:
        counts[gap.dataset, gap.project_id, gap.namespace_id] += gap.hour_count
    return counts


def remedy(found: Iterable[Gap]) -> str | None:
    """Return the command that fetches the hours in these gaps, or None if the service no longer has any of them."""
    open_ = [gap for gap in found if gap.state != HourState.PAST_RETENTION]
    if not open_:
        return None
    first, last = (f"{hour:%Y-%m-%dT%H}" for hour in (min(g.first for g in open_), max(g.last for g in open_)))
    return f"`wme run --from {first} --to {last}` fetches the hours that the service still retains."


def is_early(cell: Cell, now: datetime) -> bool:
    """Return True if an hour is unpublished but not yet late enough to need attention."""
    return cell.state == HourState.NOT_YET and now - cell.batch_hour < LATE


def _prefix(dataset: str) -> str:
    return "" if dataset == ARTICLE_CHANGES.name else f"{dataset} "
