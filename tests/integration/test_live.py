"""The stream over hours that are loaded: analysts find the pages of the present moment, with their texts, as the sandbox has them."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime, timedelta

from assets.families.stream import keep
from resources.datasets.live import LIVE_CHANGES
from resources.enterprise import EnterpriseClient, Service, StreamOptions
from resources.lake.live import LiveLake
from resources.sandbox import Settings, running
from resources.tables import ARTICLE_CHANGES
from tests.integration.mirror import Mirror
from tests.truth import Published, Truth, assert_same

PROJECTS = ("enwiki", "frwiki")
NAMESPACES = (0, 10)
NOW = datetime(2026, 2, 3, 5, 40, tzinfo=UTC)


def test_pages_of_this_moment_are_the_truth_before_and_after_their_hour_is_loaded(tmp_path, monkeypatch):
    settings = Settings(
        state=tmp_path / "sandbox",
        now=NOW,
        projects=PROJECTS,
        namespaces=NAMESPACES,
        changes_per_hour=40,
        body_bytes=300,
        stream_rate=0,
    )
    with (
        running(settings) as sandbox,
        closing(Mirror(sandbox, tmp_path / "data", monkeypatch, projects=PROJECTS, namespaces=NAMESPACES)) as mirror,
    ):
        *hours, last = mirror.newest(3)
        truth = Truth(sandbox.world, PROJECTS, NAMESPACES).at(lambda _project: NOW, since=hours[0])
        assert mirror.materialize(hours).success
        assert mirror.publish().success
        listen(mirror, sandbox, since=hours[0] + timedelta(minutes=30))
        assert_found(mirror, truth)
        assert mirror.materialize([last]).success
        assert mirror.publish().success
        assert_found(mirror, truth)
        rows = mirror.warehouse.sql(
            "SELECT DISTINCT batch_hour FROM article_changes WHERE event_partition IS NOT NULL"
        ).rows
        assert rows == [(last + timedelta(hours=1),)]


def listen(mirror, sandbox, since):
    """Keep what the stream has since then, and show it."""
    wanted = sum(
        event.title.namespace in NAMESPACES
        for project in PROJECTS
        for event in sandbox.world.events(project, since, NOW)
    )
    scope = [(project, namespace) for project in PROJECTS for namespace in NAMESPACES]
    lake = LiveLake(mirror.layout, LIVE_CHANGES, ARTICLE_CHANGES, scope=scope)
    service = Service(sandbox.url, sandbox.url, sandbox.realtime_url, sandbox.username, sandbox.password)
    told, warned = [], []
    with EnterpriseClient(service, tmp := mirror.layout.root / "state") as client:
        keep(
            client,
            lake,
            tmp,
            since=since,
            clock=lambda: NOW,
            ended=lambda: sum(one.step.row_count for one in told) >= wanted,
            say=told.append,
            warn=warned.append,
            options=StreamOptions(connections=2),
            step_seconds=0.05,
            publish=lambda: None if mirror.warehouse.publish_live() else "Nothing was published.",
            publish_seconds=3600,
        )
    assert warned == []


def assert_found(mirror, truth):
    with Published(mirror.warehouse) as published:
        for source in ("articles", f"articles_at(TIMESTAMPTZ '{NOW}')"):
            found = published.rows(source)
            places = {"event_partition": None, "event_offset": None}
            assert_same({key: row | places for key, row in found.items()}, truth, source)
