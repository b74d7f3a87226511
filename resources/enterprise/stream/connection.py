"""One connection of a stream: opened, read until it ends, and opened again at what is committed by then.

The end of a body, a cut, a refusal that may pass: all of them only mean that the stream goes on elsewhere in time. What had come of a record that was
cut comes again.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from typing import TYPE_CHECKING

from resources.enterprise import errors
from resources.enterprise.stream.framing import framing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from resources.enterprise.http.wire import Leash
    from resources.enterprise.stream.inbox import Inbox

_log = logging.getLogger(__name__)

#: A connection that is silent for so long while others bring something is opened again, later each time that it had been right; after the
#: longest it is opened again in any case.
_SILENT_SECONDS, _SILENT_LONGEST = 60.0, 3_600.0


class Connection(threading.Thread):
    """Reads some parts into an inbox, for as long as it is not told to stop.

    `waits`: the first wait (seconds) before it is opened again, doubled each time that nothing came, and the longest; it is by chance
    anything below.

    Attributes:
        parts: What it reads.
        opened: How often it was opened.
        heard_at: When it brought something last, or was opened (`time.monotonic`).
        failing_since: When the first of the failures was that nothing has come since; None: it is open, or was a moment ago.
        failure: The last of them.
    """

    def __init__(
        self,
        parts: tuple[int, ...],
        pieces: Callable[[tuple[int, ...], Leash], Iterator[bytes]],
        inbox: Inbox,
        leash: Callable[[float], Leash],
        form: str,
        longest: int,
        waits: tuple[float, float],
    ) -> None:
        super().__init__(name=f"stream-{parts[0]}", daemon=True)
        self.parts = parts
        self.opened = 0
        self.heard_at = time.monotonic()
        self.failing_since: float | None = None
        self.failure: errors.EnterpriseError | None = None
        self._pieces, self._inbox, self._form, self._longest = pieces, inbox, form, longest
        self._make_leash = leash
        self._leash: Leash | None = None
        self._ended = threading.Event()
        self._patience = _SILENT_SECONDS
        self._first_wait, self._longest_wait = waits
        self._wait = self._first_wait

    def run(self) -> None:
        """Read until `stop`."""
        while not self._ended.is_set():
            try:
                self._read()
            except errors.EnterpriseError as error:
                self.failure = error
                self.failing_since = self.failing_since or time.monotonic()
                # a host that cannot be reached now may be reached later: here nothing else is asked of it meanwhile
                if not error.retryable:
                    self._inbox.fail(error)
                    return
            except Exception as error:  # noqa: BLE001  a defect must end the stream, not one of its connections in silence
                self._inbox.fail(error)
                return
            if self._ended.is_set():
                return
            wait = random.uniform(0, self._wait)
            self._wait = min(2 * self._wait, self._longest_wait)
            _log.info("Connection %s of the stream ended%s; opening it again in %.1f s.", self.name, self._why(), wait)
            self._ended.wait(wait)

    def stop(self) -> None:
        """End it: what has come until now stays in the inbox."""
        self._ended.set()
        self._cut()

    def is_failing(self, now: float) -> bool:
        """Whether nothing has come since it failed, and it is not open and silent: of an open one headers come with the first event."""
        return self.failing_since is not None and now - self.heard_at < _SILENT_SECONDS

    def look(self, now: float, others_heard_at: float) -> None:
        """Open it again if it has been silent while others were not, by which a connection that died is known: there is no heartbeat."""
        silent = now - self.heard_at
        if not self.is_failing(now) and silent > self._patience and now - others_heard_at < self._patience / 2:
            _log.info(
                "Connection %s of the stream has been silent for %.0f s while others were not.", self.name, silent
            )
            self._patience = min(2 * self._patience, _SILENT_LONGEST)
            self._cut()

    def _cut(self) -> None:
        if (leash := self._leash) is not None:
            leash.cut()

    def _why(self) -> str:
        return f" ({self.failure})" if self.failure is not None and self.failing_since is not None else ""

    def _read(self) -> None:
        lines = framing(self._form, self._longest)
        self._leash = leash = self._make_leash(_SILENT_LONGEST)
        self.opened += 1
        self.heard_at = time.monotonic()
        for piece in self._pieces(self.parts, leash):
            whole = lines.feed(piece)
            self.heard_at = time.monotonic()
            leash.restart()
            if not whole:
                continue
            self.failing_since = None
            self._wait, self._patience = self._first_wait, _SILENT_SECONDS
            if not self._inbox.put(self.parts, whole):
                return
