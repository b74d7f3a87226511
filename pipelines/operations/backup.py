"""Backups of a mirror that is in use.

Lake and archive files never change, and no file is removed during a backup. The build file is copied first, so every
file in its ledger still exists when the backup reaches that file. Tokens, locks, unfinished files and the published
file are skipped. A restore recreates the published file from the build file.

The next call reuses the files of a killed backup. All files are synced once at the end. If a power failure damages
files before the sync, the next call finds the damage by comparing digests.
"""

import contextlib
import os
import shutil
import sqlite3
import stat
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from urllib.parse import quote

from resources import backup as store
from resources import files
from resources.backup import SUMS, UNFINISHED, Backup, BackupError, Listing, Source, completed, link, listed_in, walk
from resources.data_folder import copying, origin_of
from resources.datasets.paths import ARCHIVE
from resources.engine import Reporter
from resources.enterprise import Sidecar
from resources.errors import clause
from resources.formatting import counted, listed, size_text
from resources.lake import Layout
from resources.warehouse import Warehouse, named_in

BUILD = "warehouse/build.duckdb"
#: State files with the service, and with the lookups spent today. Tokens are secrets, and other state describes files
#: that are not copied.
_STATE = ("service.json", "lookups.json")
#: Parts of Dagster's folder: settings, and the history in SQLite. The output of processes is not needed.
_HISTORY = ("dagster/history/", "dagster/schedules/")
#: Folders and files that a backup can contain.
_FOLDERS = ("archive/", "lake/", *_HISTORY)
_FILES = frozenset({BUILD, "dagster/dagster.yaml", "dagster/workspace.yaml", *(f"state/{name}" for name in _STATE)})
#: Format of a backup's name, and prefix of a backup that is being removed.
_NAME = "%Y-%m-%dT%H%M%SZ"
_REMOVED = ".removed-"
#: Size in bytes reserved for folders and links in each backup.
_ROOM_BYTES = 8_000_000
#: Seconds to wait for a database of Dagster's history that another process has locked.
_LOCKED_SECONDS = 60.0
_SHOWN = 3
_KEPT = (
    "Complete backups are unchanged, and copied files are kept. Free some disk space or choose another folder, then "
    "run the command again."
)


@dataclass
class Plan:
    """Numbers and sizes of the files that a backup copies or links."""

    copied_count: int = 0
    copied_bytes: int = 0
    linked_count: int = 0
    linked_bytes: int = 0


@dataclass
class Taken:
    """A finished backup, the removed older backups, and sentences about files that are missing from the backup.

    `gone` counts the files that only the previous backup contains, by top-level folder.
    """

    backup: Backup
    plan: Plan
    gone: Counter[str]
    removed: list[Path]
    problems: tuple[str, ...]


@dataclass
class _Faults:
    """Names of damaged databases, damaged archives, and unreadable files. Only the databases are backed up."""

    broken: list[str] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)


def plan(data: files.StrPath, destination: files.StrPath) -> Plan:
    """Count the files that a backup would copy to a destination. Raises BackupError if the backup cannot start."""
    data, destination = Path(data), Path(destination)
    _check(data, destination)
    return _plan(data, listed_in(completed(destination))[0])


def _check(data: Path, destination: Path) -> None:
    """Raise BackupError if the data folder or the destination does not allow a backup."""
    if not (data / "archive").exists() and not (data / BUILD).exists():
        raise BackupError(f"There is nothing to back up in {data}. If this is not the data folder, set WME_DATA.")
    ours, theirs = data.resolve(), destination.resolve()
    if ours.is_relative_to(theirs) or theirs.is_relative_to(ours):
        raise BackupError(
            f"{destination} and the data folder {data} must not contain each other. Nothing was copied. Choose a "
            "separate folder, preferably on another disk."
        )
    if destination.exists() and not destination.is_dir():
        raise BackupError(
            f"{destination} is not a folder. Nothing was copied. Specify a folder. A missing folder is created."
        )


def _plan(data: Path, previous: Backup | None) -> Plan:
    found = Plan()
    for source in _sources(data, []):
        if previous is not None and source.is_same(previous.path / source.name):
            found.linked_count += 1
            found.linked_bytes += source.size_bytes
        else:
            found.copied_count += 1
            found.copied_bytes += source.size_bytes
    return found


