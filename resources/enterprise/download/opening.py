"""Opens an archive at the object store, from any byte on, and sees that it is the one that is wanted.

What breaks off goes on where it stopped, with the same signed address while the store still takes it.

Source: the service's description of downloads (307 to a signed address, `Range`, `If-Range`).
"""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple, NoReturn, Protocol

import urllib3

from resources.enterprise import errors
from resources.enterprise.download.signed_url import Address, Source
from resources.enterprise.http.answers import BrokenAnswer, NoConnection, etag_in, number_in
from resources.enterprise.http.foreign import stems_from
from resources.enterprise.http.wire import Deadline, TooSlowError

if TYPE_CHECKING:
    import requests

    from resources.enterprise.download.partial_file import Segment
    from resources.enterprise.http.transport import Transport

_CONTENT_RANGE = re.compile(r"bytes ([0-9]{1,18})-([0-9]{1,18})/([0-9]{1,18})\Z")
_READ_BYTES = 1 << 18
#: A broken body counts as progress, and the count of failures starts again, from this many bytes on.
WORTH = 1 << 20


@dataclass(frozen=True)
class Ranges:
    """How large files are divided.

    Attributes:
        connections: Ranges fetched at once.
        parallel_bytes: Files from this size on are divided.
        smallest_bytes: No range is smaller.
        addresses: Signed addresses one download may ask for (each may cost a unit of quota).
        wait_seconds: How long to wait for another process that fetches the same file.
    """

    connections: int = 4
    parallel_bytes: int = 64 << 20
    smallest_bytes: int = 16 << 20
    addresses: int = 8
    wait_seconds: float = 3600.0


class ChangedError(Exception):
    """The object is not the one whose first bytes are there."""


class OversizeError(ChangedError):
    """The object is larger than its record allows.

    Attributes:
        largest: Bytes that are taken.
    """

    def __init__(self, largest: int) -> None:
        super().__init__(largest)
        self.largest = largest


class RangeIgnoredError(Exception):
    """The store sends the whole object whatever is asked."""


class StoppedError(Exception):
    """Another range failed; this one ends quietly."""


class Opened(NamedTuple):
    """An answer whose body is to be read, and the deadline that holds for it."""

    response: requests.Response
    deadline: Deadline


class Known(Protocol):
    """What is known of an object while it is fetched."""

    etag: str | None
    size: int | None
    segments: list[Segment]

    @property
    def done(self) -> int:
        """Bytes that were fetched."""


class Opener:
    """Opens one object, as often as its body breaks off."""

    #: What becomes of the bytes that came before a failure, and what to do.
    kept: ClassVar = "What was fetched is kept."
    advice: ClassVar = "Run this again: it goes on from there."

    def __init__(self, source: Source, part: Known, transport: Transport, ranges: Ranges) -> None:
        self._source = source
        self._known = part
        self._transport = transport
        self._patience = transport.patience
        self._limits = transport.limits
        self._largest = transport.limits.largest(source.size_hint)
        self._ranges = ranges
        self._address = Address(source, ranges.addresses, self.kept)
        self._doing = f"fetch {source.identifier}"
        self._stop = threading.Event()

    @property
    def request_count(self) -> int:
        """Requests to the service."""
        return self._address.request_count

    def _opened(self, segment: Segment | None) -> Opened:
        """Open the object from a segment's next byte on (None: all of it), and check that it is the one we know."""
        headers: dict[str, str] = {}
        position = segment.position if segment else 0
        if segment is not None:
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
            address = self._address.get()
            response = self._transport.open(address, headers, doing=self._doing, deadline=deadline)
            status = response.status_code
            if status in {200, 206}:
                return response
            response.close()
            if status in {400, 401, 403}:
                self._address.refused(address, status)
            elif status == 404:
                raise errors.NotFound(
                    f"The archive of {self._source.identifier} is not in the object store (404). Nothing was landed. "
                    "The service may have removed or be rewriting it: list it again.",
                    status=404,
                )
            elif status in {412, 416}:
                raise ChangedError
            else:
                raise BrokenAnswer(
                    f"Could not {self._doing}: the object store answered {status}. {self.kept} {self.advice}",
                    status=status,
                )

    def _check(self, response: requests.Response, position: int, *, ranged: bool) -> None:
        """Whether the answer goes on with the object whose bytes are there."""
        etag, known = etag_in(response.headers), self._known
        if known.etag is not None and etag is not None and etag != known.etag:
            raise ChangedError
        if response.status_code == 206:
            start, _, size = content_range(response)
            if not ranged or start != position or (known.size is not None and size != known.size):
                raise ChangedError
            self._fits(size)
            if known.segments and known.size is None:  # the first answer did not say
                known.size = known.segments[-1].end = size
        elif known.segments and (position > 0 or len(known.segments) > 1):
            raise RangeIgnoredError
        elif known.segments and number_in(response.headers, "Content-Length") != known.size:
            raise ChangedError

    def _piece(self, response: requests.Response, segment: Segment) -> bytes:
        """What has arrived, at least a byte; nothing at the end of the body."""
        wanted = _READ_BYTES if segment.remaining is None else min(_READ_BYTES, segment.remaining)
        try:
            data: bytes = response.raw.read1(wanted, decode_content=False)
        except (urllib3.exceptions.HTTPError, ValueError) as error:  # ValueError: closed by another thread
            slow = f"less than {self._limits.slow_bytes:,} bytes came in {self._limits.slow_seconds:,.0f} s"
            broken = self._broken(segment, slow if stems_from(error, TooSlowError) else type(error).__name__)
        else:
            return data
        raise broken

    def _broken(self, segment: Segment, reason: str) -> BrokenAnswer:
        return BrokenAnswer(
            f"Could not {self._doing}: the body broke off at byte {segment.position} ({reason}). {self.kept} {self.advice}"
        )

    def _fits(self, size: int) -> None:
        """See that an object of so many bytes is one that the record can mean."""
        if size > self._largest:
            raise OversizeError(self._largest)

    def _pause(self, failures: int, error: BrokenAnswer) -> None:
        """Wait after a break, or give up after too many in a row."""
        if failures > self._patience.retries:
            self._broke_off(error)
        self._stop.wait(self._patience.wait(failures))

    def _left(self) -> str:
        """What of the bytes is kept after the last attempt, and what to do."""
        return f"{self._known.done} bytes are kept. {self.advice}"

    def _broke_off(self, last: BrokenAnswer | None = None) -> NoReturn:
        kind = errors.UnreachableError if isinstance(last, NoConnection) else errors.ServiceUnavailable
        because = f" The last time: {last.message.split('. ')[0]}." if last else ""
        raise kind(
            f"Could not {self._doing}: the connection to the object store broke {self._patience.retries + 1} times in "
            f"a row. {self._left()}{because}"
        ) from None


def content_range(response: requests.Response) -> tuple[int, int, int]:
    """(first byte, byte after the last, size of the object) of a 206."""
    found = _CONTENT_RANGE.match(response.headers.get("Content-Range", ""))
    if found is None or not int(found[1]) <= int(found[2]) < int(found[3]):
        raise BrokenAnswer(
            "The object store answered a part of the archive without saying which (Content-Range). What was fetched is "
            "kept. Run this again later."
        )
    return int(found[1]), int(found[2]) + 1, int(found[3])
