"""A function mapped over items, each of which succeeds or fails on its own."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from resources.engine.progress import LineReporter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from resources.engine.progress import Reporter

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


def _silent(_line: str) -> None:
    """Discard a line of progress."""


def _nobody(_amount: float) -> None:
    """Progress of work that there is none of."""


@dataclass(frozen=True)
class Engine:
    """Runs functions over items on threads of this machine.

    Threads are enough, because the work either waits for the network or releases the interpreter's lock (gunzip,
    parsing, compression, DuckDB). `workers` bounds the number of items at a time; `reporter` receives their progress.
    """

    workers: int = 4
    reporter: Reporter = field(default_factory=lambda: LineReporter(_silent))

    @contextmanager
    def task(self, label: str, total: float, unit: str) -> Iterator[Callable[[float], None]]:
        """Report progress of work of `total` units; nothing is reported if there are none.

        Yields a function to call with each amount done.
        """
        if not total:
            yield _nobody
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
        all items that have not started get the same error without being tried. `workers` is the number of items at a
        time; default: the engine's. An interrupt ends the waiting at once: items that have not started are dropped, and
        running ones continue as long as the process does.
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
