"""Ctrl-C and the other requests to end: one sentence, what must be tidied, and the exit code, at any moment.

The signals are blocked in every thread, and in the children that inherit this, and one thread waits for them. So
nothing that runs
(an import, a query, a library that handles signals itself, an exit) can swallow one, and none of it breaks in the
middle: the
process ends at once, as by a power cut, which files and transactions survive anyway.

Imports the standard library only, because it comes before everything else.
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

SENTENCE = "Stopped. What was committed stays; run the same command again to go on."
#: For tidying, by default.
TIDY_SECONDS = 3.0

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_tidying: list[Callable[[], object]] = []
#: Held by whoever ends the process: by the thread that waits, or, at the very end, by the exit itself.
_ending = threading.Lock()


def watch(tidy_seconds: float = TIDY_SECONDS) -> None:
    """From now on end the process with 128 + the number of the signal, whatever it does. Once, from the main thread.

    Tidying that takes longer than `tidy_seconds` is given up.
    """
    # one that is ignored was meant to be: `nohup`, and jobs in the background of a script
    numbers = {number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN}
    # blocked as well: Dagster has a handler of its own while a run goes on, whatever was there before
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    screen = _Screen()
    # registered first, so called last: behind it, an interrupt comes too late to change how the process ends
    atexit.register(_ending.acquire)
    threading.Thread(target=_wait, args=(numbers, screen, tidy_seconds), name="interrupts", daemon=True).start()


@contextmanager
def tidied(tidy: Callable[[], object]) -> Iterator[None]:
    """Call `tidy` if the process is to end while the block runs, from another thread; it has some seconds."""
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
        signal.sigwait(numbers)  # who asks a second time does not wait
        os._exit(code)


def _tidy(code: int) -> None:
    for tidy in reversed(_tidying):
        with suppress(Exception):  # what cannot be tidied is met by the next run, as after a power cut
            tidy()
    os._exit(code)


class _Screen:
    """The output for the sentence, and the terminal's initial state: a password prompt may switch its echo off."""

    def __init__(self) -> None:
        self._error: int | None = None
        self._terminal: int | None = None
        self._mode: list[Any] = []
        with suppress(OSError):
            # a descriptor of its own: the standard one is closed by some, and sent elsewhere by others
            self._error = os.dup(2)
        with suppress(OSError):
            self._terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
            self._mode = termios.tcgetattr(self._terminal)

    def leave(self) -> None:
        """Say the sentence, as the last thing that this process prints."""
        with suppress(OSError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            for stream in (1, 2):
                os.dup2(nowhere, stream)
        if self._terminal is not None:
            # only in the foreground: a job in the background would be stopped instead
            with suppress(OSError):
                if os.tcgetpgrp(self._terminal) == os.getpgrp():
                    termios.tcsetattr(self._terminal, termios.TCSANOW, self._mode)
        if self._error is not None:
            with suppress(OSError):
                # a bar hides the cursor, and ^C is in the line
                begin = "\x1b[?25h\n" if os.isatty(self._error) else ""
                os.write(self._error, f"{begin}{SENTENCE}\n".encode())
