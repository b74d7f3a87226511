"""The lines of an archive as blocks of complete lines, read ahead of the converter.

The archive is read once, as a stream, into buffers that are reused. A buffer holds lines of as many members as fit.
Only the unfinished line at its end is ever copied.
"""

from __future__ import annotations

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
from resources.tar import RECORDS, Contents, TarStream, members

#: Bytes of NDJSON in a buffer. A block becomes a row group and holds all complete lines of a buffer: page text of
#: megabytes makes a bound in rows meaningless. Smaller blocks cost time per column. Larger ones cost memory, and time
#: at the end of an archive, where the last blocks leave cores idle.
BLOCK_BYTES = 16 << 20
#: A buffer of short lines is cut into several blocks, since every row takes space in every column.
BLOCK_LINES_MAX = 32_768
#: Steps in bytes for finding lines and for reading long lines.
_STRIDE, _STEP = 1 << 16, 1 << 20
#: Bytes read from the file at a time. With 1 MiB, allocating the memory took a third of the time to read an archive of
#: 2 MB; large archives are read no faster.
_READ_BYTES = 1 << 17
#: Leaps from line feed to line feed in a stride; where there are more, counting them is faster.
_LEAPS = 64
_BOM = codecs.BOM_UTF8
_LF = ord("\n")


class _Cutter:
    """Members in, blocks out."""

    def __init__(self, file: BinaryIO, stream: TarStream, contents: Contents, buffers: Buffers) -> None:
        self._file = file
        self._stream = stream
        self._contents = contents
        self._buffers = buffers
        self._room = buffers.size - 1  # the last line of a member may lack its line feed
        self._step = min(_STEP, buffers.size // 2)
        self._loan: Loan | None = None
        self._memory = NOTHING
        self._start = self._filled = 0  # what of the buffer is not cut yet
        self._spans: list[Span] = []  # whose it is, in places of the buffer; the last may have no bytes yet
        self._remaining = 0  # bytes of the member under way
        self._rest = b""

    def member(self, name: str, size: int) -> Iterator[Block | LongLine]:
        """Read one member, and yield the complete lines whenever the buffer is full."""
        self._contents.ndjson_bytes += size
        head = self._stream.take(min(len(_BOM), size))
        self._remaining = size - len(head)
        mark = len(head) if head == _BOM else 0
        if mark == size:
            return
        if len(self._spans) >= BLOCK_LINES_MAX:
            yield from self._cut()
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

    def rest(self) -> Iterator[Block]:
        """Yield the lines that remain after the last member."""
        yield from self._cut()
        self.close()

    def close(self) -> None:
        """Give the buffer back."""
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

    def _cut(self) -> Iterator[Block]:
        """All whole lines of the buffer, in blocks."""
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
        """The next block: its spans, the number of its lines, and where it ends. Its spans are no longer ours."""
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
        # the last one stays, though nothing of it may be left: its member may go on
        following = Span(span.member, place, 0, span.offset + place - span.place, span.number + lines)
        self._spans[:done] = [following] if place < stop or done == len(stops) else []
        return tuple(found), count, end

    def _turn(self) -> Iterator[Block | LongLine]:
        """Yield the complete lines of a full buffer, and continue in another buffer with the rest."""
        yield from self._cut()
        if self._filled - self._start >= self._room:
            yield from self._long()
        else:
            self._rest = self._memory[self._start : self._filled]
            # before another one is asked for: if all who wait for one held one, they would wait for ever
            self.close()
        self._spans = [replace(span, place=0) for span in self._spans]
        self._put(self._rest)
        self._rest = b""

    def _long(self) -> Iterator[Block | LongLine]:
        """Yield the line that fills the buffer and does not end in it, in separate memory."""
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
            del view, loan  # the block's alone
            yield block
        else:
            line = LongLine(span.member, span.number, span.offset)
            line.pieces = self._pieces(loan.memory, end, filled, line)
            try:
                yield line
                for _ in line.pieces:  # what nobody wanted
                    pass
            finally:
                loan.drop()
            end = line.size
        self._spans.append(Span(span.member, 0, 0, span.offset + end + 1, span.number + 1))

    def _read_long(self, memory: mmap.mmap) -> tuple[int, int]:
        """Read until the line ends or is too long; return its end (`filled` if not reached) and the bytes filled."""
        filled, end = self._filled - self._start, -1
        with memoryview(self._memory) as view:
            memory[:filled] = view[self._start : self._filled]
        self.close()
        while self._remaining and end < 0 and filled <= self._buffers.longest:
            count = self._read(memory, filled, self._step)
            end = memory.find(b"\n", filled, filled + count)
            filled += count
        if end < 0:
            memory[filled] = _LF  # there is room for it
            end = filled
        return end, filled

    def _pieces(self, memory: mmap.mmap, end: int, filled: int, line: LongLine) -> Iterator[memoryview]:
        """Yield the parts of a line that is too long, beginning with the part already read."""
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
    """Count the lines between two places, up to a stride more than `most`, and find the end of the last one.

    `find` jumps from line to line, seven times as fast as `count` examines bytes.
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
    """Yield all lines of all `.ndjson` members of an archive, in order, including blank lines.

    The blocks are in memory of `buffers`; each must be released, or the reader waits for ever. `contents` is filled
    with what else there is. Raises ArchiveError: the archive is empty, damaged, cut off, or holds no `.ndjson` member.
    """
    contents = Contents() if contents is None else contents
    with path.open("rb") as file:
        # isal 1.9: igzip.IGzipFile reads through this class, and copies. Use it once its `readinto` does not copy.
        # `test_private_names_of_libraries_are_where_they_were` notices a change.
        gunzip = isal_zlib._GzipReader(file, _READ_BYTES)  # noqa: SLF001
        stream = TarStream(gunzip.readinto, partial(ArchiveError, path))
        if not path.stat().st_size:
            raise ArchiveError(path, "the archive is empty (0 bytes)")
        cutter = _Cutter(file, stream, contents, buffers)
        found = False
        try:
            for member in members(stream, contents):
                if member.holds_records:
                    found = True
                    yield from cutter.member(member.name, member.size)
                else:
                    contents.pass_over(member.name, member.size)
                    stream.skip(member.size)
            yield from cutter.rest()
        finally:
            cutter.close()
        if not found:
            raise stream.error(f"it holds no {RECORDS} member, only {contents.named}")