def take(
    data: files.StrPath,
    destination: files.StrPath,
    reporter: Reporter,
    keep: int | None = None,
    now: datetime | None = None,
) -> Taken:
    """Create a backup while loads, compactions, publications and the stream continue, or resume a killed backup.

    The destination must be outside the data folder and contain backups of only one service. `keep` is the number of
    complete backups to retain, including the new backup, or None to retain all backups. If the new backup has problems,
    no backup is removed. `now` determines the backup's name.

    Raises:
        BackupError: The backup failed. Complete backups are unchanged, and copied files are kept.
        BackupUnderWayError: Another process is backing up this data folder or removing its files.
        WarehouseBusyError: Another process kept the warehouse locked until the timeout.
    """
    data, destination = Path(data), Path(destination)
    _check(data, destination)
    found, service = completed(destination), origin_of(data) or "unknown"
    newest = found[-1] if found else None
    if newest is not None and newest.service != service:
        raise BackupError(
            f"{destination} contains backups of a mirror of {newest.service}, but this mirror uses {service}. Nothing "
            "was changed. Choose another folder."
        )
    unfinished = destination / UNFINISHED
    previous, known = listed_in(found)
    planned = _plan(data, previous)
    faults = _Faults()
    with copying(data), store.reporting_full(destination, _KEPT), _alone(destination):
        if not os.path.lexists(unfinished):
            unfinished.mkdir()
        if unfinished.is_symlink() or not unfinished.is_dir():
            raise BackupError(
                f"{unfinished} is not a folder, but an unfinished backup needs this name. Nothing was changed. Move "
                "the file to another location, then run the command again."
            )
        there = _prune(unfinished, data)
        needed, free = planned.copied_bytes - there + _ROOM_BYTES, shutil.disk_usage(destination).free
        if needed > free:
            raise store.BackupDiskFullError(
                f"The backup needs about {size_text(needed)} more space, but only {size_text(free)} is free in "
                f"{destination}. Nothing more was copied. {_KEPT}"
            )
        with reporter("copy", planned.copied_bytes, "B") as advance:
            count, size = _fill(unfinished, previous, known, _sources(data, faults.broken), faults, advance)
        store.complete(unfinished, service, count, size)
        # one sync for all files
        os.sync()
        now = now or datetime.now(UTC)
        if newest is not None:
            # the name sorts after the previous name even if the clock was set back
            named_at = datetime.strptime(newest.path.name, _NAME).replace(tzinfo=UTC)
            now = max(now, named_at + timedelta(seconds=1))
        target = destination / now.astimezone(UTC).strftime(_NAME)
        unfinished.rename(target)
        files.sync(destination)
    known.digest_of(None)
    problems = tuple(_problems(target, faults))
    # an older backup may contain the files that are missing here
    removed = [] if keep is None or problems else remove_older(destination, keep)
    return Taken(store.find(target), planned, known.skipped, removed, problems)


def _alone(destination: Path) -> contextlib.AbstractContextManager[int]:
    destination.mkdir(parents=True, exist_ok=True)
    busy = BackupError(
        f"Another backup to {destination} is in progress. Nothing was changed. Wait until the other backup ends, then "
        "run the command again."
    )
    return files.held(destination / ".lock", wait_seconds=0, busy=busy)


def _sources(data: Path, broken: list[str]) -> Iterator[Source]:
    """Yield the files to back up in descending path order. `broken` collects databases that SQLite cannot read."""
    layout, warehouse = Layout(data), Warehouse(data)
    if warehouse.build_path.exists():
        yield Source(BUILD, warehouse.build_path, warehouse.build_path.stat().st_size, None, warehouse.copy_to)
    yield from (source for source in walk(data / "state", "state") if source.path.name in _STATE)
    yield from walk(layout.lake, "lake")
    for source in walk(data / "dagster", "dagster"):
        if not is_known(source.name) or source.name.endswith(("-wal", "-shm", "-journal")):
            continue
        if source.name.endswith(".db"):
            # committed rows may still be in the write-ahead log; opening the database creates an empty log
            log = source.path.with_name(f"{source.path.name}-wal")
            logs = [log] if log.exists() and log.stat().st_size else []
            changed = max(path.stat().st_mtime_ns for path in (source.path, *logs))
            yield replace(source, mtime_ns=changed, write=partial(_copy_database, source, broken))
        else:
            yield source
    yield from walk(layout.archive, "archive")


def is_known(name: str) -> bool:
    """Return True if a backup can contain a file with this name, which is relative to the data folder."""
    return name in _FILES or name.startswith(_FOLDERS)


def _copy_database(source: Source, broken: list[str], target: Path) -> None:
    path, end = source.path, time.monotonic() + _LOCKED_SECONDS
    if not path.exists():
        raise FileNotFoundError(path)

    def wait(status: int, *_: int) -> None:
        """Stop waiting at the end, because SQLite would wait without a limit."""
        if status in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED} and time.monotonic() >= end:
            raise BackupError(
                f"Another process kept {path} locked for {_LOCKED_SECONDS:g} seconds. Complete backups are unchanged, "
                "and copied files are kept. End the process that uses this file, then run the command again."
            )

    try:
        with (
            contextlib.closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=0)) as database,
            contextlib.closing(sqlite3.connect(target)) as duplicate,
        ):
            database.backup(duplicate, progress=wait)
    except sqlite3.OperationalError as error:
        # SQLite creates files beside a database to read it
        if error.sqlite_errorname.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN")):
            raise store.UnreadableFileError(f"{path} cannot be read ({clause(error)}).") from error
        raise
    except sqlite3.DatabaseError:
        shutil.copyfile(path, target)
        broken.append(source.name)


