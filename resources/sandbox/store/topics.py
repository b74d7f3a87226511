"""Stream topics, which contain all messages in 50 partitions. Offsets are computed without replaying earlier hours.

Source: the service's documentation of realtime streams. The hash of `/<project>/<title>` selects one of 50 partitions.
Messages are ordered only within a partition and retained for 48 hours. An offset is the hour's first offset plus the
number of earlier messages in the same hour and partition. Offsets therefore increase within a partition and have gaps,
as in compacted topics.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from resources.sandbox.store.archives import PARTITIONS, partition, side_by_side
from resources.sandbox.world.pages import Event
from resources.sandbox.world.schedule import EPOCH_HOUR, HOUR
from resources.sandbox.world.wire import Chance
from resources.sandbox.world.world import World, moment_of

#: Number of offsets reserved for each hour in each partition.
_ROOM = 10_000_000
#: Number of hours whose messages are cached for current readers and for readers that are catching up.
_HOURS = 4
#: Time resolution of topics, in microseconds.
_MILLISECOND = 1_000
#: Maximum number of messages in one interleaved fetch.
_FETCHED = 256
RETENTION = 48 * HOUR


class Topic:
    """Thread-safe source of messages from several projects. Times are in microseconds since 1970."""

    def __init__(self, world: World, projects: Sequence[str]) -> None:
        self._world = world
        self._projects = tuple(projects)
        self._hour = lru_cache(maxsize=_HOURS)(self._make)
        self._lock = threading.Lock()

    def hour(self, hour: int) -> list[Event]:
        """Return an hour's messages in publication order, with partition and offset. Hours are counted from 1970."""
        with self._lock:
            return self._hour(hour)

    def _make(self, hour: int) -> list[Event]:
        start, end = moment_of(hour * HOUR), moment_of((hour + 1) * HOUR)
        events = [event for project in self._projects for event in self._world.events(project, start, end)]
        # the sort is stable, so simultaneous messages of a project keep their order
        events.sort(key=lambda event: event.published)
        counts = [0] * PARTITIONS
        placed = []
        for event in events:
            at = partition(self._world.key(event))
            placed.append(event._replace(partition=at, offset=first_offset(hour) + counts[at]))
            counts[at] += 1
        return placed

    def offsets_at(self, at: int) -> list[int]:
        """Return the offset of the first message in each partition that was published at or after `at`."""
        at -= at % _MILLISECOND
        hour = at // HOUR
        found = [first_offset(hour)] * PARTITIONS
        for event in self.hour(hour):
            if event.published >= at:
                break
            found[event.partition or 0] += 1
        return found


class Reader:
    """Reader of selected partitions in a topic. Messages are ordered only within a partition."""

    def __init__(self, topic: Topic, positions: Mapping[int, int]) -> None:
        """Start reading at `positions`, which maps partitions to offsets."""
        self._topic = topic
        self._positions = dict(positions)
        self._hour = min((hour_of(offset) for offset in positions.values()), default=0)
        self._index = 0

    def due(self, now: int) -> Iterator[Event]:
        """Yield the next few messages that are published and still retained, if there are any."""
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
        """Return the publication time of the current hour's next message, or the end of the hour."""
        events = self._topic.hour(self._hour)
        coming = (event.published for event in events[self._index :] if self._wants(event, 0))
        return next(coming, (self._hour + 1) * HOUR)

    def _wants(self, event: Event, oldest: int) -> bool:
        first = self._positions.get(event.partition or 0)
        return first is not None and (event.offset or 0) >= first and event.published >= oldest


def first_offset(hour: int) -> int:
    """Return an hour's first offset, which is the same in each partition."""
    return (hour - EPOCH_HOUR) * _ROOM


def hour_of(offset: int) -> int:
    """Return the hour that contains an offset, counted from 1970."""
    return offset // _ROOM + EPOCH_HOUR
