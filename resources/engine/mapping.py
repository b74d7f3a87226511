"""Parallel map over items that succeed or fail independently, and progress reports of long tasks."""

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
    """A long task whose progress is reported."""

    def advance(self, amount: float) -> None:
        """Add `amount` to the completed work, in units of the total. Thread-safe."""

    def finish(self) -> None:
        """End the task, even if it is incomplete."""


class Reporter(Protocol):
    """Shows the progress of tasks."""

    def start(self, label: str, total: float, unit: str) -> Task:
        """Start a task of `total` units. `unit` is `B` for bytes, otherwise a singular noun."""


def increments(advance: Callable[[float], None]) -> Callable[[float, float | None], None]:
    """Return a progress callback that receives cumulative amounts and calls `advance` with the increments."""
    reached = 0.0

    def progress(done: float, _total: float | None) -> None:
        nonlocal reached
        if done > reached:
            advance(done - reached)
            reached = done

    return progress


class LineReporter:
    """Calls `say` with a line of text at the start, at most every `seconds` during the task, and at the end."""

    def __init__(
        self, say: Callable[[str], None], *, seconds: float = 5.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.say, self.seconds, self.clock = say, seconds, clock

    def start(self, label: str, total: float, unit: str) -> Task:
        """Start a task, and print its total."""
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
    """Outcome of one item: its result, or the error that it raised."""

    item: Item
    result: Result | None = None
    error: Exception | None = None

    def unwrap(self) -> Result:
        """Return the result, or raise the error of the item."""
        if self.error is not None:
            raise self.error
        return self.result  # type: ignore[return-value]


@dataclass(frozen=True)
class Engine:
    """Parallel map on threads of this machine.

    Threads are enough, because the work either waits for the network or releases the GIL (gunzip, parsing, compression,
    DuckDB). `workers` is the maximum number of concurrent items. `reporter` receives their progress.
    """

    workers: int = 4
    reporter: Reporter = field(default_factory=lambda: LineReporter(lambda _line: None))

    @contextmanager
    def task(self, label: str, total: float, unit: str) -> Iterator[Callable[[float], None]]:
        """Report a task of `total` units (nothing if 0). Yield a function to call with each completed amount."""
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
        """Apply `function` to every item; return the outcomes in the order of the items.

        An exception becomes the outcome of its item and does not stop other items. If `ends` returns True for an error,
        items that have not started fail with the same error without being tried. `workers` (default: the engine's) is
        the maximum number of concurrent items. An interrupt drops items that have not started; running items continue
        until the process ends.
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
            # an interrupted caller must not wait for running items; without an interrupt, none is running now
            pool.shutdown(wait=False, cancel_futures=True)


class EngineError(MirrorError):
    """The workers of a cluster could not complete the work. Files landed before are kept and reused by the next run."""


class ExtraMissingError(EngineError):
    """A cluster is configured, but its packages are not installed."""


class EngineUnreachableError(EngineError):
    """The scheduler does not answer, or the connection to it was lost."""

    retryable = True


class NoWorkerError(EngineError):
    """The scheduler answers, but has no worker or has lost all workers."""

    retryable = True


class WorkersDifferError(EngineError):
    """All workers, or the scheduler, have other versions than this process."""


class FolderNotSharedError(EngineError):
    """A worker cannot access the data folder of this process, or cannot write to it."""


class TaskLostError(EngineError):
    """A task was lost repeatedly because its workers died."""


class TaskError(EngineError):
    """A task failed with an unexpected error; the message contains the text of that error."""
