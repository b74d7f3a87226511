"""The folders that are written, before anything is: they can be, and there is room.

Belongs here: what to say where the system refuses. Does not belong here: the room that a run needs (its plan knows that).
"""

from __future__ import annotations

import errno
import os
import shutil
from typing import TYPE_CHECKING

from resources import files
from resources.errors import MirrorError

if TYPE_CHECKING:
    from pathlib import Path

#: For a new history of runs, tokens and locks, whatever a run fetches.
ROOM_BYTES = 8_000_000

_MAKE_ROOM = "Make room, or set WME_DATA to a folder of another disk."
_REFUSED = frozenset({errno.EACCES, errno.EPERM})


class FolderError(MirrorError):
    """A folder cannot be written; nothing was changed."""

    ends_run = True


def ready(folder: Path) -> None:
    """Make a folder where there is none, and see that files can be written there.

    Raises:
        FolderError: They cannot be, or there is no room; the message says which, and what to do.
    """
    probe = folder / f".{os.getpid()}.tmp"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # a quota of the user is seen by writing only
        try:
            probe.write_bytes(bytes(4096))
        finally:
            probe.unlink(missing_ok=True)
        free = shutil.disk_usage(folder).free
    except OSError as error:
        failure = FolderError(
            f"The folder {folder} cannot be written ({error.strerror or error}). Nothing was changed. {advice(error)}"
        )
    else:
        if free >= ROOM_BYTES:
            return
        failure = FolderError(
            f"The disk of the folder {folder} is full: {free / 1e6:.1f} MB are free, and any run needs {ROOM_BYTES / 1e6:.0f}. "
            f"Nothing was changed. {_MAKE_ROOM}"
        )
    raise failure


def advice(error: OSError) -> str:
    """What to do about what the system refused, in a sentence."""
    if files.is_full(error):
        return _MAKE_ROOM
    if error.errno == errno.EROFS:
        return "Mount its file system for writing, or set WME_DATA to another folder."
    if error.errno in _REFUSED:
        return "Give it to the user who runs this (chown), or set WME_DATA to another folder."
    return "Mend this, or set WME_DATA to another folder."
