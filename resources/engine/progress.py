"""Progress of long work: a reporter starts tasks, tasks are advanced, and the reporter decides how to show them."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Protocol

from resources.formatting import amount_text

if TYPE_CHECKING:
    from collections.abc import Callable


class Task(Protocol):
    """One piece of long work."""

    def advance(self, amount: float) -> None:
        """Add `amount` to the work done, in the units of the total. Any thread may call."""

    def finish(self) -> None:
        """End the task, complete or not."""


class Reporter(Protocol):
    """Shows the progress of tasks."""

    def start(self, label: str, total: float, unit: str) -> Task:
        """Begin a task of `total` units (`B` for bytes, else a noun in the singular)."""


def increments(advance: Callable[[float], None]) -> Callable[[float, float | None], None]:
    """Return a function that takes the total done so far and advances by the difference."""
    reached = 0.0

    def progress(done: float, _total: float | None) -> None:
        nonlocal reached
        if done > reached:
            advance(done - reached)
            reached = done

    return progress


class LineReporter:
    """Says a plain line at the beginning, at most every `seconds` in between, and at the end.

    Args:
        say: where a line goes, for example a logger's `info`.
        seconds: shortest time between two lines of one task.
        clock: monotonic seconds.
    """

    def __init__(
        self, say: Callable[[str], None], *, seconds: float = 5.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._say, self._seconds, self._clock = say, seconds, clock

    def start(self, label: str, total: float, unit: str) -> Task:
        """Begin a task; its first line names the total."""
        self._say(f"{label}: {amount_text(total, unit)}")
        return _LineTask(label, total, unit, self._say, self._seconds, self._clock)


class _LineTask:
    def __init__(
        self,
        label: str,
        total: float,
        unit: str,
        say: Callable[[str], None],
        seconds: float,
        clock: Callable[[], float],
    ) -> None:
        self._label, self._total, self._unit, self._say = label, total, unit, say
        self._seconds, self._clock = seconds, clock
        self._began = self._told = clock()
        self._done = 0.0
        self._lock = threading.Lock()

    def advance(self, amount_done: float) -> None:
        with self._lock:
            self._done += amount_done
            now = self._clock()
            if now - self._told < self._seconds:
                return
            self._told = now
            share = self._done / self._total if self._total else 1.0
            line = (
                f"{self._label}: {share:.0%}, {amount_text(self._done, self._unit)} of "
                f"{amount_text(self._total, self._unit)}"
            )
        self._say(line)

    def finish(self) -> None:
        elapsed = self._clock() - self._began
        self._say(f"{self._label}: {amount_text(self._done, self._unit)} in {elapsed:.1f} s")
