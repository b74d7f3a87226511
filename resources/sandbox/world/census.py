"""Snapshot contents, which are the pages that exist when an export starts, plus a few extra lines.

Source: the service's snapshot documentation. An export reads the topics up to its start time. Topics are compacted
during the export, so a few pages appear twice. The second copy is the same version or the previous version. A page that
was deleted or renamed shortly before the export might still appear under its old title. Partitions are read in
parallel, so lines are not ordered by title, page or time.

The pages are read from the page table (`Timetable.play`), one page family at a time.
"""

from __future__ import annotations

import enum
import heapq
import math
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from typing import NamedTuple

from resources.sandbox.world.pages import Event
from resources.sandbox.world.schedule import HOUR, Cast, Timetable
from resources.sandbox.world.wire import mix, salt

#: Ratio of all pages to pages that appear twice.
_REPEATED = 140
_FIRST_REPEATED = 110
#: Maximum number of page families between a page and its second copy.
_LONGEST_WAIT = 40
#: Maximum time between a title's deletion or renaming and an export that still contains the title.
_LINGERING = HOUR // 3
#: Overlap that a mirror expects between a snapshot and the subsequent hourly batches.
_ALLOWANCE = HOUR // 6
_MOST_LINGERING = 5


class Standing(enum.StrEnum):
    """Reason why an article appears in a snapshot."""

    LIVE = "live"
    REPEATED = "repeated"
    OLDER = "older"
    LINGERING = "lingering"


class Entry(NamedTuple):
    """Article in a snapshot, with its `update` event and the reason why the article appears."""

    event: Event
    standing: Standing


class Census:
    """Entries of one snapshot. Every iteration yields the same entries in the same order."""

    def __init__(self, timetable: Timetable, namespace: int, moment: int, serial: int) -> None:
        """Select a namespace's articles at `moment` (microseconds since 1970)."""
        self._timetable = timetable
        self._namespace = namespace
        self._moment = moment
        self._salt = salt("census", timetable.project, namespace, moment, serial)
        self._casts = [c for c in timetable.casts if namespace == c.namespace or namespace in c.script.namespaces]
        self._ends = list(accumulate(cast.families for cast in self._casts))

    def __iter__(self) -> Iterator[Entry]:
        count = self._ends[-1] if self._ends else 0
        waiting: list[tuple[int, int, Entry]] = []
        for number, entry in enumerate(self._lingering()):
            heapq.heappush(waiting, (mix(self._salt + number) % max(1, count), -1 - number, entry))
        count_live = 0
        for turn, (cast, family) in enumerate(self._families(count)):
            while waiting and waiting[0][0] <= turn:
                yield heapq.heappop(waiting)[2]
            table = self._timetable.play(cast, family, self._moment)[0]
            for event in table.live(self._namespace):
                entry = Entry(event, Standing.LIVE)
                count_live += 1
                if count_live % _REPEATED == _FIRST_REPEATED:
                    lot = mix(event.ordinal ^ self._salt)
                    later = turn + 1 + (lot >> 20) % _LONGEST_WAIT
                    older = self._older(cast, family, event) if lot >> 40 & 1 else None
                    again = Entry(event, Standing.REPEATED) if older is None else Entry(older, Standing.OLDER)
                    # either copy comes first with equal probability
                    entry, again = (again, entry) if lot >> 41 & 1 else (entry, again)
                    heapq.heappush(waiting, (later, event.ordinal, again))
                yield entry
        while waiting:
            yield heapq.heappop(waiting)[2]

    def _families(self, count: int) -> Iterator[tuple[Cast, int]]:
        """Yield each page family once, in scattered order."""
        step = max(1, int(count * 0.618_034))
        while math.gcd(step, count) > 1:
            step += 1
        number = self._salt % count if count else 0
        for _ in range(count):
            at = bisect_right(self._ends, number)
            cast = self._casts[at]
            family = number - (self._ends[at] - cast.families)
            if self._timetable.plays(cast, family):
                yield cast, family
            number = (number + step) % count

    def _older(self, cast: Cast, family: int, newer: Event) -> Event | None:
        """Return the page's previous `update` event with the same title and a lower revision, or None."""
        table = self._timetable.play(cast, family, newer.published)[0]
        for event in table.live(self._namespace):
            if (
                event.state.identifier == newer.state.identifier
                and event.title == newer.title
                and event.state.revision.identifier < newer.state.revision.identifier
            ):
                return event
        return None

    def _lingering(self) -> list[Entry]:
        """Return the last versions of articles that were deleted or renamed shortly before the export."""
        # start no earlier than the first hour that a mirror applies to the snapshot, whose batch contains the deletion
        first = max(self._moment - _LINGERING, (self._moment - _ALLOWANCE) // HOUR * HOUR)
        found: list[tuple[int, Entry]] = []
        for cast in self._casts:
            for family in self._timetable.busy(cast, first // HOUR, self._moment // HOUR):
                table, events = self._timetable.play(cast, family, self._moment, first)
                standing = {event.title for event in table.live(self._namespace)}
                ended = [e for e in events if e.type == "delete" and e.title.namespace == self._namespace]
                for event in ended:
                    if event.title in standing:
                        continue
                    before = self._before(cast, family, event, events)
                    if before is not None:
                        standing.add(event.title)
                        found.append((mix(event.ordinal ^ self._salt), Entry(before, Standing.LINGERING)))
        found.sort(key=lambda pair: pair[0])
        return [entry for _, entry in found[:_MOST_LINGERING]]

    def _before(self, cast: Cast, family: int, end: Event, events: list[Event]) -> Event | None:
        """Return the page that had this title just before `end` (a deletion or move), or None."""
        # the two events of a move are published one after the other, but the first event already moves the page
        moment = min(event.published for event in events if event.ordinal == end.ordinal)
        table = self._timetable.play(cast, family, moment)[0]
        return next((event for event in table.live(self._namespace) if event.title == end.title), None)
