"""A process that has everything imported, and forks a call of a function, or a program, for each request.

Started by the tests as `python forkserver.py DESCRIPTOR LOCK`, with a socket that it listens on. A request is a line of
JSON on a connection and, with it, the write end of a pipe; the answer is the pid. A function is called with the pipe
and its arguments. A run of the main job tells on its pipe, in lines, which phase it enters and leaves and, at last,
what failed. Whoever holds the read end knows of a killed run exactly where it was, without a second clock.

A program is a text in Python with arguments, as after `python -c`, and has an environment and standard streams of its
own. On its pipe stands, when it has ended, its exit status as `subprocess` has it.

Belongs here: telling phases apart from outside of the product. Does not belong here: killing, and what to expect then.
"""

import atexit
import functools
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import dagster as dg
import dagster._time
from filelock import FileLock

from assets import snapshots
from assets.steps import hour, hourly_run
from assets.steps import snapshot as snapshot_sets
from pipelines.operations import run as runs
from resources import adapters, connection
from resources import settings as settings_module
from resources.datasets import SNAPSHOT_ARTICLES, SNAPSHOT_ENTITIES
from resources.enterprise import Lists
from resources.warehouse import Warehouse
from tests import scripts_once

#: Where each phase is entered: the objects that hold the function, its name, the phase.
PHASES: tuple[tuple[Any, str, str], ...] = (
    (Lists, "records", "reference"),
    (hour, "fetch_hour", "download"),
    (hourly_run, "attempts", "convert"),
    (hour, "load_hour", "load"),
    (snapshot_sets, "fetch_snapshot", "download snapshot"),
    (snapshots, "convert_archives", "convert snapshot"),
    (snapshot_sets, "load_snapshot", "load snapshot"),
    (Warehouse, "apply_changes", "apply"),
    (Warehouse, "publish", "publish"),
)


def watch(tell: Callable[[str], None], phases: tuple[tuple[Any, str, str], ...] = PHASES) -> None:
    """Have every phase tell when it is entered and left.

    At the first one that `STOP_AT` of the environment names, the process stops itself.
    """
    for owner, name, phase in phases:
        original = getattr(owner, name)

        def told(*arguments: Any, _original: Any = original, _phase: str = phase, **options: Any) -> Any:
            tell(f"> {_phase}")
            if os.environ.get("STOP_AT") == _phase:
                del os.environ["STOP_AT"]
                os.kill(os.getpid(), signal.SIGSTOP)
            try:
                return _original(*arguments, **options)
            finally:
                tell(f"< {_phase}")

        setattr(owner, name, functools.wraps(original)(told))


def stand_still(now: datetime) -> None:
    """Have the client, the warehouse and Dagster live at a moment of a sandbox whose clock stands still.

    Dagster would list a partition for each hour until today.
    """
    dagster._time._mockable_get_current_datetime = lambda: now
    for module, name in ((connection, "EnterpriseClient"), (adapters, "Warehouse")):
        setattr(module, name, functools.partial(getattr(module, name), clock=lambda: now))


@contextmanager
def without_history(home: Path) -> Iterator[dg.DagsterInstance]:
    """Dagster's history in memory.

    It costs three quarters of a run over small files, and is not what most kills are about.
    """
    home.mkdir(parents=True, exist_ok=True)
    with dg.DagsterInstance.ephemeral(tempdir=str(home)) as instance:
        yield instance


def run(pipe: int, request: dict[str, Any]) -> None:
    """Run the main job, and tell how far it is."""

    def tell(line: str) -> None:
        os.write(pipe, f"{line}\n".encode())

    watch(tell)
    tell(f"= {json.dumps(main_job(request))}")


def main_job(request: dict[str, Any]) -> list[str]:
    """Run the main job as the request's environment describes it; returns the sentences of what failed."""
    os.environ.update(request["environ"])
    if not request.get("history", True):
        runs.processes.opened = without_history
    if request.get("now"):
        stand_still(datetime.fromisoformat(request["now"]))
    hours = [datetime.fromisoformat(text) for text in request["hours"]]
    return runs.run(
        settings_module.read(),
        hours,
        snapshots={
            dataset: [
                one for one in request.get("snapshots", ()) if one.startswith("wikidatawiki") == bool(dataset.places)
            ]
            for dataset in (SNAPSHOT_ARTICLES, SNAPSHOT_ENTITIES)
        },
        refresh_reference=request.get("reference", False),
    ).failures