def _fill(
    unfinished: Path,
    previous: Backup | None,
    known: Listing,
    sources: Iterable[Source],
    faults: _Faults,
    advance: Callable[[float], None],
) -> tuple[int, int]:
    """Link or copy all files and write a list of them. Return the files' number and total size in bytes.

    Files that cannot be read, or whose copies do not match a verified digest, are added to `faults` and are not backed
    up.
    """
    count = size = 0
    with (unfinished / SUMS).open("w") as sums:
        for source in sources:
            target, digest = unfinished / source.name, known.digest_of(source.name)
            before = previous.path / source.name if previous is not None and digest is not None else None
            if before is None or not (source.is_same(before) and link(before, target)):
                try:
                    digest = _copied(source, target, advance)
                except (FileNotFoundError, store.UnreadableFileError) as error:
                    if isinstance(error, store.UnreadableFileError):  # otherwise replaced or removed since
                        faults.unreadable.append(source.name)
                    target.unlink(missing_ok=True)
                    continue
                sidecar = None
                # an unreadable sidecar is reported as a separate file
                with contextlib.suppress(OSError):
                    sidecar = Sidecar.read(source.path) if source.name.endswith(f".{ARCHIVE}") else None
                if sidecar is not None and sidecar.version != digest:
                    faults.damaged.append(source.name)
                    target.unlink()
                    continue
            sums.write(f"{digest}  {source.name}\n")
            count, size = count + 1, size + target.stat().st_size
    return count, size


def _copied(source: Source, target: Path, advance: Callable[[float], None]) -> str:
    """Copy a file unless a killed backup has already copied it. Return the file's MD5."""
    if source.write is None and source.is_same(target):
        digest = files.md5_of(target, advance)
        with store.reading(source.path):
            is_copy = files.md5_of(source.path) == digest
        if is_copy:
            return digest
    return store.copy(source, target, advance)


def _prune(unfinished: Path, data: Path) -> int:
    """Remove links, and files that the data folder no longer contains. Return the size of the remaining files."""
    size = 0
    for place, folders, names in os.walk(unfinished):
        for path in (Path(place, name) for name in (*folders, *names)):
            seen, name = path.lstat(), path.relative_to(unfinished).as_posix()
            is_copy = is_known(name) and store.is_finished(path.name) and (data / name).exists()
            if stat.S_ISREG(seen.st_mode) and is_copy:
                size += seen.st_size
            elif not stat.S_ISDIR(seen.st_mode):
                path.unlink()
    return size


def remove_older(destination: Path, keep: int) -> list[Path]:
    """Remove all but the newest `keep` complete backups, finish a killed removal, and return the removed folders.

    Damaged backups and unrelated folders are not removed.
    """
    found = completed(destination)
    older = [backup.path for backup in found[: max(0, len(found) - keep)]]
    with _alone(destination):
        for path in older:
            path.rename(destination / f"{_REMOVED}{path.name}")
        for path in destination.glob(f"{_REMOVED}*"):
            shutil.rmtree(path)
    return older


def _problems(backup: Path, faults: _Faults) -> Iterator[str]:
    broken, damaged, unreadable = faults.broken, faults.damaged, faults.unreadable
    if unreadable:
        yield (
            f"{counted(len(unreadable), 'file')} could not be read and {'was' if len(unreadable) == 1 else 'were'} "
            f"skipped ({listed(unreadable, _SHOWN)}). Make the user who runs this command the owner of the data folder "
            "(chown), or check the disk. Then repeat the backup. An older backup might contain the skipped files."
        )
    if broken:
        yield (
            f"{counted(len(broken), 'database')} in Dagster's history {'is' if len(broken) == 1 else 'are'} damaged "
            f"({listed(broken, _SHOWN)}). Damaged databases were copied unchanged. Restore the history from an older "
            "backup, or move the history to another location. The next run then creates a new history."
        )
    if damaged:
        yield (
            f"{counted(len(damaged), 'archive')} on disk {'differs' if len(damaged) == 1 else 'differ'} from the "
            f"verified download and {'was' if len(damaged) == 1 else 'were'} skipped ({listed(damaged, _SHOWN)}). "
            "Remove each archive and its .json file. The next run fetches hours that the service still retains. An "
            "older backup might contain the other archives."
        )
    build, missing = backup / BUILD, list[str]()
    for paths, size in named_in(build) if build.exists() else ():
        sizes = {}
        for name in paths:
            with contextlib.suppress(FileNotFoundError, files.UnusableFileError):
                sizes[name] = files.within(backup / "lake", name).stat().st_size
        if any(f"lake/{name}" in unreadable for name in paths):
            continue
        lost = [name for name in paths if name not in sizes]
        # a group with the wrong total size has a wrong file
        missing += lost or (paths if sum(sizes.values()) != size else [])
    if missing:
        yield (
            f"{counted(len(missing), 'lake file')} in the ledger {'is' if len(missing) == 1 else 'are'} missing from "
            f"the data folder and the backup, or {'has' if len(missing) == 1 else 'have'} a different size "
            f"({listed(missing, _SHOWN)}). Convert the archives again, load the hours, and repeat the backup."
        )
