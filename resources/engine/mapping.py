"""Parallel map over items that succeed or fail independently, and progress reports for long tasks."""

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
        """Add `amount` to the completed work, in the same unit as the total. Thread-safe."""

    def finish(self) -> None:
        """End the task, even if the work is incomplete."""


class Reporter(Protocol):
    """Shows the progress of tasks."""

    def start(self, label: str, total: float, unit: str) -> Task:
        """Start a task of `total` units. `unit` is `B` for bytes, or a singular noun for other units."""


def increments(advance: Callable[[float], None]) -> Callable[[float, float | None], None]:
    """Return a progress callback that receives cumulative amounts and passes increments to `advance`."""
    reached = 0.0

    def progress(done: float, _total: float | None) -> None:
        nonlocal reached
        if done > reached:
            advance(done - reached)
            reached = done

    return progress


class LineReporter:
    """Reports progress as lines of text: at the start, at most every `seconds` during the task, and at the end."""

    def __init__(
        self, say: Callable[[str], None], *, seconds: float = 5.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.say, self.seconds, self.clock = say, seconds, clock

    def start(self, label: str, total: float, unit: str) -> Task:
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
    item: Item
    result: Result | None = None
    error: Exception | None = None

    def unwrap(self) -> Result:
        if self.error is not None:
            raise self.error
        return self.result  # type: ignore[return-value]


@dataclass(frozen=True)
class Engine:
    """Parallel map on local threads.

    Threads are sufficient, because the work either waits for the network or releases the GIL (gunzip, parsing,
    compression, DuckDB). `workers` is the maximum number of concurrent items. `reporter` receives progress reports.
    """

    workers: int = 4
    reporter: Reporter = field(default_factory=lambda: LineReporter(lambda _line: None))

    @contextmanager
    def task(self, label: str, total: float, unit: str) -> Iterator[Callable[[float], None]]:
        """Report a task of `total` units, unless `total` is 0. Yield a function that receives each completed amount."""
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
        """Apply `function` to every item, and return the outcomes in the order of the items.

        An exception becomes the item's outcome and does not stop other items. If `ends` returns True for an error,
        items that have not started fail with the same error. `workers` is the maximum number of concurrent items, by
        default the engine's number of workers. If the call is interrupted, items that have not started are dropped.
        Running items continue until the process ends.
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
            # an interrupted caller must not wait for running items; without an interrupt, no items are running here
            pool.shutdown(wait=False, cancel_futures=True)


class EngineError(MirrorError):
    """A cluster's workers could not complete the work. Finished files are kept and reused by the next run."""


class ExtraMissingError(EngineError):
    """A cluster is configured, but the required packages are not installed."""


class EngineUnreachableError(EngineError):
    """The scheduler does not respond, or the connection to the scheduler was lost."""

    retryable = True


class NoWorkerError(EngineError):
    """The scheduler responds, but has no workers or has lost all of them."""

    retryable = True


class WorkersDifferError(EngineError):
    """The versions of the scheduler or of all workers differ from this process's versions."""


class FolderNotSharedError(EngineError):
    """A worker cannot read from or write to this process's data folder."""


class TaskLostError(EngineError):
    """A task was lost repeatedly, because the workers that ran it died."""


class TaskError(EngineError):
    """A task failed with an unexpected error, which the message describes."""
