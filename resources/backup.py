"""Folders of backups: plain files, with hard links to the previous backup for files that did not change.

Belongs here: the format of a backup, and copying, linking and listing its files. Does not belong here: the contents of
a mirror (see `pipelines/operations/backup.py`).

<destination>/2026-11-23T080500Z/        a complete backup: the mirror's files under their own paths
              2026-11-23T080500Z/MD5SUMS      a line per file, as `md5sum` writes and checks it, in `order`
              2026-11-23T080500Z/backup.json  written last: the number of files and bytes
              unfinished/                the one that is being written, or was killed
"""

from __future__ import annotations

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
#: Maximum number of files of a backup, and maximum bytes of their list, of one of its lines, and of `backup.json`.
_MOST_FILES: Final = 50_000_000
_SUMS_BYTES, _LINE_BYTES, _FACTS_BYTES = 8 << 30, 4_100, 1 << 16
_LINE: Final = re.compile(r"([0-9a-f]{32})  ([^\n]+)\n")
_BLOCK_BYTES: Final = 1 << 20
#: Suffixes of unfinished files and of locks.
_UNFINISHED_ENDS: Final = (".tmp", ".part", ".part.json", ".unfinished", ".wal", ".lock")
#: Errors of file systems without hard links, or at their limit of links per file.
_NO_LINKS: Final = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV, errno.EACCES})


class BackupError(MirrorError):
    """A backup could not be created, found, or restored."""


class BackupDiskFullError(BackupError, DiskFullError):
    """The destination disk of a copy is full."""


class _Facts(BaseModel):
    """Content of `backup.json`."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    service: Annotated[str, Field(max_length=1_000, pattern=r"\A[^\x00-\x1f\x7f-\x9f]*\z")]
    file_count: Annotated[int, Field(ge=0, le=_MOST_FILES)]
    size_bytes: Annotated[int, Field(ge=0, lt=1 << 63)]
    sums_md5: Annotated[str, Field(pattern=r"\A[0-9a-f]{32}\z")]


class Backup(_Facts):
    """A complete backup: its folder (named by its time, in UTC), its service, and number and bytes of its files."""

    path: Path

    def sums(self) -> Iterator[tuple[str, str]]:
        """Yield path and MD5 of every file, in `order`; one at a time, because there may be millions.

        Raises:
            BackupError: The list was changed, or was not written by `wme backup`.
        """
        path = self.path / SUMS
        try:
            with files.opened(path, follow=False) as lines:
                yield from self._lines(lines)
        except (FileNotFoundError, files.UnusableFileError) as error:
            what = error.what if isinstance(error, files.UnusableFileError) else f"The list of files {path} is gone."
            raise BackupError(
                f"{what} Nothing was changed. Choose an older backup, or copy its files manually: it is a plain copy "
                "of the data folder."
            ) from None

    def _lines(self, lines: BufferedReader) -> Iterator[tuple[str, str]]:
        path, last = self.path / SUMS, None
        # do not read an endless list
        is_short = os.fstat(lines.fileno()).st_size <= _SUMS_BYTES
        if not is_short or hashlib.file_digest(lines, files.new_md5).hexdigest() != self.sums_md5:
            raise files.UnusableFileError(f"The list of files {path} is damaged.")
        lines.seek(0)
        for number in range(1, self.file_count + 1):
            found = _LINE.fullmatch(lines.readline(_LINE_BYTES).decode(errors="surrogateescape"))
            if found is None or (last is not None and order(found[2]) >= last):
                raise files.UnusableFileError(f"Line {number} of {path} was not written by `wme backup`.")
            last = order(found[2])
            yield found[2], found[1]
        if lines.read(1):
            raise files.UnusableFileError(f"{path} has more lines than the {self.file_count} files of the backup.")


class Listing:
    """Sequential reader of a file list; names skipped between two look-ups are counted by their first folder."""

    def __init__(self, sums: Iterator[tuple[str, str]]) -> None:
        self.skipped: Counter[str] = Counter()
        self._sums = sums
        self._next = next(sums, None)

    def digest_of(self, name: str | None) -> str | None:
        """Return the MD5 of a file; None if the list lacks it. Without a name, read the rest of the list."""
        while self._next is not None and (name is None or order(self._next[0]) > order(name)):
            self.skipped[order(self._next[0])[0]] += 1
            self._next = next(self._sums, None)
        if self._next is None or self._next[0] != name:
            return None
        digest, self._next = self._next[1], next(self._sums, None)
        return digest


def order(name: str) -> list[str]:
    """Return the sort key of files, for descending order: newest hours first, the files of a folder together."""
    return name.split("/")


def completed(destination: Path) -> list[Backup]:
    """Return the complete backups of a destination, oldest first. A damaged backup is logged and left out."""
    found = []
    for path in sorted(destination.glob("????-??-??T??????Z")):
        try:
            found.append(_read(path))
        except BackupError as error:
            _log.warning("%s", error)
    return [backup for backup in found if backup is not None]


def find(source: Path) -> Backup:
    """Return the backup at a path: the folder itself, or the newest backup in it.

    Raises:
        BackupError: No backup was found, or it is damaged.
    """
    backup = None if source.name == UNFINISHED else _read(source)
    if backup is not None:
        return backup
    if found := completed(source):
        return found[-1]
    has_unfinished = (source / UNFINISHED).exists()
    unfinished = " It has an unfinished backup, which `wme backup` resumes." if has_unfinished else ""
    raise BackupError(
        f"There is no complete backup in {source}.{unfinished} Nothing was changed. Pass a folder written by `wme "
        "backup`."
    )


def complete(folder: Path, service: str, file_count: int, size_bytes: int) -> None:
    """Write `backup.json`, which marks the backup in a folder as complete."""
    sums_md5 = files.md5_of(folder / SUMS)
    facts = _Facts(service=service, file_count=file_count, size_bytes=size_bytes, sums_md5=sums_md5)
    files.write(folder / FACTS, facts.model_dump_json(indent=2).encode() + b"\n")


def _read(folder: Path) -> Backup | None:
    """Return the backup of a folder; None: it is not complete."""
    try:
        facts = files.read_json(folder / FACTS, TypeAdapter(_Facts), most=_FACTS_BYTES)
        return Backup(path=folder, **facts.model_dump())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except files.UnusableFileError as error:
        what = error.what
    except OSError as error:
        what = f"its note {FACTS} cannot be read ({error.strerror})."
    raise BackupError(
        f"The backup {folder} cannot be used: {what} Nothing was changed. Its other files are plain copies of the "
        "data folder's; choose another backup, or copy them manually."
    )


@dataclass(frozen=True)
class Source:
    """A file to copy: its path below the data folder (with `/`), its location, and its size.

    `mtime_ns`: an existing copy with this time and size is reused; None: always copied. `write` writes a copy of a file
    that cannot be copied byte by byte.
    """

    name: str
    path: Path
    size_bytes: int
    mtime_ns: int | None
    write: Callable[[Path], None] | None = None

    def is_same(self, other: Path) -> bool:
        """Return whether another file is a copy of it, by its time, and its size if known."""
        try:
            seen = other.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        is_as_long = self.write is not None or seen.st_size == self.size_bytes
        return stat.S_ISREG(seen.st_mode) and seen.st_mtime_ns == self.mtime_ns and is_as_long


def walk(folder: Path, name: str) -> Iterator[Source]:
    """Yield the finished files of a folder, in descending order of their paths, so that the newest hours come first.

    If files are numbered in the order of writing, as in the stream, no file is found without its predecessors.

    Raises:
        BackupError: An entry is not a regular file, or has a name that no list of files can hold.
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
                    f"{str(path)!r} is not a regular file, or has a name that is not printable. A backup cannot hold "
                    "it, and no file of a mirror has such a name. Complete backups are unchanged. Move it away, and "
                    "run this again."
                )
            yield Source(below, path, seen.st_size, seen.st_mtime_ns)


