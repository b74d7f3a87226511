"""A sandbox in a process of its own: joined if one is running, started if none is."""

from __future__ import annotations

import logging
import os
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock

from resources.sandbox.accounts.accounts import read_default_account
from resources.sandbox.claim import SandboxConflictError, find, find_starting, is_answering, is_claimed
from resources.sandbox.options import command_line

if TYPE_CHECKING:
    from resources.sandbox.claim import Starting
    from resources.sandbox.settings import Settings

_log = logging.getLogger(__name__)

IDLE_SECONDS = 600.0
_START_SECONDS = 60
#: A sandbox that prepares has another archive ready within this time, however slow the machine; one that ends lets go of its folder.
_STALLED_SECONDS = 180.0
#: Between two lines about the wait.
_SAY_SECONDS = 30.0
_POLL_SECONDS = 0.02


class SandboxStartError(Exception):
    """A sandbox could not be started; the message says where its log is."""


@dataclass(frozen=True)
class Endpoint:
    """Where a sandbox answers, and the account that may do everything there."""

    url: str
    object_url: str
    realtime_url: str
    username: str
    password: str = field(repr=False)
    identity: str
    pid: int


def attach(settings: Settings, *, idle_seconds: float = IDLE_SECONDS, owner: Path | None = None) -> Endpoint:
    """The sandbox of `settings.state`: the one that runs, or a new one, detached, that ends when idle for so long.

    With `owner`, a file, the new one also ends soon after the process that holds a lock on it.

    Processes that attach at the same time get the same sandbox. One that was killed is replaced. One that still prepares
    its archives is waited for as long as it gets on. A sandbox that runs keeps its clock whatever `settings.now` says.

    Raises:
        SandboxConflictError: A sandbox with other settings serves the folder.
        SandboxStartError: A new one did not answer within a minute, or the one that is there does not get on.
    """
    state = settings.state.absolute()
    state.mkdir(parents=True, exist_ok=True)
    if (endpoint := _running(settings, state)) is not None:
        return endpoint
    with FileLock(state / "attach.lock"):
        return _running(settings, state) or _start(settings, state, idle_seconds, owner)


def _running(settings: Settings, state: Path) -> Endpoint | None:
    """The folder's sandbox, waited for while it starts; None: there is none.

    Raises:
        SandboxConflictError: It has other settings.
        SandboxStartError: It neither answers nor gets on.
    """
    known: Starting | None = None
    changed_at = said_at = time.monotonic()
    while (endpoint := _join(settings, state)) is None and is_claimed(state):
        now, starting = time.monotonic(), find_starting(state)
        if starting is not None and starting.identity != settings.identity:
            raise _conflict(state, f"of process {starting.pid}", starting.identity, settings)
        if starting != known:
            known, changed_at = starting, now
        if now - changed_at > _STALLED_SECONDS:
            raise SandboxStartError(_stalled(state, starting))
        if starting is not None and now >= said_at:
            _log.warning(
                "Waiting for the sandbox of process %d: %d of %d archives are prepared.",
                *(starting.pid, starting.ready, starting.of),
            )
            said_at = now + _SAY_SECONDS
        time.sleep(_POLL_SECONDS)
    return endpoint


def _stalled(state: Path, starting: Starting | None) -> str:
    """What to do about a sandbox that holds the folder and does nothing."""
    holder = starting or find(state)
    process = "a process" if holder is None else f"process {holder.pid}"
    end = "End it" if holder is None else f"End it with `kill {holder.pid}`"
    return (
        f"The sandbox of {state} is {process}, which has not answered or prepared anything for {_STALLED_SECONDS:.0f} seconds. "
        f"Nothing was started. {end}, then run this again; what it has prepared is kept."
    )


def _conflict(state: Path, where: str, identity: str, settings: Settings) -> SandboxConflictError:
    return SandboxConflictError(
        f"The sandbox {where} serves {state} as {identity}, not as {settings.identity}; end it first, or use another data "
        "folder for these settings."
    )


def _join(settings: Settings, state: Path) -> Endpoint | None:
    record = find(state)
    if record is None or not is_answering(record):
        return None
    if record.identity != settings.identity:
        raise _conflict(state, f"at {record.url}", record.identity, settings)
    username, password = read_default_account(state)
    return Endpoint(record.url, record.object_url, record.realtime_url, username, password, record.identity, record.pid)


def _start(settings: Settings, state: Path, idle_seconds: float, owner: Path | None) -> Endpoint:
    log = state / "sandbox.log"
    # posix_spawn and not subprocess: the sandbox outlives this process, which therefore never waits for it.
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    pid = os.posix_spawn(
        sys.executable,
        [sys.executable, "-m", "resources.sandbox", *command_line(settings, idle_seconds=idle_seconds, owner=owner)],
        {**os.environ, "PYTHONPATH": _python_path()},
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), flags, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
            *((os.POSIX_SPAWN_CLOSE, number) for number in _inheritable()),
        ],
        setsid=True,
        setsigmask=(),  # whoever starts it may have signals blocked, which it would inherit
    )
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        ended = _ended(pid)
        # Someone may have started one by hand meanwhile: then ours has ended, and theirs is the one.
        endpoint = _running(settings, state) if ended else _join(settings, state)
        if endpoint is not None:
            return endpoint
        if ended:
            break
        time.sleep(_POLL_SECONDS)
    raise SandboxStartError(f"The sandbox did not start; the last lines of {log} are: {_tail(log)}")


def _inheritable() -> list[int]:
    """List the open descriptors behind standard error that a new process would inherit, and so hold open for hours."""
    found = []
    for path in Path("/dev/fd").iterdir():
        with suppress(OSError):  # that of the listing is closed by now
            if int(path.name) > 2 and os.get_inheritable(int(path.name)):
                found.append(int(path.name))
    return found


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
