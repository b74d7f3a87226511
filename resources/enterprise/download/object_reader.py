"""Reader of an object in the store, which starts at any byte and checks the object's identity.

A broken response body is resumed at the next byte, with the same signed URL for as long as the store accepts it.

Source: the service's documentation on downloads, which redirect (307) to a signed URL and support `Range` and
`If-Range`. A signed URL is valid for 60 s and costs one unit if the product has a quota.
"""

from __future__ import annotations

import contextlib
import logging
import re
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import NoReturn

import requests
import urllib3

from resources.enterprise import errors
from resources.enterprise.download.partial import Part
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
#: Minimum number of new bytes in a broken body that resets the failure count.
WORTH = 1 << 20

_log = logging.getLogger(__name__)


class ChangedError(Exception):
    """The object differs from the object whose first bytes were received."""


class OversizeError(ChangedError):
    """The object is larger than its record allows (`largest` bytes)."""

    def __init__(self, largest: int) -> None:
        super().__init__(largest)
        self.largest = largest


class ObjectReader:
    """Reads one object in order, and reopens it after every broken response body.

    With a `part`, reading begins after the part's last byte, and the caller appends the bytes to the part. The signed
    URL is requested when needed, and replaced when the store refuses it. `size` is the object's size, once known.
    """

    def __init__(self, source: Source, transport: Transport, part: Part | None = None) -> None:
        self._source = source
        self._record = source.record
        self._transport = transport
        self._limits = transport.limits
        self._largest = transport.limits.largest(source.record.stated_bytes)
        self._part = part
        self._position = 0 if part is None else part.length
        self._etag: str | None = None
        self._address: str | None = None
        self._asked = self._refusals = 0
        self._doing = f"fetch {source.record.identifier}"
        self._kept, self._advice = (
            ("This download cannot be resumed.", "Discard the output, and try again.")
            if part is None
            else ("Downloaded bytes are kept.", "Retry to resume the download.")
        )
        self.size: int | None = None
        self.request_count = 0

    def pieces(self) -> Generator[bytes, None, None]:
        """Yield the remaining bytes in blocks of at most 256 KiB.

        Raises ChangedError if the object changed, OversizeError if it is too large, and EnterpriseError after too many
        consecutive failures.
        """
        failures = furthest = 0
        retry = self._transport.retry
        while True:
            try:
                yield from self._body()
            except BrokenAnswer as error:
                failures = 1 if self._position - furthest >= WORTH else failures + 1
                furthest = max(furthest, self._position)
                if failures > retry.retries:
                    self._give_up(error)
                _log.info("The download of %s was interrupted at byte %d.", self._record.identifier, self._position)
            else:
                return
            time.sleep(retry.wait(failures))

    def _body(self) -> Generator[bytes, None, None]:
        deadline = Deadline(self._limits.slow_seconds)
        response = self._answered(deadline)
        with contextlib.closing(response):
            self._check(response)
            self._refusals = 0
            timely = self._position
            while piece := self._piece(response):
                self._fits(self._position + len(piece))
                self._position += len(piece)
                began = time.monotonic()
                yield piece
                deadline.extend(time.monotonic() - began)  # the time spent in the caller is not counted
                if self._position - timely >= self._limits.slow_bytes:
                    deadline.restart()
                    timely = self._position

    def _answered(self, deadline: Deadline) -> requests.Response:
        headers = {}
        if self._position:
            headers["Range"] = f"bytes={self._position}-"
            if self._etag is not None and not self._etag.startswith("W/"):
                headers["If-Range"] = self._etag
        while True:
            if self._address is None:
                self._address = self._signed_url()
            response = self._transport.open(self._address, headers, doing=self._doing, deadline=deadline)
            status = response.status_code
            if status in {200, 206, 416}:
                return response
            response.close()
            if status == 404:
                raise errors.NotFound(
                    f"The archive of {self._record.identifier} is not in the object store (404). No file was written. "
                    "The service may have removed or replaced the archive: read its record again.",
                    status=404,
                )
            if status not in {400, 401, 403}:
                raise BrokenAnswer(
                    f"Could not {self._doing}: the object store responded with status {status}. {self._kept} "
                    f"{self._advice}",
                    status=status,
                )
            self._address = None
            self._refusals += 1
            if self._refusals > 1:
                raise errors.ServiceUnavailable(
                    f"The object store rejected two new signed URLs for {self._record.identifier} ({status}). "
                    f"{self._kept} The archive may have been removed, or a proxy may have modified the request. Try "
                    "again later.",
                    status=status,
                )

    def _signed_url(self) -> str:
        if self._asked >= self._limits.signed_urls:
            raise errors.ServiceUnavailable(
                f"{self._record.identifier} required more than {self._limits.signed_urls} signed URLs, and each might "
                f"use quota. {self._kept} The connection is unstable: try again later."
            )
        self._asked += 1
        address, count = self._source.resolve()
        self.request_count += count
        return address

    def _check(self, response: requests.Response) -> None:
        """Check that the response continues the object whose first bytes were received."""
        etag = etag_in(response.headers)
        if self._etag is not None and etag is not None and etag != self._etag:
            raise ChangedError
        if response.status_code == 416:  # all bytes were received before, or the object is shorter now
            size: int | None = self._position
        elif response.status_code == 206:
            start, size = content_range(response)
            if start != self._position:
                raise ChangedError
        else:
            size = number_in(response.headers, "Content-Length")
            if self._position:
                self._start_over()
        if self.size is not None and size != self.size:
            raise ChangedError
        self._fits(size or 0)
        self.size, self._etag = size, etag

    def _start_over(self) -> None:
        """Accept the complete object from a store that ignores the requested range."""
        if self._part is None:
            raise errors.ServiceUnavailable(
                f"Could not {self._doing}: the connection was lost after {self._position:,} bytes, and the object "
                f"store does not support resuming. {self._kept} {self._advice}"
            )
        self._part.clear()
        self._position = 0

    def _piece(self, response: requests.Response) -> bytes:
        """Return at least one received byte, or nothing at the end of the body."""
        if response.status_code == 416:
            return b""
        try:
            data: bytes = response.raw.read1(_READ_BYTES, decode_content=False)
        except (urllib3.exceptions.HTTPError, ValueError) as error:
            slow = f"fewer than {self._limits.slow_bytes:,} bytes arrived in {self._limits.slow_seconds:,.0f} s"
            reason = slow if stems_from(error, TooSlowError) else type(error).__name__
        else:
            if data or self.size is None or self._position >= self.size:
                return data
            reason = "it ended early"
        raise BrokenAnswer(
            f"Could not {self._doing}: the response ended at byte {self._position} ({reason}). {self._kept} "
            f"{self._advice}"
        )

    def _fits(self, size: int) -> None:
        """Check that the record allows an object of this size."""
        if size > self._largest:
            raise OversizeError(self._largest)

    def _give_up(self, last: BrokenAnswer) -> NoReturn:
        left = (
            f"{self._position} bytes arrived. {self._kept}"
            if self._part is None
            else f"{self._position} downloaded bytes are kept."
        )
        raise last.final(
            f"Could not {self._doing}: the connection to the object store failed {self._transport.retry.retries + 1} "
            f"times in a row. {left} {self._advice} Last error: {last.message.split('. ')[0]}."
        ) from None


def content_range(response: requests.Response) -> tuple[int, int]:
    """Parse the Content-Range of a 206 response. Return the first byte and the object size in bytes."""
    found = _CONTENT_RANGE.match(response.headers.get("Content-Range", ""))
    if found is None or not int(found[1]) <= int(found[2]) < int(found[3]):
        raise BrokenAnswer(
            "The object store sent part of the archive without a valid Content-Range header. Downloaded bytes are "
            "kept. Try again later."
        )
    return int(found[1]), int(found[3])
