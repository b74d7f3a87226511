"""Archive reader that yields blocks of complete lines ahead of the converter.

The archive is read once, as a stream, into buffers. A buffer contains the lines of as many members as fit. Only the
incomplete line at the end of a buffer is copied.
"""

from __future__ import annotations

import codecs
from collections.abc import Generator, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
from isal import isal_zlib

from resources.lake.archive.buffers import Block, Buffers, LongLine, Span
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
        self._spans: list[Span] = []  # members of the unused bytes, in buffer order; the last member can be empty
        self._remaining = 0  # unread bytes of the current member
        self._begin()

    def _begin(self, rest: bytes = b"") -> None:
        """Continue in a new buffer, which starts with an incomplete line."""
        self._memory = _allocated(self._buffers.size)
        self._memory[: len(rest)] = rest
        self._start, self._filled = 0, len(rest)  # bounds of the bytes that are not yet in a block

    def member(self, name: str, size: int) -> Iterator[Block | LongLine]:
        """Read one member and yield the complete lines each time the buffer is full."""
        head = self._stream.take(min(len(_BOM), size))
        self._remaining = size - len(head)
        mark = len(head) if head == _BOM else 0
        if mark == size:
            return
        if len(self._spans) >= BLOCK_LINES_MAX or self._filled + len(head) > self._room:
            yield from self.turn()
        if self._spans and self._spans[-1].place == self._filled:
            self._spans.pop()
        self._spans.append(Span(name, self._filled, 0, mark, 1))
        self._memory[self._filled : self._filled + len(head) - mark] = head[mark:]
        self._filled += len(head) - mark
        while self._remaining:
            if self._filled >= self._room:
                yield from self.turn()
            else:
                self._filled += self._read(self._memory, self._filled, self._room - self._filled)
        if self._filled > self._start and self._memory[self._filled - 1] != _LF:
            self._memory[self._filled] = _LF
            self._filled += 1

    def _read(self, memory: memoryview, place: int, most: int) -> int:
        count = min(most, self._remaining)
        self._stream.exactly(memory[place : place + count])
        self._remaining -= count
        return count

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

    def turn(self) -> Iterator[Block | LongLine]:
        """Yield the buffer's complete lines, and copy the incomplete line to another buffer."""
        blocks: list[Block] = []
        count = BLOCK_LINES_MAX
        while self._spans and count >= BLOCK_LINES_MAX:
            spans, count, end = self._measure()
            if count:
                blocks.append(Block(self._memory[self._start : end], spans, count, self._file.tell()))
                self._start = end
        if self._filled - self._start >= self._room:
            yield from self._long()
        else:
            # leave the blocks as the only owners of the buffer
            self._begin(bytes(self._memory[self._start : self._filled]))
            self._spans = [replace(span, place=0) for span in self._spans]
            yield from blocks

    def _long(self) -> Iterator[Block | LongLine]:
        """Yield a line that exceeds the buffer, in separate memory."""
        self._buffers.long_line.acquire()  # the line's consumer releases the lock, possibly in another thread
        self._buffers.was_long = True
        try:
            memory = _allocated(self._buffers.longest + self._step + 1)
            end, filled = self._read_long(memory)
        except BaseException:
            self._buffers.long_line.release()
            raise
        span = self._spans.pop()
        if end <= self._buffers.longest:
            lines = (replace(span, place=0, line=0),)
            block = Block(memory[: end + 1], lines, 1, self._file.tell(), self._buffers.long_line)
            self._begin(bytes(memory[end + 1 : filled]))
            del memory  # leave the block as the only owner
            yield block
        else:
            line = LongLine(span.member, span.number, span.offset)
            line.pieces = self._pieces(memory, end, filled, line)
            try:
                yield line
                for _ in line.pieces:  # skip the parts that the consumer did not read
                    pass
            finally:
                self._buffers.long_line.release()
            end = line.size
        self._spans.append(Span(span.member, 0, 0, span.offset + end + 1, span.number + 1))

    def _read_long(self, memory: memoryview) -> tuple[int, int]:
        """Read until the line ends or is too long. Return the line's end (or `filled`) and the filled size."""
        filled, end = self._filled - self._start, -1
        memory[:filled] = self._memory[self._start : self._filled]
        self._begin()
        while self._remaining and end < 0 and filled <= self._buffers.longest:
            count = self._read(memory, filled, self._step)
            end = bytes(memory[filled : filled + count]).find(b"\n")
            end = end if end < 0 else filled + end
            filled += count
        if end < 0:
            memory[filled] = _LF  # the memory has a spare byte
            end = filled
        return end, filled

    def _pieces(self, memory: memoryview, end: int, filled: int, line: LongLine) -> Iterator[memoryview]:
        """Yield the parts of an overlong line, starting with the part that was already read."""
        line.size = end
        yield memory[:end]
        while self._remaining and end == filled:
            filled = self._read(memory, 0, self._step)
            end = bytes(memory[:filled]).find(b"\n")
            end = filled if end < 0 else end
            line.size += end
            yield memory[:end]
        line.archive_bytes = self._file.tell()
        self._begin(bytes(memory[end + 1 : filled]))


def _allocated(size: int) -> memoryview:
    """Return memory from Arrow's pool, which reuses the memory of earlier blocks."""
    return memoryview(pa.allocate_buffer(size)).cast("B")


def _lines(memory: memoryview, start: int, stop: int, most: int) -> tuple[int, int]:
    """Count the lines between two positions, up to `most` lines or one stride more, and find the last line's end.

    For long lines, `find` is seven times as fast as `count`.
    """
    count, end = 0, start
    while start < stop and count < most:
        stride = bytes(memory[start : min(start + _STRIDE, stop)])
        leaps, seen, place = min(_LEAPS, most - count), 0, 0
        while seen < leaps and (found := stride.find(b"\n", place) + 1):
            place = found
            seen += 1
        if seen == _LEAPS and seen < most - count:
            seen += stride.count(b"\n", place)
            place = stride.rfind(b"\n") + 1
        end = start + place if place else end
        count += seen
        start += len(stride)
    return count, end


def read_blocks(
    path: Path, buffers: Buffers, contents: Contents | None = None
) -> Generator[Block | LongLine, None, None]:
    """Yield all lines, including blank lines, from an archive's `.ndjson` members, in order.

    The consumer must call `done` for each block, because the next long line waits for this call. `contents` collects
    facts about all members. Raises ArchiveError if the archive is empty, damaged or truncated, or has no `.ndjson`
    member.
    """
    contents = Contents() if contents is None else contents
    with path.open("rb") as file:
        # isal 1.9: igzip.IGzipFile wraps this class, but IGzipFile's `readinto` copies. Use IGzipFile once its
        # `readinto` no longer copies. `test_private_names_of_libraries_are_where_they_were` fails if this class
        # changes.
        gunzip = isal_zlib._GzipReader(file, _READ_BYTES)  # noqa: SLF001
        stream = TarStream(gunzip.readinto, partial(ArchiveError, path))
        if not path.stat().st_size:
            raise ArchiveError(path, "the archive is empty (0 bytes)")
        cutter = _Cutter(file, stream, buffers)
        for name, size in members(stream, contents):
            yield from cutter.member(name, size)
        yield from cutter.turn()
