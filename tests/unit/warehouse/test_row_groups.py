"""No hour merges row groups; what hours leave is put together afterwards, a bounded number of rows at a time."""

from __future__ import annotations

import pytest

from resources.warehouse.database import row_groups
from tests.builds import looking

TABLES = ("article_changes", "articles")
_CONTENT = ("article_changes", "articles", "loads", "hours", "internal.titles", "internal.pages")


def look(warehouse, query):
    with looking(warehouse) as connection:
        return connection.execute(query).fetchall()


def groups(warehouse, table):
    """The rows of each row group of a table, those included that are gone and lie there still."""
    of_ids = f"FROM pragma_storage_info('{table}') WHERE column_name = 'article_id' AND segment_type = 'BIGINT'"
    return [count for (count,) in look(warehouse, f"SELECT sum(count) {of_ids} GROUP BY row_group_id ORDER BY ALL")]


def content(warehouse):
    with looking(warehouse) as connection:
        return {table: sorted(map(repr, connection.execute(f"FROM {table}").fetchall())) for table in _CONTENT}


def load(lake, warehouse, hours, pages=1):
    """Each hour creates as many pages and edits those of the hour before."""
    for hour in hours:
        ids = range(max(hour - 1, 0) * pages, (hour + 1) * pages)
        rows = [lake.change(number + 1, f"Title {number}", hour * 60) for number in ids]
        warehouse.load_hour(lake.hour(hour), [lake.file(hour, rows)])
        warehouse.apply_changes()


@pytest.fixture
def few(monkeypatch):
    """Row groups of a few rows are full, and four are many: what takes months otherwise happens within hours."""
    for name, number in (("FULL", 24), ("_SMALL", 12), ("_STRETCH", 4), ("_MANY", 4)):
        monkeypatch.setattr(row_groups, name, number)


def test_no_hour_merges_and_not_the_first_of_a_day_either(lake, warehouse):
    load(lake, warehouse, range(22, 26))
    assert [len(groups(warehouse, table)) for table in TABLES] == [4, 4]
    assert warehouse.merge_row_groups() == 0, "so few are not worth it"


def test_small_groups_become_one_and_the_rows_stay(lake, warehouse, monkeypatch):
    monkeypatch.setattr(row_groups, "_MANY", 4)
    load(lake, warehouse, range(4))
    before, revision = content(warehouse), look(warehouse, "SELECT revision FROM internal.meta")
    assert warehouse.merge_row_groups() > 0
    assert [len(groups(warehouse, table)) for table in TABLES] == [1, 1]
    assert content(warehouse) == before
    assert look(warehouse, "SELECT revision FROM internal.meta") == revision, "nothing is to be published for it"
    assert warehouse.merge_row_groups() == 0, "and once is enough"


@pytest.mark.usefixtures("few")
def test_their_number_is_bounded_however_long_it_goes_on(lake, warehouse):
    for start in range(0, 18, 6):
        load(lake, warehouse, range(start, start + 6), pages=2)
        moves = []
        while moved := warehouse.merge_row_groups(steps=1):
            moves.append(moved)
            assert len(moves) < 100, "it never ends"
        assert max(moves) <= 24, "a step moves no more than a full row group"
        for table in TABLES:
            assert sum(size < 12 for size in groups(warehouse, table)) < 4
    # of all rows that were written, every other one is gone; groups that lost most of theirs were given up
    written, left = 18 * 4 - 2, 18 * 2
    assert len(groups(warehouse, "article_changes")) <= written / 12 + 4
    assert sum(groups(warehouse, "articles")) <= 2 * left + 24


@pytest.mark.usefixtures("few")
def test_the_list_itself_stays_small(lake, warehouse):
    def size():
        return look(warehouse, "SELECT count(DISTINCT row_group_id) FROM pragma_storage_info('internal.row_groups')")[
            0
        ][0]

    sizes = []
    for hour in range(6):
        load(lake, warehouse, [hour])
        assert size() > 1
        listed = look(warehouse, "FROM internal.row_groups ORDER BY ALL")
        merged = warehouse.merge_row_groups()
        sizes.append(size())
        assert merged or look(warehouse, "FROM internal.row_groups ORDER BY ALL") == listed
    assert max(sizes) <= 4


@pytest.mark.usefixtures("few")
def test_hours_that_are_loaded_again_while_groups_are_listed(lake, warehouse):
    load(lake, warehouse, range(5))
    moved = []
    for hour in (1, 4, 2):
        rows = [lake.change(number, f"Other {number}", hour * 60 + 1) for number in range(1, 5)]
        warehouse.load_hour(lake.hour(hour), [lake.file(hour, rows)])
        warehouse.apply_changes()
        before = content(warehouse)
        moved.append(warehouse.merge_row_groups())
        assert content(warehouse) == before
    assert moved[0]
    warehouse.rebuild_articles()
    assert content(warehouse)["articles"] == before["articles"]
