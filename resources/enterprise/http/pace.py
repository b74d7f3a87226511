"""How fast requests go to the data host: as fast as is known to be allowed, or as refusals teach.

Source: the service's rate limits are per account and not public; over them it answers 429.
"""

from __future__ import annotations

import math
import threading
import time
from typing import Final

#: Requests a second after the first refusal, where no rate is known; the fewest there ever are; and what counts as any number.
_FIRST_RATE: Final = 40.0
_LOWEST_RATE: Final = 1.0
_ANY_RATE: Final = 250.0
#: A refusal divides the rate by so much, an answer adds so many requests a second.
_SLOWER: Final = 2.0
_FASTER: Final = 1.0
#: Answers take their time, so requests that leave evenly do not arrive so.
_MARGIN: Final = 1.05


class Pace:
    """Gives each request its turn, over all threads of a client.

    Args:
        per_second: Requests a second that are allowed; None: not known.
    """

    def __init__(self, per_second: float | None) -> None:
        self._highest = math.inf if per_second is None else per_second / _MARGIN
        self._rate = self._highest
        self._free_at = self._slowed_at = 0.0
        self._lock = threading.Lock()

    def turn(self) -> float:
        """Wait for a turn; returns the moment it began, for `refused`."""
        with self._lock:
            now = time.monotonic()
            begins = max(now, self._free_at)
            self._free_at = begins + 1 / self._rate
        if begins > now:
            time.sleep(begins - now)
        return begins

    def refused(self, began: float) -> None:
        """Slow down: the request of that turn was one too many. Those sent before the last slowing teach nothing new."""
        with self._lock:
            if began >= self._slowed_at:
                self._slowed_at = time.monotonic()
                self._rate = min(max(min(self._rate / _SLOWER, _FIRST_RATE), _LOWEST_RATE), self._highest)

    def admitted(self) -> None:
        """Speed up again, little by little."""
        with self._lock:
            self._rate = min(self._rate + _FASTER, self._highest)
            if self._rate >= _ANY_RATE:
                self._rate = self._highest
