"""Compacted snapshots and files of Wikidata: the same contents whatever happens, in few sorted files."""

import hashlib
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

from assets.steps import housekeeping
from resources import datasets
from resources.datasets import ENTITY_CHANGES, SNAPSHOT_ENTITIES
from resources.lake import LakeError, Layout
from resources.warehouse import Warehouse
from resources.warehouse.database.connect import answer
from resources.warehouse.views.lake import make_views, sources
from tests.builds import ask, looking, shown
from tests.unit.warehouse.conftest import compact, rewritten
from tests.unit.warehouse.test_loading import count

VIEWS = ("snapshot_articles", "article_bodies")
#: What `articles` is made of, and what it was.
THEN = "articles_at('2026-11-01 04:00:00+00', inexact := true)"
UNUSED = "no compaction references the file"
OTHERS = ("articles", "internal.snapshot_pages", "internal.snapshot_states", THEN)


def version_of(lake, edition=0, chunks=5, project="enwiki"):
    """A version in chunks, of which one is empty: pages in no order, some twice, and one deleted."""
    found = [
        [
            lake.change(
                7 * page % 41,
                f"Page {7 * page % 41}",
                60 * edition + page,
                "delete" if page == 5 else "update",
                html=f"<p>{project} {page} in {edition}</p>" * 30,
                wikitext=f"{page} {edition}",
            )
            for page in range(number, 40, chunks - 1)
        ]
        for number in range(chunks - 1)
    ]
    found[0] += [dict(found[0][1]), dict(found[1][0]), found[1][1] | {"event_at": lake.hour(0)}]
    return lake.snapshot([*found, []], project=project, tag=edition)


def load(made, *editions, keep_replaced=2, hours=(1,)):
    for edition in editions:
        made.warehouse.load_snapshot(version_of(made.lake, edition), keep_replaced=keep_replaced)
    change = made.lake.change
    for hour in hours:
        rows = [change(3, "Page 3", 60 * hour, html="newer"), change(9, "Page 9", 60 * hour, "delete")]
        made.warehouse.load_hour(made.lake.hour(hour), [made.lake.file(hour, rows)])
    made.warehouse.apply_changes()


def content(warehouse, *more):
    """What a publication would show of the lake now."""
    with shown(warehouse) as connection:
        return {what: answer(connection, f"SELECT * FROM {what} ORDER BY ALL") for what in (*VIEWS, *more)}


def first_version(made, *hours):
    """Loads it beneath some hours; returns what analysts see."""
    load(made, 0, hours=hours)
    return content(made.warehouse, "articles")


def names(warehouse):
    """The files of snapshots that a publication would read."""
    with looking(warehouse) as connection:
        parts = sources(connection, warehouse._lake_root).parts
        return [path for part in parts if part.dataset is datasets.SNAPSHOT_ARTICLES for path in part.paths]


def waiting(made):
    """How many files wait to be deleted, by the reason."""
    found = housekeeping.clean(Layout(made.data), made.warehouse, now=made.warehouse._clock.now)
    return Counter(one.why for one in found.waiting)


def test_each_version_becomes_one_sorted_file_with_the_same_rows_in_all_columns_and_views(mirror, state):
    load(mirror, 0, 1)
    before, articles = content(mirror.warehouse, *OTHERS), state(mirror.warehouse)
    assert all(before.values())
    told = r"version .{8} of enwiki_namespace_0 can temporarily need .*The files are unchanged"
    with pytest.raises(LakeError, match=told):
        compact(mirror, min_free_gb=1e6)
    with duckdb.connect() as alone:
        query = "SELECT DISTINCT * EXCLUDE (filename) FROM read_parquet(?, hive_partitioning = false, filename = true) "
        query += "QUALIFY row_number() OVER (PARTITION BY snapshot_version, article_id, version_id "
        query += "ORDER BY event_at DESC) = 1"
        rows = sorted(alone.execute(query, [names(mirror.warehouse)]).fetchall())
        done = compact(mirror)
        told = [(one.merge.span, one.read_files, one.written_files, one.given_up_count) for one in done]
        assert told == [("snapshot", 4, 1, 0)] * 2
        assert content(mirror.warehouse, *OTHERS) == before
        files = sorted(set(names(mirror.warehouse)))
        assert [Path(one).parent.name for one in files] == ["snapshot_articles"] * 2
        assert sorted(alone.execute("SELECT * FROM read_parquet(?)", [files]).fetchall()) == rows
        keys = alone.execute(f"SELECT article_id, version_id FROM '{files[0]}'").fetchall()
        assert keys == sorted(keys)
        filtered = "SELECT DISTINCT path_in_schema FROM parquet_metadata(?) WHERE bloom_filter_offset IS NOT NULL"
        assert {"article_id", "version_id", "name"} <= {name for (name,) in alone.execute(filtered, [files]).fetchall()}
    assert (compact(mirror), count(mirror.warehouse, "internal.hidden_rows")) == ([], 0)
    mirror.warehouse.rebuild_articles()
    assert state(mirror.warehouse) == articles