def program(request: dict[str, Any], streams: list[int]) -> int:
    """Be another program, in the way that an interpreter is; returns its exit status."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        setattr(sys, name, os.fdopen(("stdin", "stdout", "stderr").index(name), mode, closefd=False))
    os.environ.clear()
    os.environ.update(request["environ"])
    sys.argv = ["-c", *request["arguments"]]
    status = 0
    try:
        exec(request["program"], {"__name__": "__main__"})
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            sys.stderr.write(f"{end.code}\n")
    except BaseException:  # noqa: BLE001 - told as an interpreter does
        traceback.print_exc()
        status = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    return status


def keep(request: dict[str, Any], descriptors: list[int]) -> None:
    """Have a program run in a child, and tell its pid and its status."""
    *streams, pipe = descriptors
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.fork()
    if pid == 0:
        os.close(pipe)
        status = 1
        try:
            status = program(request, streams)
        finally:
            for stream in (sys.stdout, sys.stderr):
                with suppress(OSError, ValueError):
                    stream.flush()
            os._exit(status)
    for stream in streams:
        os.close(stream)
    os.write(pipe, f"{pid}\n".encode())
    os.write(pipe, f"{os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}\n".encode())


def warm_up() -> None:
    """Run nothing, once.

    Dagster imports five hundred modules for its first run, which each forked run would do again.
    """

    @dg.op
    def nothing() -> None:
        """Do nothing."""

    @dg.job
    def idle() -> None:
        nothing()

    scripts_once.keep()
    with tempfile.TemporaryDirectory() as folder, runs.processes.opened(Path(folder)) as instance:
        with without_history(Path(folder) / "memory"):
            pass
        idle.execute_in_process(
            instance=instance, run_config={"loggers": {"console": {"config": {"log_level": "ERROR"}}}}
        )
    del os.environ["DAGSTER_HOME"]


def main() -> None:
    """Serve the requests of all workers, as long as one is connected, in a process that nobody waits for."""
    if os.fork():
        os._exit(0)
    warm_up()
    # what was imported is no garbage: without this every fork looks through it, and so copies it, again and again
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the runs: the pipe tells their end
    going = [socket.socket(fileno=int(sys.argv[1]))]
    while True:
        for ready in select.select(going, [], [])[0]:
            if ready is going[0]:
                going.append(ready.accept()[0])
                going[-1].sendall(b"ready\n")
            elif not serve(ready, going):
                going.remove(ready)
                ready.close()
        if len(going) == 1:
            # the folder may be gone with the tests; else nobody comes meanwhile
            with suppress(OSError), FileLock(sys.argv[2]):
                if select.select(going, [], [], 0)[0]:
                    continue
                os._exit(0)
            os._exit(0)


def serve(requests: socket.socket, going: list[socket.socket]) -> bool:
    """Fork for the next request; returns whether there was one."""
    message, descriptors, _, _ = socket.recv_fds(requests, 1 << 16, 4)
    if not message:
        return False
    pid = os.fork()
    if pid == 0:
        for one in going:
            one.close()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        status = 1
        request = json.loads(message)
        try:
            if "program" in request:
                keep(request, descriptors)
            else:
                module, name = request["call"]
                getattr(importlib.import_module(module), name)(*descriptors[::-1], *request["arguments"])
            status = 0
        except BaseException as error:  # noqa: BLE001 - told to whoever asked
            text = " ".join(f"{type(error).__name__}: {error}".splitlines())
            os.write(descriptors[-1], f"! {text}\n".encode())
        finally:
            os._exit(status)
    for descriptor in descriptors:
        os.close(descriptor)
    requests.sendall(f"{pid}\n".encode())
    return True


if __name__ == "__main__":
    main()
