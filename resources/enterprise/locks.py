"""Opens a file for one process (and one thread) at a time.

Belongs here: the lock on an unfinished file itself, so that nothing but that file need lie about.
Does not belong here: the lock of the token store, which outlives the file it guards.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from typing import TYPE_CHECKING

from resources.enterprise.errors import StateBusy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_POLL_SECONDS = 0.02


@contextlib.contextmanager
def held(path: Path, *, wait_seconds: float, mode: int = 0o644) -> Iterator[int]:
    """Open (or create) a file and hold it alone; yields its descriptor, open for reading and writing.

    The holder may rename or unlink the file: whoever waited then starts over with a file of that name of its own.
    The lock ends with the process, however that ends.

    Raises:
        StateBusy: Somebody else has held the file for `wait_seconds`.
    """
    deadline = time.monotonic() + wait_seconds
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, mode)
        try:
            if _lock(descriptor) and _is_named(descriptor, path):
                yield descriptor
                return
        finally:
            os.close(descriptor)
        if time.monotonic() > deadline:
            raise StateBusy(
                f"Another process has been writing {path} for more than {wait_seconds:.0f} s. Nothing was changed. "
                "Wait for it, or end it if it hangs, and run this again."
            )
        time.sleep(_POLL_SECONDS)


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_named(descriptor: int, path: Path) -> bool:
    """Whether the file that was locked is still the one of that name."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