def test_replaced_files_go_after_the_grace_period_and_come_back_from_the_archive(mirror, again):
    before = again(mirror, first_version, 1)
    mirror.warehouse.publish()
    layout, now = Layout(mirror.data), mirror.warehouse._clock.now
    with mirror.warehouse.connect_published() as reader:
        assert compact(mirror)
        assert housekeeping.clean(layout, mirror.warehouse, now=now).waiting == ()  # published still
        mirror.warehouse.publish()
        assert len(housekeeping.clean(layout, mirror.warehouse, now=now).waiting) == 5
        assert reader.sql("SELECT * FROM article_bodies ORDER BY ALL").fetchall() == before["article_bodies"]
    assert len(housekeeping.clean(layout, mirror.warehouse, now=now + timedelta(days=1)).freed) == 5
    assert content(mirror.warehouse, "articles") == before
    # the same files once more change nothing, and go again
    assert not mirror.warehouse.load_snapshot(version_of(mirror.lake)).changed
    assert len(housekeeping.clean(layout, mirror.warehouse, now=now).waiting) == 5
    # a compacted file that is lost is replaced by them
    [path] = set(names(mirror.warehouse))
    Path(path).unlink()
    assert names(mirror.warehouse) == []
    assert mirror.warehouse.load_snapshot(version_of(mirror.lake)).changed
    mirror.warehouse.apply_changes()
    assert content(mirror.warehouse).items() <= before.items()
    assert (len(set(names(mirror.warehouse))), len(compact(mirror))) == (4, 1)
    assert set(names(mirror.warehouse)) == {path}


def test_a_version_that_is_replaced_or_loaded_from_other_files_meanwhile_is_not_taken_in(mirror, again):
    warehouse = mirror.warehouse
    again(mirror, first_version, 1)
    arguments = rewritten(mirror)
    load(mirror, 1, keep_replaced=0, hours=())
    assert (warehouse.commit_compaction(*arguments), count(warehouse, "compacted_files")) == (0, 0)
    before = content(warehouse, "articles")
    assert len(set(names(warehouse))) == 4
    arguments, again = rewritten(mirror), version_of(mirror.lake, 1)
    files = [replace(file, digest=hashlib.sha256(file.digest.encode()).hexdigest()) for file in again.files]
    again = replace(again, files=tuple(files))
    assert warehouse.load_snapshot(again, keep_replaced=0).changed
    assert warehouse.commit_compaction(*arguments) == 0
    assert count(warehouse, "internal.hidden_rows") > 0
    # the same files once more are as good as before
    arguments = rewritten(mirror)
    assert warehouse.load_snapshot(again, keep_replaced=0, reload=True).changed
    assert warehouse.commit_compaction(*arguments) == 1
    warehouse.apply_changes()
    assert (content(warehouse, "articles"), len(set(names(warehouse)))) == (before, 1)
    with Warehouse(mirror.data).compacting():  # which may have landed files that are not named yet
        assert {*waiting(mirror)} == {"its rows are in a compacted file"}
    assert waiting(mirror)[UNUSED] == 1


def test_a_version_that_is_no_longer_kept_goes_with_its_files_and_a_dropped_project_comes_back(mirror, again):
    warehouse = mirror.warehouse
    again(mirror, first_version, 1)
    warehouse.load_snapshot(version_of(mirror.lake, project="dewiki"))
    assert len(compact(mirror)) == 2
    warehouse.publish()
    load(mirror, 1, keep_replaced=0, hours=())
    assert waiting(mirror)[UNUSED] == 0, "it is published still"
    warehouse.publish()
    assert (waiting(mirror)[UNUSED], count(warehouse, "compacted_files")) == (1, 1)
    before = content(warehouse)
    assert (len(set(names(warehouse))), len(compact(mirror))) == (5, 1)
    assert content(warehouse) == before
    warehouse.drop_project("enwiki")
    assert [count(warehouse, table) for table in ("compacted_files", "internal.hidden_rows")] == [1, 0]
    load(mirror, 1)
    assert (len(compact(mirror)), content(warehouse)) == (1, before)


def test_few_files_are_left_alone_and_large_ones_are_no_reason(mirror):
    mirror.warehouse.load_snapshot(version_of(mirror.lake, chunks=4))
    assert mirror.warehouse.compactions(datasets.SNAPSHOT_ARTICLES) == []
    second = version_of(mirror.lake, 1)
    mirror.warehouse.load_snapshot(second)
    [(_, merge)] = mirror.warehouse.compactions(datasets.SNAPSHOT_ARTICLES)
    size = sum(file.lake_bytes for file in second.files if file.row_count)
    assert (merge.span, merge.name, merge.file_count, merge.lake_bytes) == ("snapshot", "enwiki_namespace_0", 4, size)
    assert merge.version == ("enwiki_namespace_0", second.snapshot_version)


WIKIDATA = "wikidatawiki"


