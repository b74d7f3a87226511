"""Putting a backup into an empty data folder; a kill leaves a note there, by which the same call goes on."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from resources import files
from resources.backup.copying import Source, copy, is_finished, saying_full
from resources.backup.errors import BackupDiskFullError, BackupError
from resources.formatting import size_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from resources.backup.store import Backup

#: In the data folder while it is restored.
_NOTE = "restoring.json"


@dataclass
class Restored:
    """Outcome of a restore.

    Attributes:
        damaged: Files left out, whose bytes are not those that were backed up.
        renamed: Settings that have another name now, since they would run whatever they name.
    """

    file_count: int = 0
    size_bytes: int = 0
    damaged: list[str] = field(default_factory=list)
    renamed: list[Path] = field(default_factory=list)


def check(backup: Backup, data: Path, is_known: Callable[[str], bool]) -> None:
    """See that a data folder is empty, and that every file of a backup is one that a mirror has and stays within that folder.

    The digest of the list shows damage, not who wrote the list: its names are as foreign as any. Nothing is changed.

    Args:
        backup: The backup.
        data: The data folder.
        is_known: Returns whether a mirror has a file of this name.

    Raises:
        BackupError: The folder holds something, the list names something else, or something lies in the place of a file or folder.
    """
    _check_empty(backup, data)
    for name, _ in backup.sums():
        if not (files.is_name(name) and is_known(name) and all(map(is_finished, name.split("/")))):
            raise _refused(backup, f"{name[:200]!r} is no file of a mirror.")
        try:
            files.check_way(backup.path, backup.path / name)
            files.check_way(data, data / name)
        except files.UnusableFileError as error:
            raise _refused(backup, error.what) from None


def _refused(backup: Backup, why: str) -> BackupError:
    return BackupError(
        f"The backup {backup.path} was manipulated, or something lies in the way of its files: {why} Nothing was changed. Restore another backup, "
        "into an empty folder."
    )


@contextlib.contextmanager
def restoring(backup: Backup, data: Path) -> Iterator[None]:
    """Keep a note in an empty data folder until the block has ended well.

    Raises:
        BackupError: The folder is not empty, and does not hold half of this backup; nothing was changed.
    """
    _check_empty(backup, data)
    note = data / _NOTE
    files.write(note, _mark(backup))
    yield
    # once for all files: without the note nobody looks at them again
    os.sync()
    note.unlink()


def _check_empty(backup: Backup, data: Path) -> None:
    if os.path.lexists(data) and not data.is_dir():
        raise BackupError(f"{data} is no folder. Nothing was changed. Set WME_DATA to an empty folder.")
    note = data / _NOTE
    if data.exists() and any(data.iterdir()) and not (note.exists() and files.read(note) == _mark(backup)):
        raise BackupError(
            f"The data folder {data} is not empty. Nothing was changed. A backup is restored into an empty folder: set WME_DATA to another one, or "
            "move this one away."
        )
    # through a link, files elsewhere would be written or removed, by DuckDB too; a restore that was killed leaves none
    for place, folders, names in os.walk(data):
        for path in (Path(place, name) for name in (*folders, *names)):
            if stat.S_IFMT(path.lstat().st_mode) not in {stat.S_IFREG, stat.S_IFDIR}:
                raise BackupError(
                    f"{path} is neither a file nor a folder, and no restore creates such a thing. Nothing was changed. Set WME_DATA to an empty folder."
                )


def _mark(backup: Backup) -> bytes:
    return json.dumps({"md5sums": backup.sums_md5}).encode()


def restore(backup: Backup, data: Path, last: str, advance: Callable[[float], None]) -> Restored:
    """Copy a backup's files into a data folder, and compare each with its MD5. What is there already is only compared.

    Args:
        backup: The backup.
        data: The data folder, within `restoring`.
        last: The file that comes last, since with it the folder is a mirror.
        advance: Told the bytes that were copied.

    Raises:
        BackupError: There is no room, or `last` is damaged.
    """
    kept = "What was copied is kept. Make room and run the same command again."
    free, needed = shutil.disk_usage(data).free, backup.size_bytes - _there(backup, data)
    if needed > free:
        raise BackupDiskFullError(
            f"The backup needs {size_text(needed)} more, and {data} has {size_text(free)}. Nothing more was copied. {kept}"
        )
    done, final = Restored(), None
    with saying_full(data, kept):
        for name, digest in backup.sums():
            if name == last:
                final = digest
            else:
                _put(backup.path / name, data, name, digest, done, advance)
        if final is not None:
            _put(backup.path / last, data, last, final, done, advance)
    if last in done.damaged:
        raise BackupError(
            f"The file {backup.path / last} of the backup is damaged. All others were restored. Restore an older backup into an empty folder, or make "
            "the warehouse from the archive that is in the data folder now: `wme rebuild`."
        )
    return done


def _there(backup: Backup, data: Path) -> int:
    """Bytes of the backup that a restore which was killed has copied already."""
    paths = (data / name for name, _ in backup.sums())
    return sum(path.stat().st_size for path in paths if path.is_file())


def _put(source: Path, data: Path, name: str, digest: str, done: Restored, advance: Callable[[float], None]) -> None:
    target = files.within(data, name)
    files.check_way(data, target)
    try:
        seen = source.lstat()
        of = Source(name, source, seen.st_size, seen.st_mtime_ns)
        is_whole = of.is_same(target) and files.md5_of(target, advance) == digest
        is_whole = is_whole or copy(of, target, advance) == digest
    except FileNotFoundError:
        is_whole = False
    if is_whole:
        done.file_count += 1
        done.size_bytes += seen.st_size
    else:
        target.unlink(missing_ok=True)
        done.damaged.append(name)
