"""The world's truth against its hour files: two derivations that must agree.

The files are folded here by the published rule, naively: an `update` is live when no `update` or `delete` of its title
and no `update` of its page id is newer. The truth is read from the page table.
"""

import json
import random
from datetime import UTC, datetime, timedelta

import pytest

from resources.sandbox.settings import Settings
from resources.sandbox.store.archived_world import ArchivedWorld
from tests.unit.sandbox.conftest import lines_of

HOUR = timedelta(hours=1)
START = datetime(2026, 11, 19, 22, tzinfo=UTC)


def small(state, **options):
    return Settings(**{"state": state, "projects": ("frwiki",), "changes_per_hour": 60, "body_bytes": 300, **options})


def age(record):
    whole, _, fraction = record["event"]["date_published"].rstrip("Z").partition(".")
    return whole, fraction.ljust(6, "0"), record["version"]["identifier"]


def folded(records):
    """(project, title) -> record of what is live."""
    newest_of_title, newest_update_of_page = {}, {}
    for record in records:
        project = record["is_part_of"]["identifier"]
        title = (project, record["name"].replace("_", " "))
        page = (project, record["identifier"])
        if title not in newest_of_title or age(record) > age(newest_of_title[title]):
            newest_of_title[title] = record
        if record["event"]["type"] == "update" and (
            page not in newest_update_of_page or age(record) > age(newest_update_of_page[page])
        ):
            newest_update_of_page[page] = record
    return {
        title: record
        for title, record in newest_of_title.items()
        if record["event"]["type"] == "update"
        and age(newest_update_of_page[title[0], record["identifier"]]) == age(record)
    }


def files(world, hours, namespaces=(0, 10, 14)):
    batches = (batch for hour in hours for batch in world.batches(hour))
    for batch in batches:
        if batch.record["namespace"]["identifier"] in namespaces:
            yield from map(json.loads, lines_of(batch.path))


def truth_of(world, settings, moment_of, since, namespaces=(0, 10, 14)):
    return {
        (project, record["name"]): record
        for project in settings.projects
        for namespace in namespaces
        for record in world.truth(project, namespace, moment_of(project), since)
    }


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
    ("seed", "overlap", "projects"),
    [(1, True, ("frwiki",)), (2, False, ("frwiki",)), (1, True, ("enwiki", "simplewiki"))],
)
def test_files_folded_by_the_rule_are_the_truth_of_all_namespaces_and_of_each_alone(tmp_path, seed, overlap, projects):
    settings = small(tmp_path, seed=seed, overlap=overlap, projects=projects, changes_per_hour=60 // len(projects))
    world = ArchivedWorld(settings)
    hours = [START + n * HOUR for n in range(5 if len(projects) == 1 else 2)]
    records = list(files(world, hours))
    truth = truth_of(world, settings, lambda project: world.export_started_at(project, hours[-1]), hours[0])
    assert len(truth) > 40 * len(hours)
    assert {project for project, _ in truth} == set(projects)
    assert folded(records) == truth
    for namespace in (0, 10, 14):
        alone = [record for record in records if record["namespace"]["identifier"] == namespace]
        assert folded(alone) == {
            title: record for title, record in truth.items() if record["namespace"]["identifier"] == namespace
        }
    for record in truth.values():
        assert record["article_body"]["html"].startswith("<!DOCTYPE html>")
        assert record["article_body"]["wikitext"]


def test_truth_holds_at_any_moment(tmp_path):
    settings = small(tmp_path, seed=7, changes_per_hour=20)
    world = ArchivedWorld(settings)
    draw = random.Random(7)
    first = START - 4 * HOUR
    events = [e for e in world.events("frwiki", first, START + 3 * HOUR) if e.type != "visibility-change"]
    records = [world.record(event) for event in events]
    # moments between any two events, and those right at an event, where `before` decides
    moments = [START + timedelta(microseconds=draw.randrange(3 * 3_600_000_000)) for _ in range(2)]
    at_events = draw.sample([event for event in events if event.kind != "edit"], 3)
    moments += [datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=event.published) for event in at_events]
    for moment in moments:
        micros = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
        seen = [record for event, record in zip(events, records, strict=True) if event.published < micros]
        for namespace in (0, 10):
            alone = [record for record in seen if record["namespace"]["identifier"] == namespace]
            truth = truth_of(world, settings, lambda _, at=moment: at, first, (namespace,))
            assert folded(alone) == truth, moment


def test_without_since_every_page_is_told_and_later_hours_agree_with_it(tmp_path):
    """The full state at T and the files from T on fold to the full state later: snapshot + batches = now."""
    settings = small(tmp_path, changes_per_hour=20)
    world = ArchivedWorld(settings)
    before = list(world.truth("frwiki", 0, START))
    hours = [START + n * HOUR for n in range(4)]
    end = world.export_started_at("frwiki", hours[-1])
    now = {("frwiki", record["name"]): record for record in world.truth("frwiki", 0, end)}
    assert folded([*before, *files(world, hours, (0,))]) == now
    # a change of visibility never decides
    assert any(event.type == "visibility-change" for event in world.events("frwiki", START, end))
    assert {record["event"]["type"] for record in now.values()} == {"update"}
    assert len({record["identifier"] for record in before}) == len(before)
    assert len({record["name"] for record in before}) == len(before)


def test_a_snapshot_and_the_hours_from_its_own_on_fold_to_the_truth(tmp_path):
    """With what stands in the snapshot twice, what stands there still, and hours that begin before it."""
    settings = small(tmp_path, seed=2)
    world = ArchivedWorld(settings)
    for namespace in (0, 10):
        started, _ = world.snapshot_times(f"frwiki_namespace_{namespace}", START + 2 * HOUR)
        lines = map(json.loads, lines_of(world.snapshot(f"frwiki_namespace_{namespace}", started).path))
        first = started.replace(minute=0, second=0, microsecond=0)
        hours = [first + n * HOUR for n in range(3)]
        end = world.export_started_at("frwiki", hours[-1])
        now = {("frwiki", record["name"]): record for record in world.truth("frwiki", namespace, end)}
        assert folded([*lines, *files(world, hours, (namespace,))]) == now


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
