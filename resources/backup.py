"""Backup folders, which contain plain files and hard links to unchanged files from the previous backup.

<destination>/2026-11-23T080500Z/        a complete backup: the mirror's files under their own paths
              2026-11-23T080500Z/MD5SUMS      one line per file in `md5sum` format, sorted by `order`
              2026-11-23T080500Z/backup.json  written last: the number of files and bytes
              unfinished/                a backup that is being written or was interrupted
"""

import contextlib
import errno
import hashlib
import logging
import os
import re
import stat
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from resources import files
from resources.errors import DiskFullError, MirrorError

_log = logging.getLogger(__name__)

SUMS, FACTS, UNFINISHED = "MD5SUMS", "backup.json", "unfinished"
#: Maximum number of files in a backup, and maximum sizes of the file list, of its lines, and of `backup.json`.
_MOST_FILES: Final = 50_000_000
_SUMS_BYTES, _LINE_BYTES, _FACTS_BYTES = 8 << 30, 4_100, 1 << 16
_LINE: Final = re.compile(r"([0-9a-f]{32})  ([^\n]+)\n")
_BLOCK_BYTES: Final = 1 << 20
#: Names of hidden files, unfinished files and lock files.
_UNFINISHED: Final = re.compile(r"\..*|.*\.(tmp|part|part\.json|part\.[0-9]+|unfinished|wal|lock)", re.DOTALL)
#: Errors from file systems that do not support hard links or have reached their limit of links per file.
_NO_LINKS: Final = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV, errno.EACCES})


class BackupError(MirrorError):
    """A backup could not be created, found, or restored."""


class BackupDiskFullError(BackupError, DiskFullError):
    """The destination disk is full."""


class UnreadableFileError(BackupError):
    """A file to copy exists but could not be read."""


class _Facts(BaseModel):
    """Content of `backup.json`."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    service: Annotated[str, Field(max_length=1_000, pattern=r"\A[^\x00-\x1f\x7f-\x9f]*\z")]
    file_count: Annotated[int, Field(ge=0, le=_MOST_FILES)]
    size_bytes: Annotated[int, Field(ge=0, lt=1 << 63)]
    sums_md5: Annotated[str, Field(pattern=r"\A[0-9a-f]{32}\z")]


class Backup(_Facts):
    """A complete backup, with its folder (named after the UTC time), its service, and its number of files and bytes."""

    path: Path

    def sums(self) -> Iterator[tuple[str, str]]:
        """Yield the path and MD5 of each file (possibly millions). Raises BackupError if the list was changed."""
        path = self.path / SUMS
        try:
            with files.opened(path, follow=False) as lines:
                yield from self._lines(lines)
        except files.UnusableFileError as error:
            what = error.what
        except OSError as error:
            what = f"The file list {path} cannot be read ({error.strerror})."
        else:
            return
        raise BackupError(
            f"{what} Nothing was changed. Choose an older backup, or copy this backup's files manually: a backup is a "
            "plain copy of the data folder."
        )

    def _lines(self, lines: BufferedReader) -> Iterator[tuple[str, str]]:
        path, last = self.path / SUMS, None
        # prevents reading an endless list
        is_short = os.fstat(lines.fileno()).st_size <= _SUMS_BYTES
        if not is_short or hashlib.file_digest(lines, files.new_md5).hexdigest() != self.sums_md5:
            raise files.UnusableFileError(f"The file list {path} is damaged.")
        lines.seek(0)
        for number in range(1, self.file_count + 1):
            found = _LINE.fullmatch(lines.readline(_LINE_BYTES).decode(errors="surrogateescape"))
            if found is None or (last is not None and order(found[2]) >= last):
                raise files.UnusableFileError(f"Line {number} of {path} was not written by `wme backup`.")
            last = order(found[2])
            yield found[2], found[1]
        if lines.read(1):
            raise files.UnusableFileError(f"{path} has more lines than the backup has files ({self.file_count}).")


class Listing:
    """Sequential reader for a file list. Names skipped between two lookups are counted by top-level folder."""

    def __init__(self, sums: Iterator[tuple[str, str]]) -> None:
        self.skipped: Counter[str] = Counter()
        self._sums = sums
        self._next = next(sums, None)

    def digest_of(self, name: str | None) -> str | None:
        """Return a file's MD5, or None if the file is not listed. If `name` is None, read the rest of the list."""
        while self._next is not None and (name is None or order(self._next[0]) > order(name)):
            self.skipped[order(self._next[0])[0]] += 1
            self._next = next(self._sums, None)
        if self._next is None or self._next[0] != name:
            return None
        digest, self._next = self._next[1], next(self._sums, None)
        return digest


