"""A sandbox in a process of its own: joined where one runs, started where none does.

Belongs here: attaching to the sandbox of a state folder, and the command line that such a process is started with.
Does not belong here: serving (`server`).
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from filelock import FileLock

from resources.sandbox.accounts import read_default_account
from resources.sandbox.record import SandboxConflictError, find, is_answering
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


def command_line(settings: Settings, *, idle_seconds: float | None = None) -> list[str]:
    """The arguments of `python -m resources.sandbox` that serve these settings."""
    words = ["serve", "--state", str(settings.state.absolute()), "--seed", str(settings.seed)]
    words += ["--projects", ",".join(settings.projects), "--namespaces", ",".join(map(str, settings.namespaces))]
    words += ["--changes-per-hour", str(settings.changes_per_hour), "--body-bytes", str(settings.body_bytes)]
    words += ["--chunk-bytes", str(settings.chunk_bytes)]
    if settings.articles is not None:
        words += ["--articles", str(settings.articles)]
    if settings.now is not None:
        words += ["--now", settings.now.isoformat()]
    if not settings.overlap:
        words += ["--no-overlap"]
    if settings.single_member:
        words += ["--single-member"]
    if settings.source_2025:
        words += ["--source-2025"]
    if settings.corpus is not None:
        words += ["--corpus", str(settings.corpus.absolute())]
    if idle_seconds is not None:
        words += ["--idle", str(idle_seconds)]
    return words


def add_arguments(parser: argparse.ArgumentParser, *, state: Path | None = None) -> None:
    """Declare the arguments that `settings_from` reads; `state` is the default of `--state` (None: it must be given)."""
    add = parser.add_argument
    add(
        "--state",
        type=Path,
        required=state is None,
        default=state,
        help="folder for keys, accounts, archives and the outbox" + (" (default: %(default)s)" if state else ""),
    )
    add("--seed", type=int, default=Settings.seed, help="seed of the world (default: %(default)s)")
    add("--projects", default=",".join(Settings.projects), help="projects with articles (default: %(default)s)")
    add("--namespaces", default=",".join(map(str, Settings.namespaces)), help="their namespaces (default: %(default)s)")
    add(
        "--articles",
        type=int,
        help="pages in namespace 0 of each project (default: some 5,000, fewer where little happens)",
    )
    add("--changes-per-hour", type=int, default=Settings.changes_per_hour, help="per project (default: %(default)s)")
    add("--body-bytes", type=int, default=Settings.body_bytes, help="mean size of a body (default: %(default)s)")
    add(
        "--chunk-bytes",
        type=int,
        default=Settings.chunk_bytes,
        help="size of a snapshot's chunk (default: %(default)s)",
    )
    add("--single-member", action="store_true", help="snapshots have a single member, and not one for every chunk")
    add("--now", type=datetime.fromisoformat, help="stand still at this moment (default: real time)")
    add("--overlap", action=argparse.BooleanOptionalAction, default=True, help="hour files overlap as the service's do")
    add("--source-2025", action="store_true", help="behave as the service's public source of August 2025")
    add("--corpus", type=Path, help="folder of real records (NDJSON, plain or .gz) to take bodies from")


def settings_from(arguments: argparse.Namespace) -> Settings:
    """The settings that parsed arguments describe.

    Raises:
        ValueError: They describe none; the message says why.
    """
    return Settings(
        state=arguments.state,
        seed=arguments.seed,
        projects=tuple(filter(None, arguments.projects.split(","))),
        namespaces=tuple(int(number) for number in arguments.namespaces.split(",") if number),
        articles=arguments.articles,
        changes_per_hour=arguments.changes_per_hour,
        body_bytes=arguments.body_bytes,
        chunk_bytes=arguments.chunk_bytes,
        single_member=arguments.single_member,
        now=arguments.now,
        overlap=arguments.overlap,
        source_2025=arguments.source_2025,
        corpus=arguments.corpus,
    )
