"""One contender in a process of its own: seconds, peak memory, rows, bytes.

Belongs here: running and measuring. Does not belong here: what a contender does.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.bound import Bound, bound
from benchmarks.contenders import CONTENDERS, Job
from benchmarks.workload import Workload

if TYPE_CHECKING:
    from collections.abc import Callable

_BOUND = "bound"


@dataclass(frozen=True)
class Figures:
    """What was measured. `mb_s` counts MB (10^6) of NDJSON; `rss_mb` is the peak of the process in MiB.

    `cpu_s` are seconds of processor time, of helpers such as tar too: they say more where a machine has other work.
    """

    mb_s: float
    cpu_s: float
    rss_mb: float
    bytes_out: int
    rows: int
    rejects: int
    version_sum: int


def measure(name: str, job: Job) -> Figures | str:
    """The figures of one contender, or the sentence why there are none."""
    found = _in_process(name, job)
    return found if isinstance(found, str) else Figures(**found)


def measured_bound(job: Job) -> Bound | str:
    """The bound of the job's archive, or the sentence why there is none."""
    found = _in_process(_BOUND, job)
    return found if isinstance(found, str) else Bound(**found)


def best(runs: dict[str, tuple[str, Job]], rounds: int, say: Callable[[str], None]) -> dict[str, Figures | str]:
    """The fastest of several rounds for each run, which is a contender and its job: other work only slows a round down.

    The least processor time stands for the same reason, by itself, and the highest peak of memory. Round by round, not run by run:
    what else the machine does then strikes all alike. `say` hears who runs.
    """
    found: dict[str, Figures | str] = {}
    for number in range(rounds):
        for title, (name, job) in runs.items():
            say(f"Round {number + 1} of {rounds}: {title}")
            with tempfile.TemporaryDirectory(dir=job.folder) as folder:
                figures = measure(name, Job(job.workload, Path(folder), job.cores, job.level))
            known = found.get(title, figures)
            found[title] = (
                figures if isinstance(figures, str) else known if isinstance(known, str) else _better(known, figures)
            )
    return found


def _better(one: Figures, other: Figures) -> Figures:
    faster = max(one, other, key=lambda figures: figures.mb_s)
    least = {"cpu_s": min(one.cpu_s, other.cpu_s), "rss_mb": max(one.rss_mb, other.rss_mb)}
    return Figures(**(asdict(faster) | least))


def _in_process(name: str, job: Job) -> dict[str, Any] | str:
    root = Path(__file__).resolve().parents[1]
    command = [sys.executable, "-m", "benchmarks.measure", name, json.dumps(asdict(job), default=str)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        return (done.stderr.strip().splitlines() or [f"ended with {done.returncode}"])[-1]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _job(text: str) -> Job:
    facts = json.loads(text)
    work = facts.pop("workload")
    archives, folder = tuple(map(Path, work.pop("archives"))), Path(work.pop("folder"))
    return Job(Workload(archives, folder, **work), Path(facts.pop("folder")), **facts)


def cpu_seconds() -> float:
    """Processor time of this process and its children that have ended."""
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(times.ru_utime + times.ru_stime for times in used)


def peak_mib() -> float:
    """Peak memory of this process. The kernel's own counter, where it is to be had: getrusage inherits the parent's."""
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _figures(name: str, job: Job) -> Figures:
    contender = CONTENDERS[name]
    contender.prepare()
    busy, started = cpu_seconds(), time.perf_counter()
    made = contender.run(job)
    seconds = time.perf_counter() - started
    busy, peak = cpu_seconds() - busy, peak_mib()
    rows = versions = 0
    for path in made.paths:
        with pq.ParquetFile(path) as file:
            rows += file.metadata.num_rows
            versions += pc.sum(file.read(columns=["version_id"])["version_id"]).as_py() or 0
    return Figures(
        mb_s=job.workload.megabytes / seconds,
        cpu_s=busy,
        rss_mb=peak,
        bytes_out=sum(path.stat().st_size for path in made.paths),
        rows=rows,
        rejects=made.reject_count,
        version_sum=versions,
    )


def _main(name: str, text: str) -> None:
    job = _job(text)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: job.cores])
    sys.stdout.write(json.dumps(asdict(bound(job) if name == _BOUND else _figures(name, job))))


if __name__ == "__main__":
    _main(sys.argv[1], sys.argv[2])