def entity(name, moment, statements, change_type="update", **more):
    row = {"entity_id": name, "change_type": change_type, "event_at": moment}
    return row | {"statements_json": f'"{statements}"'} | more


def hour_of(lake, number, edition=0):
    """The files of an hour: an item, one that is there twice with two revisions, and one that was deleted."""
    hour, files = lake.hour(number), []
    for namespace in (0, 120):
        rows = [
            entity(f"Q{10 - number}", hour, f"{number} {edition}", version_id=1),
            *(entity(f"Q{namespace}", hour, f"{number} {version} {edition}", version_id=version) for version in (2, 1)),
            entity(f"Q{20 + number}", hour, "gone", "delete"),
        ]
        files.append(lake.file(number, rows, WIKIDATA, namespace, dataset=ENTITY_CHANGES))
    return files


def load_entities(made, *numbers, edition=0):
    for number in numbers:
        made.warehouse.load_hour(made.lake.hour(number), hour_of(made.lake, number, edition), dataset=ENTITY_CHANGES)
    made.warehouse.apply_entity_changes()


def shown_entities(warehouse):
    """What a publication would show now."""
    with warehouse._connector.build("look") as connection:
        connection.execute("BEGIN")
        make_views(connection, found := sources(connection, warehouse._lake_root))
        names = ("entities", "entity_bodies")
        rows = {name: connection.execute(f"SELECT * FROM {name} ORDER BY ALL").fetchall() for name in names}
        connection.execute("ROLLBACK")
    read = [one.paths for one in found.parts if one.dataset.bodies is ENTITY_CHANGES.bodies]
    return rows, [Path(path) for paths in read for path in paths]


def test_compacted_hours_show_the_same_bodies_also_after_an_hour_is_loaded_again_or_a_file_is_lost(make):
    compacted, plain = make(), make()
    for made in (compacted, plain):
        load_entities(made, 0, 1, 2)
    [done] = compact(compacted, days=3)
    assert (done.read_files, done.written_files, done.row_count) == (6, 1, 18)
    rows, [path] = shown_entities(compacted.warehouse)
    assert rows == shown_entities(plain.warehouse)[0]
    assert path.parent.name == ENTITY_CHANGES.name
    group = pq.read_metadata(path).row_group(0)
    leaves = map(group.column, range(group.num_columns))
    assert "entity_id" in {leaf.path_in_schema for leaf in leaves if leaf.bloom_filter_offset is not None}
    keys = pq.read_table(path, columns=["project_id", "entity_id", "event_at"]).to_pylist()
    assert keys == sorted(keys, key=lambda row: tuple(row.values()))
    assert waiting(compacted).total() == 6
    for made in (compacted, plain):
        load_entities(made, 1, edition=1)
    rows, files = shown_entities(compacted.warehouse)
    assert (rows, len(files)) == (shown_entities(plain.warehouse)[0], 3)
    path.unlink()
    load_entities(compacted, 0, 2)
    assert shown_entities(compacted.warehouse)[0] == rows
    assert [one.read_files for one in compact(compacted, days=3)] == [6]
    found, files = shown_entities(compacted.warehouse)
    assert (found, len(files)) == (rows, 1)


def test_the_snapshot_with_the_newest_boundary_lies_underneath_whenever_it_was_exported(lake, warehouse):
    moments = {minute: lake.hour(0) + timedelta(minutes=minute) for minute in (30, 49, 50, 60)}
    for minute, hour in ((30, 2), (60, 1)):
        made = lake.snapshot([[entity(f"Q{minute}", moments[minute], "")]], WIKIDATA, of=SNAPSHOT_ENTITIES)
        warehouse.load_snapshot(replace(made, exported_at=lake.hour(hour)))
    # the boundary is minute 50
    changes = [entity(f"Q{minute}", moments[minute], "") for minute in (49, 50)]
    warehouse.load_hour(lake.hour(0), [lake.file(0, changes, WIKIDATA, dataset=ENTITY_CHANGES)], dataset=ENTITY_CHANGES)
    warehouse.apply_entity_changes()
    assert ask(warehouse, "SELECT entity_id FROM entities ORDER BY ALL") == [("Q50",), ("Q60",)]


def test_the_chunks_of_a_snapshot_show_the_same_bodies_when_they_are_compacted(mirror):
    names = [(n, (7 * n % 5, 10 + n, 30)) for n in range(5)]
    chunks = [[entity(f"Q{one}", mirror.lake.hour(n), n) for one in some] for n, some in names]
    mirror.warehouse.load_snapshot(mirror.lake.snapshot(chunks, WIKIDATA, of=SNAPSHOT_ENTITIES))
    mirror.warehouse.apply_entity_changes()
    before, _ = shown_entities(mirror.warehouse)
    [done] = compact(mirror, days=3)
    assert (done.read_files, done.written_files, done.row_count) == (5, 1, 11)
    rows, files = shown_entities(mirror.warehouse)
    assert (rows, len(files), len(rows["entities"])) == (before, 1, 11)