def is_finished(part: str) -> bool:
    """Return whether a file or folder of this name belongs to a backup; hidden and unfinished ones and locks do not."""
    return not part.startswith(".") and not part.endswith(_UNFINISHED_ENDS)


def copy(source: Source, target: Path, advance: Callable[[float], None]) -> str:
    """Copy a file, which appears only when it is complete; return the MD5 of the copy.

    Raises:
        FileNotFoundError: The file was removed.
    """
    unfinished = target.with_name(f".{target.name}.tmp")
    target.parent.mkdir(parents=True, exist_ok=True)
    # writing through a link of this name would overwrite another file
    unfinished.unlink(missing_ok=True)
    changed = source.mtime_ns
    if source.write is None:
        digest, changed = copy_bytes(source.path, unfinished, advance)
    else:
        source.write(unfinished)
        digest = files.md5_of(unfinished, advance)
    if changed is not None:
        os.utime(unfinished, ns=(changed, changed))
    unfinished.replace(target)
    return digest


def copy_bytes(source: Path, target: Path, advance: Callable[[float], None]) -> tuple[str, int]:
    """Copy a file up to the size it had when it was opened; return its MD5 and modification time."""
    digest = files.new_md5()
    with files.opened(source) as reader, target.open("xb") as writer:
        seen = os.fstat(reader.fileno())
        left = seen.st_size
        # bytes appended in the meantime belong to the next copy
        while left and (block := reader.read(min(left, _BLOCK_BYTES))):
            writer.write(block)
            digest.update(block)
            advance(len(block))
            left -= len(block)
    return digest.hexdigest(), seen.st_mtime_ns


def link(existing: Path, target: Path) -> bool:
    """Create a hard link; return False if the file system does not support it."""
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


def irregular(folder: Path) -> Iterator[Path]:
    """Yield entries below a folder that are neither file nor folder: writing through a link would change its target."""
    for place, folders, names in os.walk(folder):
        for path in (folder / place / name for name in (*folders, *names)):
            if stat.S_IFMT(path.lstat().st_mode) not in {stat.S_IFREG, stat.S_IFDIR}:
                yield path


@contextlib.contextmanager
def reporting_full(folder: Path, kept: str) -> Iterator[None]:
    """Raise BackupDiskFullError, with a sentence about retained files, when the disk of a folder is full."""
    try:
        yield
    except OSError as error:
        if not files.is_full(error):
            raise
        raise BackupDiskFullError(f"There is no room left in {folder} ({error.strerror}). {kept}") from error
