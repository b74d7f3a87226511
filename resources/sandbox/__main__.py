"""`python -m resources.sandbox serve`: the sandbox in the foreground, until Ctrl-C, a signal, or idleness.

Belongs here: the command line. Does not belong here: serving (`server`) or attaching (`process`).
"""

from __future__ import annotations

import argparse
import signal
import sys
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from resources.sandbox.process import add_arguments, settings_from
from resources.sandbox.record import SandboxConflictError
from resources.sandbox.server import Sandbox, running

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

_POLL_SECONDS = 0.2

_WELCOME = """\
The sandbox answers at {url} (signed downloads at {object_url}). Its data is synthetic.
Account: {username}, password in {account}. Mail arrives in {outbox}.

  TOKEN=$(curl -s {url}/v1/login -H 'Content-Type: application/json' -d @{account} \\
    | python3 -c 'import json, sys; print(json.load(sys.stdin)["access_token"])')
  curl -s {url}/v2/projects -H "Authorization: Bearer $TOKEN"
  curl -s {url}/v2/batches/{date}/{hour} -H "Authorization: Bearer $TOKEN"
  curl -sL {url}/v2/batches/{date}/{hour}/{identifier}/download -H "Authorization: Bearer $TOKEN" -o batch.tar.gz

  curl -s {url}/v2/snapshots -H "Authorization: Bearer $TOKEN"
  curl -sL {url}/v2/snapshots/{identifier}/chunks/0/download -H "Authorization: Bearer $TOKEN" -o chunk.tar.gz

  curl -s {url}/spec                        the interface description
  curl -s {url}/sandbox/faults -d '{{"path": "/v2/projects", "kind": "status", "status": 503}}'
"""


def main(words: Sequence[str] | None = None, *, called: str | None = None, state: Path | None = None) -> int:
    """Run the command line; returns the exit status.

    Args:
        words: Arguments; default: this process's own.
        called: Command that the help names, if it is another.
        state: Default of `--state`; None: it must be given.
    """
    parser = argparse.ArgumentParser(prog="python -m resources.sandbox", description="A local content service.")
    serve = parser.add_subparsers(dest="command", required=True).add_parser(
        "serve", help="serve until told to end", prog=called
    )
    add_arguments(serve, state=state)
    serve.add_argument("--port", type=int, default=0, help="port of the service (default: a free one)")
    serve.add_argument("--object-port", type=int, default=0, help="port of signed downloads (default: a free one)")
    serve.add_argument("--idle", type=float, help="end after so many seconds without a request (default: never)")
    arguments = parser.parse_args(words)
    try:
        settings = settings_from(arguments)
    except ValueError as error:
        parser.error(str(error))
    try:
        with (
            _caught_signals() as signals,
            running(settings, port=arguments.port, object_port=arguments.object_port) as sandbox,
        ):
            sys.stdout.write(_welcome(sandbox, settings.state))
            sys.stdout.flush()
            _wait(sandbox, signals, arguments.idle)
    except (SandboxConflictError, OSError) as error:
        sys.stderr.write(f"{getattr(error, 'strerror', None) or error}\n")
        return 1
    return 0


@contextmanager
def _caught_signals() -> Iterator[list[int]]:
    """The signals to end that arrive within the block, instead of what they do otherwise."""
    # A list and not an event: a handler that sets the event this thread waits for could find its lock taken.
    caught: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, lambda received, _frame: caught.append(received)) for number in numbers]
    try:
        yield caught
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def _wait(sandbox: Sandbox, signals: list[int], idle: float | None) -> None:
    while not signals and not sandbox.stopped.wait(_POLL_SECONDS):
        if idle is not None and sandbox.journal.idle_seconds() >= idle:
            sandbox.control.ending = True
            sys.stdout.write(f"Nothing was asked for {idle:g} seconds: the sandbox ends.\n")
            return


def _welcome(sandbox: Sandbox, state: Path) -> str:
    now = sandbox.clock.now()
    hour = now.replace(minute=0, second=0, microsecond=0)
    while sandbox.world.hour_ready_at(hour) > now:
        hour -= timedelta(hours=1)
    return _WELCOME.format(
        url=sandbox.url,
        object_url=sandbox.object_url,
        username=sandbox.username,
        account=state / "account.json",
        outbox=state / "outbox",
        date=f"{hour:%Y-%m-%d}",
        hour=f"{hour:%H}",
        identifier=f"{sandbox.settings.projects[0]}_namespace_{sandbox.settings.namespaces[0]}",
    )


if __name__ == "__main__":
    sys.exit(main())
