"""A Dask scheduler and workers as processes on loopback, forked from one that has imported what all of them need."""

import importlib
import multiprocessing
import os
import random
import runpy
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PATIENCE_SECONDS = 120.0
_FORKING = multiprocessing.get_context("forkserver")
_FORKING.set_forkserver_preload(
    ["distributed.cli.dask_scheduler", "pipelines.cli.serve", "resources.remote", "resources.engine.dask", __name__]
)


def free_port() -> int:
    """A port that nobody listens at, and that no connection is given by chance: those are given higher ones."""
    for port in random.sample(range(20_000, 30_000), 100):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise RuntimeError("None of 100 ports tried is free.")


def _be(module: str, words: list[str], environ: dict[str, str], log: Path) -> None:
    """Be `python -m MODULE WORDS` in a session of its own."""
    os.setsid()
    with log.open("wb") as out, Path(os.devnull).open("rb") as nothing:
        for ours, file in enumerate((nothing, out, out)):
            os.dup2(file.fileno(), ours)
    os.chdir(ROOT)
    os.environ.clear()
    os.environ.update(environ)
    importlib.import_module("dask.config").refresh()
    sys.argv[1:] = words
    runpy.run_module(module, run_name="__main__")


class Node:
    """A process of a cluster, with those ways of `subprocess.Popen` that tests use."""

    def __init__(self, *what: object) -> None:
        self._process = _FORKING.Process(target=_be, args=what)
        self._process.start()
        self.pid: int = self._process.pid or 0

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float) -> int:
        self._process.join(timeout)
        if (code := self.poll()) is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout)
        return code

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)


@dataclass
class LocalCluster:
    """A scheduler and what was started for it; logs are in `folder`."""

    folder: Path
    environ: dict[str, str] = field(default_factory=dict)
    port: int = field(default_factory=free_port)
    workers: list[Node] = field(default_factory=list)
    scheduler: Node | None = None

    @property
    def address(self) -> str:
        return f"dask://127.0.0.1:{self.port}"

    def start_scheduler(self) -> None:
        protocol = "tls" if "DASK_DISTRIBUTED__COMM__TLS__CA_FILE" in self.environ else "tcp"
        words = ["--host", f"{protocol}://127.0.0.1:{self.port}", "--no-dashboard"]
        words += ["--dashboard-address", "127.0.0.1:0"]
        if self.scheduler is not None:
            self.scheduler.wait(timeout=PATIENCE_SECONDS)  # one that was killed
        self.scheduler = self._start("distributed.cli.dask_scheduler", words, "scheduler")
        self._until("scheduler", "Scheduler at:")

    def start_worker(self, data: Path, *, wait: bool = True, **environ: str) -> Node:
        """`wme worker`; waits until it is registered."""
        name = f"worker-{len(self.workers)}"
        words = ["worker", self.address, "--data", str(data), "--name", name]
        worker = self._start("pipelines.__main__", words, name, **environ)
        self.workers.append(worker)
        if wait:
            self.registered(len(self.workers) - 1)
        return worker

    def registered(self, number: int) -> None:
        self._until(f"worker-{number}", f"Worker worker-{number} at")

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    def end(self) -> None:
        for process in (*self.workers, self.scheduler):
            if process is not None and process.poll() is None:
                process.send_signal(signal.SIGKILL)
            if process is not None:
                process.wait(timeout=PATIENCE_SECONDS)

    def _start(self, module: str, words: list[str], name: str, **environ: str) -> Node:
        clean = {key: value for key, value in os.environ.items() if not key.startswith(("WME_", "DAGSTER_", "DASK_"))}
        log = self.folder / f"{name}.log"
        log.touch()
        return Node(module, words, {**clean, **self.environ, **environ}, log)

    def _until(self, name: str, text: str) -> None:
        end = time.monotonic() + PATIENCE_SECONDS
        while text not in self.log(name):
            assert time.monotonic() < end, self.log(name)
            time.sleep(0.02)


@contextmanager
def cluster(folder: Path, data: Path, workers: int, **environ: str) -> Iterator[LocalCluster]:
    """A scheduler with workers, gone at the end."""
    folder.mkdir(parents=True, exist_ok=True)
    data.mkdir(parents=True, exist_ok=True)
    made = LocalCluster(folder, environ)
    try:
        made.start_scheduler()
        for _ in range(workers):
            made.start_worker(data, wait=False)
        for number in range(workers):
            made.registered(number)
        yield made
    finally:
        made.end()
