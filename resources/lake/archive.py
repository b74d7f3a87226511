"""Reading an archive: gunzip, tar, and blocks of whole lines, ahead of whoever converts them.

Belongs here: bytes, members, offsets, buffers. Does not belong here: what the lines say.

The archive is a gzip file of a tar with one or more `.ndjson` members. It is read once, as a stream, into a fixed number
of buffers that are used again and again: that number is the memory bound, and it makes the reader wait when those who
convert are slower.
"""

from __future__ import annotations

import codecs
import mmap
import queue
import tarfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from isal import isal_zlib

from resources.lake.errors import ArchiveError
from resources.tables import ARTICLE_CHANGES, SNAPSHOT_ARTICLES

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from datetime import datetime
    from pathlib import Path
    from typing import BinaryIO

    from resources.lake.layout import Layout
    from resources.tables import Table

#: Bytes of NDJSON in a block, which becomes a row group: bodies of megabytes make a bound in rows meaningless. Smaller
#: ones cost time per column, larger ones memory, and time at the end of an archive, where the last blocks leave cores idle.
BLOCK_BYTES = 16 << 20
#: A block of short lines ends here, since every row takes its place in every column.
BLOCK_LINES_MAX = 32_768
#: The longest line that is accepted. The longest seen are some megabytes.
LINE_BYTES_MAX = 256 << 20
_SECTOR = 512
#: Read of the file at a time. With 1 MiB, new memory for it took a third of the time to read an archive of 2 MB; a large one
#: is read no faster.
_READ_BYTES = 1 << 17
_PAX_KEYS = ("path", "size")
# the type of IsalError is declared as an instance
_DAMAGED = (EOFError, OSError, cast("type[Exception]", isal_zlib.IsalError))


@dataclass(frozen=True)
class Archive:
    """One archive of an hour's changes on disk, as the service described it.

    `version` is the service's MD5 of the file; `batch_hour`, `project_id` and `namespace_id` say what it must hold.
    """

    path: Path
    identifier: str
    version: str
    batch_hour: datetime
    project_id: str
    namespace_id: int

    @property
    def table(self) -> Table:
        """The table that its records are rows of."""
        return ARTICLE_CHANGES

    @property
    def given(self) -> dict[str, Any]:
        """The columns that the archive decides for all of its rows."""
        return {"batch_hour": self.batch_hour}

    def lake_file(self, layout: Layout, table_name: str, digest: str) -> Path:
        """The Parquet file of one table made from it."""
        return layout.lake_file(table_name, self.batch_hour, self.identifier, digest)


@dataclass(frozen=True)
class SnapshotArchive(Archive):
    """One archive of a snapshot: the whole, or one of its chunks.

    `identifier` and `version` are its own, `snapshot_id` and `snapshot_version` those of the whole; `batch_hour` is the
    moment at which the service made the snapshot.
    """

    snapshot_id: str
    snapshot_version: str

    @property
    def table(self) -> Table:
        """The table that its records are rows of."""
        return SNAPSHOT_ARTICLES

    @property
    def given(self) -> dict[str, Any]:
        """The columns that the archive decides for all of its rows."""
        return {"snapshot_id": self.snapshot_id, "snapshot_version": self.snapshot_version}

    def lake_file(self, layout: Layout, table_name: str, digest: str) -> Path:
        """The Parquet file of one table made from it."""
        return layout.snapshot_file(table_name, self.snapshot_id, self.snapshot_version, self.identifier, digest)


@dataclass
class Block:
    """Whole lines of one member: `view` is valid until `release` is called.

    `offset` is the place of the first byte in the member, `first_line` its line number from 1, `line_count` the number
    of lines (an unfinished last line counts). `byte_count` counts the block's bytes, a byte order mark included, and
    `archive_bytes` how much of the archive file was read by then.
    """

    member: str
    view: memoryview
    offset: int
    first_line: int
    line_count: int
    byte_count: int
    archive_bytes: int
    _buffers: Buffers
    _buffer: mmap.mmap | None

    def release(self) -> None:
        """Give the buffer back; `view` must not be used afterwards."""
        self.view.release()
        if self._buffer is not None:
            self._buffers.give(self._buffer)
            self._buffer = None  # a block is remembered longer than a large buffer may live


