"""The worker process, the calls that it runs, and its interface with a run: address, versions, and answers."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import os
import pickle
import platform
import socket
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dask
import distributed

from resources.engine.mapping import EngineUnreachableError, FolderNotSharedError, TaskError

#: The key of a worker's versions in what it sends to the scheduler.
VERSIONS = "wme_versions"


@dataclass(frozen=True)
class Call:
    """One task: plain arguments, a key that is the same for the same work, and what people call it.

    Of those that are `alone`, a worker process is given one at a time, because each takes the memory of one.
    """

    key: str
    label: str
    arguments: tuple[Any, ...]
    alone: bool = False


@dataclass(frozen=True)
class Probe:
    """A file in the shared folder that only those find who see the same folder."""

    name: str
    secret: str


@dataclass(frozen=True)
class Answer:
    """The result of a call, or the error that it raised."""

    value: Any = None
    error: Exception | None = None


def own_versions() -> dict[str, str]:
    """Return the versions of the local software that both sides must share."""
    return {
        "Python": ".".join(platform.python_version_tuple()[:2]),
        "distributed": str(vars(distributed)["__version__"]),
    }


def resource_of(versions: Mapping[str, str], *, alone: bool = False) -> str:
    text = "\n".join(f"{name} {value}" for name, value in sorted(versions.items()))
    return f"wme-{hashlib.sha256(text.encode()).hexdigest()[:12]}{'-alone' if alone else ''}"


def url(address: str) -> str:
    """Return Dask's form of an address, encrypted if its configuration names an authority (…TLS__CA_FILE)."""
    place = address.removeprefix("dask://")
    has_tls = dask.config.get("distributed.comm.tls.ca-file", None) or dask.config.get(
        "distributed.comm.require-encryption", None
    )
    return f"{'tls' if has_tls else 'tcp'}://{place}"


def visible(folder: Path) -> None:
    """Make a network file system refresh its view of a folder."""
    with contextlib.suppress(OSError):
        next(folder.iterdir(), None)


def short(error: BaseException | None) -> str:
    return str(error).strip().partition("\n")[0][:300]


def quiet() -> None:
    """Dask's own messages are its own; ours are sentences."""
    for name in ("distributed", *(one for one in logging.root.manager.loggerDict if one.startswith("distributed."))):
        logging.getLogger(name).setLevel(logging.CRITICAL)


#: This worker's folder, which it shares with the runs, and the names of the probes that it has seen there.
_folder: Path | None = None
_seen: set[str] = set()


async def serve(
    address: str,
    versions: Mapping[str, str],
    folder: Path,
    *,
    threads: int,
    name: str,
    started: Callable[[Worker], None],
) -> None:
    """Run as a worker of `dask://host:port` until the scheduler is gone or asks to end.

    Runs share `versions` and the folder with the worker. `threads` is the number of tasks at a time, `name` is for
    messages, and `started` is called when it is registered. Raises EngineUnreachableError: the scheduler does not
    answer within 30 seconds.
    """
    global _folder  # noqa: PLW0603  one worker is one process
    _folder = folder
    quiet()
    told = {**versions, **own_versions()}
    with (
        tempfile.TemporaryDirectory(prefix="wme-worker-") as scratch,
        dask.config.set({"distributed.worker.profile.enabled": False, "distributed.admin.tick.limit": "60s"}),
    ):
        worker = distributed.Worker(
            url(address),
            nthreads=threads,
            name=name,
            local_directory=scratch,
            memory_limit=0,
            resources={resource_of(told): threads, resource_of(told, alone=True): 1},
            security=distributed.Security(),
            startup_information={VERSIONS: lambda _worker: told},
            dashboard=False,
            death_timeout=30,
        )
        try:
            await worker
        except (OSError, TimeoutError, ValueError, asyncio.CancelledError) as error:
            raise EngineUnreachableError(
                f"Nobody answers at {address} within 30 s ({type(error).__name__}: {short(error)}). The worker was not "
                "started. Start `dask scheduler` there (with the same TLS settings), then start the worker again."
            ) from None
        started(Worker(worker, asyncio.get_running_loop()))
        await worker.finished()


@dataclass(frozen=True)
class Worker:
    """A worker at work."""

    _worker: distributed.Worker
    _loop: asyncio.AbstractEventLoop

    @property
    def address(self) -> str:
        """Address at which other machines reach this worker."""
        return str(self._worker.address)

    def leave(self) -> None:
        """Tell the scheduler to run this worker's tasks elsewhere, and not to suspect them; takes a second at most."""

        async def unregister() -> None:
            await self._worker.scheduler.unregister(
                address=self._worker.contact_address, stimulus_id="wme-worker-leaves", expected=True
            )

        asyncio.run_coroutine_threadsafe(unregister(), self._loop).result(timeout=1)


def run(function: Callable[..., Any], arguments: tuple[Any, ...], probe: Probe) -> Answer:
    """Run a call on a worker; an error is returned as a value, so that it arrives complete and no worker logs it."""
    try:
        _check_probe(probe)
        return Answer(value=function(*arguments))
    except Exception as error:  # noqa: BLE001  whose it is decides whoever asked
        return Answer(error=portable(error))


def portable(error: Exception) -> Exception:
    """The error as it can be sent to another process: itself where that gives the same again, else its words."""
    try:
        same = pickle.loads(pickle.dumps(error))  # noqa: S301  our own
    except Exception:  # noqa: BLE001  whatever a class of somebody else does
        same = None
    if type(same) is type(error) and str(same) == str(error):
        return error
    return TaskError(f"{type(error).__name__}: {short(error)}")


def _check_probe(probe: Probe) -> None:
    """See once that this worker's folder is that of the run."""
    if probe.name in _seen:
        return
    try:
        if _folder is None:
            raise FolderNotSharedError("This worker was not started by `wme worker`, and has no data folder.")
        visible(_folder)
        same = (_folder / probe.name).read_text() == probe.secret
    except OSError as error:
        raise FolderNotSharedError(
            f"The worker on {socket.gethostname()} does not see the data folder of the run in {_folder}: "
            f"{error.strerror}. Nothing of the task was done. Mount that folder there, name it with "
            "`wme worker --data`, then run again."
        ) from None
    if not same:
        raise FolderNotSharedError(f"{_folder} is not the data folder of the run.")
    _seen.add(probe.name)


def answer_probe(probe: Probe) -> str:
    """Read the run's probe, write an answer next to it, and return the answer's name."""
    _check_probe(probe)
    name = f"{probe.name}.{socket.gethostname()}-{os.getpid()}.unfinished"
    assert _folder is not None
    (_folder / name).write_text(probe.secret)
    return name
