"""Backups of a mirror, taken while it is used, and restoring one.

A backup has what cannot be made again, and what would take long to: the build file as it is at one moment, which says what is loaded; the
lake and the archive, whose files are never changed, and of which none is removed while they are copied; Dagster's history; which service it
all came from. The build file is copied first, so every file that it names is there when its turn comes. What is written later is
in the next backup. Left out are secrets (tokens), locks, what is unfinished, and the published file, which is made from the build file.
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from pipelines.process.instance import FOLDER, TEMPLATE, WORKSPACE
from resources import backup as backups
from resources import files
from resources.backup import BackupError, Source, walk
from resources.data_folder import copying, facts_of, origin_of
from resources.datasets.paths import ARCHIVE
from resources.formatting import counted, listed
from resources.lake import Layout
from resources.warehouse import Warehouse, WarehouseDamagedError, named_in, remove_code

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from resources.backup import Backup, Plan, Restored, Taken
    from resources.engine import Reporter

BUILD = "warehouse/build.duckdb"
#: Which service, and what was spent of the day's lookups. Tokens are secrets, and all else is about files that are not copied.
_STATE = ("service.json", "lookups.json")
#: Of Dagster's folder: settings, and the history in SQLite. The output of processes is not needed to go on.
_HISTORY = ("dagster/history/", "dagster/schedules/")
#: All that a backup has.
_FOLDERS = ("archive/", "lake/", *_HISTORY)
_FILES = frozenset({BUILD, "dagster/dagster.yaml", "dagster/workspace.yaml", *(f"state/{name}" for name in _STATE)})
_SHOWN = 3


@dataclass(frozen=True)
class Report:
    """A backup that was taken. `problems`: sentences about files that it should have and has not."""

    taken: Taken
    problems: tuple[str, ...]


def plan(data: files.StrPath, destination: files.StrPath) -> Plan:
    """See what a backup to a destination would copy; nothing is written.

    Raises:
        BackupError: There is nothing to back up, or the destination cannot be one.
    """
    data, destination = Path(data), Path(destination)
    _check(data, destination)
    return backups.plan(destination, _sources(data))


def take(data: files.StrPath, destination: files.StrPath, reporter: Reporter, keep: int | None = None) -> Report:
    """Take a backup, or continue the one that was killed. Loads, compactions, publications and the stream go on meanwhile.

    Args:
        data: The data folder.
        destination: Folder of the backups, anywhere but in the data folder.
        reporter: Shows how far the copying is.
        keep: How many complete backups stay, this one included, if it lacks nothing. Default: all.

    Raises:
        BackupError: It could not be taken; complete backups are as they were, and what was copied is kept.
        BackupUnderWayError: Another process backs up this data folder, or removes files of it.
        WarehouseBusyError: Another process used the warehouse all the time.
    """
    data, destination = Path(data), Path(destination)
    _check(data, destination)
    broken: list[str] = []
    with copying(data):
        planned = backups.plan(destination, _sources(data))
        task = reporter.start("copy", planned.copied_bytes, "B")
        taken = backups.take(
            destination,
            lambda: _sources(data, broken),
            origin_of(data) or "unknown",
            verified=_verified,
            advance=task.advance,
            planned=planned,
            now=datetime.now(UTC),
        )
        task.finish()
    problems = tuple(_problems(taken, broken))
    # what this one lacks, an older one may have
    if keep is not None and not problems:
        taken.removed += backups.remove_older(destination, keep)
    return Report(taken, problems)


def restore(source: files.StrPath, data: files.StrPath, reporter: Reporter) -> tuple[Backup, Restored]:
    """Restore a backup, or the newest one of a destination, into an empty data folder, and publish.

    A restore that was killed is continued by the same call. Nothing of the path that the backup was taken from is left in the published file.
    The backup's own views, macros and triggers are removed before anything runs them, and its settings of Dagster are renamed unless they are the
    usual ones.

    Raises:
        BackupError: There is no backup, the folder is not empty, or there is no room for it.
    """
    data, backup = Path(data), backups.find(Path(source))
    warehouse = Warehouse(data)
    check(backup, data)
    with backups.restoring(backup, data):
        with warehouse.writing("restore the backup"):
            task = reporter.start("restore", backup.size_bytes, "B")
            restored = backups.restore(backup, data, BUILD, task.advance)
            task.finish()
            restored.renamed = [*_renamed(data)]
            if warehouse.build_path.exists():
                # a backup has no log, and another one would be applied to the file
                warehouse.build_path.with_name(f"{warehouse.build_path.name}.wal").unlink(missing_ok=True)
                remove_code(warehouse.build_path)
        if warehouse.build_path.exists():
            warehouse.publish(facts_of(data))
    return backup, restored


def check(backup: Backup, data: Path) -> None:
    """See that a backup can be restored into a data folder without leaving it: by all names in its list and in its ledger.

    Raises:
        BackupError: It cannot be; nothing was changed.
    """
    backups.check(backup, data, is_known)
    build = backup.path / BUILD
    # a damaged ledger is found by its digest, once everything else is there
    with contextlib.suppress(WarehouseDamagedError):
        for paths, _ in named_in(build) if build.exists() else ():
            for name in paths:
                try:
                    files.within(data / "lake", str(name))
                except files.UnusableFileError as error:
                    raise BackupError(
                        f"The backup {backup.path} was manipulated: its warehouse names a file elsewhere. {error} Nothing was changed. Restore "
                        "another backup."
                    ) from None


def _renamed(data: Path) -> Iterator[Path]:
    """Rename settings of Dagster that are not the usual ones: they name modules, programs and files, which Dagster loads, starts and writes."""
    for usual, name in ((TEMPLATE, "dagster.yaml"), (WORKSPACE, WORKSPACE.name)):
        path = data / FOLDER / name
        if path.exists() and files.read(path) != usual.read_bytes():
            yield path.replace(path.with_name(f"{name}.restored"))


def is_known(name: str) -> bool:
    """Return whether a backup may hold a file of this name, relative to the data folder."""
    return name in _FILES or name.startswith(_FOLDERS)


def _check(data: Path, destination: Path) -> None:
    if not (data / "archive").exists() and not (data / BUILD).exists():
        raise BackupError(f"There is nothing to back up in {data}. If another data folder is meant, set WME_DATA.")
    ours, theirs = data.resolve(), destination.resolve()
    if ours.is_relative_to(theirs) or theirs.is_relative_to(ours):
        raise BackupError(
            f"{destination} and the data folder {data} must not contain one another. Nothing was copied. Name a folder elsewhere, on another disk."
        )
    if destination.exists() and not destination.is_dir():
        raise BackupError(
            f"{destination} is not a folder. Nothing was copied. Name a folder, which is made if it does not exist."
        )


def _sources(data: Path, broken: list[str] | None = None) -> Iterator[Source]:
    """The files of a backup, in descending order of their paths; databases that SQLite cannot read are noted in `broken` as they are copied."""
    layout, warehouse = Layout(data), Warehouse(data)
    if warehouse.build_path.exists():
        yield Source(BUILD, warehouse.build_path, warehouse.build_path.stat().st_size, None, warehouse.copy_to)
    yield from (source for source in walk(data / "state", "state") if source.path.name in _STATE)
    yield from walk(layout.lake, "lake")
    yield from _history(data, [] if broken is None else broken)
    yield from walk(layout.archive, "archive")


def _history(data: Path, broken: list[str]) -> Iterator[Source]:
    for source in walk(data / "dagster", "dagster"):
        if not is_known(source.name) or source.name.endswith(("-wal", "-shm", "-journal")):
            continue
        if not source.name.endswith(".db"):
            yield source
            continue
        # what is committed may still be in the log beside it; reading makes an empty one
        log = source.path.with_name(f"{source.path.name}-wal")
        logs = [log] if log.exists() and log.stat().st_size else []
        changed = max(path.stat().st_mtime_ns for path in (source.path, *logs))
        yield replace(source, mtime_ns=changed, write=_sqlite_copy(source, broken))


def _sqlite_copy(source: Source, broken: list[str]) -> Callable[[Path], None]:
    path = source.path

    def write(target: Path) -> None:
        if not path.exists():
            raise FileNotFoundError(path)
        try:
            with (
                contextlib.closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as database,
                contextlib.closing(sqlite3.connect(target)) as copy,
            ):
                database.backup(copy)
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError:
            shutil.copyfile(path, target)
            broken.append(source.name)

    return write


def _verified(source: Source) -> str | None:
    """The MD5 with which the service's file was verified, by the note beside it."""
    if not source.name.endswith(f".{ARCHIVE}"):
        return None
    try:
        note = files.read_json(source.path.with_name(f"{source.path.name}.json"), files.JSON_OBJECT)
    except (OSError, files.UnusableFileError):
        return None
    return str(note.get("version", "")) or None


