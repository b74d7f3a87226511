"""Our converter with so many workers, and so many archives at a time, each time in a process of its own.

Belongs here: what grows with cores. Does not belong here: peers.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import ours
from benchmarks.measure import cpu_seconds, peak_mib
from resources.engine import Engine
from resources.lake import Converter, Layout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from benchmarks.workload import Workload

#: What a worker is counted with, and what a process takes beside them, in MiB.
_WORKER_MIB, _BASE_MIB = 160, 96


@dataclass(frozen=True)
class Scaling:
    """MB (10^6) of NDJSON a second, processor seconds, peak and allowed memory in MiB, by workers and archives at a time."""

    case: str
    workers: int
    at_once: int
    mb_s: float
    cpu_s: float
    rss_mb: float
    allowed_mb: int
    rows: int


def scaling(
    workloads: dict[str, Workload], counts: Iterable[int], folder: Path, rounds: int, say: Callable[[str], None]
) -> list[Scaling]:
    """The figures of every case, number of workers, and one or as many archives at a time as keep them busy; best of some rounds."""
    found = []
    for case, workload in workloads.items():
        for workers in counts:
            for at_once in sorted({1, 2 * workers + 1} if len(workload.archives) > 1 else {1}):
                say(f"{case}: {workers} workers, {at_once} archives at a time")
                runs = [
                    _measured(case, workload, workers, at_once, folder / f"{case}-{workers}-{at_once}-{n}")
                    for n in range(rounds)
                ]
                found.append(max(runs, key=lambda one: one.mb_s))
    return found


def _measured(case: str, workload: Workload, workers: int, at_once: int, folder: Path) -> Scaling:
    asked = {"case": case, "workers": workers, "at_once": at_once, "folder": str(folder), "workload": asdict(workload)}
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.workers"],
        cwd=Path(__file__).resolve().parents[1],
        input=json.dumps(asked, default=str),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    made = Scaling(**json.loads(done.stdout))
    if made.rows != workload.line_count:
        raise RuntimeError(f"{case}: {made.rows:,} rows of {workload.line_count:,} lines.")
    return made


def _main() -> None:
    asked = json.loads(sys.stdin.read())
    workload = ours.workload_of(asked["workload"])
    workers, at_once, layout = asked["workers"], asked["at_once"], Layout(Path(asked["folder"]))
    allowed = _BASE_MIB + _WORKER_MIB * workers
    archives = ours.archives(workload)
    busy, started = cpu_seconds(), time.perf_counter()
    with Converter(workers=workers, memory_bytes=allowed << 20) as converter:
        outcomes = Engine().map(lambda one: converter.convert(one, layout), archives, workers=at_once)
    seconds, busy = time.perf_counter() - started, cpu_seconds() - busy
    rows = sum(outcome.unwrap().row_count for outcome in outcomes)
    made = Scaling(asked["case"], workers, at_once, workload.megabytes / seconds, busy, peak_mib(), allowed, rows)
    sys.stdout.write(json.dumps(asdict(made)))


if __name__ == "__main__":
    _main()
