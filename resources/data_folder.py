"""Checks of the data folder before writing: it is usable, has room, and belongs to the service.

Synthetic pages must never pass for real ones, and two services must never be mixed in one warehouse. So a data folder
records the service that it was filled from. The plan of a run checks the room for the run itself.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field, TypeAdapter

from resources import files
from resources.errors import MirrorError

#: Minimum free space of any run: a new history of runs, tokens and locks.
ROOM_BYTES = 8_000_000
#: Path of the report on the web server of the Dagster UI.
REPORT_PATH = "/report"
_POLL_SECONDS = 0.05
_REFUSED = frozenset({errno.EACCES, errno.EPERM})
_MAKE_ROOM = "Make room, or set WME_DATA to a folder of another disk."


def report(data: Path) -> Path:
    return data / "report.html"


def ui_lock(data: Path) -> Path:
    """Return the file that `wme ui` holds a lock on while it serves a data folder. The lock ends with the process."""
    return data.absolute() / "dagster" / "ui.lock"


class BackupUnderWayError(MirrorError):
    """Another process is copying or removing files."""

    retryable = True


class FolderError(MirrorError):
    """The folder cannot be written; nothing was changed."""

    ends_run = True


class OriginError(MirrorError):
    """The data folder belongs to another service."""

    ends_run = True


class _Note(BaseModel):
    """Record of the service that a data folder was filled from."""

    service: Annotated[str, Field(pattern=r"\A[^\x00-\x1f\x7f-\x9f]*\z")]


_NOTE = TypeAdapter(_Note)


def ready(folder: Path) -> None:
    """Create a folder if needed, and check that files can be written there.

    Raises:
        FolderError: Files cannot be written, or the disk is full; the message says which, and what to do.
    """
    probe = folder / f".{os.getpid()}.tmp"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # a quota of the user is only detected by writing
        try:
            probe.unlink(missing_ok=True)
            with probe.open("xb") as file:
                file.write(bytes(4096))
        finally:
            probe.unlink(missing_ok=True)
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise FolderError(
            f"The folder {folder} cannot be written ({error.strerror or error}). Nothing was changed. {advice(error)}"
        ) from None
    if free < ROOM_BYTES:
        raise FolderError(
            f"The disk of the folder {folder} is full: {free / 1e6:.1f} MB are free, and any run needs "
            f"{ROOM_BYTES / 1e6:.0f}. Nothing was changed. {_MAKE_ROOM}"
        )


def advice(error: OSError) -> str:
    """Return advice for an error of the system."""
    if files.is_full(error):
        return _MAKE_ROOM
    if error.errno == errno.EROFS:
        return "Mount its file system for writing, or set WME_DATA to another folder."
    if error.errno in _REFUSED:
        return "Give it to the user who runs this (chown), or set WME_DATA to another folder."
    return "Correct this, or set WME_DATA to another folder."


def origin_of(data: Path) -> str | None:
    """Return the service that a data folder was filled from (None: it is empty); OriginError if its note is damaged."""
    try:
        return files.read_json(_note(data), _NOTE).service
    except FileNotFoundError:
        return None
    except files.UnusableFileError as error:
        raise OriginError(
            f"{error.what} It says which service the data folder was filled from, so nothing was changed. Restore the "
            "file from a backup, or write "
            f'{{"service": "..."}} into it: the table `about` of the published file has the service\'s name.'
        ) from None


def facts_of(data: Path) -> dict[str, str]:
    """Return the rows of the published table `about` that name the source of the content."""
    return {"service": origin_of(data) or "unknown"}


def claim(data: Path, service: str, *, writes: bool = True) -> None:
    """Bind a data folder to `service` (its address, or `sandbox <identity>`), or check the existing binding.

    Raises:
        OriginError: The folder was filled from another service; nothing was changed.
    """
    known = origin_of(data)
    if known is None:
        if writes:
            files.write(_note(data), json.dumps({"service": service}).encode() + b"\n")
    elif known != service:
        told = (
            f"The data folder {data} was filled from {known}, but the settings name {service}. Nothing was changed. "
            "Set WME_DATA to another folder for this service, or return to the service of this folder."
        )
        # without tokens no login has ever succeeded: probably the address is wrong
        if not (data / "archive").exists() and not (data / "state" / "tokens.json").exists():
            told += f" Nothing has been fetched yet: if {known} was a mistake, remove {_note(data)}."
        raise OriginError(told)


@contextlib.contextmanager
def removing(data: Path) -> Iterator[bool]:
    """Yield True if files of archive and lake may be removed now; no backup starts within the context then."""
    with _flock(data) as descriptor:
        yield _taken(descriptor, fcntl.LOCK_SH)


@contextlib.contextmanager
def copying(data: Path, wait_seconds: float = 60.0) -> Iterator[None]:
    """Prevent the removal of files of the archive and the lake. Files may still be added.

    Raises:
        BackupUnderWayError: Another process is copying them, or has been removing files for `wait_seconds`.
    """
    deadline = time.monotonic() + wait_seconds
    with _flock(data) as descriptor:
        while not _taken(descriptor, fcntl.LOCK_EX):
            if time.monotonic() > deadline:
                raise BackupUnderWayError(
                    f"Another process is backing up {data} or removing files from it. Nothing was changed. Wait until "
                    "it has finished, then run this again."
                )
            time.sleep(_POLL_SECONDS)
        yield


@contextlib.contextmanager
def _flock(data: Path) -> Iterator[int]:
    lock = data / "state" / "backup.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _taken(descriptor: int, how: int) -> bool:
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _note(data: Path) -> Path:
    return data / "state" / "service.json"
