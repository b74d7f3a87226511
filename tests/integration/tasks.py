"""Functions that tests give to workers: a task is a function of a module."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from pathlib import Path

from resources import remote
from resources.lake import ArchiveError, Compaction, CompactionJob
from resources.lake.compaction import sorting


def double(number: int) -> int:
    return 2 * number


def fail(path: str) -> None:
    raise ArchiveError(Path(path), "no", member="m", offset=7)


def odd() -> None:
    class OddError(Exception):
        pass

    raise OddError("unheard of")


_meeting = threading.Barrier(2)


def meet() -> bool:
    """Whether another call comes to this process while this one waits for it."""
    try:
        _meeting.wait(0.2)
    except threading.BrokenBarrierError:
        _meeting.reset()
        return False
    return True


def compact_or_die(job: CompactionJob) -> Compaction:
    """Compact; the first process that does dies when it has put some of the rows on disk."""
    died = remote._seat.layout.root / "died"
    with contextlib.suppress(FileExistsError):
        died.touch(exist_ok=False)
        sorting._read = lambda _path: die()
    return remote.compact_here(job)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
