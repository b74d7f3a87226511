"""State folder locks, and functions that attach to a running sandbox or start a new sandbox process.

A running sandbox holds a lock. A file next to the lock contains the sandbox's progress and then its URLs.
"""

from __future__ import annotations

import http.client
import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from filelock import FileLock, Timeout

from resources.sandbox.files import read_state, write_private
from resources.sandbox.settings import Settings

_log = logging.getLogger(__name__)

IDLE_SECONDS = 600.0
_ANSWER_SECONDS = 5
_START_SECONDS = 60
#: Maximum time until a stopping sandbox releases its folder.
_ENDING_SECONDS = 45
#: Maximum time that a starting sandbox needs for an archive, even on a slow machine.
_STALLED_SECONDS = 180.0
#: Interval between log messages while waiting.
_SAY_SECONDS = 30.0
_POLL_SECONDS = 0.02
_RECORD = "sandbox.json"


class SandboxConflictError(Exception):
    """Another sandbox is using the state folder."""


class SandboxStartError(Exception):
    """A sandbox did not start or is making no progress."""


class Record(NamedTuple):
    """Content of `sandbox.json`, with the URLs of a ready sandbox or the archive counts of a starting sandbox."""

    identity: str
    pid: int
    url: str = ""
    object_url: str = ""
    realtime_url: str = ""
    ready: int = 0
    of: int = 0


@dataclass(frozen=True)
class Endpoint:
    """URLs and default account of a sandbox."""

    url: str
    object_url: str
    realtime_url: str
    username: str
    password: str = field(repr=False)
    identity: str
    pid: int


@contextmanager
def claimed(settings: Settings) -> Iterator[None]:
    """Hold the state folder's lock, which is released even if the process is killed.

    Raises:
        SandboxConflictError: Another sandbox serves the folder.
    """
    state = settings.state
    lock = _lock(state)
    deadline = time.monotonic() + _ENDING_SECONDS
    while not lock.is_locked:
        try:
            lock.acquire()
        except Timeout:
            record = _read(state)
            # a sandbox that neither prepares archives nor responds might be stopping
            holds = record is not None and (not record.url or _is_answering(record))
            if holds or time.monotonic() > deadline:
                where = ""
                if holds and record is not None:
                    where = f" at {record.url}" if record.url else f" from process {record.pid} (still starting)"
                raise SandboxConflictError(
                    f"A sandbox is already serving {state}{where}. Use or stop that sandbox, or choose another state "
                    "folder."
                ) from None
            time.sleep(_POLL_SECONDS)
    try:
        report(settings)
        yield
    finally:
        (state / _RECORD).unlink(missing_ok=True)
        lock.release()


def is_held(lock: Path) -> bool:
    return lock.exists() and _is_taken(FileLock(lock, timeout=0))


def report(settings: Settings, **facts: Any) -> None:
    """Write the progress of a starting sandbox or the URLs of a ready sandbox to `sandbox.json`."""
    record = Record(settings.identity, os.getpid(), **facts)
    write_private(settings.state / _RECORD, json.dumps(record._asdict()).encode())


def find(state: str | Path) -> Record | None:
    """Return the record of the folder's sandbox if the sandbox was ready. A killed sandbox leaves its record behind."""
    record = _read(Path(state))
    return record if record is not None and record.url else None


def _is_answering(record: Record) -> bool:
    """Return whether the recorded sandbox still responds with the same process ID and identity."""
    address = urlsplit(record.url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=_ANSWER_SECONDS)
    try:
        connection.request("GET", "/sandbox/identity")
        content: dict[str, Any] = json.loads(connection.getresponse().read())
    except (OSError, http.client.HTTPException, ValueError):
        return False
    finally:
        connection.close()
    return content.get("pid") == record.pid and content.get("identity") == record.identity


def _lock(state: Path) -> FileLock:
    return FileLock(state / "serving.lock", timeout=0)


def _is_taken(lock: FileLock) -> bool:
    try:
        with lock:
            return False
    except Timeout:
        return True


def _read(state: Path) -> Record | None:
    with suppress(FileNotFoundError, ValueError, TypeError):
        return Record(**read_state(state / _RECORD))
    return None


