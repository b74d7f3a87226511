"""Handler for Ctrl-C and termination signals that prints a message, cleans up, and exits with the right code.

The signals are blocked in all threads and child processes, and a separate thread waits for a signal. Therefore, no
import, query or signal-handling library can swallow a signal. The process exits without unwinding the main thread.
Files and transactions survive such an exit, as they survive a power failure.

This module imports only the standard library, because it runs before all other imports.
"""

from __future__ import annotations

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
TIDY_SECONDS = 3.0

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
    screen = _Screen()
    # The handler is registered first and therefore called last. Later interrupts cannot change the exit code.
    atexit.register(_ending.acquire)
    threading.Thread(target=_wait, args=(numbers, screen, tidy_seconds), name="interrupts", daemon=True).start()


@contextmanager
def tidied(tidy: Callable[[], object]) -> Iterator[None]:
    """Call `tidy`, which must be quick, in another thread if a signal ends the process while the block is running."""
    _tidying.append(tidy)
    try:
        yield
    finally:
        _tidying.remove(tidy)


def _wait(numbers: set[signal.Signals], screen: _Screen, tidy_seconds: float) -> None:
    number = signal.sigwait(numbers)
    with _ending:
        code = 128 + number
        screen.leave()
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


class _Screen:
    """Standard error and the terminal's initial state, which a password prompt without echo changes."""

    def __init__(self) -> None:
        self._error: int | None = None
        self._terminal: int | None = None
        self._mode: list[Any] = []
        with suppress(OSError):
            # duplicate the descriptor, because libraries can close or redirect the original
            self._error = os.dup(2)
        with suppress(OSError):
            self._terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
            self._mode = termios.tcgetattr(self._terminal)

    def leave(self) -> None:
        """Print the sentence as the last output of this process."""
        with suppress(OSError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            for stream in (1, 2):
                os.dup2(nowhere, stream)
        if self._terminal is not None:
            # only in the foreground, because the kernel would stop a background job
            with suppress(OSError):
                if os.tcgetpgrp(self._terminal) == os.getpgrp():
                    termios.tcsetattr(self._terminal, termios.TCSANOW, self._mode)
        if self._error is not None:
            with suppress(OSError):
                # a progress bar hides the cursor, and the terminal prints ^C on the line
                begin = "\x1b[?25h\n" if os.isatty(self._error) else ""
                os.write(self._error, f"{begin}{SENTENCE}\n".encode())
