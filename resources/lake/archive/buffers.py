"""Memory for lines, lent and returned between threads, and the blocks of lines in it.

The number of buffers is fixed. It bounds the memory, and makes the reader wait for slower converters.
"""

from __future__ import annotations

import mmap
import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

#: The longest record that is converted by default. The longest ones seen have some megabytes.
RECORD_BYTES_MAX = 64 << 20
#: Placeholder of a released buffer.
NOTHING = mmap.mmap(-1, 1)


class Buffers:
    """A fixed number of buffers, lent and returned between threads: the reader waits for the converters.

    A buffer is allocated at first use; most archives of an hour are much smaller. The most recently used buffer is lent
    first, since its memory pages exist. A line that is longer than a buffer gets separate memory, up to the longest
    record. All archives that share the buffers have one such line at a time, from its reading until its last part is
    converted.
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
        """A free buffer; waits until there is one."""
        buffer = self._free.get()
        return Loan(mmap.mmap(-1, self.size) if buffer is None else buffer, self._free.put)

    def take_long(self, spare: int) -> Loan:
        """Memory for the longest record and `spare` bytes more; waits until no other long line is under way."""
        self._long.acquire()  # by the reader, and released by whoever is done with the line
        self._was_long = True
        return Loan(mmap.mmap(-1, self.longest + spare), lambda _: self._long.release(), is_long=True)

    def forget_long(self) -> bool:
        """Return True if there was a long line since the last call."""
        was_long, self._was_long = self._was_long, False
        return was_long


class Loan:
    """A buffer on loan. It is returned after its last holder has dropped it."""

    def __init__(self, memory: mmap.mmap, give: Callable[[mmap.mmap], None], *, is_long: bool = False) -> None:
        self.memory = memory
        self.is_long = is_long
        self._give = give
        self._holders = 1
        self._lock = threading.Lock()

    def share(self) -> Loan:
        """Add a holder."""
        with self._lock:
            self._holders += 1
        return self

    def drop(self) -> None:
        """One holder less."""
        with self._lock:
            self._holders -= 1
            if self._holders:
                return
        self._give(self.memory)
        self.forget()

    def forget(self) -> None:
        """Nobody needs the memory any more, though the loan may be remembered."""
        self.memory = NOTHING


@dataclass(frozen=True, slots=True)
class Span:
    """Lines of one member in a block, or in a buffer.

    Byte `place` and line `line` of the block (from 0) are byte `offset` (from 0) and line `number` (from 1) of the
    member.
    """

    member: str
    place: int
    line: int
    offset: int
    number: int


def repeated(text: str, count: int) -> pa.DictionaryArray:
    """Return a column that repeats a text, stored once."""
    zeros = pa.Array.from_buffers(pa.int32(), count, [None, pa.py_buffer(bytes(4 * count))])
    return pa.DictionaryArray.from_arrays(zeros, pa.array([text]), safe=False)


@dataclass
class Block:
    """Whole lines of one or more members, each ended by a line feed. `view` is valid until `release` is called.

    `line_count` counts blank lines too; `archive_bytes` is how much of the archive file was read by then.
    """

    view: memoryview
    spans: tuple[Span, ...]
    line_count: int
    archive_bytes: int
    _loan: Loan | None

    def where(self, lines: pa.Int64Array, places: pa.Int64Array) -> tuple[pa.Array, pa.Array, pa.Array]:
        """Return the members, line numbers (from 1) and offsets (from 0) of lines of the block, in order.

        `lines` are their numbers in the block (from 0), and `places` the offsets at which they begin.
        """
        if len(self.spans) == 1:
            (span,) = self.spans
            members, numbers, offsets = (
                repeated(span.member, len(lines)),
                span.number - span.line,
                span.offset - span.place,
            )
            return members, pc.add(lines, numbers), pc.add(places, offsets)
        begins = pa.array([span.place for span in self.spans], pa.int64())
        of = pc.subtract(pc.search_sorted(begins, places, side="right"), pa.scalar(1, pa.uint64()))
        members = pa.array([span.member for span in self.spans]).dictionary_encode()
        numbers, offsets = (
            pa.array([getattr(span, told) - getattr(span, own) for span in self.spans], pa.int64()).take(of)
            for told, own in (("number", "line"), ("offset", "place"))
        )
        return members.take(of), pc.add(lines, numbers), pc.add(places, offsets)

    def release(self) -> None:
        """Release `view` after the lines have been read; it must not be used any more."""
        self.view.release()
        if self._loan is None:
            return
        if self._loan.is_long:
            self._loan.forget()  # the next long line waits until all is made of this one
        else:
            self._loan.drop()
            self._loan = None

    def done(self) -> None:
        """Return the buffer: the lines are converted, or will not be."""
        self.release()
        if self._loan is not None:
            self._loan.drop()
            self._loan = None


@dataclass
class LongLine:
    """A line that is longer than any record may be. Its bytes are read only on demand, through `pieces`.

    `size` is the number of its bytes, without the line feed, once all pieces have been taken.
    """

    member: str
    number: int
    offset: int
    pieces: Iterator[memoryview] = field(default_factory=lambda: iter(()))
    size: int = 0
    archive_bytes: int = 0
