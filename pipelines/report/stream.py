"""The realtime stream, as `wme status` shows it: how far it is kept, and by whom."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from assets.steps.stream import is_kept
from resources.datasets import RETENTION
from resources.datasets.live import LIVE_CHANGES, Run, Step, files_of, step_of
from resources.errors import clause
from resources.formatting import counted, moment_text

#: A stream that nobody has read for so long needs attention; a run may end before the next one begins.
_PAUSE = timedelta(minutes=10)


class StreamSection(NamedTuple):
    """Facts (names and values), what needs attention, in sentences, and the figures behind them."""

    facts: list[tuple[str, Any]]
    troubles: list[str]
    figures: dict[str, Any] | None = None


def kept(data: Path, now: datetime) -> StreamSection:
    """The position of the stream and its reader; nothing if it was never read."""
    if not (found := files_of(data / "lake" / LIVE_CHANGES)):
        return StreamSection([], [])
    try:
        step = step_of(found[-1].last, found[-1].path)
    except (OSError, ValueError) as error:
        trouble = (
            f"The newest file of the stream, {found[-1].path}, cannot be read ({clause(error)}). "
            "`wme stream` says what to do."
        )
        return StreamSection([], [trouble])
    figures = _figures(step, data, now)
    newest, lag = max(step.published_at.values(), default=step.since), figures["lag_seconds"]
    run = step.runs[-1] if step.runs else None
    pace = "" if figures["events_per_second"] is None else f", {figures['events_per_second']:,.1f} a second"
    counts = ""
    if run is not None:
        counts = (
            f"; this run: {counted(run.event_count, 'event')}{pace}, {counted(run.reconnect_count, 'reconnect')}, "
            f"{counted(run.duplicate_count, 'duplicate')} dropped{_odd(run)}"
        )
    if figures["is_running"]:
        facts = [("stream", f"running, {lag:,.0f} s behind, {counted(len(step.offsets), 'partition')}{counts}")]
        return StreamSection(facts, [], figures)
    facts = [("stream", f"not running; last event {moment_text(newest)} UTC{counts.replace('this run', 'last run')}")]
    if now - newest > RETENTION:
        trouble = (
            f"The stream was not read since {moment_text(newest)} UTC, which is longer than the service keeps events. "
            "Events of that time come with the hourly files alone. `wme stream` reads on from what is left; if no "
            "stream is wanted any more, remove lake/live_changes."
        )
    elif now - newest > _PAUSE:
        trouble = (
            f"Nobody has read the stream since {moment_text(newest)} UTC. The service has its events until "
            f"{moment_text(newest + RETENTION)} UTC: `wme stream`, or the sensor keep_streaming, goes on there. If no "
            "stream is wanted any more, remove lake/live_changes."
        )
    else:
        return StreamSection(facts, [], figures)
    return StreamSection(facts, [trouble], figures)


def _odd(run: Run) -> str:
    """Counts that are zero while the service sends what it should."""
    counts = (
        (run.reject_count, "rejected {}", "line"),
        (run.too_long_count, "{} longer than WME_MAX_RECORD_MB", "event"),
        (run.reset_count, "offsets went back {}", "time"),
    )
    return "".join(f", {sentence.format(counted(count, what))}" for count, sentence, what in counts if count)


def _figures(step: Step, data: Path, now: datetime) -> dict[str, Any]:
    """The same as numbers; `partitions` by their number."""
    newest = max(step.published_at.values(), default=None)
    run = step.runs[-1] if step.runs else None
    seconds = 0.0 if run is None else (run.kept_at - run.began_at) / timedelta(seconds=1)
    return {
        "is_running": is_kept(data / "state"),
        "newest_published_at": None if newest is None else newest.isoformat(),
        "lag_seconds": max(0.0, (now - (newest or step.since)) / timedelta(seconds=1)),
        "kept_until": step.kept_until.isoformat(),
        "events_per_second": run.event_count / seconds if run is not None and seconds > 0 else None,
        "run": None
        if run is None
        else {name: value.isoformat() if hasattr(value, "isoformat") else value for name, value in vars(run).items()},
        "partitions": {
            partition: {
                "next_offset": following,
                "event_count": step.event_counts.get(partition, 0),
                "newest_published_at": at.isoformat() if (at := step.published_at.get(partition)) else None,
            }
            for partition, following in sorted(step.offsets.items())
        },
    }
