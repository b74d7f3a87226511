"""The same archives converted on threads of one process, and by two worker processes of a Dask cluster on this machine."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks import ours
from benchmarks.local_cluster import cluster
from resources.engine import Engine
from resources.lake import Converter, Layout
from resources.remote import RemoteConverter, versions

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from benchmarks.workload import Workload
    from resources.lake import Conversion

#: Tasks that do nothing, for what a task costs by itself.
_EMPTY = 300


@dataclass(frozen=True)
class Engines:
    """Seconds by the clock for all archives, by engine; `task_ms` and `connect_s` are what Dask takes beside the work."""

    archives: int
    megabytes: float
    workers: int
    threads_s: float
    dask_s: float
    connect_s: float
    task_ms: float

    @property
    def ratio(self) -> float:
        """Time on Dask by time on threads."""
        return self.dask_s / self.threads_s


def measure(workload: Workload, folder: Path, workers: int, rounds: int, say: Callable[[str], None]) -> Engines:
    """The best of some rounds of each; both must give the same rows."""
    # imported here, because it is an extra
    from resources.engine.dask import Call, Cluster  # noqa: PLC0415

    archives = ours.archives(workload)
    threads, dask, expected = [], [], None
    with cluster(folder / "logs", folder / "dask", workers) as made:
        started = time.perf_counter()
        with Cluster(made.address, versions(), folder / "dask" / "lake") as connection:
            connection.map(abs, [Call("first", "first", (1,))], _nothing)
            connect_s = time.perf_counter() - started
            started = time.perf_counter()
            connection.map(abs, [Call(f"empty-{n}", "empty", (n,)) for n in range(_EMPTY)], _nothing)
            task_ms = (time.perf_counter() - started) / _EMPTY * 1000
        for number in range(rounds):
            say(f"Round {number + 1}: threads")
            layout, started = Layout(folder / f"threads-{number}"), time.perf_counter()
            with Converter() as converter:
                convert = converter.convert
                outcomes = Engine().map(lambda one: convert(one, layout), archives, workers=converter.readers)  # noqa: B023
            threads.append(time.perf_counter() - started)
            expected = _facts([outcome.unwrap() for outcome in outcomes])
            say(f"Round {number + 1}: Dask")
            started = time.perf_counter()
            with RemoteConverter(made.address, Layout(folder / "dask")) as remote:
                outcomes = remote.convert_all(archives, bodies=ours.BODIES, advance=_nothing)
            dask.append(time.perf_counter() - started)
            if _facts([outcome.unwrap() for outcome in outcomes]) != expected:
                raise RuntimeError("Dask's workers gave other rows than threads.")
            shutil.rmtree(folder / "dask" / "lake")
            shutil.rmtree(layout.root)
    return Engines(len(archives), workload.megabytes, workers, min(threads), min(dask), connect_s, task_ms)


def _facts(conversions: list[Conversion]) -> list[tuple[str, int, int]]:
    return [(one.digest, one.row_count, one.reject_count) for one in conversions]


def _nothing(_what: object) -> None:
    """Nobody listens to the progress."""
