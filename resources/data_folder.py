"""Checks before writing to the data folder, which must be usable, have free space, and belong to the service.

Synthetic pages must never be mistaken for real pages, and a warehouse must never mix two services. A data folder
therefore records the service that filled it. Each run's plan checks the disk space that the run itself needs.
"""

import contextlib
import errno
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field, TypeAdapter

from resources import files
from resources.errors import MirrorError

#: Minimum free disk space for any run, enough for a new run history, tokens and locks.
ROOM_BYTES = 8_000_000
#: Path of the report on the Dagster UI's web server.
REPORT_PATH = "/report"
_REFUSED = frozenset({errno.EACCES, errno.EPERM})
_MAKE_ROOM = "Free up disk space, or set WME_DATA to a folder on another disk."


def report(data: Path) -> Path:
    return data / "report.html"


def ui_lock(data: Path) -> Path:
    """Return the lock that `wme ui` holds while serving a data folder. The lock is released when the process ends."""
    return data.absolute() / "dagster" / "ui.lock"


class BackupUnderWayError(MirrorError):
    """Another process is backing up or removing files."""

    retryable = True


class FolderError(MirrorError):
    """The folder is not writable. Nothing was changed."""

    ends_run = True


class OriginError(MirrorError):
    """The data folder belongs to another service."""

    ends_run = True


class _Note(BaseModel):
    """Stored note that identifies the service that filled a data folder."""

    service: Annotated[str, Field(pattern=r"\A[^\x00-\x1f\x7f-\x9f]*\z")]


_NOTE = TypeAdapter(_Note)
_NOTE_PATH = "state/service.json"


def ready(folder: Path) -> None:
    """Create a folder if needed. Raises FolderError if files cannot be written there, or if the disk is full."""
    probe = folder / f".{os.getpid()}.tmp"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # a user's disk quota can be detected only by writing
        try:
            probe.unlink(missing_ok=True)
            with probe.open("xb") as file:
                file.write(bytes(4096))
        finally:
            probe.unlink(missing_ok=True)
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise FolderError(
            f"The folder {folder} is not writable ({error.strerror or error}). Nothing was changed. {advice(error)}"
        ) from None
    if free < ROOM_BYTES:
        raise FolderError(
            f"The disk that contains {folder} is full: {free / 1e6:.1f} MB is free, but a run needs "
            f"{ROOM_BYTES / 1e6:.0f} MB. Nothing was changed. {_MAKE_ROOM}"
        )


def advice(error: OSError) -> str:
    """Return advice for an operating system error."""
    if files.is_full(error):
        return _MAKE_ROOM
    if error.errno == errno.EROFS:
        return "Mount the file system read-write, or set WME_DATA to another folder."
    if error.errno in _REFUSED:
        return "Make the user who runs this command the folder's owner (chown), or set WME_DATA to another folder."
    return "Correct the problem, or set WME_DATA to another folder."


def origin_of(data: Path) -> str | None:
    """Return the service that filled a data folder, or None if unknown. Raises OriginError if the note is damaged."""
    try:
        return files.read_json(data / _NOTE_PATH, _NOTE).service
    except FileNotFoundError:
        return None
    except files.UnusableFileError as error:
        raise OriginError(
            f"{error.what} The file identifies the service that filled the data folder, so nothing was changed. "
            "Restore the file from a backup, or write "
            f'{{"service": "..."}} to the file. The `about` table in the published file contains the service\'s name.'
        ) from None


def facts_of(data: Path) -> dict[str, str]:
    """Return the rows of the published `about` table that identify the source of the content."""
    return {"service": origin_of(data) or "unknown"}


def claim(data: Path, service: str, *, writes: bool = True) -> None:
    """Bind a data folder to `service` (its address, or `sandbox <identity>`), or check the existing binding.

    Raises OriginError, and changes nothing, if another service filled the folder.
    """
    known = origin_of(data)
    if known is None:
        if writes:
            files.write(data / _NOTE_PATH, json.dumps({"service": service}).encode() + b"\n")
    elif known != service:
        told = (
            f"The data folder {data} contains data from {known}, but the settings specify {service}. Nothing was "
            "changed. Set WME_DATA to another folder for this service, or restore the previous settings."
        )
        # without tokens, no login has ever succeeded, so the address is probably wrong
        if not (data / "archive").exists() and not (data / "state" / "tokens.json").exists():
            told += f" Nothing has been fetched yet. If {known} was a mistake, remove {data / _NOTE_PATH}."
        raise OriginError(told)


@contextlib.contextmanager
def removing(data: Path) -> Iterator[bool]:
    """Yield True if files may be removed from the archive and the lake, and if so, prevent backups from starting."""
    descriptor = os.open(_backup_lock(data), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        yield files.take(descriptor, shared=True)
    finally:
        os.close(descriptor)


def copying(data: Path, wait_seconds: float = 60.0) -> contextlib.AbstractContextManager[int]:
    """Prevent other processes from removing files from the archive and the lake. Files can still be added.

    Raises BackupUnderWayError if another process has been backing up or removing files for `wait_seconds`.
    """
    busy = BackupUnderWayError(
        f"Another process is backing up {data} or removing files from it. Nothing was changed. Wait until the other "
        "process has finished, then try again."
    )
    return files.held(_backup_lock(data), wait_seconds=wait_seconds, busy=busy)


def _backup_lock(data: Path) -> Path:
    lock = data / "state" / "backup.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    return lock
