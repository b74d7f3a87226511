"""Partial files of unfinished downloads.

`NAME.part` contains an object's bytes from the first byte on. If ranges of the object are fetched in parallel, each of
the other ranges has a file `NAME.part.START`, which contains the bytes from byte START on.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from resources import files

_JOIN_BYTES = 1 << 20


class Segment:
    """A file with `length` bytes of an object, from byte `start` on. The file exists if it has any bytes."""

    def __init__(self, path: Path, start: int, length: int) -> None:
        self.path = path
        self.start = start
        self.length = length
        self._descriptor: int | None = None

    @property
    def end(self) -> int:
        return self.start + self.length

    def append(self, data: bytes) -> None:
        if self._descriptor is None:
            self._descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        view = memoryview(data)
        while view:
            written = os.pwrite(self._descriptor, view, self.length)
            view = view[written:]
            self.length += written

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


#: A missing range: a segment to extend, and the byte before which the range ends, or None for the object's end.
Range = tuple[Segment, int | None]


class Part(Segment):
    """The locked partial file of a download. Its lock also covers the `others`, the segments of later ranges.

    A process may be killed at any time, and the next process continues after the last byte of each segment. After a
    power failure, the files may contain wrong bytes, which the MD5 check of the complete file detects.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        super().__init__(path, 0, os.fstat(descriptor).st_size)
        self.others: list[Segment] = []
        self._descriptor = self._lock = descriptor
        self._is_landed = False

    @staticmethod
    def path_of(target: Path) -> Path:
        return target.with_name(target.name + ".part")

    @classmethod
    @contextlib.contextmanager
    def held(cls, target: Path, *, wait_seconds: float) -> Iterator[Part]:
        """Open or create the partial file, after waiting for any other process that is using it. Raises BusyError.

        A partial file that has no bytes at the end is deleted.
        """
        path = cls.path_of(target)
        with files.held(path, wait_seconds=wait_seconds) as descriptor:
            part = cls(path, descriptor)
            try:
                yield part
            finally:
                if not part.total and not part._is_landed:
                    path.unlink(missing_ok=True)

    @property
    def total(self) -> int:
        """Number of bytes in all segments."""
        return self.length + sum(other.length for other in self.others)

    def divide(self, size: int, count: int, smallest: int) -> list[Range]:
        """Return the missing ranges of an object of about `size` bytes, in order.

        While there are fewer than `count` ranges, the longest is halved, unless a half would be below `smallest` bytes.
        """
        segments = sorted([self, *self.others], key=lambda segment: segment.start)
        stops = [*(segment.start for segment in segments[1:]), size]
        ranges = [one for one in zip(segments, stops, strict=True) if one[0].end < one[1] or one[0] is segments[-1]]
        while len(ranges) < count:
            longest = max(ranges, key=lambda one: one[1] - one[0].end)
            segment, stop = longest
            middle = (segment.end + stop) // 2
            if stop - middle < smallest:
                break
            self.others.append(Segment(self.path.with_name(f"{self.path.name}.{middle}"), middle, 0))
            place = ranges.index(longest)
            ranges[place : place + 1] = [(segment, middle), (self.others[-1], stop)]
        return [*ranges[:-1], (ranges[-1][0], None)]

    def join(self) -> None:
        """Append the segments that adjoin this file in order, and delete each. An interrupted call can be repeated."""
        for other in sorted(self.others, key=lambda segment: segment.start):
            if other.length and other.start <= self.length:
                with other.path.open("rb") as file:
                    file.seek(self.length - other.start)
                    while block := file.read(_JOIN_BYTES):
                        self.append(block)
                other.path.unlink()
                self.others.remove(other)

    def clear(self) -> None:
        """Delete all downloaded bytes."""
        self._remove_others()
        os.ftruncate(self._lock, 0)
        self.length = 0

    def land(self, target: Path) -> None:
        """Durably rename the file to its final name."""
        self._remove_others()  # any that are left do not belong to the object
        files.put(self.path, target)
        self._is_landed = True

    def _remove_others(self) -> None:
        for other in self.others:
            other.path.unlink(missing_ok=True)
        self.others = []


def others(part: Path) -> list[Segment]:
    """Return the segments of later ranges on disk, next to a partial file."""
    name = re.compile(rf"{re.escape(part.name)}\.([1-9][0-9]{{0,17}})")
    return [
        Segment(path, int(found[1]), path.stat().st_size)
        for path in part.parent.iterdir()
        if (found := name.fullmatch(path.name)) and path.is_file() and not path.is_symlink()
    ]
