"""Builder that prepares archives in separate processes, because listings contain the archives' sizes and MD5s.

At startup, the sandbox builds the newest hour, the snapshots for paid and free accounts, and the requested number of
earlier hours. In the background, the sandbox then builds the next hour and the next exports before their publication,
and the structured contents snapshots. Background builds run one at a time and with the lowest priority. Existing
archives survive restarts. If a request needs archives, all processes build them immediately and in parallel.
"""

from __future__ import annotations

import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from resources.sandbox.clock import Clock
from resources.sandbox.options import command_line, parse
from resources.sandbox.process import child_environment
from resources.sandbox.settings import Settings
from resources.sandbox.store.archived_world import STRUCTURED, ArchivedWorld, StructuredContents
from resources.sandbox.store.exports import Exports, Turn, newest_hour

_HOUR = timedelta(hours=1)
#: Time between the background build of an archive and its publication.
_AHEAD = timedelta(minutes=20)
_POLL_SECONDS = 0.2
#: Poll interval while there is nothing to build.
_PATIENCE_SECONDS = 1.0
_NICE, _NICEST = 5, 19
#: Maximum number of processes that build requested archives.
_MOST_WORKERS = 4
#: Minimum free disk space for preparing archives.
_FREE_BYTES = 2_000_000_000


class Task(NamedTuple):
    """Archives of a project's hour or of a snapshot export."""

    name: str  # project or snapshot identifier
    moment: datetime  # start of the hour or export
    serial: int | None = None  # serial number of the export, or None for an hour
    area: str = ""  # area of the export

    @classmethod
    def of(cls, area: str, identifier: str, turn: Turn) -> Task:
        return cls(identifier, turn.started, turn.serial, area)

    def make(self, world: ArchivedWorld) -> None:
        if self.serial is None:
            world.make_hour(self.name, self.moment)
        else:
            self._contents(world).snapshot(self.name, self.moment, serial=self.serial)

    def is_made(self, world: ArchivedWorld) -> bool:
        if self.serial is None:
            return world.has_hour(self.name, self.moment)
        return self._contents(world).has_snapshot(self.name, self.moment, self.serial)

    def _contents(self, world: ArchivedWorld) -> ArchivedWorld | StructuredContents:
        return world.structured if self.area == STRUCTURED else world


class Preparation:
    """Thread-safe builder of one sandbox's archives in separate processes."""

    def __init__(self, settings: Settings, world: ArchivedWorld, exports: Mapping[str, Exports], clock: Clock) -> None:
        """Prepare the last `settings.prepare` hours and the exports of each area. Processes start on first use."""
        self._settings = settings
        self._world = world
        self._exports = exports
        #: Areas whose snapshots are built before the sandbox is ready. Other snapshots are built in the background.
        self._early = [area for area in exports if area != STRUCTURED]
        self._clock = clock
        self._lock = threading.Lock()
        self._under_way: dict[Task, Future[None]] = {}
        self._workers: list[_Worker] = []
        self._here = threading.local()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._go_ahead, name="ahead", daemon=True)
        # each process holds the complete corpus in memory
        count = min(_MOST_WORKERS, os.cpu_count() or 1) if settings.corpus is None else 1
        self._asked = ThreadPoolExecutor(count, "asked", self._new_worker, (_NICE,))
        self._ahead = self._asked if settings.corpus else ThreadPoolExecutor(1, "ahead", self._new_worker, (_NICEST,))

    def begin(self, interrupted: Callable[[], bool], progress: Callable[[int, int], None]) -> None:
        """Build all archives that can be listed now, then continue in the background."""
        _remove_left_over(self._settings.state)
        self._make(self._listed(), lambda: interrupted() or not self._has_space(), progress)
        self._thread.start()

    def make_hour(self, hour: datetime) -> None:
        self._make(self._hour(hour), self._ending.is_set)

    def make_snapshots(self, area: str, turns: Sequence[tuple[str, Turn]]) -> None:
        self._make([Task.of(area, identifier, turn) for identifier, turn in turns], self._ending.is_set)

    def close(self) -> None:
        """Kill all processes and discard unfinished archives."""
        self._ending.set()
        for pool in (self._asked, self._ahead):
            pool.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            for worker in self._workers:
                worker.close()

    def _listed(self) -> Iterator[Task]:
        """Yield the tasks for all archives that can be listed now."""
        newest = newest_hour(self._world, self._clock.now())
        yield from self._hour(newest)
        for free in (False, True):
            for area in self._early:
                yield from self._standing(area, free=free)
        for back in range(1, self._settings.prepare):
            yield from self._hour(newest - back * _HOUR)

    def _later(self) -> Iterator[Task]:
        """Yield the background tasks for the next archives and for archives that a clock change added to listings."""
        now = self._clock.now()
        newest = newest_hour(self._world, now)
        if self._world.hour_ready_at(newest + _HOUR) - _AHEAD <= now:
            yield from self._hour(newest + _HOUR)
        for area in self._early:
            for identifier in self._exports[area].identifiers():
                turn = self._exports[area].upcoming(identifier)
                if turn.ended - _AHEAD <= now:
                    yield Task.of(area, identifier, turn)
        yield from self._listed()
        for free in (False, True):
            yield from self._standing(STRUCTURED, free=free)

    def _hour(self, hour: datetime) -> list[Task]:
        return [Task(project, hour) for project in self._world.wikis]

    def _standing(self, area: str, *, free: bool) -> Iterator[Task]:
        exports = self._exports[area]
        for identifier in exports.identifiers():
            turn = exports.turn(identifier, free=free)
            if turn is not None:
                yield Task.of(area, identifier, turn)

    def _make(
        self,
        tasks: Iterable[Task],
        interrupted: Callable[[], bool],
        progress: Callable[[int, int], None] = lambda _ready, _of: None,
    ) -> None:
        """Build missing archives. Wait until all builds have ended or `interrupted` returns true."""
        # on the first of a month, free and paid accounts have the same snapshot
        missing = [task for task in dict.fromkeys(tasks) if not task.is_made(self._world)]
        futures = [self._submit(task, self._asked) for task in missing]
        for ready, future in enumerate(futures):
            progress(ready, len(futures))
            while not _is_done(future, _POLL_SECONDS):
                if interrupted():
                    # requested archives have priority from now on
                    for waiting in futures:
                        waiting.cancel()
                    return
        if futures:
            progress(len(futures), len(futures))

    def _has_space(self) -> bool:
        return shutil.disk_usage(self._settings.state).free >= _FREE_BYTES

    def _go_ahead(self) -> None:
        failed: set[Task] = set()
        patience = _POLL_SECONDS
        while not self._ending.wait(patience):
            task = next((t for t in self._later() if t not in failed and not t.is_made(self._world)), None)
            if task is None or not self._has_space():
                patience = _PATIENCE_SECONDS
                continue
            patience = _POLL_SECONDS
            future = self._submit(task, self._ahead)
            while not _is_done(future, _POLL_SECONDS) and not self._ending.is_set():
                pass
            if not task.is_made(self._world):
                failed.add(task)
            elif task.serial is not None:
                self._exports[task.area].tidy(task.name)

    def _submit(self, task: Task, pool: ThreadPoolExecutor) -> Future[None]:
        with self._lock:
            future = self._under_way.get(task)
            if future is None:
                future = Future() if self._ending.is_set() else pool.submit(lambda: self._here.worker.work(task))
                self._under_way[task] = future
        if self._ending.is_set():
            future.cancel()
        future.add_done_callback(lambda _: self._done(task))
        return future

    def _done(self, task: Task) -> None:
        with self._lock:
            self._under_way.pop(task, None)

    def _new_worker(self, nice: int) -> None:
        self._here.worker = worker = _Worker(self._settings, nice)
        with self._lock:
            self._workers.append(worker)
            if self._ending.is_set():
                worker.close()


