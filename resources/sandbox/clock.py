"""The sandbox's clock, used for tokens, codes, signatures, retention, publication and the `Date` header.

Rate limits and the idle timeout use real time.
"""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta


class Clock:
    """Thread-safe clock that follows real time or is frozen at a given time."""

    def __init__(self, start: datetime | None = None, speed: float = 1.0, since: datetime | None = None) -> None:
        """Freeze the clock at `start`. If `start` is None, run at `speed` times real time, counted from `since`."""
        self._lock = threading.Lock()
        self._frozen = start
        self._offset = timedelta()
        self._since = since or datetime.now(UTC)
        self.speed = speed

    @property
    def frozen(self) -> bool:
        return self._frozen is not None

    def now(self) -> datetime:
        with self._lock:
            if self._frozen is not None:
                return self._frozen
            real = datetime.now(UTC)
            return real + (real - self._since) * (self.speed - 1) + self._offset

    def set(self, moment: datetime) -> None:
        """Freeze the clock at `moment`. A naive datetime raises ValueError."""
        if moment.tzinfo is None:
            raise ValueError("The sandbox's clock requires a timezone-aware datetime; add tzinfo.")
        with self._lock:
            self._frozen = moment.astimezone(UTC)

    def advance(self, by: timedelta) -> None:
        """Advance the clock by `by`. A running clock keeps running."""
        with self._lock:
            if self._frozen is not None:
                self._frozen += by
            else:
                self._offset += by

    def release(self) -> None:
        """Follow real time again."""
        with self._lock:
            self._frozen = None
            self._offset = timedelta()
