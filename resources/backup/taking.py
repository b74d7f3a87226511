"""Taking a backup: what did not change since the last one is linked, the rest copied, and the whole gets its name in the end.

A kill leaves the complete backups as they are, and an unfinished one, whose files the next call compares and keeps. Nothing is synced until
all is there: what a power cut takes from an unfinished backup is found by the comparison.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from resources import files
from resources.backup.copying import copy, link, saying_full, walk
from resources.backup.errors import BackupDiskFullError, BackupError
from resources.backup.store import FACTS, SUMS, UNFINISHED, complete, completed, line_of, order
from resources.formatting import size_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from resources.backup.copying import Source
    from resources.backup.store import Backup

#: Begins the name of a backup that is being removed.
_REMOVED = ".removed-"
#: For folders and links, whatever else is copied.
_ROOM_BYTES = 8_000_000


@dataclass
class Plan:
    """What a backup has to copy, and what it can link."""

    copied_count: int = 0
    copied_bytes: int = 0
    linked_count: int = 0
    linked_bytes: int = 0


@dataclass
class Taken:
    """A backup that was taken.

    Attributes:
        damaged: Files left out, because their bytes are not those that were once verified.
        gone: Files of the backup before that are not found any more, by the first folder of their paths.
        removed: Older backups that were removed.
    """

    backup: Backup
    plan: Plan
    damaged: list[str] = field(default_factory=list)
    gone: Counter[str] = field(default_factory=Counter)
    removed: list[Path] = field(default_factory=list)


def plan(destination: Path, sources: Iterable[Source]) -> Plan:
    """See what a backup would copy; nothing is written."""
    newest, found = _newest(destination), Plan()
    for source in sources:
        if newest is not None and source.is_same(newest.path / source.name):
            found.linked_count += 1
            found.linked_bytes += source.size_bytes
        else:
            found.copied_count += 1
            found.copied_bytes += source.size_bytes
    return found


def take(
    destination: Path,
    sources: Callable[[], Iterable[Source]],
    service: str,
    *,
    verified: Callable[[Source], str | None],
    advance: Callable[[float], None],
    planned: Plan,
    now: datetime,
) -> Taken:
    """Take a backup of files, or continue the one that was killed.

    Args:
        destination: Folder of the backups; made where there is none.
        sources: The files, in descending order of their paths; what vanishes meanwhile is passed over.
        service: The service that they came from. A destination holds backups of one service.
        verified: The MD5 that a file had when it was verified; None: it was not.
        advance: Told the bytes that were read.
        planned: What `plan` found.
        now: The moment at which it is taken.

    Raises:
        BackupError: The destination has backups of another service, or is in use, or full; its complete backups are as they were.
    """
    newest = _newest(destination)
    if newest is not None and newest.service != service:
        raise BackupError(
            f"{destination} holds backups of a mirror of {newest.service}, and this one is of {service}. Nothing was changed. Name another folder."
        )
    kept = "Complete backups are as they were, and what was copied is kept. Make room, or name another folder, and run the same command again."
    unfinished = destination / UNFINISHED
    with saying_full(destination, kept), _alone(destination):
        if not os.path.lexists(unfinished):
            unfinished.mkdir()
        _remove_links(unfinished)
        _see_room(destination, unfinished, planned, kept)
        known, damaged = _Known(newest), list[str]()
        count, size = _fill(unfinished, known, damaged, sources(), verified, advance)
        _prune(unfinished)
        backup = complete(unfinished, service, count, size)
        # once for all files
        os.sync()
        target = destination / _name(now, newest)
        unfinished.rename(target)
        files.sync(destination)
    return Taken(replace(backup, path=target), planned, damaged, known.rest())


def _remove_links(folder: Path) -> None:
    """Remove from an unfinished backup what is neither file nor folder: through a link, files elsewhere would be written or removed.

    Raises:
        BackupError: The folder itself is a link, or no folder.
    """
    if folder.is_symlink() or not folder.is_dir():
        raise BackupError(
            f"{folder} is no folder, and an unfinished backup belongs there. Nothing was changed. Move it away, and run this again."
        )
    for place, folders, names in os.walk(folder):
        for path in (folder / place / name for name in (*folders, *names)):
            if stat.S_IFMT(path.lstat().st_mode) not in {stat.S_IFREG, stat.S_IFDIR}:
                path.unlink()


def remove_older(destination: Path, keep: int) -> list[Path]:
    """Remove all but the newest complete backups, and what a kill left of such a removal; returns their folders.

    What they share with others stays there, and so does a folder that only looks like a backup, or is a damaged one.
    """
    found = completed(destination)
    older = [backup.path for backup in found[: max(0, len(found) - keep)]]
    with _alone(destination):
        for path in older:
            path.rename(destination / f"{_REMOVED}{path.name}")
        for path in destination.glob(f"{_REMOVED}*"):
            shutil.rmtree(path)
    return older


def _newest(destination: Path) -> Backup | None:
    found = completed(destination)
    return found[-1] if found else None


@contextlib.contextmanager
def _alone(destination: Path) -> Iterator[None]:
    destination.mkdir(parents=True, exist_ok=True)
    lock = destination / ".lock"
    try:
        with files.held(lock, wait_seconds=0):
            yield
    except files.BusyError:
        raise BackupError(
            f"Another backup to {destination} is under way. Nothing was changed. Wait for it, then run this again."
        ) from None


def _see_room(destination: Path, unfinished: Path, planned: Plan, kept: str) -> None:
    there = sum(source.size_bytes for source in walk(unfinished, ""))
    needed, free = planned.copied_bytes - there + _ROOM_BYTES, shutil.disk_usage(destination).free
    if needed > free:
        raise BackupDiskFullError(
            f"The backup needs about {size_text(needed)} more, and {destination} has {size_text(free)}. Nothing more was copied. {kept}"
        )


def _fill(
    unfinished: Path,
    known: _Known,
    damaged: list[str],
    sources: Iterable[Source],
    verified: Callable[[Source], str | None],
    advance: Callable[[float], None],
) -> tuple[int, int]:
    """Link and copy all files but those that are `damaged`, and list them; returns their number and bytes."""
    count = size = 0
    # whatever has its name, a pipe or a link perhaps
    (unfinished / SUMS).unlink(missing_ok=True)
    with (unfinished / SUMS).open("x") as sums:
        for source in sources:
            target = unfinished / source.name
            digest = known.linked(source, target)
            if digest is None:
                try:
                    digest = _copied(source, target, advance)
                except FileNotFoundError:
                    continue  # replaced or removed since
                if verified(source) not in {None, digest}:
                    damaged.append(source.name)
                    target.unlink()
                    continue
            sums.write(line_of(source.name, digest))
            count, size = count + 1, size + target.stat().st_size
    return count, size


class _Known:
    """The files of the backup before, read along with those of this one."""

    def __init__(self, newest: Backup | None) -> None:
        self._folder = newest.path if newest else None
        self._sums = iter(newest.sums()) if newest else iter(())
        self._gone: Counter[str] = Counter()
        self._next = next(self._sums, None)

    def linked(self, source: Source, target: Path) -> str | None:
        """Link a file that is the same in the backup before; returns its MD5, or None where it has to be copied."""
        while self._next is not None and order(self._next[0]) > order(source.name):
            self._pass_over(self._next[0])
        if self._folder is None or self._next is None or self._next[0] != source.name:
            return None
        before, digest = self._folder / source.name, self._next[1]
        self._next = next(self._sums, None)
        return digest if source.is_same(before) and link(before, target) else None

    def rest(self) -> Counter[str]:
        """The files that were not asked for, counted by the first folder of their paths."""
        while self._next is not None:
            self._pass_over(self._next[0])
        return self._gone

    def _pass_over(self, name: str) -> None:
        self._gone[order(name)[0]] += 1
        self._next = next(self._sums, None)


def _copied(source: Source, target: Path, advance: Callable[[float], None]) -> str:
    """Copy a file, unless a backup that was killed has copied it already; returns its MD5."""
    if source.write is None and source.is_same(target):
        digest = files.md5_of(target, advance)
        if files.md5_of(source.path) == digest:
            return digest
    return copy(source, target, advance)


def _prune(unfinished: Path) -> None:
    """Remove what a killed backup left and this one does not list."""
    with (unfinished / SUMS).open() as lines:
        names = (line.rstrip("\n").partition("  ")[2] for line in lines)
        wanted = next(names, None)
        for folder, found in _files(unfinished, ""):
            while wanted is not None and order(wanted) > order(found):
                wanted = next(names, None)
            if found != wanted and found not in {SUMS, FACTS}:
                (folder / found.rpartition("/")[2]).unlink()


def _files(folder: Path, name: str) -> Iterator[tuple[Path, str]]:
    """All files, unfinished ones too, in the order of `walk`."""
    for path in sorted(folder.iterdir(), key=lambda path: path.name, reverse=True):
        if path.is_dir():
            yield from _files(path, f"{name}{path.name}/")
        else:
            yield folder, f"{name}{path.name}"


def _name(now: datetime, newest: Backup | None) -> str:
    """The name of a backup of this moment; later than the one before, also where the clock was put back."""
    form = "%Y-%m-%dT%H%M%SZ"
    if newest is not None:
        now = max(now, datetime.strptime(newest.path.name, form).replace(tzinfo=UTC) + timedelta(seconds=1))
    return now.astimezone(UTC).strftime(form)
