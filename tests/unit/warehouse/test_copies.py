"""Copies: of what stands twice in the files of one source, one counts."""

from __future__ import annotations


def test_copies_within_the_files_of_two_projects_are_those_of_each(warehouse, lake):
    copies = [lake.change(1, "A", 1, event_id="one"), lake.change(1, "A", 1, event_id="one")]
    files = [lake.file(0, copies, project) for project in ("enwiki", "frwiki")]
    load = warehouse.load_hour(lake.hour(0), files)
    assert (load.row_count, load.duplicate_count) == (2, 2)
    warehouse.publish()
    found = warehouse.sql("SELECT project_id, count(*) FROM article_changes GROUP BY ALL ORDER BY ALL").rows
    assert found == [("enwiki", 1), ("frwiki", 1)]


def test_a_page_that_stands_twice_in_a_snapshot_counts_once(warehouse, lake):
    page = lake.change(5, "E", 20)
    load = warehouse.load_snapshot(lake.snapshot([[page], [page, lake.change(6, "F", 30)]]))
    assert (load.row_count, load.duplicate_count) == (3, 1)
    warehouse.publish()
    assert warehouse.sql("SELECT article_id FROM snapshot_articles ORDER BY ALL").rows == [(5,), (6,)]
