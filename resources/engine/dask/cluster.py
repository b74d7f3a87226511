"""Dask client that selects suitable workers, distributes calls to them, and tolerates the loss of workers."""

import asyncio
import contextlib
import logging
import queue
import secrets
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import distributed
from distributed.scheduler import KilledWorker

from resources.engine import mapping as errors
from resources.engine.dask import worker as dask_worker
from resources.engine.dask.worker import Call
from resources.engine.mapping import EngineError, Outcome, TaskError
from resources.formatting import counted

_log = logging.getLogger(__name__)
#: Suffix of probe files, whose random names prove that a worker sees the same folder. The lake's `sweep` removes probe
#: files of killed processes.
_PROBE = "probe.unfinished"
#: Number of calls submitted per worker thread. The number is low, because Dask counts a worker's death against all
#: calls submitted to the worker.
_AHEAD = 2
#: Maximum number of attempts for a call whose result is lost with its worker.
_FETCHES = 4


@dataclass(frozen=True)
class Member:
    """A worker as reported by the scheduler. `versions` is empty if the worker was not started by `wme worker`."""

    host: str
    name: str
    threads: int
    versions: Mapping[str, str]


@dataclass(frozen=True)
class TimeLimits:
    """Seconds to wait for the scheduler's response and for workers, and seconds between polls."""

    answer: float = 10.0
    workers: float = 60.0
    look: float = 1.0


