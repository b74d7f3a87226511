"""What is news for whoever publishes: each thing that changes the tables, and nothing else."""

from __future__ import annotations

import pytest

from resources.tables import HourState
from resources.warehouse import HourStatus

HOURS = range(3)


@pytest.fixture
def is_news(warehouse, lake):
    """`is_news(change)`: whether something is to be published after a change, with nothing to be published before it."""

    def found(change):
        warehouse.publish()
        assert warehouse.unpublished_revision() is None
        change()
        return warehouse.unpublished_revision() is not None

    warehouse.load_reference("codes", lake.reference("codes", [{"code": "wiki", "name": "Wikipedia"}]))
    return found


def rows(lake, number):
    return [lake.change(number, "A", 60 * number + 1)]


def test_the_first_load_of_a_new_warehouse_is_news(warehouse, lake):
    assert warehouse.unpublished_revision() is None
    warehouse.load_hour(lake.hour(0), [lake.file(0, rows(lake, 0))])
    assert warehouse.unpublished_revision() == 1


def test_what_changes_a_table_is_news_and_the_same_again_is_not(warehouse, lake, is_news):
    lists = [lake.reference("codes", [{"code": "wiki", "name": name}]) for name in ("Wikipedia", "Wikis")]
    shorter = lake.reference("codes", [])
    gap = HourStatus(lake.hour(5), "enwiki", 0, HourState.EMPTY, "Because.")
    changes = {
        "an hour": lambda: warehouse.load_hour(lake.hour(0), [lake.file(0, rows(lake, 0))]),
        "an hour with other content": lambda: warehouse.load_hour(lake.hour(0), [lake.file(0, rows(lake, 0), tag="b")]),
        "a snapshot": lambda: warehouse.load_snapshot(lake.snapshot([rows(lake, 9)])),
        "what is known of an hour": lambda: warehouse.record_statuses([gap]),
        "gaps": lambda: warehouse.fill_coverage(["enwiki"], [0]),
        "another list": lambda: warehouse.load_reference("codes", lists[1]),
        "a list that lost a row": lambda: warehouse.load_reference("codes", shorter),
        "a list that got it back": lambda: warehouse.load_reference("codes", lists[0]),
    }
    for name, change in changes.items():
        assert is_news(change), name
        assert not is_news(change), f"{name}, again"


def test_the_current_articles_are_news_only_when_something_was_pending(warehouse, lake, is_news):
    warehouse.load_hour(lake.hour(0), [lake.file(0, rows(lake, 0))])
    assert is_news(warehouse.apply_changes)
    assert not is_news(warehouse.apply_changes)
