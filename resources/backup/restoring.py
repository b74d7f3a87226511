"""Putting a backup into an empty data folder; a kill leaves a note there, by which the same call goes on."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from resources import files
from resources.backup.copying import Source, copy, saying_full
from resources.backup.errors import BackupDiskFullError, BackupError
from resources.formatting import size_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from resources.backup.store import Backup

#: In the data folder while it is restored.
_NOTE = "restoring.json"


@dataclass
class Restored:
    """What a restore put into the data folder. `damaged`: files left out, whose bytes are not those that were backed up."""

    file_count: int = 0
    size_bytes: int = 0
    damaged: list[str] = field(default_factory=list)


@contextlib.contextmanager
def restoring(backup: Backup, data: Path) -> Iterator[None]:
    """Keep a note in an empty data folder until the block has ended well.

    Raises:
        BackupError: The folder is not empty, and does not hold half of this backup; nothing was changed.
    """
    note, mark = data / _NOTE, json.dumps({"md5sums": backup.sums_md5}).encode()
    if not (note.exists() and note.read_bytes() == mark) and data.exists() and any(data.iterdir()):
        raise BackupError(
            f"The data folder {data} is not empty. Nothing was changed. A backup is restored into an empty folder: set WME_DATA to another one, or "
            "move this one away."
        )
    files.write(note, mark)
    yield
    # once for all files: without the note nobody looks at them again
    os.sync()
    note.unlink()


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
    target = data / name
    try:
        seen = source.stat()
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
