"""One connection of a stream: opened, read until it ends, and opened again at what is committed by then.

The end of a body, a cut, a refusal that may pass: all of them only mean that the stream goes on elsewhere in time. What had come of a record that was
cut comes again.
"""

from __future__ import annotations

import contextlib
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
    from resources.enterprise.stream.framing import Lines
    from resources.enterprise.stream.inbox import Inbox

_log = logging.getLogger(__name__)

#: A connection that is silent for so long while others bring something is opened again, later each time that it had been right; after the
#: longest it is opened again in any case.
_SILENT_SECONDS, _SILENT_LONGEST = 60.0, 3_600.0
#: The longest wait that the service may ask for (`Retry-After`).
_ASKED_LONGEST = 300.0
#: How often a connection that waits for its turn looks whether the stream ends.
_LOOK_SECONDS = 0.5
#: A record of more bytes is long: one connection at a time puts one together.
_LONG_BYTES = 1 << 20


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
        too_long_count: Records that were longer than the longest and were left out.
    """

    def __init__(
        self,
        parts: tuple[int, ...],
        pieces: Callable[[tuple[int, ...], Leash, bool], Iterator[bytes]],
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
        self.too_long_count = 0
        self._pieces, self._inbox, self._form, self._longest = pieces, inbox, form, longest
        self._make_leash = leash
        self._leash: Leash | None = None
        self._ended = threading.Event()
        self._patience = _SILENT_SECONDS
        self._first_wait, self._longest_wait = waits
        self._wait = self._first_wait
        self._is_waiting = False
        self._by_moment = False

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
            wait = max(random.uniform(0, self._wait), self._asked())
            self._wait = min(2 * self._wait, self._longest_wait)
            _log.info("Connection %s of the stream ended%s; opening it again in %.1f s.", self.name, self._why(), wait)
            self._pause(wait)

    def stop(self) -> None:
        """End it: what has come until now stays in the inbox."""
        self._ended.set()
        self._cut()

    def is_failing(self, now: float) -> bool:
        """Whether nothing has come since it failed, and it is not open and silent: of an open one headers come with the first event."""
        return self.failing_since is not None and (self._is_waiting or now - self.heard_at < _SILENT_SECONDS)

    def read_again(self) -> None:
        """Open it again and ask by moments, which does not depend on what the service numbers its events by."""
        self._by_moment = True
        self._cut()

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

    def _pause(self, seconds: float) -> None:
        self._is_waiting = True
        self._ended.wait(seconds)
        self._is_waiting = False

    def _asked(self) -> float:
        """Seconds that the service asked to wait when it refused the connection, up to the longest."""
        if self.failure is None or self.failing_since is None:
            return 0.0
        return min(max(self.failure.retry_after or 0.0, 0.0), _ASKED_LONGEST)

    def _why(self) -> str:
        return f" ({self.failure})" if self.failure is not None and self.failing_since is not None else ""

    def _read(self) -> None:
        lines = framing(self._form, self._longest)
        self._leash = leash = self._make_leash(_SILENT_LONGEST)
        self.opened += 1
        began = self.heard_at = time.monotonic()
        by_moment, self._by_moment = self._by_moment, False
        try:
            self._take(self._pieces(self.parts, leash, by_moment), lines, leash)
        finally:
            # offsets beyond the end of a topic, as after it was numbered again, bring nothing: next it is asked by moments
            self._by_moment |= self.heard_at == began and time.monotonic() - began > _SILENT_SECONDS

    def _take(self, pieces: Iterator[bytes], lines: Lines, leash: Leash) -> None:
        """Put the records of an answer into the inbox."""
        left_out = 0
        with contextlib.ExitStack() as turn:
            has_turn = False
            for piece in pieces:
                whole = lines.feed(piece)
                self.heard_at = time.monotonic()
                self.too_long_count += lines.left_out - left_out
                left_out = lines.left_out
                if whole:
                    self.failing_since = None
                    self._wait, self._patience = self._first_wait, _SILENT_SECONDS
                    if not self._inbox.put(self.parts, whole):
                        return
                    del whole
                if has_turn and lines.size <= _LONG_BYTES:
                    turn.close()
                    has_turn = False
                elif not has_turn and lines.size > _LONG_BYTES:
                    if not self._wait_for_turn():
                        return
                    turn.callback(self._inbox.long.release)
                    has_turn = True
                leash.restart()

    def _wait_for_turn(self) -> bool:
        """Wait until no other connection puts a long record together; False: the stream ends. More has come, so this is no silence."""
        while not self._inbox.long.acquire(timeout=_LOOK_SECONDS):
            self.heard_at = time.monotonic()
            if self._ended.is_set():
                return False
        return True
