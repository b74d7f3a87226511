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
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TYPE_CHECKING

from resources.enterprise.download.opening import (
    WORTH,
    Opened,
    Opener,
    RangeIgnoredError,
    StoppedError,
    content_range,
)
from resources.enterprise.download.partial_file import Part, Segment, divide
from resources.enterprise.http.answers import BrokenAnswer, etag_in, number_in

if TYPE_CHECKING:
    from collections.abc import Callable

    import requests

    from resources.enterprise.download.opening import Ranges
    from resources.enterprise.download.signed_url import Source
    from resources.enterprise.http.transport import Transport

_log = logging.getLogger(__name__)

#: The disk is looked at each time so many bytes were written.
_LOOK_BYTES = 16 << 20


class Transfer(Opener):
    """Brings all bytes of one part."""

    def __init__(
        self,
        source: Source,
        part: Part,
        transport: Transport,
        ranges: Ranges,
        told: Callable[[int], None],
    ) -> None:
        super().__init__(source, part, transport, ranges)
        self._part = part
        self._told = told
        self._reporting = threading.Lock()
        self._open: set[requests.Response] = set()

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
            except RangeIgnoredError:
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
            _, end, total = content_range(response)  # checked to begin at 0
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

    def _first_answer(self, first: Segment | None) -> Opened:
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

    def _fetch(self, opened: dict[int, Opened]) -> None:
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

    def _segment(self, number: int, opened: Opened | None) -> None:
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
                failures = 1 if gained >= WORTH else failures + 1
                self._pause(failures, error)
                _log.info("%s broke off at byte %d; going on.", self._source.identifier, segment.position)
            else:
                return

    def _read(self, number: int, opened: Opened) -> None:
        segment = self._part.segments[number]
        response = opened.response
        timely = looked = segment.done
        self._open.add(response)
        try:
            while segment.remaining is None or segment.remaining > 0:
                data = self._piece(response, segment)
                if self._stop.is_set():
                    raise StoppedError
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

    def _report(self) -> None:
        with self._reporting:
            self._told(self._part.done)

    def _halt(self) -> None:
        """End the other ranges now, also those that wait for data."""
        self._stop.set()
        for response in tuple(self._open):
            with contextlib.suppress(Exception):
                response.raw.shutdown()  # wakes the reader; urllib3 before 2.3 has it not and waits for its timeout

    def _need_room(self, missing: int) -> None:
        """Say that the disk cannot hold so many more bytes and leave the floor free: before the first, and on the way."""
        free = shutil.disk_usage(self._part.folder).free
        if (floor := self._limits.keep_free_bytes) and missing + floor > free:
            raise OSError(
                errno.ENOSPC, f"{missing:,} bytes are missing, {free:,} are free, and {floor:,} shall stay free"
            )
        if missing > free:
            raise OSError(errno.ENOSPC, f"{missing:,} bytes are missing and {free:,} are free")
