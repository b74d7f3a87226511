"""A stream connection that fills the inbox. When the connection ends, it is reopened at the committed offsets.

If a response body ends, a connection breaks, or the service refuses a request temporarily, the stream resumes later.
`Records` assembles received blocks into records, one per line (NDJSON). On the next connection, the service resends a
truncated record from the beginning.
"""

import io
import logging
import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final

from resources.enterprise import errors
from resources.enterprise.download.object_reader import WORTH
from resources.enterprise.http.bounds import Deadline, RetryPolicy
from resources.errors import clause

#: Multiple of the maximum record length above which a line is treated as endless.
_NO_END: Final = 16


class Records:
    """Assembles records, one per line. Records longer than `longest` bytes are skipped and counted in `left_out`."""

    def __init__(self, longest: int) -> None:
        self.left_out = 0
        self._longest = longest
        self.restart()

    def restart(self) -> None:
        """Discard the incomplete record."""
        # a single buffer, because the allocator does not return 60 MB blocks to the system after connection threads
        # free them
        self._begun = io.BytesIO()
        #: Number of bytes received for the incomplete record. Excess bytes are not kept in memory.
        self.size = 0

    def feed(self, piece: bytes) -> bytes:
        """Add a block and return the completed records, one per line, without blank keep-alive lines.

        Raises ServiceUnavailable for a line that is many times longer than the maximum.
        """
        end = piece.rfind(b"\n") + 1
        whole = b""
        if end:
            if self.size > self._longest:
                self.left_out += 1
                _log.warning(
                    "A stream record of %s bytes was skipped, because the maximum is %s bytes (WME_MAX_RECORD_MB). "
                    "The hourly file contains the record.",
                    *(f"{number:,}" for number in (self.size, self._longest)),
                )
                whole = piece[piece.find(b"\n") + 1 : end]
            elif self.size:
                self._begun.write(memoryview(piece)[:end])
                whole = self._begun.getvalue()
            else:
                whole = piece[:end]
            self.restart()
            piece = piece[end:]
        if piece:
            self.size += len(piece)
            if self.size <= self._longest:
                self._begun.write(piece)
            else:
                self._begun = io.BytesIO()
            if self.size > _NO_END * self._longest:
                raise errors.ServiceUnavailable(  # only this connection is reopened
                    f"A stream record has not ended after {_NO_END * self._longest:,} bytes. Stored events are kept. "
                    "Check the configured stream address, and any proxy between this machine and the service."
                )
        if b"\r" in whole or b"\n\n" in whole or whole.startswith(b"\n"):
            # not `splitlines`, because a carriage return between two JSON values is whitespace
            return b"".join(line.removesuffix(b"\r") + b"\n" for line in whole.split(b"\n") if line.strip())
        return whole


class Inbox:
    """Queue of blocks of complete records from all connections. Accepts blocks while it holds fewer than `room` bytes.

    A connection holds the `long` lock while it is assembling a long record.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        self.long = threading.Lock()
        self._waiting: list[bytes] = []
        self._size = 0
        self._changed = threading.Condition()
        self._is_open = True
        self._failure: Exception | None = None

    def put(self, lines: bytes) -> bool:
        """Wait for free space and add records. Return False if the stream has ended and no consumer remains."""
        with self._changed:
            self._changed.wait_for(lambda: self._size < self._room or not self._is_open)
            if self._is_open:
                self._waiting.append(lines)
                if not self._size:
                    self._changed.notify_all()
                self._size += len(lines)
            return self._is_open

    def take(self, seconds: float) -> list[bytes]:
        """Return all waiting blocks. If no blocks are waiting, wait up to `seconds` seconds.

        Raises the error that ended the stream, after all earlier records have been returned.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._size or self._failure or not self._is_open, seconds)
            found = self._waiting
            self._waiting, self._size = [], 0
            self._changed.notify_all()
            if not found and self._failure is not None:
                raise self._failure
            return found

    def fail(self, failure: Exception) -> None:
        """End the stream with an error. Only the first error is reported."""
        with self._changed:
            self._failure = self._failure or failure
            self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self._is_open = False
            self._changed.notify_all()


_log = logging.getLogger(__name__)

#: A connection that is silent for this many seconds while others are receiving data is reopened. The limit grows after
#: each legitimate silence, up to the second number. A connection that is silent for that long is always reopened.
_SILENT_SECONDS, _SILENT_LONGEST = 60.0, 3_600.0
#: Maximum wait in seconds that the service can request with `Retry-After`.
_ASKED_LONGEST = 300.0
#: Seconds between checks for the end of the stream while a connection is waiting for its turn.
_LOOK_SECONDS = 0.5
#: Only one connection at a time assembles a record longer than this.
_LONG_BYTES = 1 << 20


