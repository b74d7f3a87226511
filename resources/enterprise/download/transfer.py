"""Brings the bytes of one archive from the object store into its part on disk.

A download asks the service once for a signed address, which lives for 60 s and costs a unit of quota where the product
has one. A small file is one request to it; a large one a few large ranges, all opened at once. What breaks off goes on
where it stopped, with the same address while the store still takes it.

Source: the service's description of downloads (307 to a signed address, `Range`, `If-Range`).
"""

from __future__ import annotations

import contextlib
import errno
import logging
import re
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import urllib3

from resources.enterprise import errors
from resources.enterprise.download.partial_file import Part, Segment, divide
from resources.enterprise.download.signed_url import Address, Source
from resources.enterprise.http.answers import BrokenAnswer, NoConnection, etag_in, number_in
from resources.enterprise.http.foreign import stems_from
from resources.enterprise.http.wire import Deadline, TooSlowError

if TYPE_CHECKING:
    from collections.abc import Callable

    import requests

    from resources.enterprise.http.transport import Transport

_log = logging.getLogger(__name__)

_CONTENT_RANGE = re.compile(r"bytes ([0-9]{1,18})-([0-9]{1,18})/([0-9]{1,18})\Z")
#: The disk is looked at each time so many bytes were written.
_LOOK_BYTES = 16 << 20
_READ_BYTES = 1 << 18
#: A broken body counts as progress, and the count of failures starts again, from this many bytes on.
_WORTH = 1 << 20


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


class _RangeIgnoredError(Exception):
    """The store sends the whole object whatever is asked."""


class _StoppedError(Exception):
    """Another range failed; this one ends quietly."""


class _Opened(NamedTuple):
    """An answer whose body is to be read, and the deadline that holds for it."""

    response: requests.Response
    deadline: Deadline


