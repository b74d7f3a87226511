"""Archive reader that yields blocks of complete lines ahead of the converter.

The archive is read once, as a stream, into reused buffers. A buffer contains the lines of as many members as fit. Only
the incomplete line at the end of a buffer is copied.
"""

import codecs
import mmap
from collections.abc import Generator, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import BinaryIO

from isal import isal_zlib

from resources.lake.archive.buffers import NOTHING, Block, Buffers, Loan, LongLine, Span
from resources.lake.errors import ArchiveError
from resources.tar import Contents, TarStream, members

#: Bytes of NDJSON in a buffer. A block contains all complete lines of a buffer and becomes a row group. The limit is in
#: bytes because a single row's page text can be several megabytes long. Smaller blocks cost time per column. Larger
#: blocks cost memory and leave cores idle at the end of an archive.
BLOCK_BYTES = 16 << 20
#: Maximum number of lines per block. A buffer of short lines is split, because every row needs memory in every column.
BLOCK_LINES_MAX = 32_768
#: Bytes per step when counting lines and when reading long lines.
_STRIDE, _STEP = 1 << 16, 1 << 20
#: Bytes read from the file at a time. With 1 MiB, memory allocation took a third of the time for a 2 MB archive, and
#: large archives were not read faster.
_READ_BYTES = 1 << 17
#: Maximum number of line feeds per stride to locate with `find`. For more line feeds, `count` is faster.
_LEAPS = 64
_BOM = codecs.BOM_UTF8
_LF = ord("\n")


