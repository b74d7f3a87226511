"""Restore a backup into an empty data folder. Repeating the call resumes a killed restore."""

import contextlib
import json
import os
import shutil
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pipelines.operations.backup import BUILD, is_known
from pipelines.process.processes import FOLDER, TEMPLATE, WORKSPACE
from resources import backup as store
from resources import files
from resources.backup import Backup, BackupError, Source
from resources.data_folder import facts_of
from resources.engine import Reporter
from resources.formatting import size_text
from resources.warehouse import Warehouse, WarehouseDamagedError, named_in, remove_code

#: File that marks an unfinished restore, with the MD5 of the backup's list, so that the same restore can resume.
_NOTE = "restoring.json"
_KEPT = "The copied files are kept. Free some disk space, then run the command again."


@dataclass
class Restored:
    """Outcome of a restore, with files that were not restored and settings files that could have started programs."""

    backup: Backup
    file_count: int = 0
    size_bytes: int = 0
    damaged: list[str] = field(default_factory=list)
    renamed: list[Path] = field(default_factory=list)


def restore(source: files.StrPath, data: files.StrPath, reporter: Reporter) -> Restored:
    """Restore a backup, or a destination's newest backup, into an empty data folder, then publish.

    The published file contains no paths from the original data folder. Views, macros and triggers in the backup are
    removed before they can run. Dagster settings that differ from the default settings are renamed. Raises BackupError
    if there is no backup, the folder is not empty, or the disk is full.
    """
    data, backup = Path(data), store.find(Path(source))
    warehouse = Warehouse(data)
    check(backup, data)
    files.write(data / _NOTE, _mark(backup))
    with warehouse.writing("restore the backup"):
        with reporter("restore", backup.size_bytes, "B") as advance:
            restored = _restore_files(backup, data, advance)
        # settings can specify programs to start
        for usual, name in ((TEMPLATE, "dagster.yaml"), (WORKSPACE, WORKSPACE.name)):
            path = data / FOLDER / name
            if path.exists() and files.read(path) != usual.read_bytes():
                restored.renamed.append(path.replace(path.with_name(f"{name}.restored")))
        if warehouse.build_path.exists():
            # remove a leftover log, which DuckDB would apply to the restored file
            warehouse.build_path.with_name(f"{warehouse.build_path.name}.wal").unlink(missing_ok=True)
            remove_code(warehouse.build_path)
    if warehouse.build_path.exists():
        warehouse.publish(facts_of(data))
    # sync all files once before the note is removed, because without the note the files are not checked again
    os.sync()
    (data / _NOTE).unlink()
    return restored


def check(backup: Backup, data: Path) -> None:
    """Check that a backup can be restored into a data folder, and that all its paths are inside the folder.

    The backup's list and ledger contain these paths. The list's digest reveals damage but not manipulation, so the
    names in the list are untrusted. Raises BackupError and changes nothing if the backup cannot be restored.
    """
    # the folder is empty or contains only the unfinished part of this restore
    if os.path.lexists(data) and not data.is_dir():
        raise BackupError(f"{data} is not a folder. Nothing was changed. Set WME_DATA to an empty folder.")
    note = data / _NOTE
    if data.exists() and any(data.iterdir()) and not (note.exists() and files.read(note) == _mark(backup)):
        raise BackupError(
            f"The data folder {data} is not empty. Nothing was changed. Backups are restored only into an empty "
            "folder. Set WME_DATA to another folder, or move the files to another location."
        )
    for path in data.rglob("*"):
        if stat.S_IFMT(path.lstat().st_mode) not in {stat.S_IFREG, stat.S_IFDIR}:
            raise BackupError(
                f"{path} is neither a file nor a folder, so it was not created by a restore. Nothing was changed. Set "
                "WME_DATA to an empty folder."
            )
    for name, _ in backup.sums():
        try:
            if not (files.is_name(name) and is_known(name) and all(map(store.is_finished, name.split("/")))):
                raise files.UnusableFileError(f"{name[:200]!r} is not a valid file name in a mirror.")  # noqa: TRY301
            files.check_way(backup.path, backup.path / name)
            files.check_way(data, data / name)
        except files.UnusableFileError as error:
            raise BackupError(
                f"The backup {backup.path} has been tampered with, or the data folder already contains its files: "
                f"{error.what} Nothing was changed. Restore another backup into an empty folder."
            ) from None
    build = backup.path / BUILD
    # a damaged ledger is found by its digest, after all other files are restored
    with contextlib.suppress(WarehouseDamagedError):
        for paths, _ in named_in(build) if build.exists() else ():
            for name in paths:
                try:
                    files.within(data / "lake", str(name))
                except files.UnusableFileError as error:
                    raise BackupError(
                        f"The backup {backup.path} has been tampered with. Its warehouse refers to a file outside the "
                        f"lake. {error} Nothing was changed. Restore another backup."
                    ) from None


def _mark(backup: Backup) -> bytes:
    return json.dumps({"md5sums": backup.sums_md5}).encode()


def _restore_files(backup: Backup, data: Path, advance: Callable[[float], None]) -> Restored:
    """Copy all files and verify each MD5. The build file is copied last, because it turns the folder into a mirror."""
    present = (data / name for name, _ in backup.sums())
    needed = backup.size_bytes - sum(path.stat().st_size for path in present if path.is_file())
    if needed > (free := shutil.disk_usage(data).free):
        raise store.BackupDiskFullError(
            f"The backup needs {size_text(needed)} more space, but only {size_text(free)} is free in {data}. "
            f"Nothing more was copied. {_KEPT}"
        )
    done = Restored(backup)
    with store.reporting_full(data, _KEPT):
        names = (one for is_build in (False, True) for one in backup.sums() if (one[0] == BUILD) == is_build)
        for name, digest in names:
            original, target = backup.path / name, files.within(data, name)
            files.check_way(data, target)
            try:
                seen = original.lstat()
                source = Source(name, original, seen.st_size, seen.st_mtime_ns)
                is_complete = source.is_same(target) and files.md5_of(target, advance) == digest
                is_complete = is_complete or store.copy(source, target, advance) == digest
            except (FileNotFoundError, store.UnreadableFileError):
                is_complete = False
            if is_complete:
                done.file_count += 1
                done.size_bytes += seen.st_size
            else:
                target.unlink(missing_ok=True)
                done.damaged.append(name)
    if BUILD in done.damaged:
        raise BackupError(
            f"The backup file {backup.path / BUILD} is damaged. All other files were restored. Restore an older backup "
            "into an empty folder, or run `wme rebuild` to create the warehouse from the restored archive."
        )
    return done
