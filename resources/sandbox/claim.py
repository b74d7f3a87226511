"""Which sandbox serves a state folder: a lock for as long as it runs, and files that say how far it is and where it answers."""

from __future__ import annotations

import http.client
import json
import os
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from filelock import FileLock, Timeout

from resources.sandbox.files import read_state

if TYPE_CHECKING:
    from collections.abc import Iterator

    from resources.sandbox.settings import Settings


_ANSWER_SECONDS = 5
#: A sandbox that is ending lets go of its folder within this time.
_PATIENCE_SECONDS = 45
_POLL_SECONDS = 0.02


_SERVING, _STARTING = "sandbox.json", "starting.json"


class SandboxConflictError(Exception):
    """The state folder is in use by another sandbox; the message says what to do."""


class Record(NamedTuple):
    """Where the sandbox of a state folder answers."""

    identity: str
    pid: int
    url: str
    object_url: str
    realtime_url: str


class Starting(NamedTuple):
    """A sandbox that does not answer yet: how many of the archives that it prepares are ready."""

    identity: str
    pid: int
    ready: int = 0
    of: int = 0


_Kind = TypeVar("_Kind", Record, Starting)


@contextmanager
def claimed(settings: Settings) -> Iterator[None]:
    """Be the one sandbox of the folder. The lock goes with the process, however that ends.

    Raises:
        SandboxConflictError: Another one serves it.
    """
    state = settings.state
    lock = _lock(state)
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not lock.is_locked:
        try:
            lock.acquire()
        except Timeout:
            record, starting = find(state), find_starting(state)
            answering = record is not None and is_answering(record)
            # One that does neither may be ending.
            if answering or starting is not None or time.monotonic() > deadline:
                where = f" at {record.url}" if record is not None and answering else ""
                where = f" in process {starting.pid}, which is preparing it" if starting is not None else where
                raise SandboxConflictError(
                    f"A sandbox already serves {state}{where}; join it, end it first, or name another state folder."
                ) from None
            time.sleep(_POLL_SECONDS)
    try:
        report(settings)
        yield
    finally:
        for name in (_SERVING, _STARTING):
            (state / name).unlink(missing_ok=True)
        lock.release()


def is_claimed(state: Path) -> bool:
    """Whether a process is the sandbox of the folder: one that starts, answers, or ends."""
    return _is_taken(_lock(state))


def is_held(lock: Path) -> bool:
    """Return True while a process holds a lock on an existing file."""
    return lock.exists() and _is_taken(FileLock(lock, timeout=0))


def _is_taken(lock: FileLock) -> bool:
    try:
        with lock:
            return False
    except Timeout:
        return True


def report(settings: Settings, ready: int = 0, of: int = 0) -> None:
    """Write down how far the sandbox is that starts."""
    _write(settings.state / _STARTING, Starting(settings.identity, os.getpid(), ready, of))


def publish(settings: Settings, url: str, object_url: str, realtime_url: str) -> None:
    """Write down where the sandbox answers."""
    _write(settings.state / _SERVING, Record(settings.identity, os.getpid(), url, object_url, realtime_url))
    (settings.state / _STARTING).unlink(missing_ok=True)


def find(state: str | Path) -> Record | None:
    """What the folder's sandbox wrote down; it may have ended without a trace since."""
    return _read(Path(state) / _SERVING, Record)


def find_starting(state: Path) -> Starting | None:
    """How far the sandbox is that claimed the folder; None where it answers already, or ends."""
    return _read(state / _STARTING, Starting)


def is_answering(record: Record) -> bool:
    """Whether the sandbox written down still answers, and is the same one."""
    address = urlsplit(record.url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=_ANSWER_SECONDS)
    try:
        connection.request("GET", "/sandbox/identity")
        answer = connection.getresponse()
        content: dict[str, Any] = json.loads(answer.read())
    except (OSError, http.client.HTTPException, ValueError):
        return False
    finally:
        connection.close()
    return content.get("pid") == record.pid and content.get("identity") == record.identity


def _lock(state: Path) -> FileLock:
    return FileLock(state / "serving.lock", timeout=0)


def _write(path: Path, found: Record | Starting) -> None:
    part = path.with_suffix(".part")
    part.write_text(json.dumps(found._asdict()))
    part.replace(path)


def _read(path: Path, kind: type[_Kind]) -> _Kind | None:
    try:
        return kind(**read_state(path))
    except (FileNotFoundError, ValueError, TypeError):
        return None
