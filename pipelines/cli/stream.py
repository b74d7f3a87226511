"""`wme stream`: the realtime stream, kept in the lake. The work is in `assets/steps/stream.py`."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta
from functools import partial

import click

from pipelines.cli import options, terminal
from pipelines.process import interrupts
from resources.formatting import counted
from resources.settings import read as read_settings

#: Seconds in which what has come is kept when the command is to end.
_END_SECONDS = 2.5
#: The warehouse is only asked which hours are loaded; the stream does not wait longer for it.
_BUSY_SECONDS = 2.0


@click.command(cls=options.Writing)
@click.option(
    "--since", "hours", type=click.FloatRange(0, 48), help="Begin so many hours ago, the first time.  [default: now]"
)
@click.option(
    "--for", "seconds", type=click.FloatRange(0, min_open=True), help="End after so many seconds.  [default: never]"
)
@click.option(
    "--every",
    type=click.FloatRange(0.1, 600),
    default=10.0,
    show_default=True,
    help="Seconds between two files. Analysts see events once their file is written.",
)
@click.option(
    "--connections", type=click.IntRange(1, 10), default=10, show_default=True, help="Connections side by side."
)
def stream(*, hours: float | None, seconds: float | None, every: float, connections: int) -> None:
    """Keep every event of the mirrored projects in the lake (live_changes), seconds after it happened.

    Analysts query the events of hours without a file as live_changes, and the pages as of the newest event as
    articles_live.

    It resumes at its last offset and runs until Ctrl-C or SIGTERM; buffered events are written first. The service keeps
    events for 48 hours.
    """
    from assets.steps.stream import Kept, keep, loaded_hours, told
    from resources.adapters import build_resources
    from resources.datasets.live import LIVE_CHANGES
    from resources.enterprise import StreamOptions
    from resources.lake import Layout
    from resources.lake.live import LiveLake
    from resources.tables import ARTICLE_CHANGES
    from resources.warehouse import Warehouse

    settings = read_settings()
    enterprise = build_resources(settings)["enterprise"]
    lake = LiveLake(Layout(settings.data), LIVE_CHANGES, ARTICLE_CHANGES, frozenset(settings.bodies), enterprise.scope)
    warehouse = Warehouse(settings.data, lock_timeout=_BUSY_SECONDS)
    now = datetime.now(UTC)
    ended, done = threading.Event(), threading.Event()
    until = None if seconds is None else time.monotonic() + seconds
    count = 0

    def say(kept: Kept) -> None:
        nonlocal count
        count += kept.step.row_count
        terminal.say(f"{datetime.now(UTC):%H:%M:%S} {told(kept)}")

    def end() -> None:
        ended.set()
        done.wait(_END_SECONDS)

    with interrupts.tidied(end), enterprise.client() as client:
        try:
            keep(
                client,
                lake,
                settings.data / "state",
                since=None if hours is None else now - timedelta(hours=hours),
                clock=lambda: datetime.now(UTC),
                ended=lambda: ended.is_set() or (until is not None and time.monotonic() >= until),
                say=say,
                warn=terminal.warn,
                options=StreamOptions(connections=connections, record_bytes=settings.max_record_mb << 20),
                step_seconds=every,
                loaded=partial(loaded_hours, warehouse, enterprise.scope),
            )
        finally:
            done.set()
    terminal.say(f"{counted(count, 'event')} kept in {lake.folder}. The same command goes on from there.")
