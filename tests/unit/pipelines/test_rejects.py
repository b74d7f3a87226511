"""Rejected lines as they are chosen, counted and shown."""

from __future__ import annotations

import pytest

from pipelines.operations import rejects
from pipelines.operations.rejects import Selection
from resources.datasets import ARTICLE_CHANGES, SNAPSHOT_ARTICLES
from tests.unit.pipelines.rejected import FRENCH, GOOD, SNAPSHOT, Folder
from tests.unit.warehouse.conftest import START


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three hours of one project, one of them of another too, and a snapshot."""
    made = Folder(tmp_path_factory.mktemp("rejects") / "data")
    for number, lines in ((0, GOOD[:1]), (1, GOOD[1:4]), (2, GOOD[4:6])):
        made.load(number, lines)
    made.load(1, FRENCH, "frwiki")
    made.load_snapshot("a" * 32, GOOD[6:9])
    made.warehouse.publish()
    return made


def test_lines_of_hours_and_of_snapshots_are_counted(folder):
    hours = [folder.lake.hour(number) for number in range(3)]
    assert rejects.count(folder.warehouse, {ARTICLE_CHANGES: hours}) == 9
    assert rejects.count(folder.warehouse, {ARTICLE_CHANGES: hours[:1]}) == 1
    assert rejects.count(folder.warehouse, {ARTICLE_CHANGES: []}, {SNAPSHOT_ARTICLES: [SNAPSHOT]}) == 3
    assert rejects.count(folder.warehouse, {ARTICLE_CHANGES: hours[:1]}, {SNAPSHOT_ARTICLES: [SNAPSHOT]}) == 4
    assert rejects.count(folder.warehouse, {ARTICLE_CHANGES: []}, {SNAPSHOT_ARTICLES: ["frwiki_namespace_0"]}) == 0
    assert rejects.count(folder.warehouse, {ARTICLE_CHANGES: []}) == 0


def test_the_newest_hour_comes_first_and_then_the_order_of_the_archive(folder):
    of_hours = Selection(project="enwiki", reason="JSON")
    shown = [(row[0], row[3]) for row in rejects.places(folder.warehouse, of_hours, 100).rows if "chunk" not in row[1]]
    hours = [folder.lake.hour(number) for number in range(3)]
    assert shown == [(hours[2], 1), (hours[2], 2), (hours[1], 1), (hours[1], 2), (hours[1], 3), (hours[0], 1)]
    assert len(rejects.places(folder.warehouse, of_hours, 2).rows) == 2
    lines = list(rejects.lines(folder.warehouse, Selection(hour=hours[1], project="enwiki"), raw=True))
    assert [line["raw"] for line in lines] == GOOD[1:4]
    assert [line["bytes"] for line in rejects.lines(folder.warehouse, Selection(hour=START), limit=1)] == [len(GOOD[0])]


def test_lines_are_counted_by_reason_with_the_first_of_them(folder):
    (row,) = rejects.by_reason(folder.warehouse, Selection(project="frwiki")).rows
    assert row[:3] == (3, "not JSON", folder.lake.hour(1))
    assert row[4] == FRENCH[0][:80]