def _problems(taken: Taken, broken: list[str]) -> Iterator[str]:
    if broken:
        yield (
            f"{counted(len(broken), 'database')} of Dagster's history {'is' if len(broken) == 1 else 'are'} damaged ({listed(broken, _SHOWN)}), and backed up "
            "byte by byte. Restore the history from an older backup, or move it away: a new one is made."
        )
    if taken.damaged:
        yield (
            f"{counted(len(taken.damaged), 'archive')} on disk {'is' if len(taken.damaged) == 1 else 'are'} not what was fetched and verified "
            f"({listed(taken.damaged, _SHOWN)}), and left out. Remove each with its .json; a run fetches the hours again that the service still "
            "has, and an older backup may have the others."
        )
    build, lake = taken.backup.path / BUILD, taken.backup.path / "lake"
    groups = named_in(build) if build.exists() else ()
    missing = [path for paths, size in groups for path in _missing(lake, paths, size)]
    if missing:
        yield (
            f"{counted(len(missing), 'lake file')} that the warehouse names {'is' if len(missing) == 1 else 'are'} missing or of another size in the data "
            f"folder ({listed(missing, _SHOWN)}), and so in the backup. Convert the archives again, load their hours, and back up again."
        )


def _missing(lake: Path, paths: tuple[str, ...], size: int) -> list[str]:
    """Return those of some files that are not there; all, where they have not the size that they should have together."""
    sizes: dict[str, int] = {}
    for name in paths:
        with contextlib.suppress(FileNotFoundError, files.UnusableFileError):
            sizes[name] = files.within(lake, name).stat().st_size
    lost = [name for name in paths if name not in sizes]
    return lost or ([] if sum(sizes.values()) == size else list(paths))
