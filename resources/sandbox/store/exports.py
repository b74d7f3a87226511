"""Scheduled publication: the newest hour, the day's export of each snapshot, an older copy for free accounts.

Source: the service's documentation of snapshots. Exports start each day after 00:00 UTC (here: in an hour that can be
set) and end hours later; the next one replaces the one before under the same identifiers. Free accounts see a copy
that is renewed on the first of the month.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from resources.sandbox.clock import Clock
    from resources.sandbox.store.archived_world import Contents
    from resources.sandbox.store.archives import Snapshot

#: Day of the month of the export that free accounts see.
_COPIED_ON = 1
#: A free copy appears this long after its export has ended.
_COPYING = timedelta(minutes=30)
_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)
#: Hours back in which one is published on any clock.
_LONGEST_WAIT = 4
#: Days back in which every schedule has a day.
_LONGEST_MONTH = 33
#: Turns of a snapshot that are kept although a newer one has replaced them.
_KEPT_TURNS = 2


@dataclass(frozen=True)
class Turn:
    """One export: its number 0 for one of the schedule, from 1 on for one out of turn."""

    started: datetime
    ended: datetime
    serial: int = 0
    #: Whether free accounts see it, too; those of the schedule follow their calendar.
    free: bool = False


@dataclass
class _Armed:
    """An export out of turn that waits for downloads."""

    left: int
    free: bool


def newest_hour(contents: Contents, now: datetime) -> datetime:
    """The newest hour whose list is published."""
    hour = now.replace(minute=0, second=0, microsecond=0)
    for _ in range(_LONGEST_WAIT):
        hour -= _HOUR
        if contents.hour_ready_at(hour) <= now:
            break
    return hour


class Exports:
    """The exports of one sandbox. Safe for threads; its methods may make archives."""

    def __init__(self, contents: Contents, clock: Clock) -> None:
        """Follow the schedule until `export` is called."""
        self._contents = contents
        self._clock = clock
        self._lock = threading.Lock()
        self._extra: dict[str, list[Turn]] = {}
        self._armed: dict[str, list[_Armed]] = {}
        #: The turns last served of each snapshot: an answer under way may still have to open the one just replaced.
        self._served: dict[str, deque[Turn]] = {}
        self._serial = 0
        #: Makes the archives of several snapshots side by side; None: each is made when it is asked for.
        self.maker: Callable[[Sequence[tuple[str, Turn]]], None] | None = None

    def export(self, identifier: str, *, after_downloads: int = 0, free: bool = False) -> None:
        """Replace the current export with a new version of the pages as they are now.

        It stays current until the next one of the schedule has ended, or until `clear`.
        """
        if identifier not in self.identifiers():
            raise ValueError(f"There is no snapshot {identifier!r}; there are {', '.join(self.identifiers())}.")
        with self._lock:
            if after_downloads > 0:
                self._armed.setdefault(identifier, []).append(_Armed(after_downloads, free))
            else:
                self._export(identifier, free=free)

    def clear(self) -> None:
        """Keep to the schedule again."""
        with self._lock:
            self._extra.clear()
            self._armed.clear()

    def identifiers(self) -> Sequence[str]:
        """The snapshots there may be, in the order of the list."""
        return self._contents.snapshot_identifiers()

    def turn(self, identifier: str, *, free: bool) -> Turn | None:
        """The current export, or None before the first one."""
        now = self._clock.now()
        with self._lock:
            extra = [t for t in self._extra.get(identifier, ()) if t.ended <= now and (t.free or not free)]
        turns = [*extra, *filter(None, [self._scheduled(identifier, now, free=free)])]
        return max(turns, key=lambda turn: (turn.started, turn.serial), default=None)

    def upcoming(self, identifier: str) -> Turn:
        """The next export of the schedule: the first that has not ended."""
        now = self._clock.now()
        for ahead in (-1, 0, 1):  # that of yesterday may end after midnight
            started, ended = self._contents.snapshot_times(identifier, now + ahead * _DAY)
            if ended > now:
                break
        return Turn(started, ended)

    def beforehand(self, identifiers: Sequence[str], *, free: bool) -> None:
        """Have the archives of snapshots made side by side, if there is a `maker`."""
        if self.maker is not None:
            turns = ((identifier, self.turn(identifier, free=free)) for identifier in identifiers)
            self.maker([(identifier, turn) for identifier, turn in turns if turn is not None])

    def snapshot(self, identifier: str, *, free: bool) -> Snapshot | None:
        """The current snapshot; None when there is none. Exports that can no longer be seen are removed."""
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
        """Remove the exports of a snapshot that can no longer be seen, and that were not made in advance."""
        with self._lock:
            kept = set(self._served.get(identifier, ()))
        kept.update(filter(None, (self.turn(identifier, free=free) for free in (False, True))))
        if self.maker is not None:
            kept.add(self.upcoming(identifier))
        self._contents.keep_snapshots(identifier, [(turn.started, turn.serial) for turn in kept])

    def note_download(self, identifier: str) -> None:
        """Count a file of the snapshot, a chunk or the whole, that was sent to its last byte."""
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
        """The newest export of the schedule that has ended (and been copied)."""
        today = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        for back in range(_LONGEST_MONTH):
            day = today - back * _DAY
            if free and day.day != _COPIED_ON:
                continue
            started, ended = self._contents.snapshot_times(identifier, day)
            if ended + (_COPYING if free else timedelta()) <= now:
                return Turn(started, ended)
        return None
