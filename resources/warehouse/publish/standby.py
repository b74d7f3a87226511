"""The standby: the file that was published before the present one, kept so that the next publication only writes what changed.

It may be overwritten only when nobody reads it any more. DuckDB's lock does not tell: a process loses its locks on a file as soon
as it closes any descriptor of it, so a second connection that ends leaves the first one without a lock. The kernel does tell. It grants a
write lease on a file only if nobody else has it open, whoever that is: another process, another container, this process. That holds
for file systems of this machine; of a shared one it does not know the readers on other machines.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import re
import signal
import stat
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_log = logging.getLogger(__name__)

#: A file that left the published place less than this ago (seconds) is left alone: whoever looked its name up before has opened
#: it by then, and is seen.
SETTLED_SECONDS: Final = 5.0

#: Those whose files only this kernel opens.
_LOCAL: Final = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "bcachefs", "zfs", "tmpfs", "overlay"})
_MOUNTS: Final = Path("/proc/self/mountinfo")


@dataclass(frozen=True)
class Standby:
    """Two names: what is published, and what was before it."""

    path: Path
    published_path: Path

    def take(self, name: Path) -> str | None:
        """Give the standby the name `name`, writable, where nobody else uses it; else remove it and return why, as half a sentence."""
        why = self._refused()
        if why is None:
            self.path.replace(name)
            name.chmod(0o644)
        else:
            self.path.unlink(missing_ok=True)
        return why

    def keep(self) -> None:
        """Make what is published now the next standby, just before another file takes its place.

        Until then both names are of one file. A kill in between leaves them so, and `take` refuses it.
        """
        self.path.unlink(missing_ok=True)
        if not self.published_path.exists():
            return
        try:
            self.path.hardlink_to(self.published_path)
        except OSError as error:
            _log.debug("No standby file is kept (%s); the next publication copies the whole file.", error)

    def remove(self) -> None:
        """Remove it; the next publication copies the whole file."""
        self.path.unlink(missing_ok=True)

    def _refused(self) -> str | None:
        try:
            seen = self.path.lstat()
        except FileNotFoundError:
            return "no file is left of an earlier publication"
        if not stat.S_ISREG(seen.st_mode) or seen.st_nlink != 1:
            return "the file of the publication before has another name as well"
        # the change of its names is the last one a published file sees
        if time.time() - seen.st_ctime < SETTLED_SECONDS:
            return f"the publication before was in use until less than {SETTLED_SECONDS:.0f} s ago"
        return _opened(self.path)


def _opened(path: Path) -> str | None:
    """Why a file is not known to be closed everywhere, as half a sentence; None: nobody has it open."""
    if sys.platform != "linux":
        return "this system does not say whether a reader still has the file of the publication before open"
    if (kind := _file_system(path)) not in _LOCAL:
        return f"a file system of the kind {kind} does not show all readers of the file of the publication before"
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        return f"the file of the publication before cannot be opened ({error.strerror})"
    try:
        # whoever opens it in the next microseconds, a backup perhaps, makes the kernel send a signal: one that nobody minds
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError as error:
        if error.errno == errno.EAGAIN:
            return "a reader still has the file of the publication before open"
        return f"the file system does not say whether a reader still has the file of the publication before open ({error.strerror})"
    finally:
        os.close(descriptor)
    return None


def _file_system(path: Path) -> str:
    """The kind of file system that a file is on: that of the mount with the longest name above it, the last of several in one place."""
    folder, best = path.parent.resolve(), ("", "unknown")
    shown = _MOUNTS.read_text(errors="surrogateescape") if _MOUNTS.exists() else ""
    for line in shown.splitlines():
        before, _, after = line.partition(" - ")
        # blanks and the like in names are written as \040
        place = re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), before.split()[4])
        if folder.is_relative_to(place) and len(place) >= len(best[0]):
            best = (place, after.split()[0])
    return best[1]