class Cluster:
    """A connection to a scheduler (`dask://host:port`), opened on first use and reopened if it is lost.

    All workers must share the folder with this process. Workers with different `versions` receive no work.
    """

    def __init__(
        self, address: str, versions: Mapping[str, str], folder: Path, limits: TimeLimits | None = None
    ) -> None:
        self.address = address
        self._versions, self._folder = {**versions, **dask_worker.own_versions()}, folder
        self._limits = limits or TimeLimits()
        self._client: distributed.Client | None = None
        self._failed: EngineError | None = None
        self._gone: queue.SimpleQueue[tuple[str, int]] = queue.SimpleQueue()

    def map(
        self, function: Callable[..., Any], calls: Sequence[Call], done: Callable[[Outcome[Call, Any]], None]
    ) -> list[Outcome[Call, Any]]:
        """Run a module-level function for all calls, and return the outcomes in the order of the calls.

        `done` receives each outcome as it arrives. Raises EngineError if the cluster cannot be used or is lost. After a
        connection attempt has failed, further calls to this method fail immediately with the same error.
        """
        client, probe = self._connected(), f"{secrets.token_hex(16)}.{_PROBE}"
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / probe).touch()
        waiting, attempts = deque(calls), dict.fromkeys((call.key for call in calls), 0)
        under_way: dict[distributed.Future[Outcome[None, Any]], Call] = {}
        finished: queue.SimpleQueue[distributed.Future[Outcome[None, Any]]] = queue.SimpleQueue()
        outcomes: dict[str, Outcome[Call, Any]] = {}
        deserted_since: float | None = None
        looked = -self._limits.look
        places, alone = 1, any(call.alone for call in calls)
        try:
            while waiting or under_way:
                if time.monotonic() - looked >= self._limits.look:
                    looked = time.monotonic()
                    fit = [one for one in self._members(client) if self._fits(one)]
                    places = len(fit) if alone else sum(one.threads for one in fit)
                    deserted_since = None if fit else deserted_since or looked
                    if deserted_since is not None and looked - deserted_since > self._limits.workers:
                        raise errors.NoWorkerError(
                            f"The last worker at {self.address} disappeared, and no worker returned within "
                            f"{self._limits.workers:g} s. {len(calls) - len(outcomes):,} of "
                            f"{counted(len(calls), 'task')} were not completed. Completed tasks are kept. Start "
                            "workers with `wme worker`, then try again."
                        )
                while waiting and len(under_way) < _AHEAD * max(1, places):
                    call = waiting.popleft()
                    future = client.submit(
                        dask_worker.run,
                        function,
                        call.arguments,
                        probe,
                        key=f"{call.key}-{attempts[call.key]}",
                        resources={dask_worker.resource_of(self._versions, alone=call.alone): 1},
                        pure=False,
                    )
                    under_way[future] = call
                    future.add_done_callback(finished.put)
                self._tell_gone()
                try:
                    future = finished.get(timeout=self._limits.look)
                except queue.Empty:
                    self._still_there(client)
                    continue
                call = under_way.pop(future)
                outcome = self._outcome(client, future, call)
                if outcome is not None and isinstance(outcome.error, errors.FolderNotSharedError):
                    raise errors.FolderNotSharedError(
                        f"A worker does not share the folder {self._folder}: {outcome.error} Archived files are kept. "
                        "Mount this machine's data folder there, pass the path to `wme worker --data`, then try again."
                    )
                attempts[call.key] += 1
                if outcome is None and attempts[call.key] < _FETCHES:
                    waiting.appendleft(call)
                    continue
                outcomes[call.key] = outcome or Outcome(call, error=_lost(call, _FETCHES))
                done(outcomes[call.key])
        finally:
            with contextlib.suppress(Exception):  # a lost scheduler has already dropped these calls
                client.cancel(list(under_way), reason="the run ended")
            (self._folder / probe).unlink(missing_ok=True)
            self._tell_gone()
        return [outcomes[call.key] for call in calls]

    def members(self) -> list[Member]:
        """Return all workers, including workers with different versions. Raises EngineUnreachableError on failure."""
        if self._client is None:
            self._client = self._open()
        return self._members(self._client)

    def differences(self, member: Member) -> str:
        """Describe the version differences between a worker and this process, or return "" if there are none."""
        if not member.versions:
            return "not started by `wme worker`"
        names = [*self._versions, *(name for name in member.versions if name not in self._versions)]
        return ", ".join(
            f"{name} {member.versions.get(name, 'unknown')} instead of {self._versions.get(name, 'unknown')}"
            for name in names
            if member.versions.get(name) != self._versions.get(name)
        )

    def close(self) -> None:
        """Close the connection, and abandon running tasks."""
        client, self._client = self._client, None
        if client is not None:
            with contextlib.suppress(Exception):
                client.close(timeout=2)

    # --- connecting --------------------------------------------------------------------------------------------------

    def _fits(self, member: Member) -> bool:
        return dict(member.versions) == self._versions

    def _connected(self) -> distributed.Client:
        if self._failed is not None:
            raise self._failed
        if self._client is None or self._client.status != "running":
            self.close()
            try:
                self._client = self._open()
                self._await_workers(self._client)
            except EngineError as error:
                self._failed = error
                self.close()
                raise
        return self._client

    def _open(self) -> distributed.Client:
        dask_worker.quiet()
        try:
            client = distributed.Client(
                dask_worker.url(self.address),
                timeout=self._limits.answer,
                set_as_default=False,
                security=distributed.Security(),
                name="wme",
            )
        except (OSError, TimeoutError, ValueError, asyncio.CancelledError) as error:
            raise errors.EngineUnreachableError(
                f"No scheduler responded at {self.address} within {self._limits.answer:g} s ({type(error).__name__}: "
                f"{dask_worker.short(error)}). Nothing was converted. Archived files are kept. Start `dask scheduler` "
                "there (with the same TLS settings), or correct WME_ENGINE, then try again. WME_ENGINE=threads "
                "needs no scheduler."
            ) from None
        client.subscribe_topic("all", self._hear)
        return client

    def _members(self, client: distributed.Client) -> list[Member]:
        try:
            known = client.scheduler_info()["workers"]
        except (OSError, TimeoutError, RuntimeError, asyncio.CancelledError) as error:
            raise self._connection_lost() from error
        return [
            Member(
                host=str(facts.get("host", "")),
                name=str(facts.get("name", "")),
                threads=int(facts.get("nthreads", 1)),
                versions=dict(facts.get(dask_worker.VERSIONS) or {}),
            )
            for facts in known.values()
        ]

    def _await_workers(self, client: distributed.Client) -> None:
        """Wait for a worker with the same versions. Log a warning for every worker with other versions."""
        end = time.monotonic() + self._limits.answer
        while not (members := self._members(client)) and time.monotonic() <= end:
            time.sleep(min(0.1, self._limits.look))
        others = [f"{one.name} on {one.host}: {self.differences(one)}" for one in members if not self._fits(one)]
        if len(others) < len(members):
            for other in others:
                _log.warning("A worker receives no tasks because its versions differ from this process's: %s.", other)
            return
        if others:
            raise errors.WorkersDifferError(
                f"No worker at {self.address} has the same versions as this process: {'; '.join(others)}. Nothing was "
                "done. Archived files are kept. Install the same versions on all machines, restart the workers with "
                "`wme worker`, then try again."
            )
        raise errors.NoWorkerError(
            f"The scheduler at {self.address} has no worker. Nothing was done. Archived files are kept. Start workers "
            "with `wme worker`, then try again."
        )

    # --- running calls -----------------------------------------------------------------------------------------------

    def _outcome(
        self, client: distributed.Client, future: distributed.Future[Outcome[None, Any]], call: Call
    ) -> Outcome[Call, Any] | None:
        """Return a call's outcome, or None if the result was lost and the call must run again."""
        if future.status == "finished":
            try:
                answer: Outcome[None, Any] = future.result(timeout=self._limits.answer)
            except Exception:  # noqa: BLE001  the worker died; the next line raises an error if the scheduler died
                self._still_there(client)
                return None
            return Outcome(call, result=answer.result, error=answer.error)
        if future.status == "error":
            cause = future.exception(timeout=self._limits.answer)
            if isinstance(cause, KilledWorker):
                return Outcome(call, error=_lost(call, cause.allowed_failures + 1))
            return Outcome(call, error=TaskError(f"{call.label}: {type(cause).__name__}: {dask_worker.short(cause)}"))
        self._still_there(client)
        raise self._connection_lost()

    def _still_there(self, client: distributed.Client) -> None:
        if client.status != "running":
            raise self._connection_lost()

    def _connection_lost(self) -> errors.EngineUnreachableError:
        self.close()
        return errors.EngineUnreachableError(
            f"The connection to the scheduler at {self.address} was lost. Completed work is kept and is not repeated. "
            "Check that `dask scheduler` is running there, then try again."
        )

    def _hear(self, event: tuple[float, Any]) -> None:
        message = event[1]
        if isinstance(message, dict) and message.get("action") == "remove-worker":
            self._gone.put((str(message.get("worker")), len(message.get("processing-tasks") or ())))

    def _tell_gone(self) -> None:
        """Log which workers died. This method runs in the run's thread, so that the run's log contains the warnings."""
        while not self._gone.empty():
            worker, count = self._gone.get()
            _log.warning("The worker %s disappeared. Other workers will run %s again.", worker, counted(count, "task"))


def _lost(call: Call, times: int) -> errors.TaskLostError:
    return errors.TaskLostError(
        f"{call.label}: the task's worker died {counted(times, 'time')}. This task wrote no files. The other tasks are "
        "done. Check the workers' logs for the cause (most often too little memory), then try again, or use "
        "WME_ENGINE=threads."
    )
