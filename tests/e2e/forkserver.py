"""A process that has everything imported, and forks a program for each request.

Started by the tests as `python forkserver.py DESCRIPTOR`, with a socket. A request is JSON and, with it, the standard
streams of a program and a pipe; the answer is the pid. A program is a text in Python with arguments, as after
`python -c`, and an environment. On its pipe stands, when it has ended, its exit status as `subprocess` has it.

A run of the main job is a program that tells on its standard output, in lines, which phase it enters and leaves and, at
last, what failed. Whoever holds the read end knows of a killed run exactly where it was, without a second clock.
"""

import atexit
import functools
import gc
import importlib
import json
import os
import select
import socket
import sys
import tempfile
import threading
import traceback
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import dagster as dg
import dagster._time

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
    (Lists, "records", "reference"), (hour, "fetch_hour", "download"), (hourly_run, "attempts", "convert"),
    (hour, "load_hour", "load"), (snapshot_sets, "fetch_snapshot", "download snapshot"),
    (snapshots, "convert_archives", "convert snapshot"), (snapshot_sets, "load_snapshot", "load snapshot"),
    (Warehouse, "apply_changes", "apply"), (Warehouse, "publish", "publish"),
)  # fmt: skip


def watch(tell, phases=PHASES):
    """Have every phase tell when it is entered and left."""
    for owner, name, phase in phases:
        original = getattr(owner, name)

        def told(*arguments, _original=original, _phase=phase, **options):
            tell(f"> {_phase}")
            try:
                return _original(*arguments, **options)
            finally:
                tell(f"< {_phase}")

        setattr(owner, name, functools.wraps(original)(told))


def stand_still(now):
    """Have all live at the moment of a sandbox's clock: Dagster would list a partition for each hour until today."""
    dagster._time._mockable_get_current_datetime = lambda: now
    for module, name in ((connection, "EnterpriseClient"), (adapters, "Warehouse")):
        setattr(module, name, functools.partial(getattr(module, name), clock=lambda: now))


@contextmanager
def without_history(home):
    """Dagster's history in memory: on disk it costs three quarters of a run over small files."""
    home.mkdir(parents=True, exist_ok=True)
    with dg.DagsterInstance.ephemeral(tempdir=str(home)) as instance:
        yield instance


def call(module, function, arguments):
    """Call a function with what it tells by, the standard output; what else is printed there goes with the errors."""
    pipe = os.dup(1)
    os.dup2(2, 1)

    def tell(line):
        os.write(pipe, f"{line}\n".encode())

    try:
        getattr(importlib.import_module(module), function)(tell, *arguments)
    except BaseException as error:  # noqa: BLE001 - told to whoever asked
        tell(" ".join(f"! {type(error).__name__}: {error}".splitlines()))


def run(tell, request):
    watch(tell)
    tell(f"= {json.dumps(main_job(request))}")


def main_job(request):
    """Run the main job as the request's environment describes it; returns the sentences of what failed."""
    os.environ.update(request["environ"])
    if not request.get("history", True):
        runs.processes.opened = without_history
    if request.get("now"):
        stand_still(datetime.fromisoformat(request["now"]))
    hours, names = [datetime.fromisoformat(text) for text in request["hours"]], request.get("snapshots", ())
    snapshots = {
        dataset: [one for one in names if one.startswith("wikidatawiki") == bool(dataset.places)]
        for dataset in (SNAPSHOT_ARTICLES, SNAPSHOT_ENTITIES)
    }
    lists = request.get("reference", False)
    return runs.run(settings_module.read(), hours, snapshots=snapshots, refresh_reference=lists).failures


def program(request, streams):
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
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    return status


def warm_up():
    """Run nothing, once: Dagster imports five hundred modules for its first run, which each fork would do again."""

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
        quiet = {"loggers": {"console": {"config": {"log_level": "ERROR"}}}}
        idle.execute_in_process(instance=instance, run_config=quiet)
    del os.environ["DAGSTER_HOME"]


def main():
    os.setsid()  # the terminal of whoever runs the tests is not that of the programs
    requests, ends = socket.socket(fileno=int(sys.argv[1])), {}
    warm_up()
    # what was imported is no garbage: without this every fork looks through it, and so copies it, again and again
    gc.collect()
    gc.freeze()
    requests.sendall(b"ready\n")
    while True:
        for ready in select.select([requests, *ends], [], [])[0]:
            if ready in ends:
                end(ready, *ends.pop(ready))
            else:
                serve(requests, ends)


def serve(requests, ends):
    message, descriptors, _, _ = socket.recv_fds(requests, 1 << 16, 4)
    if not message:
        os._exit(0)
    *streams, told = descriptors
    pid = os.fork()
    if pid == 0:
        requests.close()
        os.close(told)
        status = 1
        try:
            status = program(json.loads(message), streams)
        finally:
            os._exit(status)
    for stream in streams:
        os.close(stream)
    ends[os.pidfd_open(pid)] = pid, told
    requests.sendall(f"{pid}\n".encode())


def end(process, pid, told):
    """Tell the status of a program that has ended, if anybody still asks."""
    with suppress(BrokenPipeError):
        os.write(told, f"{os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}\n".encode())
    os.close(told)
    os.close(process)


if __name__ == "__main__":
    main()
