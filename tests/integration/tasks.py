"""Functions that tests give to workers: a task is a function of a module."""

import contextlib
import os
import signal
import threading
import time
from pathlib import Path

from resources import remote
from resources.lake import Archive, ArchiveError, Compaction, CompactionJob, ConvertedFile
from resources.lake.parquet import sorting


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


#: In the data folder: a conversion was the first; the others may go on.
FIRST, GOES_ON = "first", "goes-on"


def convert_one_then_wait(archive: Archive, bodies: frozenset[str]) -> ConvertedFile:
    """Convert; of all processes together one call does so at once, and the others wait until they may."""
    root, until = remote._context[0].root, time.monotonic() + 120
    try:
        (root / FIRST).touch(exist_ok=False)
    except FileExistsError:
        while not (root / GOES_ON).exists():
            assert time.monotonic() < until
            time.sleep(0.005)
    return remote.convert_here(archive, bodies)


def compact_or_die(job: CompactionJob) -> Compaction:
    """Compact; the first process that does dies when it has put some of the rows on disk."""
    died = remote._context[0].root / "died"
    with contextlib.suppress(FileExistsError):
        died.touch(exist_ok=False)
        sorting._read = lambda _path: die()
    return remote.compact_here(job)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
