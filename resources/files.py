"""Files that are there as a whole or not at all, whoever is killed while writing them.

A file gets its name when it is complete. What is unfinished lies beside it and is locked by its writer, so that nothing but
the file itself need lie about; locks that outlive what they guard are lock files, for which filelock serves.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import time
from typing import TYPE_CHECKING, Final

from resources.errors import MirrorError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_PIECE_BYTES: Final = 1 << 20
_POLL_SECONDS: Final = 0.02
_WAIT_SECONDS: Final = 60.0


class BusyError(MirrorError):
    """Another process has been writing a file for longer than anyone should."""

    retryable = True


def is_full(error: OSError) -> bool:
    """Whether the disk, the user's quota or the allowed file size leaves no room."""
    return error.errno in _NO_ROOM


def md5(content: bytes) -> str:
    """MD5 of some bytes, lower-case hex."""
    return _md5(content).hexdigest()


def md5_of(path: Path, advance: Callable[[float], None] | None = None) -> str:
    """MD5 of a file, lower-case hex: what the service calls its version. `advance` is told the bytes that were read."""
    with path.open("rb") as file:
        if advance is None:
            return hashlib.file_digest(file, _md5).hexdigest()
        digest = _md5()
        while piece := file.read(_PIECE_BYTES):
            digest.update(piece)
            advance(len(piece))
        return digest.hexdigest()


def _md5(content: bytes = b"") -> hashlib._Hash:
    return hashlib.md5(content, usedforsecurity=False)


def write(path: Path, content: bytes, *, mode: int = 0o644, durable: bool = True) -> None:
    """Write a file so that it is there as a whole or not at all; also after a loss of power where it is `durable`.

    `mode` holds from the first moment on. The file beside has a fixed name and a lock: what a killed process left is
    taken over, and two writers do not mix.

    Raises:
        BusyError: Another process has been writing it for a minute.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.tmp")
    with held(beside, wait_seconds=_WAIT_SECONDS, mode=mode) as descriptor:
        try:
            os.fchmod(descriptor, mode)
            os.ftruncate(descriptor, 0)
            with open(descriptor, "wb", closefd=False) as file:
                file.write(content)
            if durable:
                os.fsync(descriptor)
            beside.replace(path)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
    if durable:
        sync(path.parent)


def sync(path: Path) -> None:
    """Make a file's bytes, or the names in a folder, outlast a loss of power."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def put(finished: Path, target: Path) -> None:
    """Give a finished file the name of another, durably."""
    sync(finished)
    finished.replace(target)
    sync(target.parent)


@contextlib.contextmanager
def held(path: Path, *, wait_seconds: float, mode: int = 0o644) -> Iterator[int]:
    """Open (or create) a file and hold it alone; yields its descriptor, open for reading and writing.

    The holder may rename or unlink the file: whoever waited then starts over with a file of that name of its own.
    The lock ends with the process, however that ends.

    Raises:
        BusyError: Somebody else has held the file for `wait_seconds`.
    """
    deadline = time.monotonic() + wait_seconds
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, mode)
        try:
            if take(descriptor) and _is_named(descriptor, path):
                yield descriptor
                return
        finally:
            os.close(descriptor)
        if time.monotonic() > deadline:
            raise BusyError(
                f"Another process has been writing {path} for more than {wait_seconds:.0f} s. Nothing was changed. "
                "Wait for it, or end it if it hangs, and run this again."
            )
        time.sleep(_POLL_SECONDS)


def take(descriptor: int) -> bool:
    """Lock an open file for this descriptor alone; False: another one holds it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_named(descriptor: int, path: Path) -> bool:
    """Whether the file that was locked is still the one of that name."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
