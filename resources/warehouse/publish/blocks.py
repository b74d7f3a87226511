"""Copying a DuckDB file onto an older one: only the blocks that differ are written.

What differs is decided by comparing all bytes. The checksum that DuckDB keeps in each block would spare reading most of them,
but it is the same for the same words in another order, so two blocks that differ may have the same one.
"""

from __future__ import annotations

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import pyarrow as pa

# other sizes would only mean that more is written
from resources.warehouse.database.file_format import BLOCK_BYTES, HEADER_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: Bytes compared by one thread at a time.
_SPAN_BYTES: Final = 256 * BLOCK_BYTES
#: Comparing goes at the speed of memory, which two threads use up, and of the disk where the file is not in memory.
_THREADS: Final = 2
#: `copy_file_range` is not there for these two files; reading and writing is.
_UNSUPPORTED: Final = frozenset({errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM, errno.EBADF})


class SourceShrankError(Exception):
    """The file became shorter while it was read: somebody writes it."""


@dataclass(frozen=True)
class Mark:
    """Tells whether a file was written since: its identity, size, times, and DuckDB's headers, which each checkpoint changes."""

    file: tuple[int, int, int, int, int]
    headers: bytes


def mark(descriptor: int) -> Mark:
    """The mark of an open file."""
    seen = os.fstat(descriptor)
    return Mark(
        (seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns),
        os.pread(descriptor, HEADER_BYTES, 0),
    )


def copy_changed(source: int, target: Path) -> int:
    """Make the bytes of `target`, which is created where it is missing, those of the open file `source`; returns the bytes written.

    Nothing is synced. Memory: two blocks per thread.

    Raises:
        SourceShrankError: `source` became shorter meanwhile; `target` is then of no use.
        OSError: reading or writing failed, for example on a full disk.
    """
    size = os.fstat(source).st_size
    descriptor = os.open(target, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    try:
        if os.fstat(descriptor).st_size == 0 and _copy_whole(source, descriptor, size):
            return size
        os.ftruncate(descriptor, size)
        spans = pairwise([*range(0, size, _SPAN_BYTES), size])
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="compare") as threads:
            return sum(threads.map(lambda span: _copy_span(source, descriptor, *span), spans))
    finally:
        os.close(descriptor)


def _copy_whole(source: int, target: int, size: int) -> bool:
    """Copy all in the kernel, which on some file systems shares the blocks; False: it cannot."""
    if not hasattr(os, "copy_file_range"):
        return False
    done = 0
    while done < size:
        try:
            count = os.copy_file_range(source, target, size - done, done, done)
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
            return False
        if count == 0:
            raise SourceShrankError
        done += count
    return True


def _copy_span(source: int, target: int, start: int, end: int) -> int:
    """Compare and copy the blocks that begin in a span; returns the bytes written."""
    ours, theirs = bytearray(BLOCK_BYTES), bytearray(BLOCK_BYTES)
    # compared without Python's lock, unlike the bytes themselves
    wanted, found = pa.py_buffer(ours), pa.py_buffer(theirs)
    written = 0
    for offset, count in _blocks(start, end):
        if _read(source, ours, offset, count) < count:
            raise SourceShrankError
        if _read(target, theirs, offset, count) == count and wanted.slice(0, count).equals(found.slice(0, count)):
            continue
        _write(target, memoryview(ours)[:count], offset)
        written += count
    return written


def _blocks(start: int, end: int) -> Iterator[tuple[int, int]]:
    """Offset and length of the headers and blocks between two offsets, cut where DuckDB cuts them."""
    while start < end:
        into = (start - HEADER_BYTES) % BLOCK_BYTES
        count = min(BLOCK_BYTES - into, end - start)
        yield start, count
        start += count


def _read(descriptor: int, buffer: bytearray, offset: int, count: int) -> int:
    """Read `count` bytes, fewer only at the end of the file."""
    view, done = memoryview(buffer), 0
    while done < count:
        got = os.preadv(descriptor, [view[done:count]], offset + done)
        if got == 0:
            break
        done += got
    return done


def _write(descriptor: int, content: memoryview, offset: int) -> None:
    done = 0
    while done < len(content):
        done += os.pwrite(descriptor, content[done:], offset + done)
