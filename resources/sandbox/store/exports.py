"""Publication schedule for hours, daily snapshot exports, and older snapshot copies for free accounts.

Source: the service's snapshot documentation. In the service, exports start each day after 00:00 UTC. In the sandbox,
the hour is configurable. Exports end several hours after their start. Each export replaces the previous export under
the same identifier. Free accounts get a copy that is renewed on the first day of the month.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from resources.sandbox.clock import Clock
from resources.sandbox.store.archived_world import Contents
from resources.sandbox.store.archives import Snapshot

#: Day of the month whose snapshot export is copied for free accounts.
_COPIED_ON = 1
#: Delay between the end of an export and its copy for free accounts.
_COPYING = timedelta(minutes=30)
_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)
#: Number of past hours that always include a published hour.
_LONGEST_WAIT = 4
#: Number of past days that always include an export for free accounts.
_LONGEST_MONTH = 33
#: Number of recently served exports per snapshot whose archives are retained.
_KEPT_TURNS = 2


@dataclass(frozen=True)
class Turn:
    """Snapshot export. `serial` is 0 for a scheduled export and positive for an additional export."""

    started: datetime
    ended: datetime
    serial: int = 0
    #: True if free accounts also get this additional export.
    free: bool = False


@dataclass
class _Armed:
    """Additional export that starts after `left` more downloads."""

    left: int
    free: bool


def newest_hour(contents: Contents, now: datetime) -> datetime:
    hour = now.replace(minute=0, second=0, microsecond=0)
    for _ in range(_LONGEST_WAIT):
        hour -= _HOUR
        if contents.hour_ready_at(hour) <= now:
            break
    return hour


class Exports:
    """Thread-safe snapshot exports of one area. The methods might build archives."""

    def __init__(self, contents: Contents, clock: Clock) -> None:
        self._contents = contents
        self._clock = clock
        self._lock = threading.Lock()
        self._extra: dict[str, list[Turn]] = {}
        self._armed: dict[str, list[_Armed]] = {}
        #: Most recently served exports of each snapshot. A response in progress might still open a replaced export.
        self._served: dict[str, deque[Turn]] = {}
        self._serial = 0
        #: Function that builds several snapshots' archives in parallel, or None to build each snapshot on request.
        self.maker: Callable[[Sequence[tuple[str, Turn]]], None] | None = None

    def export(self, identifier: str, *, after_downloads: int = 0, free: bool = False) -> None:
        """Add an export of the current pages, either immediately or after some downloads.

        The additional export is served until the next scheduled export ends or `clear` is called. An unknown snapshot
        raises ValueError.
        """
        if identifier not in self.identifiers():
            raise ValueError(f"There is no snapshot {identifier!r}; the snapshots are {', '.join(self.identifiers())}.")
        with self._lock:
            if after_downloads > 0:
                self._armed.setdefault(identifier, []).append(_Armed(after_downloads, free))
            else:
                self._export(identifier, free=free)

    def clear(self) -> None:
        with self._lock:
            self._extra.clear()
            self._armed.clear()

    def identifiers(self) -> Sequence[str]:
        return self._contents.snapshot_identifiers()

    def turn(self, identifier: str, *, free: bool) -> Turn | None:
        """Return the current export, or None before the first export."""
        now = self._clock.now()
        with self._lock:
            extra = [t for t in self._extra.get(identifier, ()) if t.ended <= now and (t.free or not free)]
        turns = [*extra, *filter(None, [self._scheduled(identifier, now, free=free)])]
        return max(turns, key=lambda turn: (turn.started, turn.serial), default=None)

    def upcoming(self, identifier: str) -> Turn:
        """Return the next scheduled export, which is the first export that has not ended."""
        now = self._clock.now()
        for ahead in (-1, 0, 1):  # yesterday's export can end after midnight
            started, ended = self._contents.snapshot_times(identifier, now + ahead * _DAY)
            if ended > now:
                break
        return Turn(started, ended)

    def beforehand(self, identifiers: Sequence[str], *, free: bool) -> None:
        """Build the snapshots' archives in parallel if `maker` is set."""
        if self.maker is not None:
            turns = ((identifier, self.turn(identifier, free=free)) for identifier in identifiers)
            self.maker([(identifier, turn) for identifier, turn in turns if turn is not None])

    def snapshot(self, identifier: str, *, free: bool) -> Snapshot | None:
        """Remove the archives of replaced exports, and return the current snapshot or None."""
        if identifier not in self.identifiers():
            return None
        turn = self.turn(identifier, free=free)
        if turn is None:
            return None
        snapshot = self._contents.snapshot(identifier, turn.started, turn.ended, turn.serial)
        with self._lock:
            served = self._served.setdefault(identifier, deque(maxlen=_KEPT_TURNS))
            if turn in served:
                return snapshot
            served.append(turn)
        self.tidy(identifier)
        return snapshot

    def tidy(self, identifier: str) -> None:
        """Remove the archives of a snapshot's replaced exports. Archives that were built in advance are retained."""
        with self._lock:
            kept = set(self._served.get(identifier, ()))
        kept.update(filter(None, (self.turn(identifier, free=free) for free in (False, True))))
        if self.maker is not None:
            kept.add(self.upcoming(identifier))
        self._contents.keep_snapshots(identifier, [(turn.started, turn.serial) for turn in kept])

    def note_download(self, identifier: str) -> None:
        """Count a complete download of the snapshot or one of its chunks."""
        with self._lock:
            armed = self._armed.get(identifier, [])
            for waiting in list(armed):
                waiting.left -= 1
                if waiting.left <= 0:
                    armed.remove(waiting)
                    self._export(identifier, free=waiting.free)

    def _export(self, identifier: str, *, free: bool) -> None:
        self._serial += 1
        now = self._clock.now()
        self._extra.setdefault(identifier, []).append(Turn(now, now, self._serial, free))

    def _scheduled(self, identifier: str, now: datetime, *, free: bool) -> Turn | None:
        """Return the newest scheduled export that has ended and, for free accounts, has been copied."""
        today = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        for back in range(_LONGEST_MONTH):
            day = today - back * _DAY
            if free and day.day != _COPIED_ON:
                continue
            started, ended = self._contents.snapshot_times(identifier, day)
            if ended + (_COPYING if free else timedelta()) <= now:
                return Turn(started, ended)
        return None
