"""Supervisor process for `wme ui` that starts Dagster's servers, and ends the servers and their runs on exit.

The servers and their run processes form one process group, which Ctrl-C in a terminal does not reach. On a signal, the
supervisor ends the group gracefully and discards the group's remaining output. If the supervisor itself is killed, the
group detects a closed pipe and ends. The lock from `resources.data_folder.ui_lock` is released when this process ends.
The data folder's sandbox watches this lock.

This module imports only the standard library and `filelock`, because the supervisor stays in memory.
"""

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

#: Time in seconds until servers and runs are killed if they do not end gracefully.
END_SECONDS = 10.0
#: Time in seconds within which killed processes must end.
_KILL_SECONDS = 2.0
#: Lock timeout in seconds. Processes that only test the lock release it immediately.
_LOCK_SECONDS = 2.0
_POLL_SECONDS = 0.05


def hold(lock: Path) -> FileLock:
    """Acquire the `wme ui` lock. If another process holds the lock, exit with a message."""
    taken = FileLock(lock, timeout=_LOCK_SECONDS)
    try:
        taken.acquire()
    except Timeout:
        sys.exit(
            f"Another `wme ui` is already serving {lock.parent.parent}, and two daemons would start every run twice. "
            "Nothing was started. Stop the other `wme ui` first. For another mirror, set WME_DATA to another folder."
        )
    return taken


def end_with_supervisor() -> None:
    """End this process group when standard input is closed, which means that the supervisor has ended.

    Default signal handling is restored, because the supervisor blocks signals, and a script might ignore Ctrl-C.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())

    def wait() -> None:
        while os.read(0, 1):
            pass
        os.killpg(0, signal.SIGTERM)

    threading.Thread(target=wait, name="supervisor", daemon=True).start()


def main() -> None:
    interrupts.watch(END_SECONDS + 2 * _KILL_SECONDS)
    lock, *command = sys.argv[1:]
    _lock = hold(Path(lock))  # until this process ends
    process = subprocess.Popen(  # noqa: S603 - our own environment's command
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, process_group=0
    )
    with interrupts.tidied(lambda: _end(process.pid)):
        output = threading.Thread(target=_copy, args=(process,), name="output", daemon=True)
        output.start()
        code = process.wait()
        _end(process.pid)
        output.join(END_SECONDS)
    sys.exit(
        f"Dagster's servers ended unexpectedly (exit code {code}). Committed work is kept. Run the same command again "
        "to continue."
    )


def _copy(process: subprocess.Popen[bytes]) -> None:
    """Copy the group's output to standard error. After a signal, the output is discarded."""
    assert process.stdout is not None
    while block := process.stdout.read1():  # type: ignore[attr-defined]
        with suppress(OSError):
            os.write(2, block)


def _end(group: int) -> None:
    """End the group gracefully, or kill the group after a timeout."""
    with suppress(ProcessLookupError):
        for number, seconds in ((signal.SIGTERM, END_SECONDS), (signal.SIGKILL, _KILL_SECONDS)):
            os.killpg(group, number)
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                os.killpg(group, 0)  # raises an error once no process is left
                time.sleep(_POLL_SECONDS)


if __name__ == "__main__":
    main()
