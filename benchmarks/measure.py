"""One contender in a process of its own: seconds, peak memory, rows, bytes.

Belongs here: running and measuring. Does not belong here: what a contender does.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.contenders import CONTENDERS, Job
from benchmarks.workload import Workload

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


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
    version_sum: int


def measure(name: str, job: Job) -> Figures | str:
    """The figures of one contender, or the sentence why there are none."""
    facts = {
        "workload": {key: str(value) for key, value in asdict(job.workload).items()},
        "folder": str(job.folder),
        "cores": job.cores,
        "level": job.level,
    }
    command = [sys.executable, "-m", "benchmarks.measure", name, json.dumps(facts)]
    root = Path(__file__).resolve().parents[1]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        return (done.stderr.strip().splitlines() or [f"ended with {done.returncode}"])[-1]
    return Figures(**json.loads(done.stdout))


def best(names: Sequence[str], job: Job, rounds: int, say: Callable[[str], None]) -> dict[str, Figures | str]:
    """The fastest of several rounds for each contender, since other work on a machine can only slow a round down.

    Round by round, not contender by contender: what else the machine does then strikes all alike. `say` hears who runs.
    """
    found: dict[str, Figures | str] = {}
    for number in range(rounds):
        for name in names:
            say(f"Round {number + 1} of {rounds}: {name}")
            with tempfile.TemporaryDirectory(dir=job.folder) as folder:
                figures = measure(name, Job(job.workload, Path(folder), job.cores, job.level))
            known = found.setdefault(name, figures)
            if isinstance(known, str) or isinstance(figures, str):
                found[name] = known if isinstance(known, str) else figures
            elif figures.mb_s > known.mb_s:
                found[name] = figures
    return found


def _cpu_seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _peak_mib() -> float:
    """Peak memory of this process. The kernel's own counter, where it is to be had: getrusage inherits the parent's."""
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _main(name: str, text: str) -> None:
    facts = json.loads(text)
    given = facts["workload"]
    workload = Workload(
        Path(given["archive"]),
        Path(given["ndjson"]),
        Path(given["ndjson_gz"]),
        given["project_id"],
        int(given["ndjson_bytes"]),
        int(given["line_count"]),
    )
    job = Job(workload, Path(facts["folder"]), facts["cores"], facts["level"])
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: job.cores])
    busy, started = _cpu_seconds(), time.perf_counter()
    path = CONTENDERS[name].run(job)
    seconds = time.perf_counter() - started
    busy, peak = _cpu_seconds() - busy, _peak_mib()
    file = pq.ParquetFile(path)
    versions = pc.sum(file.read(columns=["version_id"])["version_id"]).as_py()
    figures = Figures(
        mb_s=workload.megabytes / seconds,
        cpu_s=busy,
        rss_mb=peak,
        bytes_out=path.stat().st_size,
        rows=file.metadata.num_rows,
        version_sum=versions or 0,
    )
    sys.stdout.write(json.dumps(asdict(figures)))


if __name__ == "__main__":
    _main(sys.argv[1], sys.argv[2])
    sys.stdout.flush()
    shutil.rmtree(json.loads(sys.argv[2])["folder"], ignore_errors=True)
