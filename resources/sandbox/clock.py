"""Clock of the sandbox, used for tokens, codes, signatures, retention, publication and the `Date` of responses.

Rate limits and idleness use real time.
"""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta


class Clock:
    """Thread-safe clock that follows real time or is frozen at a settable time."""

    def __init__(self, start: datetime | None = None, speed: float = 1.0, since: datetime | None = None) -> None:
        """Freeze the clock at `start`; without it, follow real time, since `since` at `speed` times its rate."""
        self._lock = threading.Lock()
        self._frozen = start
        self._offset = timedelta()
        self._since = since or datetime.now(UTC)
        self.speed = speed

    @property
    def frozen(self) -> bool:
        """Return whether the clock is frozen."""
        return self._frozen is not None

    def now(self) -> datetime:
        """Return the current time in UTC."""
        with self._lock:
            if self._frozen is not None:
                return self._frozen
            real = datetime.now(UTC)
            return real + (real - self._since) * (self.speed - 1) + self._offset

    def set(self, moment: datetime) -> None:
        """Freeze the clock at `moment`; raises ValueError for a naive datetime."""
        if moment.tzinfo is None:
            raise ValueError("The sandbox's clock requires a timezone-aware datetime; add tzinfo.")
        with self._lock:
            self._frozen = moment.astimezone(UTC)

    def advance(self, by: timedelta) -> None:
        """Move the clock by `by`; a running clock continues running."""
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
