"""The sandbox's clock. Every age and expiry (tokens, codes, signatures, retention, publication) is read from it.

The `Date` of its answers (`api.middleware`) follows this clock too. Rate limits and idleness use real time.
"""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta


class Clock:
    """A clock that follows real time, or is frozen at a moment that the caller moves. Safe for threads."""

    def __init__(self, start: datetime | None = None, speed: float = 1.0, since: datetime | None = None) -> None:
        """Stand still at `start`; without it, run with real time, from `since` on `speed` times as fast."""
        self._lock = threading.Lock()
        self._frozen = start
        self._offset = timedelta()
        self._since = since or datetime.now(UTC)
        self.speed = speed

    @property
    def frozen(self) -> bool:
        """Return True if the clock is frozen until it is moved."""
        return self._frozen is not None

    def now(self) -> datetime:
        """The present moment, UTC."""
        with self._lock:
            if self._frozen is not None:
                return self._frozen
            real = datetime.now(UTC)
            return real + (real - self._since) * (self.speed - 1) + self._offset

    def set(self, moment: datetime) -> None:
        """Stand still at `moment`."""
        if moment.tzinfo is None:
            raise ValueError("The sandbox's clock needs a timezone-aware moment; add tzinfo to it.")
        with self._lock:
            self._frozen = moment.astimezone(UTC)

    def advance(self, by: timedelta) -> None:
        """Move the clock by `by`; a running clock continues from there."""
        with self._lock:
            if self._frozen is not None:
                self._frozen += by
            else:
                self._offset += by

    def release(self) -> None:
        """Run with real time again."""
        with self._lock:
            self._frozen = None
            self._offset = timedelta()
