"""A sandbox in a process of its own: joined if one is running, started if none is."""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock

from resources.sandbox.accounts.accounts import read_default_account
from resources.sandbox.claim import SandboxConflictError, find, is_answering
from resources.sandbox.options import command_line

if TYPE_CHECKING:
    from resources.sandbox.settings import Settings

IDLE_SECONDS = 600.0
_START_SECONDS = 60
_POLL_SECONDS = 0.02


class SandboxStartError(Exception):
    """A sandbox could not be started; the message says where its log is."""


@dataclass(frozen=True)
class Endpoint:
    """Where a sandbox answers, and the account that may do everything there."""

    url: str
    object_url: str
    username: str
    password: str = field(repr=False)
    identity: str
    pid: int


def attach(settings: Settings, *, idle_seconds: float = IDLE_SECONDS) -> Endpoint:
    """The sandbox of `settings.state`: the one that runs, or a new one, detached, that ends when idle for so long.

    Processes that attach at the same time get the same sandbox. One that was killed is replaced. A sandbox that runs
    keeps its clock whatever `settings.now` says.

    Raises:
        SandboxConflictError: A sandbox with other settings serves the folder.
        SandboxStartError: A new one did not answer within a minute.
    """
    state = settings.state.absolute()
    state.mkdir(parents=True, exist_ok=True)
    with FileLock(state / "attach.lock"):
        endpoint = _join(settings, state)
        if endpoint is not None:
            return endpoint
        return _start(settings, state, idle_seconds)


def _join(settings: Settings, state: Path) -> Endpoint | None:
    record = find(state)
    if record is None or not is_answering(record):
        return None
    if record.identity != settings.identity:
        raise SandboxConflictError(
            f"The sandbox at {record.url} serves {state} as {record.identity}, not as {settings.identity}; "
            "end it first, or use another data folder for these settings."
        )
    username, password = read_default_account(state)
    return Endpoint(record.url, record.object_url, username, password, record.identity, record.pid)


def _start(settings: Settings, state: Path, idle_seconds: float) -> Endpoint:
    log = state / "sandbox.log"
    # posix_spawn and not subprocess: the sandbox outlives this process, which therefore never waits for it.
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    pid = os.posix_spawn(
        sys.executable,
        [sys.executable, "-m", "resources.sandbox", *command_line(settings, idle_seconds=idle_seconds)],
        {**os.environ, "PYTHONPATH": _python_path()},
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), flags, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
        setsigmask=(),  # whoever starts it may have signals blocked, which it would inherit
    )
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        ended = _ended(pid)
        # Someone may have started one by hand meanwhile: then ours has ended, and theirs is the one.
        endpoint = _join(settings, state)
        if endpoint is not None:
            return endpoint
        if ended:
            break
        time.sleep(_POLL_SECONDS)
    raise SandboxStartError(f"The sandbox did not start; the last lines of {log} are: {_tail(log)}")


def _ended(pid: int) -> bool:
    with suppress(ChildProcessError):
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    return True


def _tail(log: Path) -> str:
    return log.read_text(errors="replace")[-1000:].strip() or "(nothing)"


def _python_path() -> str:
    """Where the sandbox's process finds this very code, whatever folder this process runs in."""
    root = str(Path(__file__).resolve().parents[2])
    return os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
