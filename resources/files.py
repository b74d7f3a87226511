"""Atomic writing of files: a file is either complete or absent, even if the writing process is killed.

A file is renamed to its final name when it is complete. An unfinished file is in the same folder and is locked by its
writer. Locks that must outlive the guarded file use the filelock library's lock files.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import io
import itertools
import logging
import os
import re
import stat
import time
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import TypeAdapter, ValidationError

from resources.errors import MirrorError

_T = TypeVar("_T")
_log = logging.getLogger(__name__)

#: A path argument, which is converted to `Path` on use.
StrPath = str | os.PathLike[str]
#: Type of a JSON file that contains an arbitrary object.
JSON_OBJECT = TypeAdapter(dict[str, Any])

_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_PIECE_BYTES: Final = 1 << 20
_POLL_SECONDS: Final = 0.02
_WAIT_SECONDS: Final = 60.0
#: Maximum size of state files, sidecars and settings files, about a hundred times the size in a large mirror.
_MOST_BYTES: Final = 64 << 20
#: Maximum length in bytes of a relative path and of each path component, as in common file systems.
_NAME_BYTES, _PART_BYTES = 4_000, 255
_KINDS: Final = {
    stat.S_IFREG: "a regular file",
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
#: Maximum number of values in JSON text, because parsed values need many times their size in memory. The largest known
#: record has 33,000 values, and a response contains at most ten such records.
VALUES_MAX: Final = 500_000
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)


class BusyError(MirrorError):
    """Another process has been writing a file for too long."""

    retryable = True


class UnusableFileError(MirrorError, ValueError):
    """A file is too long, malformed or not a regular file, or a name leads outside its folder.

    `what` is the message without advice.
    """

    def __init__(self, message: str, what: str | None = None) -> None:
        super().__init__(message)
        self.what = what or message


def is_full(error: OSError) -> bool:
    """Return True if an error means that the disk is full, or that the quota or file size limit has been reached."""
    return error.errno in _NO_ROOM


def read(path: Path, *, most: int = _MOST_BYTES) -> bytes:
    """Read a regular file of at most `most` bytes. Other kinds of files are refused without waiting.

    Raises OSError if the system cannot read the file. Raises UnusableFileError if the path is a folder, a named pipe or
    a device, or if the file is too long.
    """
    with opened(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise _unusable(f"The file {path} is longer than {most:,} bytes, so it cannot be the expected file.")
    return content


def read_json(path: Path, form: TypeAdapter[_T], *, most: int = _MOST_BYTES) -> _T:
    """Read a JSON file and validate it. Raises the same errors as `read`, and UnusableFileError if validation fails."""
    try:
        return form.validate_json(read(path, most=most))
    except ValidationError as error:
        # without the input, because the file may contain secrets
        found = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(map(str, found["loc"]))
    raise _unusable(f"The file {path} is damaged ({f'{place}: ' if place else ''}{found['msg']}).")


def read_cache(path: Path, form: TypeAdapter[_T]) -> _T | None:
    """Read a JSON file that can be re-created. Return None if the file is missing or damaged.

    A damaged file is renamed to `NAME.damaged`, and a warning is logged. Raises OSError if the system cannot read the
    file.
    """
    try:
        return read_json(path, form)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UnusableFileError as error:
        aside = path.with_name(f"{path.name}.damaged")
        with contextlib.suppress(OSError):  # the folder may be read-only
            path.replace(aside)
        _log.warning("%s The file was renamed to %s and will be created again.", error.what, aside.name)
        return None


def is_crowded(data: bytes) -> bool:
    """Return True if JSON text has over VALUES_MAX values, estimated from commas and brackets outside strings."""

    def count(part: bytes) -> int:
        return sum(map(part.count, (b",", b"[", b"{")))

    if len(data) <= VALUES_MAX or count(data) <= VALUES_MAX:
        return False
    found = place = 0
    for number, text in enumerate(_STRING.finditer(data)):
        found += count(data[place : text.start()])
        place = text.end()
        if found > VALUES_MAX or number > 2 * VALUES_MAX:  # each string is a key or a value
            return True
    return found + count(data[place:]) > VALUES_MAX


def opened(path: Path, *, follow: bool = True) -> io.BufferedReader:
    """Open a regular file for reading. If `follow` is False, symbolic links are refused.

    Raises OSError if the system cannot open the file, or UnusableFileError if the path is not a regular file.
    """
    # opening a named pipe would block until it has a writer
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY | (0 if follow else os.O_NOFOLLOW)
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        if error.errno not in {errno.ELOOP, errno.ENXIO}:
            raise
        raise _irregular(path, os.lstat(path).st_mode) from None
    if stat.S_ISREG(mode := os.fstat(descriptor).st_mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    raise _irregular(path, mode)


def _irregular(path: Path, mode: int) -> UnusableFileError:
    kind = _KINDS.get(stat.S_IFMT(mode), "a special file")
    return _unusable(f"{path} is {kind}, but a regular file is expected.")


def _unusable(what: str) -> UnusableFileError:
    return UnusableFileError(
        f"{what} The file was not used, and nothing was changed. Restore the file from a backup or move it elsewhere, "
        "then try again.",
        what,
    )


def within(folder: Path, name: str) -> Path:
    """Join a folder with a name that comes from a file or a database, without accessing the disk.

    Raises UnusableFileError if the name is not relative, normalized and printable, so it might lead outside the folder.
    """
    if not is_name(name):
        raise UnusableFileError(f"{name[:200]!r} is not a valid name for a file in {folder}, so it was not used.")
    return folder / name


def is_name(name: str) -> bool:
    """Return whether a name is relative, normalized and printable, and therefore safe within any folder."""
    parts = name.split("/")
    return (
        len(name) <= _NAME_BYTES
        and not {"", ".", ".."}.intersection(parts)
        and "\\" not in name
        and name.isprintable()
        and unicodedata.is_normalized("NFC", name)
        and all(len(part.encode()) <= _PART_BYTES for part in parts)
    )


def check_way(folder: Path, path: Path) -> None:
    """Check that a path below a folder is a regular file or absent, and does not pass through symbolic links.

    Raises UnusableFileError, which names the first part of another type, for example a symbolic link.
    """
    place = folder
    *folders, last = path.relative_to(folder).parts
    for part, kind in (*((part, stat.S_IFDIR) for part in folders), (last, stat.S_IFREG)):
        place /= part
        try:
            mode = os.lstat(place).st_mode
        except FileNotFoundError:
            return
        if stat.S_IFMT(mode) != kind:
            found = _KINDS.get(stat.S_IFMT(mode), "something else")
            raise UnusableFileError(f"{place} is {found}, but {_KINDS[kind]} is expected.")


def md5_of(path: Path, advance: Callable[[float], None] = lambda _count: None) -> str:
    """Return a file's MD5 as lower-case hex, like the service's versions. `advance` receives byte counts."""
    digest = new_md5()
    with opened(path) as file:
        while piece := file.read(_PIECE_BYTES):
            digest.update(piece)
            advance(len(piece))
    return digest.hexdigest()


def new_md5(content: bytes = b"") -> hashlib._Hash:
    """Return an MD5 object for identifying versions. MD5 is not used for security."""
    return hashlib.md5(content, usedforsecurity=False)


def write(path: Path, content: bytes, *, mode: int = 0o644) -> None:
    """Write a file atomically. The file survives a power failure.

    The file is created with `mode`. The unfinished file has a fixed name and a lock. If a writer is killed, the next
    writer reuses the unfinished file. Two writers never write at the same time. Raises BusyError if another process has
    been writing the file for a minute.
    """
    beside = path.with_name(f".{path.name}.tmp")
    with held(beside, wait_seconds=_WAIT_SECONDS, mode=mode) as descriptor:
        try:
            os.fchmod(descriptor, mode)
            os.ftruncate(descriptor, 0)
            with open(descriptor, "wb", closefd=False) as file:
                file.write(content)
            os.fsync(descriptor)
            beside.replace(path)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
    sync(path.parent)


def sync(path: Path) -> None:
    """Flush a file's contents or a folder's entries to disk, so that they survive a power failure."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def put(finished: Path, target: Path) -> None:
    """Rename a finished file, and flush the change to disk."""
    sync(finished)
    finished.replace(target)
    sync(target.parent)


