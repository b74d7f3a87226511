"""Reader of an object in the store, which starts at any byte and checks the object's identity.

A broken response body is resumed at the next byte, with the same signed URL for as long as the store accepts it.

Source: the service's documentation on downloads, which redirect (307) to a signed URL and support `Range` and
`If-Range`. A signed URL is valid for 60 s and costs one unit if the product has a quota.
"""

import contextlib
import logging
import re
import threading
import time
from collections.abc import Callable, Generator

import requests
import urllib3

from resources.enterprise import errors
from resources.enterprise.download.partial import Part, Segment
from resources.enterprise.http.answers import BrokenAnswer, etag_in, number_in
from resources.enterprise.http.bounds import Deadline, TooSlowError
from resources.enterprise.http.transport import Transport
from resources.enterprise.http.workarounds import stems_from
from resources.enterprise.models import ArchiveRecord

#: Callback that receives the number of bytes since its last call. Bytes that are fetched again are counted only once.
Progress = Callable[[int], None]


_CONTENT_RANGE = re.compile(r"bytes ([0-9]{1,18})-([0-9]{1,18})/([0-9]{1,18})\Z")
_READ_BYTES = 1 << 18
#: Minimum number of new bytes in a broken body that resets the failure count.
WORTH = 1 << 20

_log = logging.getLogger(__name__)


class ChangedError(Exception):
    """The object differs from the object whose first bytes were received, or exceeds `largest`, its maximum size."""

    def __init__(self, largest: int | None = None) -> None:
        super().__init__(largest)
        self.largest = largest


class RangeIgnoredError(Exception):
    """The store sent the complete object instead of one of several ranges."""


class StoredObject:
    """An object in the store, shared by the readers of its ranges. Thread-safe.

    The signed URL is requested when needed, and replaced when the store refuses it. `size` is the object's size, once
    known. Without a partial file (`part`), the download cannot be resumed by another call.
    """

    def __init__(
        self,
        record: ArchiveRecord,
        resolve: Callable[[], tuple[str, int]],
        transport: Transport,
        part: Part | None = None,
    ) -> None:
        self.name = record.identifier
        self.doing = f"fetch {self.name}"
        self.kept, self.advice = (
            ("This download cannot be resumed.", "Discard the output, and try again.")
            if part is None
            else ("Downloaded bytes are kept.", "Retry to resume the download.")
        )
        self.part, self.transport, self._resolve = part, transport, resolve
        self.largest = transport.limits.largest(record.stated_bytes)
        self.size: int | None = None
        self.etag: str | None = None
        self.unit_count = 0
        self.is_stopped = threading.Event()
        self._address: str | None = None
        self._asked = self._refusals = self._status = 0
        self._lock = threading.Lock()

    def open(self, headers: dict[str, str], deadline: Deadline) -> requests.Response:
        """Open the object, with a new signed URL if necessary."""
        while True:
            with self._lock:
                address = self._address = self._address or self._new_address()
            response = self.transport.open(address, headers, doing=self.doing, deadline=deadline)
            status = response.status_code
            if status in {200, 206, 416}:
                return response
            response.close()
            if status == 404:
                raise errors.NotFound(
                    f"The archive of {self.name} is not in the object store (404). No file was written. The service "
                    "may have removed or replaced the archive: read its record again.",
                    status=404,
                )
            if status not in {400, 401, 403}:
                raise BrokenAnswer(
                    f"Could not {self.doing}: the object store responded with status {status}. {self.kept} "
                    f"{self.advice}",
                    status=status,
                )
            with self._lock:
                if address == self._address:  # no other range has replaced the URL
                    self._address, self._refusals, self._status = None, self._refusals + 1, status

    def accept(self, size: int | None, etag: str | None) -> None:
        """Compare the object's size and ETag with earlier responses. Raises ChangedError."""
        with self._lock:
            if (self.size is not None and size != self.size) or (self.etag and etag and etag != self.etag):
                raise ChangedError
            if (size or 0) > self.largest:
                raise ChangedError(self.largest)
            self.size, self.etag, self._refusals = size, etag or self.etag, 0

    def _new_address(self) -> str:
        if self._refusals > 1:
            raise errors.ServiceUnavailable(
                f"The object store rejected two new signed URLs for {self.name} ({self._status}). {self.kept} The "
                "archive may have been removed, or a proxy may have modified the request. Try again later.",
                status=self._status,
            )
        limit = self.transport.limits.signed_urls
        if self._asked >= limit:
            raise errors.ServiceUnavailable(
                f"{self.name} required more than {limit} signed URLs, and each might use quota. {self.kept} The "
                "connection is unstable: try again later."
            )
        self._asked += 1
        address, count = self._resolve()
        self.unit_count += count
        return address


