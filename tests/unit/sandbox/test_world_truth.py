"""The world's truth against its hour files: two derivations that must agree.

The files are folded here by the published rule, naively: an `update` is live when no `update` or `delete` of its title
and no `update` of its page id is newer. The truth is read from the page table.
"""

import random
from datetime import UTC, datetime, timedelta
from itertools import product

import pytest

from resources.sandbox.settings import Settings
from resources.sandbox.store.archived_world import ArchivedWorld
from resources.sandbox.world.world import micros, moment_of
from tests.unit.sandbox.conftest import records_of

HOUR = timedelta(hours=1)
START = datetime(2026, 11, 19, 22, tzinfo=UTC)


def small(state, **options):
    return Settings(**{"state": state, "projects": ("frwiki",), "changes_per_hour": 60, "body_bytes": 300, **options})


def age(record):
    whole, _, fraction = record["event"]["date_published"].rstrip("Z").partition(".")
    return whole, fraction.ljust(6, "0"), record["version"]["identifier"]


def folded(records):
    """What is live of one project, by title."""
    newest_of_title, newest_update_of_page = {}, {}
    for record in sorted(records, key=age):
        newest_of_title[record["name"].replace("_", " ")] = record
        if record["event"]["type"] == "update":
            newest_update_of_page[record["identifier"]] = age(record)
    live = {title: one for title, one in newest_of_title.items() if one["event"]["type"] == "update"}
    return {title: one for title, one in live.items() if newest_update_of_page[one["identifier"]] == age(one)}


def truth_of(world, project, namespace, moment, since=None):
    records = list(world.truth(project, namespace, moment, since))
    found = {record["name"]: record for record in records}
    revisions = {record["version"]["identifier"] for record in records}
    assert len({record["identifier"] for record in records}) == len(found) == len(revisions) == len(records)
    assert max(revisions, default=0) < 2**31
    return found


@pytest.mark.parametrize("project", ["frwiki", "zhwiki"])
def test_every_article_is_found_by_its_name_and_no_other_is(tmp_path, project):
    world = ArchivedWorld(small(tmp_path, projects=(project,), changes_per_hour=20, body_bytes=100))
    moment, name_of = world.export_started_at(project, START), world._wiki(project).writer.name
    live = {name_of(event.title): event for n in (0, 10, 14) for event in world.pages_at(project, n, moment)}
    moved = [name for name in live if name.endswith((", 2", ")", '"')) or ":" in name]
    assert len(moved) > 50
    for name in [*random.Random(1).sample(sorted(live), 50), *moved]:
        for spelt in (name, name.replace(" ", "_")):
            assert world.article(project, spelt, START) == world.record(live[name])
    ended = {event.title for event in world.events(project, START - HOUR, moment) if event.type == "delete"}
    ended = {name_of(title) for title in ended} - live.keys()
    assert len(ended) > 20
    for other in [*ended, f"x{name}", f"{name} ", "", "Special:Search", "Utilisateur:A", "A b (9999)"]:
        assert world.article(project, other, START) is None


@pytest.mark.parametrize(
    ("seed", "overlap", "projects", "articles"),
    [(2, False, ("frwiki",), 1_500), (1, True, ("enwiki", "simplewiki"), None)],
)
def test_files_alone_and_beside_a_snapshot_fold_to_the_truth(tmp_path, seed, overlap, projects, articles):
    """With what stands in a snapshot twice, what stands there still, and hours that begin before it."""
    world = ArchivedWorld(small(tmp_path, seed=seed, overlap=overlap, projects=projects, articles=articles))
    for project, namespace in product(projects, (0, 10, 14)):
        identifier = f"{project}_namespace_{namespace}"
        started, _ = world.snapshot_times(identifier, START + 2 * HOUR)
        first = started.replace(minute=0, second=0, microsecond=0)
        hours = [first + n * HOUR for n in range(3)]
        batches = [batch for hour in hours for batch in world.batches(hour, [project])]
        told = [one for batch in batches if batch.identifier == identifier for one in records_of(batch)]
        end = world.export_started_at(project, hours[-1])
        changed = truth_of(world, project, namespace, end, first)
        assert folded(told) == changed
        now = truth_of(world, project, namespace, end)
        assert folded([*records_of(world.snapshot(identifier, started)), *told]) == now
        assert namespace or articles is None or 0.97 * articles < len(now) < 1.03 * articles
        assert namespace or len(changed) > 120
        for record in changed.values():
            assert record["article_body"]["html"].startswith("<!DOCTYPE html>")
            assert record["article_body"]["wikitext"]


def test_truth_holds_at_any_moment(tmp_path):
    world = ArchivedWorld(small(tmp_path, seed=7, changes_per_hour=20))
    draw, first = random.Random(7), START - 4 * HOUR
    events = [e for e in world.events("frwiki", first, START + 3 * HOUR) if e.type != "visibility-change"]
    records = [world.record(event) for event in events]
    # moments between any two events, and those right at an event, where `before` decides
    moments = [START + timedelta(microseconds=draw.randrange(3 * 3_600_000_000)) for _ in range(2)]
    at_events = draw.sample([event for event in events if event.kind != "edit"], 3)
    for moment in [*moments, *(moment_of(event.published) for event in at_events)]:
        seen = [record for event, record in zip(events, records, strict=True) if event.published < micros(moment)]
        for namespace in (0, 10):
            alone = [record for record in seen if record["namespace"]["identifier"] == namespace]
            assert folded(alone) == truth_of(world, "frwiki", namespace, moment, first), moment


@pytest.mark.parametrize(
    ("shape", "project", "namespace", "moment", "message"),
    [
        ({}, "frwiki", 6, START, "namespace 6"),
        ({}, "dewiki", 0, START, "no articles for 'dewiki'"),
        ({}, "frwiki", 0, START.replace(tzinfo=None), "timezone-aware"),
        ({"projects": ("xxwiki",)}, "xxwiki", 0, START, "has no project 'xxwiki'"),
        ({"namespaces": (0, 2)}, "frwiki", 2, START, r"not \[2\]"),
    ],
)
def test_truth_refuses_what_the_sandbox_does_not_have(tmp_path, shape, project, namespace, moment, message):
    with pytest.raises(ValueError, match=message):
        next(iter(ArchivedWorld(small(tmp_path, **shape)).truth(project, namespace, moment)))
