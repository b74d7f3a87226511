"""No hour merges row groups; DuckDB merges them once a day."""

from __future__ import annotations

from datetime import timedelta

from tests.builds import ask, close_all

TABLES = ("article_changes", "articles")
_CONTENT = ("article_changes", "articles", "loads", "hours", "internal.titles", "internal.pages")


def groups(warehouse, table):
    """The rows of each row group of a table, those included that are gone and lie there still."""
    of_ids = f"FROM pragma_storage_info('{table}') WHERE column_name = 'article_id' AND segment_type = 'BIGINT'"
    return [
        count
        for (count,) in ask(warehouse, f"SELECT CAST(sum(count) AS BIGINT) {of_ids} GROUP BY row_group_id ORDER BY ALL")
    ]


def content(warehouse):
    return {table: sorted(map(repr, ask(warehouse, f"FROM {table}"))) for table in _CONTENT}


def load(lake, warehouse, hours, pages=1):
    """Each hour creates as many pages and edits those of the hour before."""
    for hour in hours:
        ids = range(max(hour - 1, 0) * pages, (hour + 1) * pages)
        rows = [lake.change(number + 1, f"Title {number}", hour * 60) for number in ids]
        warehouse.load_hour(lake.hour(hour), [lake.file(hour, rows)])
        warehouse.apply_changes()
        close_all()  # each hour ends with a checkpoint


def test_small_groups_become_one_once_a_day_and_the_rows_stay(lake, warehouse):
    now = warehouse._clock()
    warehouse._clock = lambda: now

    def merged():
        before, revision = content(warehouse), ask(warehouse, "SELECT revision FROM internal.meta")
        assert warehouse.merge_row_groups()
        close_all()
        assert [len(groups(warehouse, table)) for table in TABLES] == [1, 1]
        assert content(warehouse) == before
        assert ask(warehouse, "SELECT revision FROM internal.meta") == revision, "nothing is to be published for it"

    # no hour merges, and not the first of a day either
    load(lake, warehouse, (23, 24))
    assert min(len(groups(warehouse, table)) for table in TABLES) >= 2
    merged()
    load(lake, warehouse, [90])
    now += timedelta(hours=23)
    assert not warehouse.merge_row_groups(), "once a day is enough"
    assert len(groups(warehouse, "article_changes")) > 1
    now += timedelta(hours=1)
    merged()
    # hours that are loaded again after groups were merged
    for hour in (24, 23):
        rows = [lake.change(number, f"Other {number}", hour * 60 + 1) for number in range(23, 27)]
        warehouse.load_hour(lake.hour(hour), [lake.file(hour, rows)])
        warehouse.apply_changes()
    before = content(warehouse)["articles"]
    warehouse.rebuild_articles()
    assert content(warehouse)["articles"] == before
