"""The process of `wme ui`: it starts Dagster's servers, and ends them with all their runs, however it ends itself.

The servers and the processes of their runs are one process group, which Ctrl-C in a terminal does not reach: it is
ended here, in order, and what it still prints then is dropped. A pipe, whose end the group sees, takes the place of
signals where this process is killed. The lock on the file of `resources.data_folder.ui_lock` ends with this process
too; the sandbox of the data folder looks at it.

Imports the standard library and `filelock` only: it stays in memory beside the servers.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

from filelock import FileLock, Timeout

from pipelines.process import interrupts

#: For the servers and runs to end in order; then they are killed. A stream stores what it has received.
END_SECONDS = 10.0
#: For the system to end what was killed.
_KILL_SECONDS = 2.0
#: Whoever only looks at the lock holds it for a moment.
_LOCK_SECONDS = 2.0
_POLL_SECONDS = 0.05


def hold(lock: Path) -> FileLock | None:
    """Take the lock of `wme ui` for this process, until it ends; None: another process holds it."""
    taken = FileLock(lock, timeout=_LOCK_SECONDS)
    try:
        taken.acquire()
    except Timeout:
        return None
    return taken


def refusal(lock: Path) -> str:
    return (
        f"Another `wme ui` serves {lock.parent.parent} already, and two daemons would start everything twice. Nothing "
        "was started. Use the running one, or stop it first; for another mirror, set WME_DATA to another folder."
    )


def words(lock: Path, command: list[str]) -> list[str]:
    return [sys.executable, "-m", __name__, str(lock), *command]


def end_with_supervisor() -> None:
    """End this process group when the supervisor, which has the other end of standard input, is gone."""

    def wait() -> None:
        while os.read(0, 1):
            pass
        os.killpg(0, signal.SIGTERM)

    threading.Thread(target=wait, name="supervisor", daemon=True).start()


def main() -> None:
    interrupts.watch(END_SECONDS + 2 * _KILL_SECONDS)
    lock, *command = sys.argv[1:]
    held = hold(Path(lock))
    if held is None:
        sys.exit(refusal(Path(lock)))
    # the signals are blocked here, and would be in all of the group
    process = subprocess.Popen(  # noqa: S603 - our own environment's command
        [sys.executable, "-c", _UNBLOCKED, *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        process_group=0,
    )
    with interrupts.tidied(lambda: _end(process.pid)):
        output = threading.Thread(target=_copy, args=(process,), name="output", daemon=True)
        output.start()
        code = process.wait()
        _end(process.pid)
        output.join(END_SECONDS)
    sys.exit(
        f"Dagster's servers have ended by themselves (exit code {code}). What was committed stays; run the same "
        "command again to go on."
    )


#: Gives the command the signals as a terminal would, also where a script's background has Ctrl-C ignored.
_UNBLOCKED = """
import os, signal, sys
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, signal.SIG_DFL)
signal.pthread_sigmask(signal.SIG_SETMASK, ())
os.execv(sys.argv[1], sys.argv[1:])
"""


def _copy(process: subprocess.Popen[bytes]) -> None:
    """Copy what the group prints to standard error, which leads nowhere once the end was asked for."""
    assert process.stdout is not None
    while block := process.stdout.read1():  # type: ignore[attr-defined]
        with suppress(OSError):
            os.write(2, block)


def _end(group: int) -> None:
    """End the group, in order or else at once."""
    with suppress(ProcessLookupError):
        for number, seconds in ((signal.SIGTERM, END_SECONDS), (signal.SIGKILL, _KILL_SECONDS)):
            os.killpg(group, number)
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                os.killpg(group, 0)  # raises where nobody is left
                time.sleep(_POLL_SECONDS)


if __name__ == "__main__":
    main()
