"""Functions that tests give to workers: a task is a function of a module."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from resources.lake import ArchiveError


def double(number: int) -> int:
    return 2 * number


def fail(path: str) -> None:
    raise ArchiveError(Path(path), "no", member="m", offset=7)


def odd() -> None:
    class OddError(Exception):
        pass

    raise OddError("unheard of")


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
