"""Parallel map over items that succeed or fail independently, and progress reports for long tasks."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from resources.errors import MirrorError
from resources.formatting import amount_text

#: Function that reports a task, given the task's label, total and unit (`B` for bytes, or a singular noun). The context
#: manager yields a thread-safe function that receives each completed amount, in the unit of the total.
Reporter = Callable[[str, float, str], AbstractContextManager[Callable[[float], None]]]


def increments(advance: Callable[[float], None]) -> Callable[[float, float | None], None]:
    """Return a progress callback that receives cumulative amounts and passes increments to `advance`."""
    reached = 0.0

    def progress(done: float, _total: float | None) -> None:
        nonlocal reached
        if done > reached:
            advance(done - reached)
            reached = done

    return progress


def line_reporter(
    say: Callable[[str], None], *, seconds: float = 5.0, clock: Callable[[], float] = time.monotonic
) -> Reporter:
    """Report progress as lines of text: at the start, at most every `seconds` during the task, and at the end."""

    @contextmanager
    def report(label: str, total: float, unit: str) -> Iterator[Callable[[float], None]]:
        done, lock, whole = 0.0, threading.Lock(), amount_text(total, unit)
        began = told = clock()

        def advance(amount: float) -> None:
            nonlocal done, told
            with lock:
                done += amount
                if (now := clock()) - told < seconds:
                    return
                told = now
                line = f"{label}: {done / total if total else 1.0:.0%}, {amount_text(done, unit)} of {whole}"
            say(line)

        say(f"{label}: {whole}")
        try:
            yield advance
        finally:
            say(f"{label}: {amount_text(done, unit)} in {clock() - began:.1f} s")

    return report


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
    reporter: Reporter = field(default_factory=lambda: line_reporter(lambda _line: None))

    def task(self, label: str, total: float, unit: str) -> AbstractContextManager[Callable[[float], None]]:
        """Report a task of `total` units, unless `total` is 0. Yield a function that receives each completed amount."""
        return self.reporter(label, total, unit) if total else nullcontext(lambda _amount: None)

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