@contextlib.contextmanager
def held(path: Path, *, wait_seconds: float, mode: int = 0o644, busy: MirrorError | None = None) -> Iterator[int]:
    """Open or create a file and its folder, lock the file exclusively, and yield a descriptor for reading and writing.

    The holder can rename or unlink the file. A waiting process then opens a new file with that name. The operating
    system releases the lock when the process ends. Raises `busy`, or BusyError by default, if another process has held
    the lock for `wait_seconds`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + wait_seconds
    while True:
        # following a symbolic link could truncate another file
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
        try:
            if not stat.S_ISREG(found := os.fstat(descriptor).st_mode):
                raise _irregular(path, found)
            if take(descriptor) and _is_named(descriptor, path):
                yield descriptor
                return
        finally:
            os.close(descriptor)
        if time.monotonic() > deadline:
            raise busy or BusyError(
                f"Another process has been writing {path} for more than {wait_seconds:.0f} s. Nothing was changed. "
                "Wait for that process to finish, or end it if it hangs, and try again."
            )
        time.sleep(_POLL_SECONDS)


def not_a_file(mode: int) -> str | None:
    """Describe the file type that a mode specifies, or return None for a regular file."""
    if stat.S_ISREG(mode):
        return None
    return f"it is {'a directory' if stat.S_ISDIR(mode) else 'not a regular file'}"


def set_aside(path: Path) -> Path:
    """Rename a file to `<name>.damaged`, which no view or file pattern matches. Return the new path."""
    names = (path.with_name(f"{path.name}.damaged{number or ''}") for number in itertools.count())
    return path.replace(next(name for name in names if not name.exists()))


def take(descriptor: int, *, shared: bool = False) -> bool:
    """Lock an open file for this descriptor. Return False if another descriptor holds a conflicting lock."""
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_named(descriptor: int, path: Path) -> bool:
    """Return True if the path still refers to the locked file."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
