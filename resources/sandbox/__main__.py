"""Entry point of `python -m resources.sandbox`, which runs the sandbox until Ctrl-C, a signal or an idle timeout."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TextIO

from resources.sandbox.accounts.accounts import Accounts
from resources.sandbox.api import control
from resources.sandbox.files import DATA, read_state, write_private
from resources.sandbox.options import parse
from resources.sandbox.process import SandboxConflictError, is_held
from resources.sandbox.server import Sandbox, running
from resources.sandbox.settings import TOP_GROUP, Settings
from resources.sandbox.store.exports import newest_hour

#: Time between the snapshot export and the first start. Three hourly batches follow the snapshots.
_SNAPSHOTS_BEFORE = timedelta(hours=3)
_POLL_SECONDS = 0.2
_PROGRESS_SECONDS = 10
#: Idle time before the sandbox stops once its owner process has ended. Another command might still use the sandbox.
_OWNERLESS_SECONDS = 5.0


def main(words: Sequence[str] | None = None, *, called: str | None = None, state: Path | None = None) -> int:
    options = parse(words, called=called or "python -m resources.sandbox", state=state)
    was_owned = _is_owned(options.owner)  # check now, because the owner process might end during startup
    try:
        if "snapshot_hour" not in options.model_fields_set and options.now is None:
            hour = snapshot_hour(options.state, datetime.now(UTC))
            options = options.model_copy(update={"snapshot_hour": hour})
        with (
            _caught_signals() as signals,
            running(options, interrupted=lambda: bool(signals), progress=_Progress(sys.stderr)) as sandbox,
        ):
            lines = [f"The password of the account {sandbox.username} is in {options.state / 'account.json'}."]
            lines += provide(sandbox.accounts, options, os.environ)
            if not signals:
                sys.stdout.write(_welcome(sandbox, options, lines))
                sys.stdout.flush()
            _wait(sandbox, signals, options, was_owned)
    except OSError as error:
        sys.stderr.write(f"{_sentence(error)}\n")
        return 1
    except (SandboxConflictError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def snapshot_hour(state: Path, now: datetime) -> int:
    """Return the UTC hour of the folder's daily snapshot exports, which is stored at the first start."""
    state.mkdir(parents=True, exist_ok=True)
    kept = state / "snapshot-hour.json"
    hour = read_state(kept).get("hour") if kept.exists() else None
    if not isinstance(hour, int):
        hour = (now - _SNAPSHOTS_BEFORE).astimezone(UTC).hour
        write_private(kept, json.dumps({"hour": hour}).encode())
    return hour % 24


def provide(accounts: Accounts, options: Settings, environ: Mapping[str, str]) -> list[str]:
    """Create the accounts from the command line and the environment, and return one output line per account.

    If both `WME_USERNAME` and `WME_PASSWORD` are set, they define an account with all permissions. Clients that read
    these variables then work unchanged. The password is stored as a digest and never printed.
    """
    lines = []
    username, password = environ.get("WME_USERNAME", "").strip(), environ.get("WME_PASSWORD", "").strip()
    if username and password:
        # some clients send the name in lower case, as the service's user pool stores it
        for name in {username, username.lower()}:
            control.change(accounts, {"username": name, "password": password, "groups": [TOP_GROUP]})
        lines.append(f"The account {username} has the password from WME_PASSWORD.")
    folder = options.state / "accounts"
    accounts_wanted = [*((one, False) for one in options.account), *((one, True) for one in options.temporary)]
    for account, temporary in accounts_wanted:
        folder.mkdir(mode=0o700, exist_ok=True)
        path = folder / f"{account.name}.json"
        # keep the password from the previous start
        kept = read_state(path, "password")["password"] if path.exists() else None
        content = {"username": account.name, "groups": [account.group], "temporary": temporary, "password": kept}
        made = control.change(accounts, content)
        write_private(path, json.dumps({"username": account.name, "password": made["password"]}).encode())
        kind = "temporary password" if temporary else "password"
        lines.append(f"The {kind} of the account {account.name} ({account.group}) is in {path}.")
    for quota in options.quota:
        control.change(accounts, {"username": quota.name, "quotas": {quota.kind: quota.limit}})
    for network, group in options.admit:
        accounts.admissions.admit(network, [group])
        lines.append(f"Requests from {network} need no token ({group}).")
    return lines


class _Progress:
    """Progress display that updates one line on a terminal and otherwise prints a line every ten seconds."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._printed_at = time.monotonic()

    def __call__(self, ready: int, of: int) -> None:
        now = time.monotonic()
        terminal = self._stream.isatty()
        if ready < of and now - self._printed_at < (_POLL_SECONDS if terminal else _PROGRESS_SECONDS):
            return
        if terminal:
            hint = " (use --prepare 1 for a faster start)" if ready < of else ""
            self._stream.write(f"\r\033[KPrepared {ready} of {of} archives{hint}")
            self._stream.write("\n" if ready == of else "")
        elif ready < of:
            self._stream.write(f"Prepared {ready} of {of} archives. Use --prepare 1 for a faster start.\n")
        self._printed_at = now
        self._stream.flush()


def _sentence(error: OSError) -> str:
    if error.filename is None:
        return error.strerror or str(error)
    return f"The sandbox cannot use {error.filename}: {error.strerror}. Choose another folder with --state."


@contextmanager
def _caught_signals() -> Iterator[list[int]]:
    """Collect SIGINT and SIGTERM during the block instead of handling these signals."""
    # a list, because a signal handler could deadlock on the lock of an event that this thread waits for
    caught: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, lambda received, _frame: caught.append(received)) for number in numbers]
    try:
        yield caught
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def _is_owned(owner: Path | None) -> bool:
    return owner is not None and is_held(owner)


def _wait(sandbox: Sandbox, signals: list[int], options: Settings, was_owned: bool) -> None:
    idle, owner = options.idle, options.owner
    while not signals and not sandbox.stopped.wait(_POLL_SECONDS):
        if idle is not None and sandbox.journal.idle_seconds() >= idle:
            sandbox.ending.set()
            sys.stdout.write(f"The sandbox is stopping because it received no requests for {idle:g} seconds.\n")
            return
        is_owned = _is_owned(owner)
        if was_owned and not is_owned and sandbox.journal.idle_seconds() >= _OWNERLESS_SECONDS:
            sandbox.ending.set()
            sys.stdout.write(f"The sandbox is stopping because the process that held the lock {owner} has ended.\n")
            return
        was_owned |= is_owned


def _welcome(sandbox: Sandbox, options: Settings, accounts: Sequence[str]) -> str:
    hour = newest_hour(sandbox.world, sandbox.clock.now())
    return (
        (DATA / "welcome.txt")
        .read_text(encoding="utf-8")
        .format(
            url=sandbox.url,
            object_url=sandbox.object_url,
            realtime_url=sandbox.realtime_url,
            accounts="\n".join(accounts),
            account=options.state / "account.json",
            outbox=options.state / "outbox",
            date=f"{hour:%Y-%m-%d}",
            hour=f"{hour:%H}",
            identifier=f"{options.projects[0]}_namespace_{options.namespaces[0]}",
        )
    )


if __name__ == "__main__":
    # the process that starts the sandbox might have blocked these signals
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
    sys.exit(main())
