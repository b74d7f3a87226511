"""Contents of a snapshot: the pages that exist when its export starts, and the extra lines that an export contains.

Source: the service's documentation of snapshots. An export reads the topics up to the moment it starts. Topics are
compacted while they are read, so a few pages appear twice, the second time as they are or as they were an edit
earlier; and a page that was deleted or renamed just before may still appear under its old title. Partitions are read
side by side, so there is no order by title, page or time.

The pages come from the page table (`Timetable.play`), one family at a time: memory holds only a few lines that are
due later.
"""

from __future__ import annotations

import enum
import heapq
import math
from bisect import bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from resources.sandbox.world.schedule import HOUR
from resources.sandbox.world.wire import mix, salt

if TYPE_CHECKING:
    from collections.abc import Iterator

    from resources.sandbox.world.pages import Event, Family
    from resources.sandbox.world.schedule import Cast, Timetable

#: Every page of this number appears twice: fewer than one in a hundred.
_REPEATED = 140
_FIRST_REPEATED = 110
#: How many families further on the second copy appears, at most.
_LONGEST_WAIT = 40
#: Titles that ended this long before the export may linger.
_LINGERING = HOUR // 3
#: The overlap that a mirror allows for between a snapshot and the hours after it.
_ALLOWANCE = HOUR // 6
_MOST_LINGERING = 5


class Standing(enum.StrEnum):
    """The reason for which an article is in a snapshot."""

    LIVE = "live"
    REPEATED = "repeated"
    OLDER = "older"
    LINGERING = "lingering"


class Entry(NamedTuple):
    """An article in a snapshot: its `update`, and why it is there."""

    event: Event
    standing: Standing


class Census:
    """The contents of one snapshot. Iterating over it gives the same entries in the same order every time."""

    def __init__(self, timetable: Timetable, namespace: int, moment: int, serial: int) -> None:
        """Count the articles of a namespace at `moment` (microseconds since 1970)."""
        self._timetable = timetable
        self._namespace = namespace
        self._moment = moment
        self._salt = salt("census", timetable.project, namespace, moment, serial)
        self._casts = [c for c in timetable.casts if namespace == c.namespace or namespace in c.script.namespaces]
        self._ends = list(accumulate(cast.families for cast in self._casts))

    def __iter__(self) -> Iterator[Entry]:
        """The entries, in the order of the snapshot."""
        count = self._ends[-1] if self._ends else 0
        waiting: list[tuple[int, int, Entry]] = []
        for number, entry in enumerate(self._lingering()):
            heapq.heappush(waiting, (mix(self._salt + number) % max(1, count), -1 - number, entry))
        count_live = 0
        for turn, (cast, family) in enumerate(self._families(count)):
            while waiting and waiting[0][0] <= turn:
                yield heapq.heappop(waiting)[2]
            table = self._timetable.play(cast, family, self._moment)[0]
            for event in self._live(table):
                entry = Entry(event, Standing.LIVE)
                count_live += 1
                if count_live % _REPEATED == _FIRST_REPEATED:
                    lot = mix(event.ordinal ^ self._salt)
                    later = turn + 1 + (lot >> 20) % _LONGEST_WAIT
                    older = self._older(cast, family, event) if lot >> 40 & 1 else None
                    again = Entry(event, Standing.REPEATED) if older is None else Entry(older, Standing.OLDER)
                    # the older copy comes before the newer one as often as after it
                    entry, again = (again, entry) if lot >> 41 & 1 else (entry, again)
                    heapq.heappush(waiting, (later, event.ordinal, again))
                yield entry
        while waiting:
            yield heapq.heappop(waiting)[2]

    def _families(self, count: int) -> Iterator[tuple[Cast, int]]:
        """All families, each once, scattered."""
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

    def _live(self, table: Family) -> Iterator[Event]:
        for page in table.live(self._namespace):
            # scripts see to it that no page is live without an update in one of the last cycles
            assert page.event is not None
            yield page.event._replace(state=page.state, title=page.title)

    def _older(self, cast: Cast, family: int, newer: Event) -> Event | None:
        """The page one `update` earlier, under the same title and with a lower revision; None when there is none."""
        table = self._timetable.play(cast, family, newer.published)[0]
        for event in self._live(table):
            if (
                event.state.identifier == newer.state.identifier
                and event.title == newer.title
                and event.state.revision.identifier < newer.state.revision.identifier
            ):
                return event
        return None

    def _lingering(self) -> list[Entry]:
        """Articles whose title ended shortly before the export and that appear as they were before."""
        # no earlier than the hour that a mirror must have beside the snapshot: it learns the end from that hour's file
        first = max(self._moment - _LINGERING, (self._moment - _ALLOWANCE) // HOUR * HOUR)
        found: list[tuple[int, Entry]] = []
        for cast in self._casts:
            for family in self._timetable.busy(cast, first // HOUR, self._moment // HOUR):
                table, events = self._timetable.play(cast, family, self._moment, first)
                standing = {event.title for event in self._live(table)}
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
        """The page that had a title just before it ended."""
        # the halves of a move are published one after the other, but the page moved with the first
        moment = min(event.published for event in events if event.ordinal == end.ordinal)
        table = self._timetable.play(cast, family, moment)[0]
        return next((event for event in self._live(table) if event.title == end.title), None)
