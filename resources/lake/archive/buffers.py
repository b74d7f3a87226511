"""Pool of buffers shared by threads, and the blocks of lines in these buffers.

The fixed number of buffers limits memory use and makes the reader wait for slower converters.
"""

from __future__ import annotations

import mmap
import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

#: Default limit for the length of a record. The longest known records are a few megabytes long.
RECORD_BYTES_MAX = 64 << 20
#: Placeholder for a released buffer.
NOTHING = mmap.mmap(-1, 1)


class Buffers:
    """Pool with a fixed number of buffers. The reader waits until the converters return a buffer.

    A buffer is allocated at first use, because most hourly archives are much smaller. The most recently used buffer is
    reused first, because its memory pages already exist. A line that exceeds a buffer gets separate memory, up to the
    maximum record length. Only one such line is processed at a time, even if several archives share the pool.
    """

    def __init__(self, count: int, size: int, longest: int = RECORD_BYTES_MAX) -> None:
        self.size = size
        self.longest = longest
        self._free: queue.LifoQueue[mmap.mmap | None] = queue.LifoQueue()
        self._long = threading.Lock()
        self._was_long = False
        for _ in range(count):
            self._free.put(None)

    def take(self) -> Loan:
        """Wait for a free buffer and return it."""
        buffer = self._free.get()
        return Loan(mmap.mmap(-1, self.size) if buffer is None else buffer, self._free.put)

    def take_long(self, spare: int) -> Loan:
        """Wait until no other long line is in use, then return memory for the longest record plus `spare` bytes."""
        self._long.acquire()  # the line's last holder releases this lock, possibly in another thread
        self._was_long = True
        return Loan(mmap.mmap(-1, self.longest + spare), lambda _: self._long.release(), is_long=True)

    def forget_long(self) -> bool:
        """Return True if a long line was read since the last call."""
        was_long, self._was_long = self._was_long, False
        return was_long


class Loan:
    """A borrowed buffer that is returned to the pool when its last holder releases it."""

    def __init__(self, memory: mmap.mmap, give: Callable[[mmap.mmap], None], *, is_long: bool = False) -> None:
        self.memory = memory
        self.is_long = is_long
        self._give = give
        self._holders = 1
        self._lock = threading.Lock()

    def share(self) -> Loan:
        with self._lock:
            self._holders += 1
        return self

    def drop(self) -> None:
        """Remove a holder. The last holder returns the buffer."""
        with self._lock:
            self._holders -= 1
            if self._holders:
                return
        self._give(self.memory)
        self.forget()

    def forget(self) -> None:
        """Drop the reference to the memory, even if the loan itself is still referenced."""
        self.memory = NOTHING


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
    """Complete lines of one or more members, including line feeds. `view` is valid until `release` is called.

    `line_count` includes blank lines. `archive_bytes` is the number of bytes of the archive file read so far.
    """

    view: memoryview
    spans: tuple[Span, ...]
    line_count: int
    archive_bytes: int
    _loan: Loan | None = None

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

    def release(self) -> None:
        """Release `view` after the lines' last use."""
        self.view.release()
        if self._loan is None:
            return
        if self._loan.is_long:
            self._loan.forget()  # the next long line waits for `done`, which is called after this line has been encoded
        else:
            self._loan.drop()
            self._loan = None

    def done(self) -> None:
        """Return the buffer to the pool after the lines have been converted or abandoned."""
        self.release()
        if self._loan is not None:
            self._loan.drop()
            self._loan = None


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
