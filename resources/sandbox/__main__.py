"""`python -m resources.sandbox`: run the sandbox in the foreground until Ctrl-C, a signal or idleness."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from resources.sandbox.api import control
from resources.sandbox.files import DATA, read_state, write_private
from resources.sandbox.options import parse
from resources.sandbox.process import SandboxConflictError, is_held
from resources.sandbox.server import Sandbox, running
from resources.sandbox.settings import TOP_GROUP
from resources.sandbox.store.exports import newest_hour

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import TextIO

    from resources.sandbox.accounts.accounts import Accounts
    from resources.sandbox.settings import Settings

#: Snapshots are exported this long before the first start, so that they are followed by three hourly batches.
_SNAPSHOTS_BEFORE = timedelta(hours=3)
_POLL_SECONDS = 0.2
_PROGRESS_SECONDS = 10
#: Idle time before the sandbox stops after its owner: another command may be using it.
_OWNERLESS_SECONDS = 5.0


def main(words: Sequence[str] | None = None, *, called: str | None = None, state: Path | None = None) -> int:
    """Run the sandbox with the options in `words` and return the exit status."""
    options = parse(words, called=called or "python -m resources.sandbox", state=state)
    was_owned = _is_owned(options.owner)  # check now: the owner may end during the start
    try:
        if "snapshot_hour" not in options.model_fields_set and options.now is None:
            hour = snapshot_hour(options.state, datetime.now(UTC))
            options = options.model_copy(update={"snapshot_hour": hour})
        with (
            _caught_signals() as signals,
            running(options, interrupted=lambda: bool(signals), progress=_Progress(sys.stderr)) as sandbox,
        ):
            lines = [f"Account: {sandbox.username}, password in {options.state / 'account.json'}."]
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
    """Return the hour of the day (UTC) of a folder's snapshot exports; the first start chooses it."""
    state.mkdir(parents=True, exist_ok=True)
    kept = state / "snapshot-hour.json"
    hour = read_state(kept).get("hour") if kept.exists() else None
    if not isinstance(hour, int):
        hour = (now - _SNAPSHOTS_BEFORE).astimezone(UTC).hour
        write_private(kept, json.dumps({"hour": hour}).encode())
    return hour % 24


def provide(accounts: Accounts, options: Settings, environ: Mapping[str, str]) -> list[str]:
    """Create the accounts of the command line and of the environment; return a line about each.

    If both `WME_USERNAME` and `WME_PASSWORD` are set, they define an account with all permissions, so clients that read
    them work unchanged. The password is stored as a digest and never printed.
    """
    lines = []
    username, password = environ.get("WME_USERNAME", "").strip(), environ.get("WME_PASSWORD", "").strip()
    if username and password:
        # some clients send the name in lower case, like the service's user pool stores it
        for name in {username, username.lower()}:
            control.change(accounts, {"username": name, "password": password, "groups": [TOP_GROUP]})
        lines.append(f"Account: {username}, with the password of WME_PASSWORD.")
    folder = options.state / "accounts"
    accounts_wanted = [*((one, False) for one in options.account), *((one, True) for one in options.temporary)]
    for account, temporary in accounts_wanted:
        folder.mkdir(mode=0o700, exist_ok=True)
        path = folder / f"{account.name}.json"
        # keep the password of the previous start
        kept = read_state(path, "password")["password"] if path.exists() else None
        content = {"username": account.name, "groups": [account.group], "temporary": temporary, "password": kept}
        made = control.change(accounts, content)
        write_private(path, json.dumps({"username": account.name, "password": made["password"]}).encode())
        kind = "temporary password" if temporary else "password"
        lines.append(f"Account: {account.name} ({account.group}), {kind} in {path}.")
    for quota in options.quota:
        control.change(accounts, {"username": quota.name, "quotas": {quota.kind: quota.limit}})
    for network, group in options.admit:
        accounts.admissions.admit(network, [group])
        lines.append(f"Admitted without a token: {network} ({group}).")
    return lines


class _Progress:
    """Progress display: one updated line on a terminal, otherwise a line every ten seconds."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._printed_at = time.monotonic()

    def __call__(self, ready: int, of: int) -> None:
        now = time.monotonic()
        terminal = self._stream.isatty()
        if ready < of and now - self._printed_at < (_POLL_SECONDS if terminal else _PROGRESS_SECONDS):
            return
        if terminal:
            hint = " (--prepare 1 starts sooner)" if ready < of else ""
            self._stream.write(f"\r\033[KPrepared {ready} of {of} archives{hint}")
            self._stream.write("\n" if ready == of else "")
        elif ready < of:
            self._stream.write(f"Prepared {ready} of {of} archives; --prepare 1 starts sooner.\n")
        self._printed_at = now
        self._stream.flush()


def _sentence(error: OSError) -> str:
    if error.filename is None:
        return error.strerror or str(error)
    return f"The sandbox cannot use {error.filename}: {error.strerror}. Choose another folder with --state."


@contextmanager
def _caught_signals() -> Iterator[list[int]]:
    """Collect SIGINT and SIGTERM during the block instead of handling them."""
    # a list instead of an event: a handler could deadlock on the lock of an event that this thread waits for
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
            sys.stdout.write(f"There was no request for {idle:g} seconds; the sandbox stops.\n")
            return
        is_owned = _is_owned(owner)
        if was_owned and not is_owned and sandbox.journal.idle_seconds() >= _OWNERLESS_SECONDS:
            sandbox.ending.set()
            sys.stdout.write(f"The process that held {owner} has ended; the sandbox stops.\n")
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
    sys.exit(main())