def order(name: str) -> list[str]:
    """Return a sort key for files. Descending order puts the newest hours first and keeps a folder's files together."""
    return name.split("/")


def completed(destination: Path) -> list[Backup]:
    """Return a destination's complete backups, oldest first. Damaged backups are logged and skipped."""
    found = []
    for path in sorted(destination.glob("????-??-??T??????Z")):
        try:
            found.append(_read(path))
        except BackupError as error:
            _log.warning("%s", error)
    return [backup for backup in found if backup is not None]


def newest_in(destination: Path) -> Backup | None:
    return next(reversed(completed(destination)), None)


def listed_in(found: list[Backup]) -> tuple[Backup | None, Listing]:
    """Return the newest of some backups whose file list is intact, and this list. Damaged lists are logged."""
    for backup in reversed(found):
        try:
            return backup, Listing(backup.sums())
        except BackupError as error:
            _log.warning("%s The next backup does not link to this backup's files.", error)
    return None, Listing(iter(()))


def find(source: Path) -> Backup:
    """Return the backup at a path, or the newest backup in a folder. Raises BackupError if no backup is usable."""
    found = (None if source.name == UNFINISHED else _read(source)) or newest_in(source)
    if found is not None:
        return found
    has_unfinished = (source / UNFINISHED).exists()
    unfinished = " The folder contains an unfinished backup, which `wme backup` can resume." if has_unfinished else ""
    raise BackupError(
        f"There is no complete backup in {source}.{unfinished} Nothing was changed. Pass a folder written by `wme "
        "backup`."
    )


def complete(folder: Path, service: str, file_count: int, size_bytes: int) -> None:
    """Write `backup.json`, which marks a folder's backup as complete."""
    sums_md5 = files.md5_of(folder / SUMS)
    facts = _Facts(service=service, file_count=file_count, size_bytes=size_bytes, sums_md5=sums_md5)
    files.write(folder / FACTS, facts.model_dump_json(indent=2).encode() + b"\n")


def _read(folder: Path) -> Backup | None:
    """Return a folder's backup, or None if the backup is incomplete."""
    try:
        facts = files.read_json(folder / FACTS, TypeAdapter(_Facts), most=_FACTS_BYTES)
        return Backup(path=folder, **facts.model_dump())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except files.UnusableFileError as error:
        what = error.what
    except OSError as error:
        what = f"the file {FACTS} cannot be read ({error.strerror})."
    raise BackupError(
        f"The backup {folder} cannot be used: {what} Nothing was changed. Choose another backup, or copy this backup's "
        "files manually: a backup is a plain copy of the data folder."
    )


@dataclass(frozen=True)
class Source:
    """A file to copy, with its `/`-separated path below the data folder, its location, and its size.

    An existing copy with the time `mtime_ns` and the same size is reused. If `mtime_ns` is None, the file is always
    copied. `write` creates a copy of a file that cannot be copied byte by byte.
    """

    name: str
    path: Path
    size_bytes: int
    mtime_ns: int | None
    write: Callable[[Path], None] | None = None

    def is_same(self, other: Path) -> bool:
        """Return whether another file is a copy of this file, according to its time and, if known, its size."""
        try:
            seen = other.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        is_as_long = self.write is not None or seen.st_size == self.size_bytes
        return stat.S_ISREG(seen.st_mode) and seen.st_mtime_ns == self.mtime_ns and is_as_long


