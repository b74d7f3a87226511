"""`articles` and the bodies equal the sandbox's own pages after some hours.

They do so whatever happened to the hours before they were loaded. Without a base snapshot: the pages that have an event
in the hours. With snapshots, at past moments, and under kills: tests/e2e/test_campaign.py.
"""

import random
from datetime import UTC, datetime, timedelta

import pytest

from assets.steps import hour as batches
from assets.steps.compaction import compact_lake
from resources import datasets
from resources.datasets import ARTICLE_CHANGES
from resources.engine import Engine
from resources.lake import convert
from tests.builds import OpenWarehouse
from tests.integration.mirror import PROJECTS, mirrored
from tests.spoiling import spoil
from tests.truth import Published, Truth, assert_rebuilt_alike, assert_same

NAMESPACES = (0, 10)


def in_order(mirror, hours, _draw, _folder):
    assert mirror.materialize(hours).success
    mirror.publish()


def shuffled(mirror, hours, draw, _folder):
    for hour in draw.sample(hours, len(hours)):
        assert mirror.materialize([hour]).success
        if draw.random() < 0.5:  # some hours are taken in alone, some together
            mirror.publish()
    mirror.publish()


def twice(mirror, hours, draw, folder):
    in_order(mirror, hours, draw, folder)
    shuffled(mirror, hours, draw, folder)
    for hour in hours:
        assert not mirror.warehouse.load_hour(hour, lake_files(mirror, hour), dataset=datasets.ARTICLE_CHANGES).changed


def redone(mirror, hours, draw, folder):
    """Load, apply and compact an hour of another world first, then load the true one, and do the same again."""
    wrong_hour = draw.choice(hours)
    assert mirror.materialize([hour for hour in hours if hour < wrong_hour] or hours).success
    spoil(mirror.warehouse, wrong_hour, PROJECTS, NAMESPACES, folder)
    mirror.publish()
    compact(mirror, hours)
    assert mirror.materialize(hours).success
    mirror.publish()
    compact(mirror, hours)
    mirror.publish()
    again = lake_files(mirror, wrong_hour)
    assert not mirror.warehouse.load_hour(wrong_hour, again, dataset=datasets.ARTICLE_CHANGES).changed


def compact(mirror, hours):
    later = OpenWarehouse(mirror.layout.root, clock=lambda: hours[-1] + timedelta(days=40))
    assert compact_lake(mirror.layout, later, Engine(workers=1), memory_bytes=1 << 25)
    later.move_window(hours[-1])


def lake_files(mirror, hour):
    scope = [(p, n) for p in mirror.settings.projects for n in mirror.settings.namespaces]
    archived = batches.archived_hour(hour, mirror.layout, scope, ARTICLE_CHANGES)
    return [convert(archive, mirror.layout) for archive in archived.archives]


def check(tmp_path, seed, way, *, hours, changes, overlap):
    now = datetime(2026, 2, 3, 4, 30, tzinfo=UTC) + timedelta(hours=7 * seed)
    world = {"seed": seed, "now": now, "changes_per_hour": changes, "overlap": overlap, "body_bytes": 500}
    with mirrored(tmp_path, projects=PROJECTS, namespaces=NAMESPACES, **world) as mirror:
        chosen = mirror.newest(hours)
        truth = Truth(mirror.sandbox.world, PROJECTS, NAMESPACES)
        truth.assert_hard(chosen)
        way(mirror, chosen, random.Random(seed), tmp_path / "other")
        with Published(mirror.warehouse) as published:
            assert_same(published.rows("articles", source_at=True), truth.of_hours(chosen))
        assert_rebuilt_alike(mirror.warehouse)


@pytest.mark.parametrize(("seed", "way", "overlap"), [(4, redone, True), (6, shuffled, False)])
def test_articles_are_the_truth(tmp_path, seed, way, overlap):
    check(tmp_path, seed, way, hours=3, changes=40, overlap=overlap)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 120))
@pytest.mark.parametrize("way", [in_order, shuffled, twice, redone])
def test_articles_are_the_truth_over_many_seeds(tmp_path, seed, way):
    check(tmp_path, seed, way, hours=8, changes=200, overlap=seed % 3 != 0)
