"""Archive reader that can start at any byte of an object in the store, and that checks the object's identity.

A broken response body is resumed at the next byte, with the same signed URL for as long as the store accepts it.

Source: the service's documentation on downloads, which redirect (307) to a signed URL and support `Range` and
`If-Range`. A signed URL is valid for 60 s and costs one unit if the product has a quota.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, NoReturn

import requests
import urllib3

from resources.enterprise import errors
from resources.enterprise.download.archived import ObjectState, Segment
from resources.enterprise.http.answers import BrokenAnswer, etag_in, number_in
from resources.enterprise.http.bounds import Deadline, TooSlowError
from resources.enterprise.http.transport import Transport
from resources.enterprise.http.workarounds import stems_from
from resources.enterprise.models import ArchiveRecord

#: Callback that receives the number of bytes since its last call. Bytes that are fetched again are counted only once.
Progress = Callable[[int], None]


@dataclass(frozen=True)
class Source:
    """The archive to download, as described by its record.

    `resolve` returns a signed URL, and `read_again` returns the current record. Both functions also return the number
    of requests sent. If `pinned` is True, newer versions are not requested.
    """

    record: ArchiveRecord
    url_path: str
    resolve: Callable[[], tuple[str, int]]
    read_again: Callable[[], tuple[ArchiveRecord, int]]
    pinned: bool = False


_CONTENT_RANGE = re.compile(r"bytes ([0-9]{1,18})-([0-9]{1,18})/([0-9]{1,18})\Z")
_READ_BYTES = 1 << 18
#: Minimum number of bytes in a broken body that resets the failure count.
WORTH = 1 << 20


@dataclass(frozen=True)
class Ranges:
    """Parallel download of large files in ranges.

    Attributes:
        connections: Number of ranges fetched in parallel.
        parallel_bytes: Minimum size in bytes of files that are divided.
        smallest_bytes: Minimum size of a range in bytes.
        addresses: Maximum number of signed URLs per download. Each may cost a unit of quota.
        wait_seconds: Maximum time in seconds to wait for another process that is downloading the same file.
    """

    connections: int = 4
    parallel_bytes: int = 64 << 20
    smallest_bytes: int = 16 << 20
    addresses: int = 8
    wait_seconds: float = 3600.0


_log = logging.getLogger(__name__)


class ChangedError(Exception):
    """The object differs from the object whose first bytes are on disk."""


class OversizeError(ChangedError):
    """The object is larger than its record allows (`largest` bytes)."""

    def __init__(self, largest: int) -> None:
        super().__init__(largest)
        self.largest = largest


class RangeIgnoredError(Exception):
    """The store sends the complete object regardless of the requested range."""


class StoppedError(Exception):
    """Another range failed, so this range ends without a message."""


class Opened(NamedTuple):
    """A response with an unread body, and its deadline."""

    response: requests.Response
    deadline: Deadline


class ObjectReader:
    """Reads one object, and reopens it after every broken response body.

    The signed URL is requested when needed, shared by all ranges, and replaced when the store refuses it.
    """

    #: Sentences for messages about the bytes received before a failure and the next step.
    kept: ClassVar = "Downloaded bytes are kept."
    advice: ClassVar = "Retry to resume the download."

    def __init__(self, source: Source, known: ObjectState, transport: Transport, ranges: Ranges) -> None:
        self._source = source
        self._record = source.record
        self._known = known
        self._transport = transport
        self._retry = transport.retry
        self._limits = transport.limits
        self._largest = transport.limits.largest(source.record.stated_bytes)
        self._ranges = ranges
        self._lock = threading.Lock()
        self._address: str | None = None
        self._asked = self._refusals = 0
        self.request_count = 0
        self._doing = f"fetch {source.record.identifier}"
        self._stop = threading.Event()
        self._open: set[Deadline] = set()

    def _signed_url(self) -> str:
        """Return the current signed URL. Raises ServiceUnavailable if too many URLs were requested."""
        with self._lock:
            if self._address is None:
                if self._asked >= self._ranges.addresses:
                    raise errors.ServiceUnavailable(
                        f"{self._record.identifier} required more than {self._ranges.addresses} signed URLs, and each "
                        f"might use quota. {self.kept} The connection is unstable: try again later."
                    )
                self._asked += 1
                self._address, count = self._source.resolve()
                self.request_count += count
            return self._address

    def _refused(self, address: str, status: int) -> None:
        """Discard a refused URL. Raises ServiceUnavailable if the previous URL was also refused."""
        with self._lock:
            if address != self._address:
                return  # another range has already reported this refusal
            self._address = None
            self._refusals += 1
            if self._refusals > 1:
                raise errors.ServiceUnavailable(
                    f"The object store rejected two new signed URLs for {self._record.identifier} ({status}). "
                    f"{self.kept} The archive may have been removed, or a proxy may have modified the request. Try "
                    "again later.",
                    status=status,
                )

    def _first_answer(self, first: Segment | None) -> Opened:
        failures = 0
        while True:
            try:
                return self._opened(first)
            except BrokenAnswer as error:
                failures += 1
                self._pause(failures, error)

    def _bytes(self, segment: Segment, opened: Opened | None) -> Generator[bytes, None, None]:
        """Yield a segment's remaining bytes, and resume after each broken connection. The caller counts the bytes."""
        failures = 0
        while True:
            before = segment.done
            try:
                if opened is None:
                    opened = self._opened(segment)
                self._refusals = 0
                yield from self._body(opened, segment)
            except BrokenAnswer as error:
                opened = None
                failures = 1 if segment.done - before >= WORTH else failures + 1
                self._pause(failures, error)
                name, position = self._record.identifier, segment.position
                _log.info("The download of %s was interrupted at byte %d and is being resumed.", name, position)
            else:
                return

    def _body(self, opened: Opened, segment: Segment) -> Generator[bytes, None, None]:
        timely = segment.done
        self._open.add(opened.deadline)
        try:
            while segment.remaining != 0 and (data := self._piece(opened.response, segment)):
                if self._stop.is_set():
                    raise StoppedError
                self._fits(segment.position + len(data))
                began = time.monotonic()
                yield data
                opened.deadline.extend(time.monotonic() - began)  # the time spent in the caller is not counted
                if segment.done - timely >= self._limits.slow_bytes:
                    opened.deadline.restart()
                    timely = segment.done
        finally:
            self._open.discard(opened.deadline)
            opened.response.close()
        if segment.remaining not in {0, None}:
            raise self._broken(segment, "it ended early")

    def _halt(self) -> None:
        """Stop all ranges immediately, including ranges that are waiting for data."""
        self._stop.set()
        for deadline in tuple(self._open):
            deadline.cancel()

    def _opened(self, segment: Segment | None) -> Opened:
        """Open the object at its start or at a segment's next byte, and check that the object is unchanged."""
        headers, position = {}, 0
        if segment is not None:
            position = segment.position
            headers["Range"] = f"bytes={position}-" + ("" if segment.end is None else str(segment.end - 1))
            if self._known.etag is not None and not self._known.etag.startswith("W/"):
                headers["If-Range"] = self._known.etag
        deadline = Deadline(self._limits.slow_seconds)
        response = self._answered(headers, deadline)
        try:
            self._check(response, position, ranged=segment is not None)
        except BaseException:
            response.close()
            raise
        return Opened(response, deadline)

    def _answered(self, headers: dict[str, str], deadline: Deadline) -> requests.Response:
        while True:
            if self._stop.is_set():
                raise StoppedError
            address = self._signed_url()
            response = self._transport.open(address, headers, doing=self._doing, deadline=deadline)
            status = response.status_code
            if status in {200, 206}:
                return response
            response.close()
            if status in {400, 401, 403}:
                self._refused(address, status)
            elif status == 404:
                raise errors.NotFound(
                    f"The archive of {self._record.identifier} is not in the object store (404). No file was written. "
                    "The service may have removed or replaced the archive: read its record again.",
                    status=404,
                )
            elif status in {412, 416}:
                raise ChangedError
            else:
                raise BrokenAnswer(
                    f"Could not {self._doing}: the object store responded with status {status}. {self.kept} "
                    f"{self.advice}",
                    status=status,
                )

    def _check(self, response: requests.Response, position: int, *, ranged: bool) -> None:
        """Check that the response continues the object whose bytes are on disk."""
        etag, known = etag_in(response.headers), self._known
        if known.etag is not None and etag is not None and etag != known.etag:
            raise ChangedError
        if response.status_code == 206:
            start, _, size = content_range(response)
            if not ranged or start != position or (known.size is not None and size != known.size):
                raise ChangedError
            self._fits(size)
            if known.segments and known.size is None:  # the first response did not contain the size
                known.size = known.segments[-1].end = size
        elif known.segments and (position > 0 or len(known.segments) > 1):
            raise RangeIgnoredError
        elif known.segments and number_in(response.headers, "Content-Length") != known.size:
            raise ChangedError

    def _piece(self, response: requests.Response, segment: Segment) -> bytes:
        """Return at least one received byte, or nothing at the end of the body."""
        wanted = _READ_BYTES if segment.remaining is None else min(_READ_BYTES, segment.remaining)
        try:
            data: bytes = response.raw.read1(wanted, decode_content=False)
        except (urllib3.exceptions.HTTPError, ValueError) as error:  # ValueError: closed by another thread
            slow = f"fewer than {self._limits.slow_bytes:,} bytes arrived in {self._limits.slow_seconds:,.0f} s"
            broken = self._broken(segment, slow if stems_from(error, TooSlowError) else type(error).__name__)
        else:
            return data
        raise broken

    def _broken(self, segment: Segment, reason: str) -> BrokenAnswer:
        return BrokenAnswer(
            f"Could not {self._doing}: the response ended at byte {segment.position} ({reason}). {self.kept} "
            f"{self.advice}"
        )

    def _fits(self, size: int) -> None:
        """Check that the record allows an object of this size."""
        if size > self._largest:
            raise OversizeError(self._largest)

    def _pause(self, failures: int, error: BrokenAnswer) -> None:
        """Wait after a broken connection, or raise an error after too many consecutive failures."""
        if failures > self._retry.retries:
            self._broke_off(error)
        self._stop.wait(self._retry.wait(failures))

    def _left(self) -> str:
        return f"{self._known.done} downloaded bytes are kept. {self.advice}"

    def _broke_off(self, last: BrokenAnswer | None = None) -> NoReturn:
        because = f" Last error: {last.message.split('. ')[0]}." if last else ""
        message = (
            f"Could not {self._doing}: the connection to the object store failed {self._retry.retries + 1} times in "
            f"a row. {self._left()}{because}"
        )
        raise (errors.ServiceUnavailable(message) if last is None else last.final(message)) from None


def content_range(response: requests.Response) -> tuple[int, int, int]:
    """Parse the Content-Range of a 206 response. Return the start, the end (exclusive) and the object size in bytes."""
    found = _CONTENT_RANGE.match(response.headers.get("Content-Range", ""))
    if found is None or not int(found[1]) <= int(found[2]) < int(found[3]):
        raise BrokenAnswer(
            "The object store sent part of the archive without a valid Content-Range header. Downloaded bytes are "
            "kept. Try again later."
        )
    return int(found[1]), int(found[2]) + 1, int(found[3])
