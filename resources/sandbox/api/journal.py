"""The log of requests on both ports, and how long the sandbox has been idle.

Query strings are not logged, because they hold signatures. Control requests (`/sandbox/`) keep the sandbox awake but
are not logged.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

CONTROLS = "/sandbox/"
#: The oldest half is forgotten when the log has this many entries.
_LONGEST = 200_000


class Seen(NamedTuple):
    """One request, as answered."""

    method: str
    path: str
    status: int


class Requests(list[Seen]):
    """The requests seen on both ports, oldest first; `clear()` forgets them."""

    def note(self, seen: Seen) -> None:
        """Add a request."""
        if len(self) >= _LONGEST:
            del self[: _LONGEST // 2]
        self.append(seen)


class Journal:
    """Notes requests and keeps the time of the last one. Safe for threads."""

    def __init__(self) -> None:
        self.requests = Requests()
        self._lock = threading.Lock()
        self._in_flight = 0
        self._last = time.monotonic()

    def idle_seconds(self) -> float:
        """Seconds since the last request ended; 0 while one is being answered."""
        with self._lock:
            return 0.0 if self._in_flight else time.monotonic() - self._last

    def watch(self, app: ASGIApp) -> ASGIApp:
        """The app, with its requests noted as their answers begin."""

        async def watched(scope: Scope, receive: Receive, send: Send) -> None:
            async def noting(message: Message) -> None:
                if message["type"] == "http.response.start" and not scope["path"].startswith(CONTROLS):
                    self.requests.note(Seen(scope["method"], scope["path"], int(message["status"])))
                await send(message)

            self._count(1)
            try:
                await app(scope, receive, noting)
            finally:
                self._count(-1)

        return watched

    def _count(self, change: int) -> None:
        with self._lock:
            self._in_flight += change
            self._last = time.monotonic()