def walk(folder: Path, name: str) -> Iterator[Source]:
    """Yield a folder's finished files in descending order of their paths, with the newest hours first.

    If files are numbered in the order in which they are written, like the stream's files, no file is found without its
    predecessors. Raises BackupError for an entry that a file list cannot contain.
    """
    try:
        with os.scandir(folder) as entries:
            found = sorted(entries, key=lambda entry: entry.name, reverse=True)
    except FileNotFoundError:
        return
    for entry in filter(lambda entry: is_finished(entry.name), found):
        below, path = f"{name}/{entry.name}", folder / entry.name
        if entry.is_dir():
            yield from walk(path, below)
            continue
        with contextlib.suppress(FileNotFoundError):
            seen = path.stat()
            if not (stat.S_ISREG(seen.st_mode) and files.is_name(entry.name)):
                raise BackupError(
                    f"{str(path)!r} is not a regular file, or its name is not printable. A backup cannot contain such "
                    "a file, and a mirror does not create one. Complete backups are unchanged. Move the file "
                    "elsewhere and try again."
                )
            yield Source(below, path, seen.st_size, seen.st_mtime_ns)


def is_finished(part: str) -> bool:
    """Return whether a backup includes this file or folder. Hidden files, unfinished files and locks are excluded."""
    return not _UNFINISHED.fullmatch(part)


def copy(source: Source, target: Path, advance: Callable[[float], None]) -> str:
    """Copy a file atomically, and return the copy's MD5.

    Raises FileNotFoundError if the file was removed, or UnreadableFileError.
    """
    unfinished = target.with_name(f".{target.name}.tmp")
    target.parent.mkdir(parents=True, exist_ok=True)
    # writing through an existing link of this name would overwrite another file
    unfinished.unlink(missing_ok=True)
    changed = source.mtime_ns
    try:
        if source.write is None:
            digest, changed = copy_bytes(source.path, unfinished, advance)
        else:
            source.write(unfinished)
            digest = files.md5_of(unfinished, advance)
    except UnreadableFileError:
        unfinished.unlink(missing_ok=True)
        raise
    if changed is not None:
        os.utime(unfinished, ns=(changed, changed))
    unfinished.replace(target)
    return digest


def copy_bytes(source: Path, target: Path, advance: Callable[[float], None]) -> tuple[str, int]:
    """Copy the bytes that a file has when it is opened. Return the copy's MD5 and the file's modification time."""
    digest = files.new_md5()
    with reading(source):
        reader = files.opened(source)
    with reader, target.open("xb") as writer:
        seen = os.fstat(reader.fileno())
        left = seen.st_size
        # bytes appended during the copy belong to the next copy
        while left:
            with reading(source):
                block = reader.read(min(left, _BLOCK_BYTES))
            if not block:
                break
            writer.write(block)
            digest.update(block)
            advance(len(block))
            left -= len(block)
    return digest.hexdigest(), seen.st_mtime_ns


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Raise UnreadableFileError, and not the error of a full or broken destination, if a file cannot be read."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise UnreadableFileError(f"{path} cannot be read ({error.strerror}).") from error


def link(existing: Path, target: Path) -> bool:
    """Create a hard link. Return False if the file system does not support hard links."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        os.link(existing, target)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        return False
    return True


@contextlib.contextmanager
def reporting_full(folder: Path, kept: str) -> Iterator[None]:
    """If the disk is full, raise BackupDiskFullError with a message that ends with the sentence `kept`."""
    try:
        yield
    except OSError as error:
        if not files.is_full(error):
            raise
        raise BackupDiskFullError(f"The disk that contains {folder} is full ({error.strerror}). {kept}") from error
