"""A realtime stream, stored in the lake: every event of the mirrored scope, exactly once.

    begin    find the offsets at which to resume in the file of the newest step
    take     receive blocks of events from all connections
    keep     write one file for each step, with events and offsets; merge small files into large ones

The views of the published file (`live_changes`, `articles_live`) find each file as soon as it is written.

Source: the service's realtime streams, /v2/articles of their host.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from resources import files
from resources.datasets import RETENTION
from resources.datasets.live import Run, Step
from resources.errors import MirrorError
from resources.formatting import counted, hour_text, moment_text
from resources.tables import COVERED

if TYPE_CHECKING:
    from resources.enterprise import EnterpriseClient, StreamOptions
    from resources.lake.live import LiveLake
    from resources.warehouse import Warehouse

#: A step is written after this many seconds or bytes of buffered events.
STEP_SECONDS, STEP_BYTES = 10.0, 32 << 20
#: Minimum seconds between releases of memory: a stream that catches up has several steps a second, and each needs the
#: memory again.
_TRIM_SECONDS = 5.0
#: Poll interval in seconds for the end of the stream.
_LOOK_SECONDS = 0.2
#: Interval in seconds of files without events, which record the offsets.
_SAID_SECONDS = 300.0
_LOCK = "stream.lock"
_HOUR = timedelta(hours=1)


class StreamBusyError(MirrorError):
    """Another process is consuming this stream."""

    retryable = True


@dataclass(frozen=True)
class Gap:
    """Events published between these times, which the service had deleted before reading resumed."""

    since: datetime
    until: datetime

    @property
    def hours(self) -> list[datetime]:
        first = self.since.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
        return [first + number * _HOUR for number in range(-((first - self.until) // _HOUR))]

    def sentence(self, loaded: Collection[datetime]) -> str:
        """Describe the gap and how to close it; `loaded`: hours whose files are loaded."""
        lost = (
            f"The stream has not been read since {moment_text(self.since)}, which is longer than the service keeps "
            f"events: those published until {moment_text(self.until)} are missing from it. "
        )
        open_ = [hour for hour in self.hours if hour not in loaded]
        if not open_:
            return (
                f"{lost}The files of these hours are loaded, so only changes of visibility are missing; files do not "
                "have them."
            )
        first, last = open_[0], open_[-1]
        span = hour_text(first) if first == last else f"{hour_text(first)} to {hour_text(last)}"
        return (
            f"{lost}The files of {counted(len(open_), 'hour')} of that time are not loaded ({span}): `wme run --from "
            f"{first:%Y-%m-%dT%H} --to {last:%Y-%m-%dT%H}` fetches those that the service still has. The next loaded "
            "snapshot corrects the current state; the events themselves remain missing."
        )


@dataclass(frozen=True)
class Kept:
    """The file of one step, and the seconds between its newest event and now (None: no event)."""

    step: Step
    lag_seconds: float | None


def keep(
    client: EnterpriseClient,
    lake: LiveLake,
    state: Path,
    *,
    since: datetime | None,
    clock: Callable[[], datetime],
    ended: Callable[[], bool],
    say: Callable[[Kept], None],
    warn: Callable[[str], None],
    options: StreamOptions | None = None,
    step_seconds: float = STEP_SECONDS,
    loaded: Callable[[list[datetime]], Collection[datetime]] = lambda _hours: (),
) -> None:
    """Read a stream and store its events until `ended()`; buffered events are stored on exit.

    Args:
        client: Client of the service.
        lake: Destination of the files.
        state: Folder of the lock that limits a stream to one process.
        since: Start of a stream that was never read; None: now.
        clock: Returns the current time, aware.
        ended: Returns True once reading should end.
        say: Receives each step.
        warn: Receives messages about possible gaps.
        options: Options of the stream.
        step_seconds: Seconds that events are buffered before they are written.
        loaded: Returns those of the given hours whose files are loaded, for the report of a gap.

    Raises:
        StreamBusyError: Another process is consuming the stream.
        EnterpriseError: The service refuses the stream, or could not be reached for an hour. Stored events remain.
        LakeError: A file could not be written (for example DiskFull). Stored events remain.
    """
    # wait briefly: `is_kept` holds the lock for a moment
    with _alone(state / _LOCK, _LOOK_SECONDS):
        last = lake.begin(since or clock(), clock())
        gap = _report_gap(missed(last, clock()), None, loaded, warn)
        began_at = clock()
        with client.stream(since=last.since, offsets=last.offsets, options=options) as stream:
            held: deque[bytes] = deque()
            size, due, said = 0, time.monotonic() + step_seconds, time.monotonic()
            tidy = _Tidying(lake, warn)
            while True:
                is_last = ended()
                for block in stream.take(0.0 if is_last else _LOOK_SECONDS):
                    held.append(block.lines)
                    size += len(block.lines)
                now = time.monotonic()
                if held and (is_last or size >= STEP_BYTES or now >= due):
                    # check again: a machine may have been suspended for days while the process continued
                    before = lake.last() or last
                    gap = _report_gap(missed(before, clock()), gap, loaded, warn)
                    counts = len(stream.connections), stream.reconnect_count, stream.too_long_count
                    run = Run(began_at, clock(), *counts)
                    is_due = is_last or now - said >= _SAID_SECONDS
                    step = lake.add(_emptied(held), clock(), always=is_due, run=run, service_now=stream.now)
                    size, due = 0, now + step_seconds
                    if step is not None:
                        stream.positions.committed(step.offsets, step.published_at)
                        if again := _backward(before, step):
                            stream.read_again(again)
                        say(Kept(step, _lag(step, clock())))
                        said = now
                        tidy.run()
                if is_last:
                    return


def is_kept(state: Path) -> bool:
    """Return True if a process is consuming the stream now."""
    path = state / _LOCK
    if not path.exists():
        return False
    try:
        with _alone(path):
            return False
    except StreamBusyError:
        return True


def _emptied(held: deque[bytes]) -> Iterator[bytes]:
    """Yield and release the buffered blocks one by one: writing a step needs the same amount of memory again."""
    while held:
        yield held.popleft()


class _Tidying:
    """Cleanup between the steps. A failure is reported once and delays no step."""

    def __init__(self, lake: LiveLake, warn: Callable[[str], None]) -> None:
        self._lake, self._warn = lake, warn
        self._trim_due, self._said = 0.0, set[str]()

    def run(self) -> None:
        """Merge small files if there are enough, and release memory if due."""
        try:
            while self._lake.merge() is not None:
                pass
            self._said.clear()
        except MirrorError as error:
            if (sentence := str(error)) not in self._said:
                self._said.add(sentence)
                self._warn(sentence)
        if (now := time.monotonic()) >= self._trim_due:
            self._lake.trim()
            self._trim_due = now + _TRIM_SECONDS


def missed(last: Step, now: datetime) -> Gap | None:
    """Return the gap of events that the service deleted before they were read; None: no gap."""
    reached = min(last.published_at.values(), default=last.since)
    # a partition without events for two days looks like an unread one
    newest = max(last.published_at.values(), default=last.since)
    return Gap(reached, now - RETENTION) if now - newest > RETENTION else None


def _backward(before: Step, step: Step) -> dict[int, datetime]:
    """Return the partitions whose offsets moved back in a step, and when their last events were published."""
    moments = before.published_at
    return {one: moments.get(one, before.since) for one, at in before.offsets.items() if step.offsets.get(one, at) < at}


def _report_gap(
    gap: Gap | None,
    known: Gap | None,
    loaded: Callable[[list[datetime]], Collection[datetime]],
    warn: Callable[[str], None],
) -> Gap | None:
    if gap is not None and (known is None or known.since != gap.since):
        warn(gap.sentence(loaded(gap.hours)))
    return gap


def loaded_hours(warehouse: Warehouse, scope: Collection[tuple[str, int]], hours: Sequence[datetime]) -> set[datetime]:
    """Return the hours for which the published file has the complete mirrored scope."""
    if not warehouse.published_path.exists():
        return set()
    rows = warehouse.coverage(hours[0], hours[-1] + _HOUR)
    covered = {(row.batch_hour, row.project_id, row.namespace_id) for row in rows if row.state in COVERED}
    return {hour for hour in hours if all((hour, *one) in covered for one in scope)}


def _lag(step: Step, now: datetime) -> float | None:
    """Return seconds behind; 0 if the service's clock, or a wrong date, is ahead of this machine's."""
    newest = max(step.published_at.values(), default=None)
    return None if newest is None else max(0.0, (now - newest) / timedelta(seconds=1))


@contextmanager
def _alone(path: Path, wait_seconds: float = 0.0) -> Iterator[None]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with files.held(path, wait_seconds=wait_seconds):
            yield
    except files.BusyError:
        raise StreamBusyError(
            "Another process is already reading this stream into the data folder. Nothing was changed. End that "
            "process first, or let it continue."
        ) from None


def format_kept(kept: Kept) -> str:
    step = kept.step
    lag = "" if kept.lag_seconds is None else f", {kept.lag_seconds:.1f} s behind"
    others = f", {step.other_count:,} of other projects" if step.other_count else ""
    again = f", {step.duplicate_count:,} came again" if step.duplicate_count else ""
    rejects = f", {counted(step.reject_count, 'line')} rejected" if step.reject_count else ""
    resets = f", offsets went back {counted(step.reset_count, 'time')}" if step.reset_count else ""
    return f"{counted(step.row_count, 'event')} kept{others}{again}{rejects}{resets}{lag}."
