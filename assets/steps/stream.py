"""Store a realtime stream in the lake. Every event in the mirrored scope is stored exactly once.

Each step writes one file with events and offsets, and the next run resumes at the newest file's offsets. The published
file's `live_changes` and `articles_live` views read each file as soon as it is written.

Source: the service's realtime streams, /v2/articles on the stream host.
"""

import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from resources import files
from resources.datasets import ARTICLE_CHANGES, RETENTION
from resources.datasets.live import Run, Step
from resources.enterprise import EnterpriseClient, StreamOptions
from resources.errors import MirrorError
from resources.formatting import counted, hour_text, moment_text
from resources.lake.decode.native import trim
from resources.lake.live import LiveLake
from resources.tables import COVERED
from resources.warehouse import Warehouse

#: Age in seconds and size in bytes at which the event buffer is written to a file.
STEP_SECONDS, STEP_BYTES = 10.0, 32 << 20
#: Minimum time between memory releases in seconds. A stream that catches up writes several files per second and reuses
#: the memory.
_TRIM_SECONDS = 5.0
#: Interval in seconds between checks of whether reading should end.
_LOOK_SECONDS = 0.2
#: Interval in seconds between files without events, which only record the offsets.
_SAID_SECONDS = 300.0
_LOCK = "stream.lock"
_HOUR = timedelta(hours=1)


class StreamBusyError(MirrorError):
    """Another process is consuming this stream."""

    retryable = True


