"""The stream of a mirror's sandbox, kept in the lake as `wme stream` does."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from assets.steps.stream import keep
from resources.datasets import ARTICLE_CHANGES
from resources.datasets.live import LIVE_CHANGES, Step
from resources.enterprise import StreamOptions
from resources.lake.live import LiveLake
from tests.integration.mirror import Mirror


def live_lake(mirror: Mirror) -> LiveLake:
    """The place of the stream's files, for what the mirror holds."""
    return LiveLake(mirror.layout, LIVE_CHANGES, ARTICLE_CHANGES.table, scope=mirror.settings.scope_of(ARTICLE_CHANGES))


def listen(
    mirror: Mirror,
    wanted: int,
    since: datetime | None = None,
    *,
    connections: int = 2,
    say: Callable[[], object] = lambda: None,
    step_seconds: float = 0.05,
    **options: Any,
) -> tuple[list[Step], list[str]]:
    """Keep the stream until so many events came; returns the steps and what was warned of.

    Args:
        mirror: It has the address of the stream.
        wanted: Events.
        since: Where to begin if nothing was kept so far.
        connections: Connections to the service.
        say: Called after each step.
        step_seconds: Time for which events are held before a step.
        options: Further options of `keep`.
    """
    mirror.configure(realtime_url=mirror.sandbox.realtime_url)
    steps: list[Step] = []
    warned: list[str] = []

    def hear(step: Step, _lag_seconds: float | None) -> None:
        steps.append(step)
        say()

    with mirror.client() as client:
        keep(
            client,
            live_lake(mirror),
            mirror.layout.root / "state",
            since=since,
            clock=mirror.sandbox.clock.now,
            ended=lambda: sum(one.row_count for one in steps) >= wanted,
            say=hear,
            warn=warned.append,
            options=StreamOptions(connections=connections),
            step_seconds=step_seconds,
            **options,
        )
    return steps, warned
