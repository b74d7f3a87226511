"""What is news for whoever publishes: each thing that changes the tables, and nothing else."""

from __future__ import annotations

import pytest

from resources.tables import HourState
from resources.warehouse import HourStatus


@pytest.fixture
def is_news(warehouse):
    """`is_news(change)`: whether a change is something to publish. Nothing is published so far."""

    def found(change):
        before = warehouse.unpublished_revision()
        change()
        return warehouse.unpublished_revision() != before

    return found


def rows(lake, number):
    return [lake.change(number, "A", 60 * number + 1)]


def test_what_changes_a_table_is_news_and_the_same_again_is_not(warehouse, lake, is_news):
    codes = lake.dataset("codes")
    lists = [lake.reference("codes", [{"code": "wiki", "name": name}]) for name in ("Wikipedia", "Wikis")]
    shorter = lake.reference("codes", [])
    gap = HourStatus(lake.hour(5), "enwiki", 0, HourState.EMPTY, "Because.")
    changes = {
        "the first hour": lambda: warehouse.load_hour(lake.hour(0), [lake.file(0, rows(lake, 0))]),
        "an hour with other content": lambda: warehouse.load_hour(lake.hour(0), [lake.file(0, rows(lake, 0), tag="b")]),
        "a snapshot": lambda: warehouse.load_snapshot(lake.snapshot([rows(lake, 9)])),
        "the current articles": warehouse.apply_changes,
        "what is known of an hour": lambda: warehouse.record_statuses([gap]),
        "gaps": lambda: warehouse.fill_coverage(["enwiki"], [0]),
        "a list": lambda: warehouse.load_list(codes, lists[0]),
        "another list": lambda: warehouse.load_list(codes, lists[1]),
        "a list that lost a row": lambda: warehouse.load_list(codes, shorter),
    }
    assert warehouse.unpublished_revision() is None
    for name, change in changes.items():
        assert is_news(change), name
        assert not is_news(change), f"{name}, again"
