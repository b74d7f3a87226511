"""Dask worker process, with the calls that it executes and the data that it exchanges with a run."""

import asyncio
import contextlib
import hashlib
import logging
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

from resources.engine.mapping import EngineUnreachableError, FolderNotSharedError, Outcome, TaskError

#: Key of the versions in a worker's startup information for the scheduler.
VERSIONS = "wme_versions"


@dataclass(frozen=True)
class Call:
    """One task, with plain arguments, a key that identifies the work, and a label for messages.

    A worker process runs only one `alone` task at a time, because such a task may use the process's entire memory.
    """

    key: str
    label: str
    arguments: tuple[Any, ...]
    alone: bool = False


def own_versions() -> dict[str, str]:
    """Return the versions of local software that must match between a run and its workers."""
    return {
        "Python": ".".join(platform.python_version_tuple()[:2]),
        "distributed": str(vars(distributed)["__version__"]),
    }


def resource_of(versions: Mapping[str, str], *, alone: bool = False) -> str:
    text = "\n".join(f"{name} {value}" for name, value in sorted(versions.items()))
    return f"wme-{hashlib.sha256(text.encode()).hexdigest()[:12]}{'-alone' if alone else ''}"


def url(address: str) -> str:
    """Return an address in Dask's format, with TLS if Dask's configuration specifies a CA file (…TLS__CA_FILE)."""
    place = address.removeprefix("dask://")
    has_tls = dask.config.get("distributed.comm.tls.ca-file", None) or dask.config.get(
        "distributed.comm.require-encryption", None
    )
    return f"{'tls' if has_tls else 'tcp'}://{place}"


def short(error: BaseException | None) -> str:
    return str(error).strip().partition("\n")[0][:300]


def quiet() -> None:
    """Disable Dask's log messages, because this package reports failures itself."""
    for name in ("distributed", *(one for one in logging.root.manager.loggerDict if one.startswith("distributed."))):
        logging.getLogger(name).setLevel(logging.CRITICAL)


#: The worker's data folder.
_folder: Path | None = None


async def serve(
    address: str,
    versions: Mapping[str, str],
    folder: Path,
    *,
    threads: int,
    name: str,
    started: Callable[[str, Callable[[], None]], None],
) -> None:
    """Run a worker for `dask://host:port` until the scheduler disappears or stops the worker.

    Runs must use the same `versions` and data folder. `threads` is the number of concurrent tasks. `name` appears in
    messages. Once the worker is registered, `started` receives the worker's address for other machines, and a function
    that unregisters the worker within a second, so that its tasks run elsewhere and do not count as failed. Raises
    EngineUnreachableError if the scheduler does not respond within 30 seconds.
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
                f"No scheduler responded at {address} within 30 s ({type(error).__name__}: {short(error)}). The worker "
                "was not started. Start `dask scheduler` there (with the same TLS settings), then start the worker "
                "again."
            ) from None
        loop = asyncio.get_running_loop()

        def leave() -> None:
            unregistered = worker.scheduler.unregister(
                address=worker.contact_address, stimulus_id="wme-worker-leaves", expected=True
            )
            asyncio.run_coroutine_threadsafe(unregistered, loop).result(timeout=1)

        started(str(worker.address), leave)
        await worker.finished()


def run(function: Callable[..., Any], arguments: tuple[Any, ...], probe: str) -> Outcome[None, Any]:
    """Run a call on a worker, if the run's `probe` file is in the worker's data folder.

    Errors are returned as values, so they arrive intact and Dask does not log them.
    """
    try:
        if _folder is not None:
            with contextlib.suppress(OSError):
                next(_folder.iterdir(), None)  # makes a network file system refresh its view of the folder
        if _folder is not None and (_folder / probe).exists():
            return Outcome(None, result=function(*arguments))
        why = f"the worker on {socket.gethostname()} does not find the run in {_folder}."
        return Outcome(None, error=FolderNotSharedError(why))
    except Exception as error:  # noqa: BLE001  the caller decides about each error
        return Outcome(None, error=portable(error))


def portable(error: Exception) -> Exception:
    """Return the error if pickling preserves it, otherwise a TaskError with the error's message."""
    try:
        same = pickle.loads(pickle.dumps(error))  # noqa: S301  our own
    except Exception:  # noqa: BLE001  foreign classes may raise anything
        same = None
    if type(same) is type(error) and str(same) == str(error):
        return error
    return TaskError(f"{type(error).__name__}: {short(error)}")
