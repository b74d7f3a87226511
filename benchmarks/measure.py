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

import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.contenders import CONTENDERS, Job
from benchmarks.workload import Workload


@dataclass(frozen=True)
class Figures:
    """What was measured. `mb_s` counts MB (10^6) of NDJSON; `rss_mb` is the peak of the process in MiB."""

    mb_s: float
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


def best(name: str, job: Job, rounds: int) -> Figures | str:
    """The fastest of several rounds, since other work on a machine can only slow a round down."""
    found: Figures | str = "was not run"
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(dir=job.folder) as folder:
            figures = measure(name, Job(job.workload, Path(folder), job.cores, job.level))
        if isinstance(figures, str):
            return figures
        if isinstance(found, str) or figures.mb_s > found.mb_s:
            found = figures
    return found


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
    started = time.perf_counter()
    path = CONTENDERS[name].run(job)
    seconds = time.perf_counter() - started
    peak = _peak_mib()
    file = pq.ParquetFile(path)
    versions = pc.sum(file.read(columns=["version_id"])["version_id"]).as_py()
    figures = Figures(workload.megabytes / seconds, peak, path.stat().st_size, file.metadata.num_rows, versions or 0)
    sys.stdout.write(json.dumps(asdict(figures)))


if __name__ == "__main__":
    _main(sys.argv[1], sys.argv[2])
    sys.stdout.flush()
    shutil.rmtree(json.loads(sys.argv[2])["folder"], ignore_errors=True)
