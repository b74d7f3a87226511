"""Handler for Ctrl-C and termination signals that prints a message, cleans up, and exits with the right code.

The signals are blocked in all threads and child processes, and a separate thread waits for a signal. Therefore, no
import, query or signal-handling library can swallow a signal. The process exits without unwinding the main thread.
Files and transactions survive such an exit, as they survive a power failure.

This module imports only the standard library, because it runs before all other imports.
"""

import atexit
import os
import signal
import termios
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

SENTENCE = "Stopped. Committed work is kept. Run the same command again to continue."
#: Default time limit of the cleanup.
TIDY_SECONDS = 4.0

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_tidying: list[Callable[[], object]] = []
#: Lock held by the thread that ends the process, which is the waiting thread or, at exit, the main thread.
_ending = threading.Lock()


def watch(tidy_seconds: float = TIDY_SECONDS) -> None:
    """On a signal, end the process with exit code 128 + signal number. Call this once, from the main thread."""
    # signals that `nohup` or a script with background jobs has ignored remain ignored
    numbers = {number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN}
    # also block ignored signals, because Dagster installs its own handler during a run
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    # a password prompt without echo changes the mode
    mode = termios.tcgetattr(0) if os.isatty(0) else None
    # The handler is registered first and therefore called last. Later interrupts cannot change the exit code.
    atexit.register(_ending.acquire)
    threading.Thread(target=_wait, args=(numbers, mode, tidy_seconds), name="interrupts", daemon=True).start()


@contextmanager
def tidied(tidy: Callable[[], object]) -> Iterator[None]:
    """Call `tidy`, which must be quick, in another thread if a signal ends the process while the block is running."""
    _tidying.append(tidy)
    try:
        yield
    finally:
        _tidying.remove(tidy)


def _wait(numbers: set[signal.Signals], mode: list[Any] | None, tidy_seconds: float) -> None:
    number = signal.sigwait(numbers)
    with _ending:
        code = 128 + number
        with suppress(OSError):
            _leave(mode)
        threading.Thread(target=_tidy, args=(code,), daemon=True).start()
        patience = threading.Timer(tidy_seconds, os._exit, [code])
        patience.daemon = True
        patience.start()
        signal.sigwait(numbers)  # a second signal ends the process immediately
        os._exit(code)


def _tidy(code: int) -> None:
    for tidy in reversed(_tidying):
        with suppress(Exception):  # the next run cleans up, as after a power failure
            tidy()
    os._exit(code)


def _leave(mode: list[Any] | None) -> None:
    """Restore the terminal's mode, and print the sentence as the last output of this process."""
    error, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    with suppress(OSError, termios.error):  # the terminal belongs to another session
        # only in the foreground, because the kernel would stop a background job
        if mode is not None and os.tcgetpgrp(0) == os.getpgrp():
            termios.tcsetattr(0, termios.TCSANOW, mode)
    # a progress bar hides the cursor, and the terminal prints ^C on the line
    begin = "\x1b[?25h\n" if os.isatty(error) else ""
    os.write(error, f"{begin}{SENTENCE}\n".encode())