class Connection(threading.Thread):
    """Reads some parts of the stream into an inbox until `stop` is called.

    The wait before reconnecting doubles until a connection has been useful, which means that it has received `WORTH`
    bytes, or has received data for the maximum wait. A service that closes connections after a few records is therefore
    not flooded with requests. The actual wait is a random time below the current value.

    `heard_at` is the time when data was last received, or when the connection was opened (`time.monotonic`).
    `failing_since` is the time of the first failure since data last arrived, or None. `has_delivered` is True if any
    record has arrived.
    """

    def __init__(
        self,
        parts: tuple[int, ...],
        pieces: Callable[[tuple[int, ...], Deadline, bool], Iterator[bytes]],
        inbox: Inbox,
        longest: int,
        retry: RetryPolicy,
    ) -> None:
        super().__init__(name=f"stream-{parts[0]}", daemon=True)
        self.parts = parts
        self.opened = 0
        self.heard_at = time.monotonic()
        self.failing_since: float | None = None
        self.has_delivered = False
        self.failure: errors.EnterpriseError | None = None
        self._pieces, self._inbox, self.records = pieces, inbox, Records(longest)
        self._deadline = Deadline(_SILENT_LONGEST)
        self._ended = threading.Event()
        self._silence = _SILENT_SECONDS
        self._retry, self._wait = retry, retry.first_wait
        self._is_waiting = False
        self._by_moment = False

    def run(self) -> None:
        while not self._ended.is_set():
            try:
                self._read()
            except Exception as error:  # noqa: BLE001  a defect ends the stream, not one connection
                if not isinstance(error, errors.EnterpriseError) or not error.retryable:
                    self._inbox.fail(error)
                    return
                # an unreachable host may become reachable later, and no other request needs the host until then
                self.failure = error
                self.failing_since = self.failing_since or time.monotonic()
            if self._ended.is_set():
                return
            failure = None if self.failing_since is None else self.failure
            asked = 0.0 if failure is None else min(failure.retry_after or 0.0, _ASKED_LONGEST)
            wait = max(random.uniform(0, self._wait), asked)
            self._wait = min(2 * self._wait, self._retry.longest_wait)
            why = "" if failure is None else f" ({clause(failure)})"
            _log.info("Stream connection %s ended%s. It will be reopened in %.1f s.", self.name, why, wait)
            self._pause(wait)

    def stop(self) -> None:
        self._ended.set()
        self._deadline.cancel()

    def is_failing(self, now: float) -> bool:
        """Return whether the connection has failed and no data has arrived since. Silence alone is not a failure."""
        return self.failing_since is not None and (self._is_waiting or now - self.heard_at < _SILENT_SECONDS)

    def read_again(self) -> None:
        """Reopen the connection and request events by time, because the service's offsets may have changed."""
        self._by_moment = True
        self._deadline.cancel()

    def look(self, now: float, others_heard_at: float) -> None:
        """Reopen the connection if only other connections are receiving data. The service sends no heartbeat."""
        silent = now - self.heard_at
        if not self.is_failing(now) and silent > self._silence and now - others_heard_at < self._silence / 2:
            _log.info(
                "Stream connection %s received no data for %.0f s while others did. It is reopened.", self.name, silent
            )
            self._silence = min(2 * self._silence, _SILENT_LONGEST)
            self._deadline.cancel()

    def _pause(self, seconds: float) -> None:
        self._is_waiting = True
        self._ended.wait(seconds)
        self._is_waiting = False

    def _read(self) -> None:
        self.records.restart()
        self._deadline = deadline = Deadline(_SILENT_LONGEST)
        self.opened += 1
        self._opened_at = self.heard_at = time.monotonic()
        by_moment, self._by_moment = self._by_moment, False
        has_turn, size = False, 0
        try:
            for piece in self._pieces(self.parts, deadline, by_moment):
                whole = self.records.feed(piece)
                self.heard_at = time.monotonic()
                size += len(piece)
                if whole:
                    self.failing_since, self.has_delivered = None, True
                    self._silence = _SILENT_SECONDS
                    if size >= WORTH or self.heard_at - self._opened_at >= self._retry.longest_wait:
                        self._wait = self._retry.first_wait
                    if not self._inbox.put(whole):
                        return
                    del whole
                is_long = self.records.size > _LONG_BYTES
                if has_turn and not is_long:
                    self._inbox.long.release()
                elif is_long and not has_turn and not self._wait_for_turn():
                    return
                has_turn = is_long
                deadline.restart()
        finally:
            if has_turn:
                self._inbox.long.release()
            # offsets beyond the end of a renumbered topic return no data, so the next request is by time
            is_silent = self.heard_at == self._opened_at
            self._by_moment |= is_silent and time.monotonic() - self._opened_at > _SILENT_SECONDS

    def _wait_for_turn(self) -> bool:
        """Wait until no other connection is assembling a long record. Return False if the stream ends."""
        while not self._inbox.long.acquire(timeout=_LOOK_SECONDS):
            self.heard_at = time.monotonic()
            if self._ended.is_set():
                return False
        return True