class Transfer:
    """Brings all bytes of one part."""

    def __init__(
        self,
        source: Source,
        part: Part,
        transport: Transport,
        ranges: Ranges,
        told: Callable[[int], None],
    ) -> None:
        self._source = source
        self._part = part
        self._transport = transport
        self._patience = transport.patience
        self._limits = transport.limits
        self._largest = transport.limits.largest(source.size_hint)
        self._ranges = ranges
        self._told = told
        self._address = Address(source, ranges.addresses)
        self._doing = f"fetch {source.identifier}"
        self._stop = threading.Event()
        self._reporting = threading.Lock()
        self._open: set[requests.Response] = set()

    @property
    def request_count(self) -> int:
        """Requests to the service."""
        return self._address.request_count

    def run(self) -> None:
        """Fetch what is missing.

        Raises:
            ChangedError: The object at the store changed, or is too large (`OversizeError`).
        """
        restarts = 0
        while not self._part.is_complete:
            try:
                if self._part.segments:
                    self._go_on()
                else:
                    self._start(whole=restarts > 0)
            except _RangeIgnoredError:
                self._stop.clear()
                self._part.clear()
                restarts += 1
                if restarts > self._patience.retries:
                    self._broke_off()

    def _start(self, *, whole: bool) -> None:
        """Open the object and divide it by what the answer says of its size."""
        hint = self._source.size_hint or 0
        first: Segment | None = None
        size: int | None
        if not whole and hint >= self._ranges.parallel_bytes:
            first = Segment(0, max(hint // self._ranges.connections, self._ranges.smallest_bytes))
        opened = self._first_answer(first)
        response = opened.response
        if response.status_code == 206:
            _, end, total = _content_range(response)  # checked to begin at 0
            rest = divide([Segment(end, total)], self._ranges.connections - 1, self._ranges.smallest_bytes)
            size, segments = total, [Segment(0, end), *rest]
        else:
            size = number_in(response.headers, "Content-Length")
            segments = [Segment(0, size)]
        try:
            self._fits(size or 0)
            self._need_room(size or 0)
            self._part.begin(self._source.version, etag_in(response.headers), size, segments)
        except BaseException:
            response.close()
            raise
        self._fetch({0: opened})

    def _first_answer(self, first: Segment | None) -> _Opened:
        failures = 0
        while True:
            try:
                return self._opened(first)
            except BrokenAnswer as error:
                failures += 1
                self._pause(failures, error)

    def _go_on(self) -> None:
        """Fetch what an earlier attempt left."""
        part = self._part
        self._need_room(0 if part.size is None else part.size - part.done)
        large = (part.size or 0) >= self._ranges.parallel_bytes
        segments = divide(part.segments, self._ranges.connections if large else 1, self._ranges.smallest_bytes)
        part.begin(self._source.version, part.etag, part.size, segments)
        self._fetch({})

    def _fetch(self, opened: dict[int, _Opened]) -> None:
        """Fetch all segments, at once where there are several."""
        self._report()
        missing = [n for n, segment in enumerate(self._part.segments) if segment.remaining != 0]
        if 0 not in missing and 0 in opened:
            opened[0].response.close()  # an empty object
        if len(missing) == 1:
            self._segment(missing[0], opened.get(missing[0]))
        else:
            with ThreadPoolExecutor(max_workers=max(1, self._ranges.connections)) as pool:
                futures = [pool.submit(self._segment, number, opened.get(number)) for number in missing]
                try:
                    for future in as_completed(futures):
                        future.result()
                except BaseException:
                    self._halt()
                    raise
        if self._part.size is None:  # the end was only known when it came
            segment = self._part.segments[0]
            segment.end = segment.done
            self._part.size = segment.done

    def _segment(self, number: int, opened: _Opened | None) -> None:
        """Fetch one segment, going on after each break."""
        segment = self._part.segments[number]
        failures = 0
        while True:
            before = segment.done
            try:
                if opened is None:
                    opened = self._opened(segment)
                self._address.worked()
                self._read(number, opened)
            except BrokenAnswer as error:
                opened = None
                gained = segment.done - before
                failures = 1 if gained >= _WORTH else failures + 1
                self._pause(failures, error)
                _log.info("%s broke off at byte %d; going on.", self._source.identifier, segment.position)
            else:
                return

    def _opened(self, segment: Segment | None) -> _Opened:
        """Open the object from a segment's next byte on (None: all of it), and check that it is the one we know."""
        headers: dict[str, str] = {}
        position = segment.position if segment else 0
        if segment is not None:
            headers["Range"] = f"bytes={position}-" + ("" if segment.end is None else str(segment.end - 1))
            if self._part.etag is not None and not self._part.etag.startswith("W/"):
                headers["If-Range"] = self._part.etag
        deadline = Deadline(self._limits.slow_seconds)
        response = self._answered(headers, deadline)
        try:
            self._check(response, position, ranged=segment is not None)
        except BaseException:
            response.close()
            raise
        return _Opened(response, deadline)

    def _answered(self, headers: dict[str, str], deadline: Deadline) -> requests.Response:
        while True:
            if self._stop.is_set():
                raise _StoppedError
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
                    f"Could not {self._doing}: the object store answered {status}. What was fetched is kept. Run this "
                    "again later.",
                    status=status,
                )

    def _check(self, response: requests.Response, position: int, *, ranged: bool) -> None:
        """Whether the answer goes on with the object whose bytes are there."""
        etag, known = etag_in(response.headers), self._part
        if known.etag is not None and etag is not None and etag != known.etag:
            raise ChangedError
        if response.status_code == 206:
            start, _, size = _content_range(response)
            if not ranged or start != position or (known.size is not None and size != known.size):
                raise ChangedError
            self._fits(size)
            if known.segments and known.size is None:  # the first answer did not say
                known.size = known.segments[-1].end = size
        elif known.segments and (position > 0 or len(known.segments) > 1):
            raise _RangeIgnoredError
        elif known.segments and number_in(response.headers, "Content-Length") != known.size:
            raise ChangedError

    def _read(self, number: int, opened: _Opened) -> None:
        segment = self._part.segments[number]
        response = opened.response
        timely = looked = segment.done
        self._open.add(response)
        try:
            while segment.remaining is None or segment.remaining > 0:
                data = self._piece(response, segment)
                if self._stop.is_set():
                    raise _StoppedError
                if not data:
                    break
                self._fits(segment.position + len(data))
                self._part.write(number, data)
                if segment.done - timely >= self._limits.slow_bytes:
                    opened.deadline.restart()
                    timely = segment.done
                if segment.done - looked >= _LOOK_BYTES:
                    self._need_room(0)
                    looked = segment.done
                self._report()
        finally:
            self._open.discard(response)
            response.close()
        if segment.remaining not in {0, None}:
            raise self._broken(segment, "it ended early")

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
            f"Could not {self._doing}: the body broke off at byte {segment.position} ({reason}). What was fetched is "
            "kept. Run this again: it goes on from there."
        )

    def _report(self) -> None:
        with self._reporting:
            self._told(self._part.done)

    def _halt(self) -> None:
        """End the other ranges now, also those that wait for data."""
        self._stop.set()
        for response in tuple(self._open):
            with contextlib.suppress(Exception):
                response.raw.shutdown()  # wakes the reader; urllib3 before 2.3 has it not and waits for its timeout

    def _fits(self, size: int) -> None:
        """See that an object of so many bytes is one that the record can mean."""
        if size > self._largest:
            raise OversizeError(self._largest)

    def _need_room(self, missing: int) -> None:
        """Say that the disk cannot hold so many more bytes and leave the floor free: before the first, and on the way."""
        free = shutil.disk_usage(self._part.folder).free
        if (floor := self._limits.keep_free_bytes) and missing + floor > free:
            raise OSError(
                errno.ENOSPC, f"{missing:,} bytes are missing, {free:,} are free, and {floor:,} shall stay free"
            )
        if missing > free:
            raise OSError(errno.ENOSPC, f"{missing:,} bytes are missing and {free:,} are free")

    def _pause(self, failures: int, error: BrokenAnswer) -> None:
        """Wait after a break, or give up after too many in a row."""
        if failures > self._patience.retries:
            self._broke_off(error)
        self._stop.wait(self._patience.wait(failures))

    def _broke_off(self, last: BrokenAnswer | None = None) -> NoReturn:
        kind = errors.UnreachableError if isinstance(last, NoConnection) else errors.ServiceUnavailable
        because = f" The last time: {last.message.split('. ')[0]}." if last else ""
        raise kind(
            f"Could not {self._doing}: the connection to the object store broke {self._patience.retries + 1} times in "
            f"a row. {self._part.done} bytes are kept. Run this again: it goes on from there.{because}"
        ) from None


def _content_range(response: requests.Response) -> tuple[int, int, int]:
    """(first byte, byte after the last, size of the object) of a 206."""
    found = _CONTENT_RANGE.match(response.headers.get("Content-Range", ""))
    if found is None or not int(found[1]) <= int(found[2]) < int(found[3]):
        raise BrokenAnswer(
            "The object store answered a part of the archive without saying which (Content-Range). What was fetched is "
            "kept. Run this again later."
        )
    return int(found[1]), int(found[2]) + 1, int(found[3])
