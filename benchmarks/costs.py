"""What a piece of work costs, in this process or in one of its own: seconds, processor time, peak of memory.

Belongs here: taking the time of something. Does not belong here: what is done.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

_RESET_PEAK = Path("/proc/self/clear_refs")
#: How often the memory of another process is looked at.
_LOOK_SECONDS = 0.05


@dataclass(frozen=True)
class Cost:
    """Seconds on the clock and of processor time, and the peak of memory (MiB; None where the system does not tell)."""

    seconds: float
    cpu_seconds: float
    peak_mib: float | None


@contextmanager
def taken(costs: dict[str, Cost], title: str) -> Iterator[None]:
    """Take the cost of what is done in the context, under its title."""
    if _RESET_PEAK.exists():
        _RESET_PEAK.write_text("5")
    started, busy = time.perf_counter(), time.process_time()
    yield
    costs[title] = Cost(time.perf_counter() - started, time.process_time() - busy, _peak_mib())


def timed(work: Callable[[], object]) -> Cost:
    """The cost of a call."""
    costs: dict[str, Cost] = {}
    with taken(costs, ""):
        work()
    return costs[""]


def of_process(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> Cost:
    """The cost of a command in a process of its own; processor time with its helpers.

    Raises:
        RuntimeError: It failed; the message has the end of its output.
    """
    started, peak = time.perf_counter(), None
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(command, cwd=folder, env=dict(environment), stdout=said, stderr=said)
        # what the system says of a process that has ended includes the memory of this one, which it was forked from
        while not (ended := os.wait4(process.pid, os.WNOHANG))[0]:
            peak = _peak_mib(process.pid) or peak
            time.sleep(_LOOK_SECONDS)
        _, status, used = ended
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            said.seek(0)
            end = said.read()[-2000:].decode(errors="replace")
            raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}: {end}")
    return Cost(time.perf_counter() - started, used.ru_utime + used.ru_stime, peak)


def total(costs: Collection[Cost]) -> Cost:
    """All of them, one after the other."""
    peaks = [cost.peak_mib for cost in costs if cost.peak_mib is not None]
    return Cost(sum(cost.seconds for cost in costs), sum(cost.cpu_seconds for cost in costs), max(peaks, default=None))


def median(costs: Collection[Cost]) -> Cost:
    """The one in the middle, of the clock and of processor time each by itself, and the highest peak."""
    peaks = [cost.peak_mib for cost in costs if cost.peak_mib is not None]
    return Cost(
        statistics.median(cost.seconds for cost in costs),
        statistics.median(cost.cpu_seconds for cost in costs),
        max(peaks, default=None),
    )


def written_bytes() -> int:
    """What this process has caused to be written to disks so far; 0 where the system does not tell."""
    counts = Path("/proc/self/io")
    if not counts.exists():
        return 0
    return next(int(line.split()[1]) for line in counts.read_text().splitlines() if line.startswith("write_bytes:"))


def _peak_mib(process: int | str = "self") -> float | None:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return None