def _remove_left_over(state: Path) -> None:
    """Remove unfinished archives that killed processes left behind. No other sandbox uses the folder."""
    for kind in ("archives", "snapshots", "structured"):
        for path in state.glob(f"{kind}/*/*/*/*.part"):
            shutil.rmtree(path, ignore_errors=True)


def _is_done(future: Future[None], seconds: float) -> bool:
    """Wait for up to `seconds` and return whether the future has ended, with or without success."""
    return bool(wait([future], seconds).done) or future.done()


class _Worker:
    """Process that builds one archive at a time. The process ends with the sandbox, even if the sandbox is killed."""

    def __init__(self, settings: Settings, nice: int) -> None:
        self._words = [sys.executable, "-m", __name__, str(nice), *command_line(settings)]
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False

    def work(self, task: Task) -> None:
        """Build a task's archives and wait. If the process fails or dies, the archives remain missing."""
        process = self._running()
        if process is None:
            return
        sent = json.dumps([task.name, task.moment.isoformat(), task.serial, task.area])
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(OSError):
            process.stdin.write(f"{sent}\n".encode())
            process.stdin.flush()
            process.stdout.readline()

    def close(self) -> None:
        """Kill the process and prevent a restart."""
        with self._lock:
            self._closed = True
            self._end()

    def _running(self) -> subprocess.Popen[bytes] | None:
        """Return the process, restarting it if it died, or None after `close`."""
        with self._lock:
            if self._closed:
                return None
            if self._process is None or self._process.poll() is not None:
                self._end()
                self._process = subprocess.Popen(  # noqa: S603 - the words are our own
                    self._words,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    env=child_environment(),
                    # only the sandbox itself handles signals from the terminal
                    start_new_session=True,
                )
            return self._process

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                with suppress(OSError):
                    if pipe is not None:
                        pipe.close()


def main(words: list[str]) -> None:
    """Build the archives for each task from standard input and print a line per task. Exit at the end of the input."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM, signal.SIGHUP))
    os.nice(int(words[0]))
    lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(lines,), daemon=True).start()
    world = ArchivedWorld(parse(words[1:], called=""))
    while True:
        name, moment, serial, area = json.loads(lines.get())
        Task(name, datetime.fromisoformat(moment).astimezone(UTC), serial, area).make(world)
        sys.stdout.buffer.write(b"made\n")
        sys.stdout.buffer.flush()


def _read(lines: queue.SimpleQueue[bytes]) -> None:
    for line in sys.stdin.buffer:
        lines.put(line)
    # the sandbox has ended, so the current archive is not needed
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
