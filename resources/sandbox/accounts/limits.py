"""Requests per second: a bucket of tokens for each user, over real time.

The service's numbers are not public, so there is no limit until one is set. Monthly quotas are in `quotas`.
"""

from __future__ import annotations

import threading
import time


class RateLimit:
    """A token bucket per user. Safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._per_second: float | None = None
        self._burst = 1
        self._buckets: dict[str, tuple[float, float]] = {}

    def set(self, per_second: float | None, burst: int = 1) -> None:
        """Let each user make `burst` requests at once and `per_second` in the long run; None: any number."""
        with self._lock:
            self._per_second, self._burst = per_second, burst
            self._buckets.clear()

    def admit(self, username: str) -> bool:
        """Whether the user may make a request now; if so it is counted."""
        with self._lock:
            if self._per_second is None:
                return True
            now = time.monotonic()
            level, since = self._buckets.get(username, (float(self._burst), now))
            level = min(float(self._burst), level + (now - since) * self._per_second)
            allowed = level >= 1
            self._buckets[username] = (level - 1 if allowed else level, now)
            return allowed
