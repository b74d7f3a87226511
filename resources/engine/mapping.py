"""A function mapped over items, each of which succeeds or fails on its own, and the progress of long work."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from resources.errors import MirrorError
from resources.formatting import amount_text


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
    """Calls `say` with a plain line at the beginning, at most every `seconds` in between, and at the end."""

    def __init__(
        self, say: Callable[[str], None], *, seconds: float = 5.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.say, self.seconds, self.clock = say, seconds, clock

    def start(self, label: str, total: float, unit: str) -> Task:
        """Begin a task; its first line names the total."""
        self.say(f"{label}: {amount_text(total, unit)}")
        return _LineTask(self, label, total, unit)


class _LineTask:
    def __init__(self, reporter: LineReporter, label: str, total: float, unit: str) -> None:
        self._reporter, self._label, self._total, self._unit = reporter, label, total, unit
        self._began = self._told = reporter.clock()
        self._done = 0.0
        self._lock = threading.Lock()

    def advance(self, amount_done: float) -> None:
        with self._lock:
            self._done += amount_done
            now = self._reporter.clock()
            if now - self._told < self._reporter.seconds:
                return
            self._told = now
            share = self._done / self._total if self._total else 1.0
            line = (
                f"{self._label}: {share:.0%}, {amount_text(self._done, self._unit)} of "
                f"{amount_text(self._total, self._unit)}"
            )
        self._reporter.say(line)

    def finish(self) -> None:
        elapsed = self._reporter.clock() - self._began
        self._reporter.say(f"{self._label}: {amount_text(self._done, self._unit)} in {elapsed:.1f} s")


Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Outcome(Generic[Item, Result]):
    """The outcome of one item: a result, or the error that stopped it."""

    item: Item
    result: Result | None = None
    error: Exception | None = None

    def unwrap(self) -> Result:
        """The result; raises the item's own error if it failed."""
        if self.error is not None:
            raise self.error
        return self.result  # type: ignore[return-value]


@dataclass(frozen=True)
class Engine:
    """Runs functions over items on threads of this machine.

    Threads are enough, because the work either waits for the network or releases the interpreter's lock (gunzip,
    parsing, compression, DuckDB). `workers` bounds the number of items at a time; `reporter` receives their progress.
    """

    workers: int = 4
    reporter: Reporter = field(default_factory=lambda: LineReporter(lambda _line: None))

    @contextmanager
    def task(self, label: str, total: float, unit: str) -> Iterator[Callable[[float], None]]:
        """Report progress of work of `total` units, if any. Yields a function to call with each amount done."""
        if not total:
            yield lambda _amount: None
            return
        task = self.reporter.start(label, total, unit)
        try:
            yield task.advance
        finally:
            task.finish()

    def map(
        self,
        function: Callable[[Item], Result],
        items: Iterable[Item],
        *,
        ends: Callable[[Exception], bool] = lambda _error: False,
        workers: int | None = None,
    ) -> list[Outcome[Item, Result]]:
        """Apply `function` to every item; outcomes come in the items' order.

        An item that raises does not stop the others: its outcome has the error. If `ends` returns True for an error,
        all items that have not started get it without being tried. `workers` (default: the engine's) is the number of
        items at a time. An interrupt drops items that have not started; running ones continue as long as the process
        does.
        """
        met: list[Exception] = []

        def attempt(item: Item) -> Outcome[Item, Result]:
            if met:
                return Outcome(item, error=met[0])
            try:
                return Outcome(item, result=function(item))
            except Exception as error:  # noqa: BLE001 - handed to the caller, who decides
                if ends(error):
                    met.append(error)
                return Outcome(item, error=error)

        work = list(items)
        at_once = min(self.workers if workers is None else workers, len(work))
        if at_once < 2:
            return [attempt(item) for item in work]
        pool = ThreadPoolExecutor(at_once, thread_name_prefix="engine")
        try:
            return list(pool.map(attempt, work))
        finally:
            # an interrupted caller does not wait for running items; otherwise none is running here
            pool.shutdown(wait=False, cancel_futures=True)


class EngineError(MirrorError):
    """Work could not be done by the workers of a cluster; what they landed before is kept and found again."""


class ExtraMissingError(EngineError):
    """A cluster is configured, and the packages for it are not installed."""


class EngineUnreachableError(EngineError):
    """Nobody answers at the scheduler's address, or the connection to it was lost."""

    retryable = True


class NoWorkerError(EngineError):
    """The scheduler answers, and has no worker, or has lost all of them."""

    retryable = True


class WorkersDifferError(EngineError):
    """All workers, or the scheduler, are of other versions than this process."""


class FolderNotSharedError(EngineError):
    """A worker does not see the data folder of this process, or cannot write into it."""


class TaskLostError(EngineError):
    """The workers that a task was given to died, again and again."""


class TaskError(EngineError):
    """A task failed with an unforeseen error; the message is that error's own."""
