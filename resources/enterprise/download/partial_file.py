"""An unfinished download on disk: what is there, where it belongs, and how it becomes the finished file.

A process may be killed at any moment. Progress is therefore written in place, as a number of fixed width inside the
JSON file, after each piece of data: two small writes and no loss. A loss of power may bring back older bytes under a
newer count; the MD5 of the whole file finds that out.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from resources import files

#: Digits reserved for a byte count: enough for any file.
_WIDTH = 16


@dataclass
class Segment:
    """A range of the file: bytes [start, end), of which the first `done` are there. `end` None: not known yet."""

    start: int
    end: int | None
    done: int = 0

    @property
    def position(self) -> int:
        return self.start + self.done

    @property
    def remaining(self) -> int | None:
        """Bytes still missing, None where the end is not known."""
        return None if self.end is None else self.end - self.position


@dataclass
class ObjectState:
    """The state of an object under way: its ETag and size where they were stated, and its ranges."""

    etag: str | None = None
    size: int | None = None
    segments: list[Segment] = field(default_factory=list)

    @property
    def done(self) -> int:
        return sum(segment.done for segment in self.segments)


class Part(ObjectState):
    """The partial file of one download, held by this thread alone."""

    def __init__(self, target: Path, descriptor: int) -> None:
        super().__init__()
        self._target = target
        self._path = _part(target)
        self._json = _part_json(target)
        self._descriptor = descriptor
        self._progress: int | None = None
        self._ended = False
        self._places: list[int] = []
        self.version: str | None = None
        self._load()

    @classmethod
    @contextlib.contextmanager
    def held(cls, target: Path, *, wait_seconds: float) -> Iterator[Part]:
        """Open or create the part of a file; another process that downloads the same file is waited for.

        Raises:
            BusyError: The other process did not end within `wait_seconds`.
        """
        target.parent.mkdir(parents=True, exist_ok=True)
        with files.held(_part(target), wait_seconds=wait_seconds) as descriptor:
            part = cls(target, descriptor)
            try:
                yield part
            finally:
                part._let_go()

    @staticmethod
    def is_left(target: Path) -> bool:
        """Return whether a partial download of a file exists."""
        return _part(target).exists() or _part_json(target).exists()

    @staticmethod
    def left_bytes(target: Path, version: str) -> int:
        """Bytes that an unfinished download of this version left, without waiting for who may be writing it."""
        try:
            found = files.read_json(_part_json(target), files.JSON_OBJECT)
            return sum(int(done) for _, _, done in found["ranges"]) if found["version"] == version else 0
        except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError, ArithmeticError):
            return 0

    @property
    def folder(self) -> Path:
        return self._target.parent

    @property
    def is_complete(self) -> bool:
        return self.size is not None and bool(self.segments) and all(s.remaining == 0 for s in self.segments)

    def begin(self, version: str, etag: str | None, size: int | None, segments: Sequence[Segment]) -> None:
        """Record what is being fetched and how it is divided; data that the segments count as done stays."""
        self._close()
        self.version, self.etag, self.size = version, etag, size
        self.segments = list(segments)
        head = json.dumps({"version": version, "etag": etag, "size": size})[:-1] + ', "ranges": ['
        text, self._places = head, []
        for number, segment in enumerate(self.segments):
            end = "null" if segment.end is None else str(segment.end)
            text += (", " if number else "") + f"[{segment.start}, {end}, "
            self._places.append(len(text.encode()))
            text += f"{segment.done:>{_WIDTH}}]"
        files.write(self._json, (text + "]}\n").encode(), durable=False)
        self._progress = os.open(self._json, os.O_WRONLY | os.O_CLOEXEC)

    def write(self, number: int, data: bytes) -> None:
        """Add data to a segment. Each segment may have a thread of its own."""
        segment = self.segments[number]
        view = memoryview(data)
        while view:
            written = os.pwrite(self._descriptor, view, segment.position)
            view = view[written:]
            segment.done += written
        if self._progress is not None:
            os.pwrite(self._progress, f"{segment.done:>{_WIDTH}}".encode(), self._places[number])

    def clear(self) -> None:
        """Delete all downloaded bytes and start again."""
        self._close()
        self._json.unlink(missing_ok=True)
        os.ftruncate(self._descriptor, 0)
        self.version = self.etag = self.size = None
        self.segments = []

    def digest(self) -> str:
        return files.md5_of(self._path)

    def length(self) -> int:
        return os.fstat(self._descriptor).st_size

    def land(self, target: Path) -> None:
        """Give the bytes their final name, durably."""
        files.put(self._path, target)
        self._ended = True
        self._close()
        self._json.unlink(missing_ok=True)

    def remove(self) -> None:
        self._ended = True
        self._close()
        self._json.unlink(missing_ok=True)
        self._path.unlink(missing_ok=True)

    def _let_go(self) -> None:
        """Close what is open; a part without a byte in it is no use to anybody."""
        self._close()
        if not self._ended and not self.done:
            self.remove()

    def _close(self) -> None:
        if self._progress is not None:
            os.close(self._progress)
        self._progress = None

    def _load(self) -> None:
        """Take up what an earlier process left, if it makes sense."""
        try:
            found = files.read_json(self._json, files.JSON_OBJECT)
            segments = [
                Segment(int(start), None if end is None else int(end), int(done))
                for start, end, done in found["ranges"]
            ]
            size = None if found["size"] is None else int(found["size"])
            version = str(found["version"])
            etag = None if found["etag"] is None else str(found["etag"])
        except (FileNotFoundError, ValueError, KeyError, TypeError, ArithmeticError):
            segments, size, version, etag = [], None, None, None
        if not segments or not self._makes_sense(segments, size):
            self.clear()
            return
        self.version, self.etag, self.size, self.segments = version, etag, size, segments

    def _makes_sense(self, segments: list[Segment], size: int | None) -> bool:
        """Return whether the segments cover the file without gaps and the bytes they count exist."""
        if size is not None and size >= 10**_WIDTH:
            return False
        position: int | None = 0
        for segment in segments:
            if segment.start != position or segment.done < 0 or (segment.remaining or 0) < 0:
                return False
            position = segment.end
        there = self.length()
        return position == size and all(segment.position <= there for segment in segments if segment.done)


def _part(target: Path) -> Path:
    return target.with_name(target.name + ".part")


def _part_json(target: Path) -> Path:
    return target.with_name(target.name + ".part.json")


def divide(segments: Sequence[Segment], pieces: int, smallest: int) -> list[Segment]:
    """Return the segments of the same file, with the missing bytes divided into about `pieces` segments.

    The new segments have at least `smallest` bytes. Bytes that are there become complete segments.
    """
    there: list[Segment] = []
    missing: list[Segment] = []
    for segment in segments:
        if segment.done:
            there.append(Segment(segment.start, segment.position, segment.done))
        if segment.end is None or segment.position < segment.end:
            missing.append(Segment(segment.position, segment.end))
    while missing and len(missing) < pieces:
        widest = max(missing, key=lambda s: s.remaining or 0)
        if widest.end is None or (widest.remaining or 0) < 2 * smallest:
            break
        middle = (widest.start + widest.end) // 2
        missing.append(Segment(middle, widest.end))
        widest.end = middle
    return sorted([*there, *missing], key=lambda s: s.start)
