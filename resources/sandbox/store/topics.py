"""The topics behind the streams: every message of the world in 50 partitions, at offsets that are known without replay.

Source: the service's documentation of its realtime streams: 50 partitions by the hash of `/<project>/<title>`, order
within a partition only, kept for 48 hours. Offsets rise within a partition and have gaps, as those of compacted topics
do: where an hour begins, and the number of messages before this one in its hour and partition.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

from resources.sandbox.store.archives import PARTITIONS, partition, side_by_side
from resources.sandbox.world.schedule import EPOCH_HOUR, HOUR
from resources.sandbox.world.wire import Chance
from resources.sandbox.world.world import moment_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from resources.sandbox.world.pages import Event
    from resources.sandbox.world.world import World

#: Offsets that an hour has room for in each partition.
_ROOM = 10_000_000
#: Hours whose messages are kept in memory: those of readers that catch up together, and the present one.
_HOURS = 4
#: The clock of a topic has milliseconds.
_MILLISECOND = 1_000
#: Messages that are handed out side by side at once, at most.
_FETCHED = 256
RETENTION = 48 * HOUR


class Topic:
    """The messages of some projects. Safe for threads; moments are microseconds since 1970."""

    def __init__(self, world: World, projects: Sequence[str]) -> None:
        self._world = world
        self._projects = tuple(projects)
        self._hours: OrderedDict[int, list[Event]] = OrderedDict()
        self._lock = threading.Lock()

    def hour(self, hour: int) -> list[Event]:
        """All messages of an hour, counted from 1970, in order of publication, each with its partition and offset."""
        with self._lock:
            if hour not in self._hours:
                self._hours[hour] = self._make(hour)
                while len(self._hours) > _HOURS:
                    self._hours.popitem(last=False)
            self._hours.move_to_end(hour)
            return self._hours[hour]

    def _make(self, hour: int) -> list[Event]:
        start, end = moment_of(hour * HOUR), moment_of((hour + 1) * HOUR)
        events = [event for project in self._projects for event in self._world.events(project, start, end)]
        # sorting is stable: of messages of one moment those of one project stay in their order
        events.sort(key=lambda event: event.published)
        counts = [0] * PARTITIONS
        placed = []
        for event in events:
            at = partition(self._world.key(event))
            placed.append(event._replace(partition=at, offset=first_offset(hour) + counts[at]))
            counts[at] += 1
        return placed

    def offsets_at(self, at: int) -> list[int]:
        """Of each partition the first offset that was, or will be, published at this moment or later."""
        at -= at % _MILLISECOND
        hour = at // HOUR
        found = [first_offset(hour)] * PARTITIONS
        for event in self.hour(hour):
            if event.published >= at:
                break
            found[event.partition or 0] += 1
        return found

    def line(self, event: Event) -> bytes:
        """The record of a message, without a line end."""
        return self._world.line(event)


class Reader:
    """Reads some partitions of a topic from their positions on, oldest first, in order within each of them only."""

    def __init__(self, topic: Topic, positions: Mapping[int, int]) -> None:
        """Read from `positions`: by partition the first offset."""
        self._topic = topic
        self._positions = dict(positions)
        self._hour = min((hour_of(offset) for offset in positions.values()), default=0)
        self._index = 0

    def due(self, now: int) -> Iterator[Event]:
        """Yield some of the next messages that are published and still kept; none: there are no more for now."""
        oldest = now - RETENTION
        if self._hour < oldest // HOUR:
            self._hour, self._index = oldest // HOUR, 0
        while self._hour <= now // HOUR:
            events = self._topic.hour(self._hour)
            lanes: dict[int, list[Event]] = {}
            found = 0
            while self._index < len(events) and found < _FETCHED and events[self._index].published <= now:
                event = events[self._index]
                self._index += 1
                if self._wants(event, oldest):
                    lanes.setdefault(event.partition or 0, []).append(event)
                    found += 1
            if found:
                chance = Chance("fetch", self._hour, self._index)
                yield from side_by_side([lanes[number] for number in sorted(lanes)], chance)
                return
            if self._index < len(events) or self._hour == now // HOUR:
                return
            self._hour, self._index = self._hour + 1, 0

    def next_at(self) -> int:
        """A moment before which nothing comes: that of the next message in this hour, or the end of the hour."""
        events = self._topic.hour(self._hour)
        coming = (event.published for event in events[self._index :] if self._wants(event, 0))
        return next(coming, (self._hour + 1) * HOUR)

    def _wants(self, event: Event, oldest: int) -> bool:
        first = self._positions.get(event.partition or 0)
        return first is not None and (event.offset or 0) >= first and event.published >= oldest


def first_offset(hour: int) -> int:
    """Return the first offset of an hour in each partition."""
    return (hour - EPOCH_HOUR) * _ROOM


def hour_of(offset: int) -> int:
    """The hour of an offset."""
    return offset // _ROOM + EPOCH_HOUR
