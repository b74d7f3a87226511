"""Files one by one: found in an order that is always the same, copied with their times, compared by size and time."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

from resources import files
from resources.backup.errors import BackupDiskFullError, BackupError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_PIECE_BYTES = 1 << 20
#: What is being written, and what locks it.
_UNFINISHED = (".tmp", ".part", ".part.json", ".unfinished", ".wal", ".lock")
#: The file system has no hard links, or no more of this file.
_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV, errno.EACCES})


@dataclass(frozen=True)
class Source:
    """A file to copy.

    Attributes:
        name: Its path below the data folder, with `/`.
        mtime_ns: When it was changed last; with the same time and size it is the same. None: it has to be copied each time.
        write: Writes a copy of it, where its bytes alone are none.
    """

    name: str
    path: Path
    size_bytes: int
    mtime_ns: int | None
    write: Callable[[Path], None] | None = None

    def is_same(self, other: Path) -> bool:
        """Whether another file is a copy of it, by its time, and its size where that is known."""
        try:
            seen = other.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        if not stat.S_ISREG(seen.st_mode):
            return False
        return seen.st_mtime_ns == self.mtime_ns and (self.write is not None or seen.st_size == self.size_bytes)


def walk(folder: Path, name: str) -> Iterator[Source]:
    """The finished files of a folder, in descending order of their paths, so that the newest hours come first.

    Where files are numbered as they are written, as those of the stream are, no file is then found without those before it.

    Raises:
        BackupError: Something is no regular file, or has a name that no list of files can hold.
    """
    try:
        with os.scandir(folder) as entries:
            found = sorted(entries, key=lambda entry: entry.name, reverse=True)
    except FileNotFoundError:
        return
    for entry in found:
        below, path = f"{name}/{entry.name}", folder / entry.name
        if not is_finished(entry.name):
            continue
        if entry.is_dir():
            yield from walk(path, below)
            continue
        with contextlib.suppress(FileNotFoundError):
            seen = path.stat()
            if not (stat.S_ISREG(seen.st_mode) and files.is_name(entry.name)):
                raise BackupError(
                    f"{str(path)!r} is no regular file, or has a name that is not printable. A backup cannot hold it, and nothing in the data folder has such a name. Complete backups are as they were. Move it "
                    "away, and run this again."
                )
            yield Source(below, path, seen.st_size, seen.st_mtime_ns)


def is_finished(part: str) -> bool:
    """Return whether a file or folder of this name belongs to a backup: hidden and unfinished ones and locks do not."""
    return not part.startswith(".") and not part.endswith(_UNFINISHED)


def copy(source: Source, target: Path, advance: Callable[[float], None]) -> str:
    """Copy a file, which then appears whole; returns the MD5 of the copy.

    Raises:
        FileNotFoundError: It is not there any more.
    """
    beside = target.with_name(f".{target.name}.tmp")
    target.parent.mkdir(parents=True, exist_ok=True)
    changed = source.mtime_ns
    # a link of that name would have another file overwritten
    beside.unlink(missing_ok=True)
    if source.write is None:
        digest, changed = _copy(source.path, beside, advance)
    else:
        source.write(beside)
        digest = files.md5_of(beside, advance)
    if changed is not None:
        os.utime(beside, ns=(changed, changed))
    beside.replace(target)
    return digest


def _copy(source: Path, target: Path, advance: Callable[[float], None]) -> tuple[str, int]:
    """Copy a file as it is when it is opened; returns the MD5, and when it was changed last."""
    digest = hashlib.md5(usedforsecurity=False)
    with files.opened(source) as reader, target.open("xb") as writer:
        seen = os.fstat(reader.fileno())
        left = seen.st_size
        # what is appended meanwhile is of the next copy
        while left and (piece := reader.read(min(left, _PIECE_BYTES))):
            writer.write(piece)
            digest.update(piece)
            advance(len(piece))
            left -= len(piece)
    return digest.hexdigest(), seen.st_mtime_ns


def link(existing: Path, target: Path) -> bool:
    """Make a hard link; False: the file system has none for it."""
    try:
        if os.path.lexists(target) and os.path.samestat(target.lstat(), existing.lstat()):
            return True
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        os.link(existing, target)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        return False
    return True


@contextlib.contextmanager
def saying_full(folder: Path, kept: str) -> Iterator[None]:
    """Say where there is no room, and what was kept.

    Raises:
        BackupDiskFullError: There is none.
    """
    try:
        yield
    except OSError as error:
        if not files.is_full(error):
            raise
        raise BackupDiskFullError(f"There is no room left in {folder} ({error.strerror}). {kept}") from error
