"""Blocks of lines in an archive reader's buffers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

#: Default limit for the length of a record. The longest known records are a few megabytes long.
RECORD_BYTES_MAX = 64 << 20


class Buffers:
    """Sizes of an archive reader's memory, shared by the archives that are read concurrently.

    A buffer has `size` bytes. A line that exceeds a buffer gets separate memory, up to the maximum record length
    `longest`. Only one such line is processed at a time, because its reader holds `long_line` until the line's consumer
    releases the lock. `was_long` is set when such a line is read.
    """

    def __init__(self, size: int, longest: int = RECORD_BYTES_MAX) -> None:
        self.size = size
        self.longest = longest
        self.long_line = threading.Lock()
        self.was_long = False


@dataclass(frozen=True, slots=True)
class Span:
    """Consecutive lines of a member in a block or buffer.

    The lines start at byte `place` and line `line` of the block, and at byte `offset` and line `number` of the member.
    Only `number` starts at 1; the other positions start at 0.
    """

    member: str
    place: int
    line: int
    offset: int
    number: int


def repeated(text: str, count: int) -> pa.DictionaryArray:
    """Return a column of `count` equal strings, with the string stored only once."""
    zeros = pa.Array.from_buffers(pa.int32(), count, [None, pa.py_buffer(bytes(4 * count))])
    return pa.DictionaryArray.from_arrays(zeros, pa.array([text]), safe=False)


@dataclass
class Block:
    """Complete lines of one or more members, including line feeds. `view` is valid until `done` is called.

    `line_count` includes blank lines. `archive_bytes` is the number of bytes of the archive file read so far.
    """

    view: memoryview
    spans: tuple[Span, ...]
    line_count: int
    archive_bytes: int
    _long_line: threading.Lock | None = None

    def where(self, lines: pa.Int64Array, places: pa.Int64Array) -> tuple[pa.Array, pa.Array, pa.Array]:
        """Return each line's member, and the line number (starting at 1) and offset (starting at 0) in the member.

        `lines` contains ascending line numbers in the block, starting at 0. `places` contains the lines' offsets.
        """
        begins = pa.array([span.place for span in self.spans], pa.int64())
        of = pc.subtract(pc.search_sorted(begins, places, side="right"), pa.scalar(1, pa.uint64()))
        members = pa.array([span.member for span in self.spans]).dictionary_encode()
        numbers, offsets = (
            pa.array([getattr(span, told) - getattr(span, own) for span in self.spans], pa.int64()).take(of)
            for told, own in (("number", "line"), ("offset", "place"))
        )
        return members.take(of), pc.add(lines, numbers), pc.add(places, offsets)

    def done(self) -> None:
        """Release the memory after the lines have been converted or abandoned."""
        self.view.release()
        if self._long_line is not None:
            self._long_line.release()
            self._long_line = None


@dataclass
class LongLine:
    """A line that exceeds the maximum record length, with bytes that are read on demand through `pieces`.

    `size` is the line's length in bytes without the line feed, and is final once all pieces have been read.
    """

    member: str
    number: int
    offset: int
    pieces: Iterator[memoryview] = field(default_factory=lambda: iter(()))
    size: int = 0
    archive_bytes: int = 0
