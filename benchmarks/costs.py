"""What a piece of work costs, in this process or in one of its own: seconds, processor time, peak of memory.

Belongs here: taking the time of something. Does not belong here: what is done.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

_RESET_PEAK = Path("/proc/self/clear_refs")


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
    """The cost of a command in a process of its own, its helpers included.

    Raises:
        RuntimeError: It failed; the message has the end of what it said.
    """
    started = time.perf_counter()
    with subprocess.Popen(
        command, cwd=folder, env=dict(environment), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        assert process.stderr is not None
        said = process.stderr.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(
            f"{' '.join(command)} ended with {process.returncode}: {said[-2000:].decode(errors='replace')}"
        )
    return Cost(time.perf_counter() - started, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


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


def _peak_mib() -> float | None:
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return None
