"""The world's truth against its hour files: two derivations that must agree.

The files are folded here by the published rule, naively: an `update` is live when no `update` or `delete` of its title
and no `update` of its page id is newer. The truth is read from the page table.
"""

from __future__ import annotations

import json
import tarfile
from datetime import UTC, datetime, timedelta

import pytest

from resources.sandbox.settings import Settings
from resources.sandbox.world import World

HOUR = timedelta(hours=1)
START = datetime(2026, 11, 19, 22, tzinfo=UTC)


def lines_of(batch):
    with tarfile.open(batch.path) as archive:
        for member in archive:
            yield from archive.extractfile(member).read().splitlines()


def age(record):
    published = record["event"]["date_published"].rstrip("Z")
    whole, _, fraction = published.partition(".")
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


def compare(world, hours, namespaces, projects):
    """The fold of the files of `hours`, and the truth at their end, as (project, title) -> record each."""
    records = []
    for hour in hours:
        for batch in world.batches(hour):
            if batch.record["namespace"]["identifier"] in namespaces:
                records += map(json.loads, lines_of(batch))
    truth = {}
    for project in projects:
        moment = world.export_started_at(project, hours[-1])
        for namespace in namespaces:
            for record in world.truth(project, namespace, moment, since=hours[0]):
                truth[project, record["name"]] = record
    return folded(records), truth


@pytest.mark.parametrize("overlap", [True, False])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_files_folded_by_the_rule_are_the_truth(tmp_path, seed, overlap):
    settings = Settings(
        state=tmp_path, seed=seed, projects=("frwiki",), changes_per_hour=220, body_bytes=800, overlap=overlap
    )
    world = World(settings)
    hours = [START + n * HOUR for n in range(7)]
    found, truth = compare(world, hours, (0, 10, 14), settings.projects)
    assert len(truth) > 500
    assert found == truth