class ObjectReader:
    """Reads an object or one of its ranges in order, and reopens the object after every broken response body.

    With a `segment`, reading begins after the segment's last byte, and the caller appends the bytes to the segment. The
    range ends before byte `stop` or, if `stop` is None, at the object's end.
    """

    def __init__(self, stored: StoredObject, segment: Segment | None = None, stop: int | None = None) -> None:
        self.position = 0 if segment is None else segment.end
        self.stop = stop
        self._stored, self._segment = stored, segment
        self._limits = stored.transport.limits
        self.deadline = Deadline(self._limits.slow_seconds)

    def pieces(self) -> Generator[bytes, None, None]:
        """Yield the remaining bytes in blocks of at most 256 KiB, and an empty block whenever the object was opened.

        Raises ChangedError, RangeIgnoredError, and EnterpriseError after too many consecutive failures.
        """
        failures = furthest = 0
        stored, retry = self._stored, self._stored.transport.retry
        while True:
            try:
                yield from self._body()
            except BrokenAnswer as error:
                if stored.is_stopped.is_set():
                    raise
                failures = 1 if self.position - furthest >= WORTH else failures + 1
                furthest = max(furthest, self.position)
                if failures > retry.retries:
                    left = (
                        f"{self.position} bytes arrived. {stored.kept}"
                        if stored.part is None
                        else f"{stored.part.total} downloaded bytes are kept."
                    )
                    raise error.final(
                        f"Could not {stored.doing}: the connection to the object store failed {failures} times in a "
                        f"row. {left} {stored.advice} Last error: {error.message.split('. ')[0]}."
                    ) from None
                _log.info("The download of %s was interrupted at byte %d.", stored.name, self.position)
            else:
                return
            stored.is_stopped.wait(retry.wait(failures))

    def _body(self) -> Generator[bytes, None, None]:
        headers = {}
        if self.position or self.stop is not None:
            headers["Range"] = f"bytes={self.position}-{'' if self.stop is None else self.stop - 1}"
            if self._stored.etag is not None and not self._stored.etag.startswith("W/"):
                headers["If-Range"] = self._stored.etag
        self.deadline = deadline = Deadline(self._limits.slow_seconds)
        if self._stored.is_stopped.is_set():
            deadline.cancel()
        with contextlib.closing(self._stored.open(headers, deadline)) as response:
            self._check(response)
            yield b""
            timely = self.position
            while piece := self._piece(response):
                if self.position + len(piece) > self._stored.largest:
                    raise ChangedError(self._stored.largest)
                self.position += len(piece)
                began = time.monotonic()
                yield piece
                deadline.extend(time.monotonic() - began)  # the time spent in the caller is not counted
                if self.position - timely >= self._limits.slow_bytes:
                    deadline.restart()
                    timely = self.position

    def _check(self, response: requests.Response) -> None:
        """Check that the response continues the object whose first bytes were received."""
        stored, etag = self._stored, etag_in(response.headers)
        is_first = stored.size is None
        if response.status_code == 416:  # all bytes were received before, or the object is shorter now
            stored.accept(self.position, etag)
        elif response.status_code == 206:
            found = _CONTENT_RANGE.match(response.headers.get("Content-Range", ""))
            if found is None or not int(found[1]) <= int(found[2]) < int(found[3]):
                raise BrokenAnswer(
                    "The object store sent part of the archive without a valid Content-Range header. Downloaded bytes "
                    "are kept. Try again later."
                )
            stored.accept(int(found[3]), etag)
            if int(found[1]) != self.position:
                raise ChangedError
        else:
            stored.accept(number_in(response.headers, "Content-Length"), etag)
            if is_first:
                self.stop = None  # no other range was requested
            # the store sends the complete object instead of the requested range
            if stored.part is not None:
                if self._segment is not stored.part or self.stop is not None:
                    raise RangeIgnoredError
                stored.part.clear()
            elif self.position:
                raise errors.ServiceUnavailable(
                    f"Could not {stored.doing}: the connection was lost after {self.position:,} bytes, and the object "
                    f"store does not support resuming. {stored.kept} {stored.advice}"
                )
            self.position = 0

    def _piece(self, response: requests.Response) -> bytes:
        """Return at least one received byte, or nothing at the end of the range."""
        size, stop, stored = self._stored.size, self.stop, self._stored
        end = size if stop is None or size is None else min(stop, size)
        if response.status_code == 416 or self.position == end:
            return b""
        wanted = _READ_BYTES if end is None else min(_READ_BYTES, end - self.position)
        try:
            data: bytes = response.raw.read1(wanted, decode_content=False)
        except (urllib3.exceptions.HTTPError, ValueError) as error:
            slow = f"fewer than {self._limits.slow_bytes:,} bytes arrived in {self._limits.slow_seconds:,.0f} s"
            reason = slow if stems_from(error, TooSlowError) else type(error).__name__
        else:
            if data or end is None:
                return data
            reason = "it ended early"
        raise BrokenAnswer(
            f"Could not {stored.doing}: the response ended at byte {self.position} ({reason}). {stored.kept} "
            f"{stored.advice}"
        )
