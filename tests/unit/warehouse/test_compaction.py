"""Compacted files: the same rows, whatever happens before, between and after; few files; and nothing that waits for them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from assets.compaction import compact_lake
from resources.engine import Engine
from resources.lake import Layout

PROJECTS = ("dewiki", "enwiki", "frwiki")


@pytest.fixture
def compact(data, warehouse, clock):
    def run(days=3):
        clock.now += timedelta(days=days)
        return compact_lake(Layout(data), warehouse, Engine(workers=1), memory_bytes=1 << 20, threads=2)

    return run


def load(lake, warehouse, hours, *, text="", projects=PROJECTS):
    for hour in hours:
        files = []
        for number, project in enumerate(projects):
            rows = [
                lake.change(
                    100 * number + page,
                    f"Page {page}",
                    60 * hour + page,
                    html=f"<p>{project} {page} at {hour}{text}</p>" * 20,
                    wikitext=f"{page} {hour}{text}",
                )
                for page in range((hour + number) % 3, 9, 2)
            ]
            rows.append(dict(rows[0]))  # a repeated event
            rows.append(lake.change(100 * number + 50, "Gone", 60 * hour + 30, "delete"))
            files.append(lake.file(hour, rows, project))
        assert warehouse.load_hour(lake.hour(hour), files).changed
    warehouse.apply_changes()


def bodies(warehouse):
    warehouse.publish()
    rows = warehouse.sql("SELECT * FROM article_bodies ORDER BY ALL").rows
    assert rows
    return rows


def paths(warehouse):
    with warehouse.connect_published() as connection:
        return connection.execute(
            "SELECT coalesce(compacted.lake_path, loads.lake_path) FROM loads LEFT JOIN compacted_files AS compacted USING (compaction_id)"
        ).fetchall()


def test_a_day_becomes_one_file_and_the_bodies_are_the_same(lake, warehouse, compact):
    load(lake, warehouse, range(6))
    before = bodies(warehouse)
    [done] = compact()
    assert (done.read_files, done.written_files, done.given_up_count) == (18, 1, 0)
    assert bodies(warehouse) == before
    assert len(set(paths(warehouse))) == 1
    assert compact(0) == []


def test_the_text_of_a_page_by_its_title(lake, warehouse, compact):
    load(lake, warehouse, range(5))
    compact()
    warehouse.publish()
    rows = warehouse.sql("SELECT version_id, wikitext FROM article_text('enwiki', 'Page_3')").rows
    assert (
        rows
        == warehouse.sql(
            "SELECT version_id, wikitext FROM article_bodies JOIN articles USING (project_id, article_id, version_id, source_at) WHERE name = 'Page 3' AND project_id = 'enwiki'"
        ).rows
    )
    assert len(rows) == 1