@dataclass(frozen=True)
class Gap:
    """Time range whose events the service had deleted before reading resumed."""

    since: datetime
    until: datetime

    @property
    def hours(self) -> list[datetime]:
        first = self.since.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
        return [first + number * _HOUR for number in range(-((first - self.until) // _HOUR))]

    def sentence(self, loaded: Collection[datetime]) -> str:
        """Describe the gap and how to close it. `loaded` contains the hours whose files are loaded."""
        lost = (
            f"The stream was last read at {moment_text(self.since)} UTC, and the service no longer retains the next "
            f"events. Events published until {moment_text(self.until)} are missing from the stream. "
        )
        open_ = [hour for hour in self.hours if hour not in loaded]
        if not open_:
            return (
                f"{lost}The files for these hours are loaded, so only visibility changes are missing. Hourly files do "
                "not contain visibility changes."
            )
        first, last = open_[0], open_[-1]
        span = hour_text(first) if first == last else f"{hour_text(first)} to {hour_text(last)}"
        return (
            f"{lost}The files for {counted(len(open_), 'hour')} in this range are not loaded ({span}). Run `wme run "
            f"--from {first:%Y-%m-%dT%H} --to {last:%Y-%m-%dT%H}` to fetch the files that the service still has. The "
            "next loaded snapshot corrects the current state, but the events remain missing."
        )


def keep(
    client: EnterpriseClient,
    lake: LiveLake,
    state: Path,
    *,
    since: datetime | None,
    clock: Callable[[], datetime],
    ended: Callable[[], bool],
    say: Callable[[Step, float | None], None],
    warn: Callable[[str], None],
    options: StreamOptions | None = None,
    step_seconds: float = STEP_SECONDS,
    loaded: Callable[[list[datetime]], Collection[datetime]] = lambda _hours: (),
) -> None:
    """Read a stream and store its events until `ended()` returns True. Buffered events are stored on exit.

    The first run begins at `since`, or at the current time if `since` is None. Later runs resume at the last offset.
    `state` is the folder of the lock file. `say` receives each step and its newest event's age in seconds. `warn`
    receives messages about possible gaps. `loaded` returns the hours of a gap whose files are loaded.

    Raises:
        StreamBusyError: Another process is consuming the stream.
        EnterpriseError: The service refused the stream, or was unreachable for an hour or for the whole run. Stored
            events are kept.
        LakeError: A file could not be written, for example because the disk is full. Stored events are kept.
    """
    # wait briefly, because `is_kept` locks the file for a short time
    with _alone(state / _LOCK, _LOOK_SECONDS):
        last = lake.begin(since or clock(), clock())
        reported: Gap | None = None

        def report_gap(position: Step) -> None:
            nonlocal reported
            gap = missed(position, clock())
            if gap is not None and (reported is None or reported.since != gap.since):
                warn(gap.sentence(loaded(gap.hours)))
            reported = gap

        report_gap(last)
        began_at = clock()
        with client.stream(since=last.since, offsets=last.offsets, options=options) as stream:
            held: deque[bytes] = deque()
            size, due, said = 0, time.monotonic() + step_seconds, time.monotonic()
            trim_due, failure = 0.0, None
            while True:
                is_last = ended()
                for block in stream.take(0.0 if is_last else _LOOK_SECONDS):
                    held.append(block)
                    size += len(block)
                now = time.monotonic()
                if held and (is_last or size >= STEP_BYTES or now >= due):
                    # check again, because the machine might have been suspended for days
                    before = lake.last() or last
                    report_gap(before)
                    counts = len(stream.connections), stream.reconnect_count, stream.too_long_count
                    run = Run(began_at, clock(), *counts)
                    is_due = is_last or now - said >= _SAID_SECONDS
                    # release each buffered block when it is read, because writing needs the same amount of memory again
                    blocks = (held.popleft() for _ in range(len(held)))
                    step = lake.add(blocks, clock(), always=is_due, run=run, service_now=stream.now)
                    size, due = 0, now + step_seconds
                    if step is not None:
                        stream.positions.committed(step.offsets, step.published_at)
                        moments = before.published_at
                        # partitions whose offset moved back are read again from the time of their last event
                        back = [one for one, at in before.offsets.items() if step.offsets.get(one, at) < at]
                        if back:
                            stream.read_again({one: moments.get(one, before.since) for one in back})
                        newest = max(step.published_at.values(), default=None)
                        # an event in the future has no lag
                        say(step, None if newest is None else max(0.0, (clock() - newest).total_seconds()))
                        said = now
                        failure = _merge(lake, failure, warn)
                        if now >= trim_due:
                            trim()
                            trim_due = now + _TRIM_SECONDS
                if is_last:
                    stream.check()
                    return


def is_kept(state: Path) -> bool:
    """Return True if a process is currently consuming the stream."""
    path = state / _LOCK
    if not path.exists():
        return False
    try:
        with _alone(path):
            return False
    except StreamBusyError:
        return True


def _merge(lake: LiveLake, known: str | None, warn: Callable[[str], None]) -> str | None:
    """Merge small files. A failure does not stop the stream, and is reported unless its message is `known`."""
    try:
        while lake.merge() is not None:
            pass
    except MirrorError as error:
        if str(error) != known:
            warn(str(error))
        return str(error)
    return None


def missed(last: Step, now: datetime) -> Gap | None:
    """Return the time range of events that were deleted before they were read, or None if no event was missed."""
    reached = min(last.published_at.values(), default=last.since)
    # use the newest partition, because other partitions might have had no events for two days
    newest = max(last.published_at.values(), default=last.since)
    return Gap(reached, now - RETENTION) if now - newest > RETENTION else None


def loaded_hours(warehouse: Warehouse, scope: Collection[tuple[str, int]], hours: Sequence[datetime]) -> set[datetime]:
    """Return the hours for which the published file contains the complete mirrored scope."""
    if not warehouse.published_path.exists():
        return set()
    rows = warehouse.coverage(hours[0], hours[-1] + _HOUR, dataset=ARTICLE_CHANGES)
    covered = {(row.batch_hour, row.project_id, row.namespace_id) for row in rows if row.state in COVERED}
    return {hour for hour in hours if all((hour, *one) in covered for one in scope)}


def _alone(path: Path, wait_seconds: float = 0.0) -> AbstractContextManager[int]:
    busy = StreamBusyError(
        "Another process is already reading this stream into the data folder. Nothing was changed. To read the stream "
        "here, end the other process first."
    )
    return files.held(path, wait_seconds=wait_seconds, busy=busy)


def format_step(step: Step, lag_seconds: float | None) -> str:
    lag = "" if lag_seconds is None else f", {lag_seconds:.1f} s behind"
    others = f", {step.other_count:,} from other projects" if step.other_count else ""
    again = f", {step.duplicate_count:,} duplicates" if step.duplicate_count else ""
    rejects = f", {counted(step.reject_count, 'record')} rejected" if step.reject_count else ""
    resets = f", offsets reset {counted(step.reset_count, 'time')}" if step.reset_count else ""
    return f"{counted(step.row_count, 'event')} stored{others}{again}{rejects}{resets}{lag}."