def attach(settings: Settings, *, idle_seconds: float = IDLE_SECONDS, owner: Path | None = None) -> Endpoint:
    """Return the running sandbox of `settings.state`, or start a detached sandbox that stops when idle.

    If `owner` is given, a new sandbox also stops soon after the process that holds a lock on this file ends.

    Processes that attach at the same time get the same sandbox. A killed sandbox is replaced. This function waits while
    a sandbox makes progress preparing its archives. A running sandbox ignores `settings.now`.

    Raises:
        SandboxConflictError: A sandbox with other settings serves the folder.
        SandboxStartError: A new sandbox was not ready within a minute, or a running sandbox makes no progress.
    """
    state = settings.state.absolute()
    state.mkdir(parents=True, exist_ok=True)
    if (endpoint := _running(settings, state)) is not None:
        return endpoint
    with FileLock(state / "attach.lock"):
        own = settings.model_copy(update={"idle": idle_seconds, "owner": owner})
        return _running(settings, state) or _start(own, state)


def _running(settings: Settings, state: Path) -> Endpoint | None:
    """Wait until the folder's sandbox is ready and return its endpoint, or None if no sandbox is running."""
    known: Record | None = None
    changed_at = said_at = time.monotonic()
    while (endpoint := _join(settings, state)) is None and _is_taken(_lock(state)):
        now, starting = time.monotonic(), _read(state)
        if starting is not None and starting.url:
            starting = None
        if starting is not None and starting.identity != settings.identity:
            raise _conflict(state, f"in process {starting.pid}", starting.identity, settings)
        if starting != known:
            known, changed_at = starting, now
        if now - changed_at > _STALLED_SECONDS:
            raise _stalled(state)
        if starting is not None and now >= said_at:
            _log.warning(
                "Waiting for the sandbox in process %d, which has prepared %d of %d archives.",
                *(starting.pid, starting.ready, starting.of),
            )
            said_at = now + _SAY_SECONDS
        time.sleep(_POLL_SECONDS)
    return endpoint


def _stalled(state: Path) -> SandboxStartError:
    holder = _read(state)
    process = "A process" if holder is None else f"Process {holder.pid}"
    end = "End that process" if holder is None else f"End that process with `kill {holder.pid}`"
    return SandboxStartError(
        f"{process} serves {state} but has neither responded nor prepared an archive for {_STALLED_SECONDS:.0f} "
        f"seconds. No sandbox was started. {end}, then run this command again. Prepared archives are kept."
    )


def _conflict(state: Path, where: str, identity: str, settings: Settings) -> SandboxConflictError:
    return SandboxConflictError(
        f"The sandbox {where} serves {state} as {identity}, not as {settings.identity}. Stop that sandbox first, or "
        "use another data folder for these settings."
    )


def _join(settings: Settings, state: Path) -> Endpoint | None:
    record = find(state)
    if record is None or not _is_answering(record):
        return None
    if record.identity != settings.identity:
        raise _conflict(state, f"at {record.url}", record.identity, settings)
    account = read_state(state / "account.json", "username", "password")
    urls = (record.url, record.object_url, record.realtime_url)
    return Endpoint(*urls, account["username"], account["password"], record.identity, record.pid)


def _start(settings: Settings, state: Path) -> Endpoint:
    from resources.sandbox.options import command_line  # noqa: PLC0415 - finding a sandbox does without

    log = state / "sandbox.log"
    log.touch(mode=0o600)
    with log.open("ab") as output:
        process = subprocess.Popen(  # noqa: S603 - the words are our own
            [sys.executable, "-m", "resources.sandbox", *command_line(settings)],
            env=child_environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    deadline = time.monotonic() + _START_SECONDS
    try:
        while time.monotonic() < deadline:
            has_ended = process.poll() is not None
            # if the new sandbox ended because another sandbox was started manually, use the other sandbox
            endpoint = _running(settings, state) if has_ended else _join(settings, state)
            if endpoint is not None:
                return endpoint
            if has_ended:
                break
            time.sleep(_POLL_SECONDS)
    finally:
        process.returncode = 0  # prevents a warning, because the sandbox outlives this process
    tail = log.read_text(errors="replace")[-1000:].strip() or "(nothing)"
    raise SandboxStartError(f"The sandbox did not start. The last lines of {log} are: {tail}")


def child_environment() -> dict[str, str]:
    """Return environment variables that let a sandbox process import this code from any working directory."""
    root = str(Path(__file__).resolve().parents[2])
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))}