class _Cutter:
    """Splitter that divides an archive's members into blocks."""

    def __init__(self, file: BinaryIO, stream: TarStream, buffers: Buffers) -> None:
        self._file = file
        self._stream = stream
        self._buffers = buffers
        self._room = buffers.size - 1  # one spare byte, for a line feed that is missing at the end of a member
        self._step = min(_STEP, buffers.size // 2)
        self._loan: Loan | None = None
        self._memory = NOTHING
        self._start = self._filled = 0  # bounds of the bytes that are not yet in a block
        self._spans: list[Span] = []  # members with these bytes, in buffer order; the last member can be empty
        self._remaining = 0  # unread bytes of the current member
        self._rest = b""

    def member(self, name: str, size: int) -> Iterator[Block | LongLine]:
        """Read one member and yield the complete lines each time the buffer is full."""
        head = self._stream.take(min(len(_BOM), size))
        self._remaining = size - len(head)
        mark = len(head) if head == _BOM else 0
        if mark == size:
            return
        if len(self._spans) >= BLOCK_LINES_MAX:
            yield from self.cut()
        if self._filled + len(head) > self._room:
            yield from self._turn()
        if self._spans and self._spans[-1].place == self._filled:
            self._spans.pop()
        self._spans.append(Span(name, self._filled, 0, mark, 1))
        self._put(head[mark:])
        while self._remaining:
            if self._filled >= self._room:
                yield from self._turn()
            else:
                self._filled += self._read(self._memory, self._filled, self._room - self._filled)
        if self._filled > self._start and self._memory[self._filled - 1] != _LF:
            self._memory[self._filled] = _LF
            self._filled += 1

    def close(self) -> None:
        """Return the buffer to the pool."""
        if self._loan is not None:
            self._loan.drop()
        self._loan, self._memory = None, NOTHING
        self._start = self._filled = 0

    def _put(self, data: bytes) -> None:
        if self._loan is None:
            self._loan = self._buffers.take()
            self._memory = self._loan.memory
        self._memory[self._filled : self._filled + len(data)] = data
        self._filled += len(data)

    def _read(self, memory: mmap.mmap, place: int, most: int) -> int:
        count = min(most, self._remaining)
        with memoryview(memory) as view:
            self._stream.exactly(view[place : place + count])
        self._remaining -= count
        return count

    def cut(self) -> Iterator[Block]:
        """Yield the buffer's complete lines as blocks."""
        while self._spans:
            spans, count, end = self._measure()
            if not count or self._loan is None:
                return
            view = memoryview(self._memory)[self._start : end]
            self._start = end
            yield Block(view, spans, count, self._file.tell(), self._loan.share())
            if count < BLOCK_LINES_MAX:
                return

    def _measure(self) -> tuple[tuple[Span, ...], int, int]:
        """Return the next block's spans, line count and end, and remove these spans from `_spans`."""
        found: list[Span] = []
        count, end = 0, self._start
        stops = [*(span.place for span in self._spans[1:]), self._filled]
        done = 0
        for span, stop in zip(self._spans, stops, strict=True):
            done += 1
            lines, place = _lines(self._memory, span.place, stop, BLOCK_LINES_MAX - count)
            if lines:
                found.append(replace(span, place=span.place - self._start, line=count))
                count, end = count + lines, place
            if count >= BLOCK_LINES_MAX or place < stop:
                break
        # the last span stays even if it is empty, because its member might continue
        following = Span(span.member, place, 0, span.offset + place - span.place, span.number + lines)
        self._spans[:done] = [following] if place < stop or done == len(stops) else []
        return tuple(found), count, end

    def _turn(self) -> Iterator[Block | LongLine]:
        """Yield a full buffer's complete lines, and copy the incomplete line to another buffer."""
        yield from self.cut()
        if self._filled - self._start >= self._room:
            yield from self._long()
        else:
            self._rest = self._memory[self._start : self._filled]
            # return this buffer before requesting another, because readers that wait with a buffer would deadlock
            self.close()
        self._spans = [replace(span, place=0) for span in self._spans]
        self._put(self._rest)
        self._rest = b""

    def _long(self) -> Iterator[Block | LongLine]:
        """Yield a line that exceeds the buffer, in separate memory."""
        loan = self._buffers.take_long(self._step + 1)
        try:
            end, filled = self._read_long(loan.memory)
        except BaseException:
            loan.drop()
            raise
        span = self._spans.pop()
        if end <= self._buffers.longest:
            view = memoryview(loan.memory)[: end + 1]
            block = Block(view, (replace(span, place=0, line=0),), 1, self._file.tell(), loan)
            self._rest = loan.memory[end + 1 : filled]
            del view, loan  # leave the block as the only owner of the view
            yield block
        else:
            line = LongLine(span.member, span.number, span.offset)
            line.pieces = self._pieces(loan.memory, end, filled, line)
            try:
                yield line
                for _ in line.pieces:  # skip the parts that the consumer did not read
                    pass
            finally:
                loan.drop()
            end = line.size
        self._spans.append(Span(span.member, 0, 0, span.offset + end + 1, span.number + 1))

    def _read_long(self, memory: mmap.mmap) -> tuple[int, int]:
        """Read until the line ends or is too long. Return the line's end (or `filled`) and the filled size."""
        filled, end = self._filled - self._start, -1
        with memoryview(self._memory) as view:
            memory[:filled] = view[self._start : self._filled]
        self.close()
        while self._remaining and end < 0 and filled <= self._buffers.longest:
            count = self._read(memory, filled, self._step)
            end = memory.find(b"\n", filled, filled + count)
            filled += count
        if end < 0:
            memory[filled] = _LF  # `take_long` allocated a spare byte
            end = filled
        return end, filled

    def _pieces(self, memory: mmap.mmap, end: int, filled: int, line: LongLine) -> Iterator[memoryview]:
        """Yield the parts of an overlong line, starting with the part that was already read."""
        view = memoryview(memory)
        line.size = end
        yield view[:end]
        while self._remaining and end == filled:
            filled = self._read(memory, 0, self._step)
            end = memory.find(b"\n", 0, filled)
            end = filled if end < 0 else end
            line.size += end
            yield view[:end]
        line.archive_bytes = self._file.tell()
        self._rest = memory[end + 1 : filled]


def _lines(memory: mmap.mmap, start: int, stop: int, most: int) -> tuple[int, int]:
    """Count the lines between two positions, up to `most` lines or one stride more, and find the last line's end.

    For long lines, `find` is seven times as fast as `count`.
    """
    count, end = 0, start
    while start < stop and count < most:
        limit, leaps, seen = min(start + _STRIDE, stop), min(_LEAPS, most - count), 0
        while seen < leaps and (place := memory.find(b"\n", start, limit) + 1):
            start = end = place
            seen += 1
        if seen == most - count:
            return most, end
        if seen == _LEAPS:
            seen += memory[start:limit].count(b"\n")
            end = memory.rfind(b"\n", start, limit) + 1 or end
        count += seen
        start = limit
    return count, end


def read_blocks(
    path: Path, buffers: Buffers, contents: Contents | None = None
) -> Generator[Block | LongLine, None, None]:
    """Yield all lines, including blank lines, from an archive's `.ndjson` members, in order.

    The blocks use memory from `buffers`. The consumer must release each block; otherwise, the reader blocks forever.
    `contents` collects facts about all members. Raises ArchiveError if the archive is empty, damaged or truncated, or
    has no `.ndjson` member.
    """
    contents = Contents() if contents is None else contents
    with path.open("rb") as file:
        # isal 1.9: igzip.IGzipFile wraps this class, but IGzipFile's `readinto` copies. Use IGzipFile once its
        # `readinto` no longer copies. `test_archive_reading` fails if this class changes.
        gunzip = isal_zlib._GzipReader(file, _READ_BYTES)  # noqa: SLF001
        stream = TarStream(gunzip.readinto, partial(ArchiveError, path))
        if not path.stat().st_size:
            raise ArchiveError(path, "the archive is empty (0 bytes)")
        cutter = _Cutter(file, stream, buffers)
        try:
            for name, size in members(stream, contents):
                yield from cutter.member(name, size)
            yield from cutter.cut()
        finally:
            cutter.close()
