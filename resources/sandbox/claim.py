"""Which sandbox serves a state folder: a lock for as long as it runs, and a file that says where it answers."""

from __future__ import annotations

import http.client
import json
import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from filelock import FileLock, Timeout

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from resources.sandbox.settings import Settings


_ANSWER_SECONDS = 5
#: A sandbox that is ending lets go of its folder within this time.
_PATIENCE_SECONDS = 45
_POLL_SECONDS = 0.02


class SandboxConflictError(Exception):
    """The state folder is in use by another sandbox; the message says what to do."""


class Record(NamedTuple):
    """Where the sandbox of a state folder answers."""

    identity: str
    pid: int
    url: str
    object_url: str


@contextmanager
def claimed(state: Path) -> Iterator[None]:
    """Be the one sandbox of the folder. The lock goes with the process, however that ends.

    Raises:
        SandboxConflictError: Another one serves it.
    """
    lock = FileLock(state / "serving.lock", timeout=0)
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not lock.is_locked:
        try:
            lock.acquire()
        except Timeout:
            record = find(state)
            answering = record is not None and is_answering(record)
            # One that does not answer may be ending, or starting.
            if answering or time.monotonic() > deadline:
                where = f" at {record.url}" if record is not None and answering else ""
                raise SandboxConflictError(
                    f"A sandbox already serves {state}{where}; join it, end it first, or name another state folder."
                ) from None
            time.sleep(_POLL_SECONDS)
    try:
        yield
    finally:
        _path(state).unlink(missing_ok=True)
        lock.release()


def publish(settings: Settings, url: str, object_url: str) -> None:
    """Write down where the sandbox answers."""
    part = _path(settings.state).with_suffix(".part")
    part.write_text(json.dumps(Record(settings.identity, os.getpid(), url, object_url)._asdict()))
    part.replace(_path(settings.state))


def find(state: Path) -> Record | None:
    """What the folder's sandbox wrote down; it may have ended without a trace since."""
    try:
        return Record(**json.loads(_path(state).read_bytes()))
    except (FileNotFoundError, ValueError, TypeError):
        return None


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


def _path(state: Path) -> Path:
    return state / "sandbox.json"
