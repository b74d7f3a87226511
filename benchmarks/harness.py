"""Benchmark harness for repeated measurements in child processes, in which contenders take turns.

A child process imports the measured module before the measurement starts. A measurement contains the child's wall time,
its processor time (including its own children) and its peak resident memory.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import resource
import statistics
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

ROOT = Path(__file__).resolve().parents[1]
_STATUS = Path("/proc/self/status")
_POLL_SECONDS = 0.02
_FORKS = multiprocessing.get_context("forkserver")


class MeasurementError(RuntimeError):
    """A measured process failed or returned a wrong result."""


@dataclass(frozen=True)
class Cost:
    """Measured cost, with wall seconds, processor seconds, peak memory (MiB) and counts."""

    seconds: float
    cpu_seconds: float
    peak_mib: float
    facts: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Work:
    """Module-level function and arguments for a call in a child process.

    `count` converts the result to named counts after the measurement. `cores` is the maximum number of cores that the
    child can use. `libraries` are imported before the measurement.
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...] = ()
    count: Callable[[Any], dict[str, float]] | None = None
    cores: int | None = None
    libraries: tuple[str, ...] = ()


def measure(work: Work) -> Cost:
    """Measure the cost of one call in a child process.

    Raises:
        MeasurementError: The child failed. The message contains the error.
    """
    # fork children from a process that has imported the module, because the import takes almost a second
    _FORKS.set_forkserver_preload([work.function.__module__])
    with ProcessPoolExecutor(1, _FORKS) as child:
        try:
            return child.submit(_measured, work).result()
        except Exception as error:
            raise MeasurementError(f"{type(error).__name__}: {error}") from error


def measure_command(arguments: Sequence[str], environment: Mapping[str, str]) -> Cost:
    """Measure the cost of a Python command in a child process, including the process start.

    Raises:
        MeasurementError: The command failed. The message contains the end of the output.
    """
    command = [sys.executable, *arguments]
    started, busy = time.perf_counter(), cpu_seconds()
    with subprocess.Popen(
        command, cwd=ROOT, env=dict(environment), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        # poll the peak, because the system's final value includes this process's memory before the exec
        peak, output = 0.0, b""
        while True:
            try:
                output, _ = process.communicate(timeout=_POLL_SECONDS)
                break
            except subprocess.TimeoutExpired:
                peak = max(peak, peak_mib(Path(f"/proc/{process.pid}/status")))
    if process.returncode:
        end = output[-2000:].decode(errors="replace")
        raise MeasurementError(f"{' '.join(command)} exited with {process.returncode}: {end}")
    return Cost(time.perf_counter() - started, cpu_seconds() - busy, peak)


def in_turn(
    works: Mapping[str, Callable[[int], Cost]], rounds: int, say: Callable[[str], None]
) -> dict[str, list[Cost] | str]:
    """Run each measurement once per round, so other load on the machine affects all measurements equally.

    The result maps each name to the costs of all rounds, or to the reason for the first failure.
    """
    found: dict[str, list[Cost] | str] = {name: [] for name in works}
    for number in range(rounds):
        for name, work in works.items():
            costs = found[name]
            if isinstance(costs, str):
                continue
            say(f"Round {number + 1} of {rounds}: {name}")
            try:
                costs.append(work(number))
            except MeasurementError as error:
                found[name] = str(error)
    return found


def least(costs: Sequence[Cost]) -> Cost:
    """Return the fastest round's cost, with the lowest processor time and the highest memory peak of all rounds."""
    fastest = min(costs, key=lambda cost: cost.seconds)
    return Cost(
        fastest.seconds,
        min(cost.cpu_seconds for cost in costs),
        max(cost.peak_mib for cost in costs),
        fastest.facts,
    )


def median(costs: Sequence[Cost]) -> Cost:
    """Return the median wall time, processor time and counts, and the highest memory peak."""
    return Cost(
        statistics.median(cost.seconds for cost in costs),
        statistics.median(cost.cpu_seconds for cost in costs),
        max(cost.peak_mib for cost in costs),
        {name: statistics.median(cost.facts[name] for cost in costs) for name in costs[0].facts},
    )


def cpu_seconds() -> float:
    """Return the processor time of this process and its ended children."""
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(times.ru_utime + times.ru_stime for times in used)


def peak_mib(status: Path = _STATUS) -> float:
    """Return a process's peak resident memory in MiB, or 0 if the process has ended."""
    try:
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    except OSError:
        if status == _STATUS:  # macOS
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)
    return 0.0


def _measured(work: Work) -> Cost:
    os.dup2(2, 1)  # standard output contains only the report
    for library in work.libraries:
        importlib.import_module(library)
    if work.cores is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: work.cores])
    started, busy = time.perf_counter(), cpu_seconds()
    result = work.function(*work.arguments)
    seconds, busy, peak = time.perf_counter() - started, cpu_seconds() - busy, peak_mib()
    return Cost(seconds, busy, peak, {} if work.count is None else work.count(result))
