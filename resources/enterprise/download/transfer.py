"""Transfer of an archive from the object store, either to a partial file in parallel ranges or to a caller in order.

Source: the service's documentation on downloads (307 to a signed URL, `Range`, `If-Range`).
"""

from __future__ import annotations

import contextlib
import errno
import logging
import shutil
import threading
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import ClassVar

from resources import files
from resources.enterprise import errors
from resources.enterprise.download.archived import ObjectState, Part, Segment, divide
from resources.enterprise.download.object_reader import (
    ChangedError,
    ObjectReader,
    Opened,
    OversizeError,
    RangeIgnoredError,
    Ranges,
    Source,
    content_range,
)
from resources.enterprise.http.answers import etag_in, number_in
from resources.enterprise.http.transport import Transport

_log = logging.getLogger(__name__)

#: Number of bytes written between checks of the free disk space.
_LOOK_BYTES = 16 << 20


class Transfer(ObjectReader):
    def __init__(
        self, source: Source, part: Part, transport: Transport, ranges: Ranges, report: Callable[[int], None]
    ) -> None:
        super().__init__(source, part, transport, ranges)
        self._part = part
        self._on_progress = report
        self._reporting = threading.Lock()

    def run(self) -> None:
        """Fetch the missing bytes. Raises ChangedError if the object changed, and OversizeError if it is too large."""
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
                if restarts > self._retry.retries:
                    self._broke_off()

    def _start(self, *, whole: bool) -> None:
        """Open the object, and divide it into segments according to the size in the response."""
        hint = self._record.stated_bytes or 0
        first: Segment | None = None
        size: int | None
        if not whole and hint >= self._ranges.parallel_bytes:
            first = Segment(0, max(hint // self._ranges.connections, self._ranges.smallest_bytes))
        opened = self._first_answer(first)
        response = opened.response
        if response.status_code == 206:
            _, end, total = content_range(response)  # a previous check ensures that the start is 0
            rest = divide([Segment(end, total)], self._ranges.connections - 1, self._ranges.smallest_bytes)
            size, segments = total, [Segment(0, end), *rest]
        else:
            size = number_in(response.headers, "Content-Length")
            segments = [Segment(0, size)]
        try:
            self._fits(size or 0)
            self._need_room(size or 0)
            self._part.begin(self._record.version, etag_in(response.headers), size, segments)
        except BaseException:
            response.close()
            raise
        self._fetch({0: opened})

    def _go_on(self) -> None:
        part = self._part
        self._need_room(0 if part.size is None else part.size - part.done)
        large = (part.size or 0) >= self._ranges.parallel_bytes
        segments = divide(part.segments, self._ranges.connections if large else 1, self._ranges.smallest_bytes)
        part.begin(self._record.version, part.etag, part.size, segments)
        self._fetch({})

    def _fetch(self, opened: dict[int, Opened]) -> None:
        """Fetch all segments, in parallel if there are several."""
        self._report()
        missing = [n for n, segment in enumerate(self._part.segments) if segment.remaining != 0]
        if 0 not in missing and 0 in opened:
            opened[0].response.close()  # the object is empty
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
        if self._part.size is None:  # the size became known at the end
            segment = self._part.segments[0]
            segment.end = segment.done
            self._part.size = segment.done

    def _segment(self, number: int, opened: Opened | None) -> None:
        segment = self._part.segments[number]
        looked = segment.done
        with contextlib.closing(self._bytes(segment, opened)) as pieces:
            for data in pieces:
                self._part.write(number, data)
                if segment.done - looked >= _LOOK_BYTES:
                    self._need_room(0)
                    looked = segment.done
                self._report()

    def _report(self) -> None:
        with self._reporting:
            self._on_progress(self._part.done)

    def _need_room(self, missing: int) -> None:
        """Raise DiskFull if the disk has too little space for this many bytes and the reserve."""
        free = shutil.disk_usage(self._part.path.parent).free
        if (floor := self._limits.keep_free_bytes) and missing + floor > free:
            raise OSError(
                errno.ENOSPC, f"{missing:,} bytes are missing, but {free:,} are free, and {floor:,} must stay free"
            )
        if missing > free:
            raise OSError(errno.ENOSPC, f"{missing:,} bytes are missing, but only {free:,} are free")


class SequentialTransfer(ObjectReader):
    """Yields an archive's bytes in order, without repetition."""

    kept: ClassVar = "This download cannot be resumed."
    advice: ClassVar = "Discard the output, and try again."

    def __init__(self, source: Source, transport: Transport, ranges: Ranges) -> None:
        self._passed = ObjectState()
        super().__init__(source, self._passed, transport, ranges)

    def pieces(self) -> Generator[bytes, None, None]:
        """Yield the bytes in blocks of at most 256 KiB, and raise IntegrityError at the end if the MD5 is different."""
        digest = files.new_md5()
        try:
            for piece in self._all():
                digest.update(piece)
                yield piece
            problem = None if digest.hexdigest() == self._record.version else "the MD5 is different"
        except RangeIgnoredError:
            raise errors.ServiceUnavailable(
                f"Could not {self._doing}: the connection was lost after {self._passed.done:,} bytes, and the object "
                f"store does not support resuming. {self.kept} {self.advice}"
            ) from None
        except OversizeError as error:
            problem = f"the archive has more than {error.largest:,} bytes"
        except ChangedError:
            problem = "the archive was replaced during the download"
        if problem is not None:
            raise errors.IntegrityError(
                f"{self._record.identifier} does not match the service's record (version {self._record.version}): "
                f"{problem}. {self.kept} {self.advice} If the error persists, the service's archive is damaged: "
                "report the error to the vendor."
            )

    def _left(self) -> str:
        return f"{self._passed.done} bytes arrived. {self.kept} {self.advice}"

    def _all(self) -> Generator[bytes, None, None]:
        opened = self._first_answer(None)
        segment = Segment(0, number_in(opened.response.headers, "Content-Length"))
        self._passed.etag, self._passed.size = etag_in(opened.response.headers), segment.end
        self._passed.segments = [segment]
        try:
            self._fits(segment.end or 0)
        except OversizeError:
            opened.response.close()
            raise
        for piece in self._bytes(segment, opened):
            segment.done += len(piece)
            yield piece