class Buffers:
    """A fixed number of buffers, lent and given back between threads: whoever reads waits for whoever converts.

    Each is made when it is first needed, of pages that the system provides when they are first written: most archives of
    an hour are much smaller than a buffer. The one used last is lent first, since its pages are at hand.
    """

    def __init__(self, count: int, size: int) -> None:
        self.size = size
        self._free: queue.LifoQueue[mmap.mmap | None] = queue.LifoQueue()
        for _ in range(count):
            self._free.put(None)

    def take(self) -> mmap.mmap:
        """A free buffer; waits until there is one."""
        buffer = self._free.get()
        return mmap.mmap(-1, self.size) if buffer is None else buffer

    def give(self, buffer: mmap.mmap) -> None:
        """Take a buffer back. One that had to grow for a long line is replaced, so that memory falls again."""
        self._free.put(buffer if len(buffer) == self.size else None)


class _TarStream:
    """The bytes of the tar inside one gzip file, read in order, with the place of every failure."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path = path
        self.member: str | None = None
        self.position = 0
        self._member_start = 0
        self._file = file
        self._gunzip = isal_zlib._GzipReader(file, _READ_BYTES)  # noqa: SLF001  what igzip.IGzipFile reads through; it decompresses straight into our buffers

    def error(self, what: str) -> ArchiveError:
        """An error that names the present place."""
        offset = self.position - self._member_start if self.member is not None else self.position
        return ArchiveError(self.path, what, member=self.member, offset=offset)

    @property
    def archive_bytes(self) -> int:
        """Bytes of the gzip file read so far."""
        return self._file.tell()

    def enter(self, member: str | None) -> None:
        """What is read from here on belongs to `member`."""
        self.member = member
        self._member_start = self.position

    def fill(self, target: memoryview) -> int:
        """Read until `target` is full or the stream ends; the number of bytes read."""
        done = 0
        while done < len(target):
            try:
                count = self._gunzip.readinto(target[done:])
            except _DAMAGED as error:
                raise self.error(f"the gzip data is damaged or cut off: {error}") from error
            if not count:
                break
            done += count
            self.position += count
        return done

    def exactly(self, target: memoryview) -> None:
        """Fill `target`, or fail."""
        if self.fill(target) < len(target):
            raise self.error("the tar ends too early")

    def take(self, count: int) -> bytes:
        """Exactly `count` bytes."""
        data = bytearray(count)
        self.exactly(memoryview(data))
        return bytes(data)

    def skip(self, count: int) -> None:
        """Pass over `count` bytes."""
        scratch = memoryview(bytearray(min(count, _READ_BYTES)))
        while count:
            step = min(count, len(scratch))
            self.exactly(scratch[:step])
            count -= step


def _members(stream: _TarStream) -> Iterator[tuple[str, int]]:
    """The regular files of the tar: name and size. Each must have been read whole before the next is asked for."""
    override: dict[str, str] = {}
    found = 0
    while True:
        header = stream.take(_SECTOR)
        if not any(header):
            break
        try:
            info = tarfile.TarInfo.frombuf(header, "utf-8", "surrogateescape")
        except tarfile.HeaderError as error:
            raise stream.error(f"the tar is damaged: {error}") from error
        if info.type in (tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGLINK):
            payload = stream.take(info.size)
            if info.type == tarfile.GNUTYPE_LONGNAME:
                override["path"] = payload.rstrip(b"\0").decode("utf-8", "surrogateescape")
            elif info.type == tarfile.XHDTYPE:
                override.update(_pax(stream, payload))
        else:
            found += 1
            info.name = override.get("path", info.name)
            info.size = int(override.get("size", info.size))
            override = {}
            if info.type in tarfile.REGULAR_TYPES:
                stream.enter(info.name)
                yield info.name, info.size
                stream.enter(None)
            else:
                stream.skip(info.size)
        stream.skip(-info.size % _SECTOR)
    if not found:
        raise stream.error("it holds no member at all")
    # The checksum of the gzip file stands at its very end, behind the tar's padding.
    scratch = memoryview(bytearray(_READ_BYTES))
    while stream.fill(scratch):
        pass


def _pax(stream: _TarStream, payload: bytes) -> dict[str, str]:
    """The fields of an extended header that matter: the path, and sizes over 8 GB."""
    fields: dict[str, str] = {}
    try:
        while payload.strip(b"\0"):
            length = int(payload[: payload.index(b" ")])
            key, _, value = payload[payload.index(b" ") + 1 : length - 1].partition(b"=")
            if key.decode() in _PAX_KEYS:
                fields[key.decode()] = value.decode()
            payload = payload[length:]
    except ValueError as error:
        raise stream.error("the tar is damaged: an extended header cannot be read") from error
    return fields


def _cut(stream: _TarStream, member: str, size: int, buffers: Buffers) -> Iterator[Block]:
    """One member as blocks of whole lines."""
    carry = b""
    offset, line, remaining = 0, 1, size
    while remaining or carry:
        buffer = buffers.take()
        try:
            buffer, filled, remaining = _fill(stream, buffer, carry, remaining, line)
            count, end = _lines(buffer, filled, last=not remaining)
        except BaseException:
            buffers.give(buffer)
            raise
        carry = bytes(memoryview(buffer)[end:filled])
        start = len(codecs.BOM_UTF8) if offset == 0 and buffer[: len(codecs.BOM_UTF8)] == codecs.BOM_UTF8 else 0
        view = memoryview(buffer)[start:end]
        yield Block(member, view, offset + start, line, count, end, stream.archive_bytes, buffers, buffer)
        offset += end
        line += count


def _fill(stream: _TarStream, buffer: mmap.mmap, carry: bytes, remaining: int, line: int) -> tuple[mmap.mmap, int, int]:
    """Fill a buffer behind what was carried over, and until a line ends in it.

    Returns the buffer (a larger one for a long line), the bytes in it, and those of the member that remain.
    """
    filled = len(carry)
    if len(buffer) < 2 * filled:  # a long line was carried over: room for it, and for something new
        buffer = mmap.mmap(-1, 2 * filled)
    buffer[:filled] = carry
    looked = 0
    while True:
        step = min(remaining, len(buffer) - filled)
        with memoryview(buffer) as view:
            stream.exactly(view[filled : filled + step])
        filled += step
        remaining -= step
        if not remaining or buffer.rfind(b"\n", looked, filled) >= 0:
            return buffer, filled, remaining
        if filled > LINE_BYTES_MAX:
            raise stream.error(f"line {line} is longer than {LINE_BYTES_MAX:,} bytes, which no record is")
        looked = filled
        grown = mmap.mmap(-1, 2 * filled)
        with memoryview(buffer) as view:
            grown[:filled] = view[:filled]
        buffer = grown


def _lines(buffer: mmap.mmap, filled: int, *, last: bool) -> tuple[int, int]:
    """How many lines of a full buffer make a block, and where they end; the last of a member may be unfinished.

    `find` leaps from line to line, seven times as fast as `count` looks at bytes.
    """
    count = end = 0
    while count < BLOCK_LINES_MAX and (place := buffer.find(b"\n", end, filled) + 1):
        count += 1
        end = place
    return (count + 1, filled) if last and end < filled and count < BLOCK_LINES_MAX else (count, end)


def read_blocks(path: Path, buffers: Buffers) -> Generator[Block, None, None]:
    """All lines of all `.ndjson` members of an archive, as blocks, in order.

    Every block must be released, or the reader will wait for ever.

    Raises:
        ArchiveError: The archive is empty, damaged, cut off, or holds no `.ndjson` member.
    """
    with path.open("rb") as file:
        stream = _TarStream(path, file)
        if not path.stat().st_size:
            raise ArchiveError(path, "the archive is empty (0 bytes)")
        others = []
        found = False
        for member, size in _members(stream):
            if member.endswith(".ndjson"):
                found = True
                yield from _cut(stream, member, size, buffers)
            else:
                others.append(member)
                stream.skip(size)
        if not found:
            raise stream.error(f"it holds no .ndjson member, only {', '.join(others[:5])}")
