"""Build files of other versions: what can be brought up to date is, without loss; what cannot is refused and left alone.

`previous.tar.xz` is a data folder as the version before wrote it, the last one that numbered its tables (1.4) and knew of no dataset
but the articles: hour 0 with pages 1 and 2, one row twice and one rejected line; a snapshot with pages 1 and 3; hour 1 absent, hour 2
missing; all of it applied and published but hour 3, which renames page 1 and is published as pending.
"""

from __future__ import annotations

import tarfile
from dataclasses import replace
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

from resources import tables
from resources.datasets import Dataset, Family, also
from resources.tables import Column, Table
from resources.tables.declaration import INT
from resources.warehouse import Warehouse, WarehouseVersionError
from resources.warehouse.database import schema
from resources.warehouse.database.schema import digest


@pytest.fixture
def previous(data, clock):
    with tarfile.open(Path(__file__).with_name("previous.tar.xz")) as archive:
        archive.extractall(data, filter="data")
    return Warehouse(data, lock_timeout=5.0, clock=clock)


def held(warehouse, query):
    with warehouse._connector.build("look") as connection:
        return connection.execute(query).fetchall()


def edit(warehouse, *statements):
    with duckdb.connect(warehouse.build_path) as connection:
        for statement in statements:
            connection.execute(statement)


def columns(path):
    with duckdb.connect(path, read_only=True) as connection:
        return connection.execute(
            "SELECT table_name, column_name, data_type, is_nullable, comment FROM duckdb_columns() "
            "WHERE schema_name IN ('main', 'internal') ORDER BY table_name, column_index"
        ).fetchall()


def test_data_folder_of_the_previous_version_is_taken_over_without_loss(previous, lake, make):
    assert previous.publish_is_due()
    untouched = previous.published_path.read_bytes()
    published = previous.coverage(), previous.project_states(), previous.sql("SELECT * FROM rejects").rows
    assert [(row.table_name, row.state) for row in published[0]] == [
        ("article_changes", state) for state in ("loaded", "absent", "missing", "loaded")
    ]
    assert [row[:2] for row in published[2]] == [("article_changes", lake.hour(0))]
    assert previous.published_path.read_bytes() == untouched
    built = previous.coverage(published=False), previous.project_states(published=False)
    # that version did not count what is uncertain
    counts = {"absent_count": 1, "reject_count": 1, "uncertain_count": 0, "repaired_count": 0}
    counted = [replace(one, **counts) for one in published[1]]
    assert all(getattr(one, name) is None for one in published[1] for name in counts)
    assert built == (published[0], counted)
    assert previous.pending_hours() == [lake.hour(3)]
    assert previous.pending_snapshots() == []
    assert previous.unpublished_revision() == held(previous, "SELECT revision FROM internal.meta")[0][0]
    snapshots = held(previous, "SELECT table_name, snapshot_id, row_count, applied_at IS NULL FROM snapshots")
    assert snapshots == [("snapshot_articles", "enwiki_namespace_0", 2, False)]
    assert held(previous, "SELECT table_name, count(*) FROM loads GROUP BY ALL ORDER BY ALL") == [
        ("article_changes", 2),
        ("snapshot_articles", 1),
    ]
    assert not previous.load_hour(lake.hour(3), [lake.file(3, [lake.change(1, "A2", 190)])]).changed
    assert not previous.load_snapshot(lake.snapshot([[lake.change(3, "C", 30), lake.change(1, "A", 1)]])).changed
    previous.apply_changes()
    assert previous.publish().changed
    assert previous.sql("SELECT name FROM articles ORDER BY 1").rows == [("A2",), ("C",)]
    assert previous.sql("SELECT * FROM rejects").rows == published[2]
    assert previous.sql("SELECT count(*) FROM article_bodies").rows == [(5,)]
    assert previous.relocate() is None
    # the same tables, comments and views as in files that are new
    new = make().warehouse
    new.publish()
    for ours, theirs in ((previous.build_path, new.build_path), (previous.published_path, new.published_path)):
        assert columns(ours) == columns(theirs)


#: What the tables of a published file are, whose views are made again.
FIXED = ("FROM loads", "FROM rejects", "FROM articles", "FROM snapshots")


def test_published_file_of_the_previous_version_is_moved_without_a_run(previous):
    before = [previous.sql(query).rows for query in FIXED]
    assert previous.relocate() == 3
    assert previous.sql("SELECT count(*) FROM article_bodies").rows == [(5,)]
    assert [previous.sql(query).rows for query in FIXED] == before
    assert len(previous.sql("FROM articles_at('2026-11-02')").rows) == 2
    assert len(previous.sql("FROM article_history('enwiki', 'A')").rows) == 2
    own = "articles JOIN article_bodies USING (project_id, article_id, version_id, batch_hour)"
    assert previous.sql(f"SELECT count(*) FROM {own}").rows == [(2,)]
    assert [row.state for row in previous.coverage()] == ["loaded", "absent", "missing", "loaded"]


@pytest.mark.parametrize("version", [2, 3])
def test_build_of_a_version_before_is_brought_up_to_date(previous, lake, version):
    lengths = [f"ALTER TABLE rejects DROP COLUMN {column}" for column in ("raw_bytes", "raw_path", "raw_offset")]
    edit(previous, *lengths, f"UPDATE internal.meta SET schema_version = '1.{version}'")
    previous.load_hour(lake.hour(1), [lake.file(1, [lake.change(1, "A", 2)], rejects=[b"late"])])
    rows = held(previous, "SELECT raw, raw_bytes, raw_path FROM rejects ORDER BY batch_hour")
    assert rows == [(b"bad", 3, None), (b"late", 4, None)]


def test_hours_that_rows_of_snapshots_had_become_their_source(lake, warehouse):
    warehouse.load_hour(
        lake.hour(0), [lake.file(0, [lake.change(1, "A", 1), lake.change(1, "A", 2, "delete")], rejects=[b"bad"])]
    )
    warehouse.load_snapshot(lake.snapshot([[lake.change(3, "C", -30)]]))
    warehouse.apply_changes()
    of_snapshot = (
        "'snapshot_articles' AS table_name, (SELECT source_at FROM snapshots) AS source_at, NULL AS batch_hour"
    )
    edit(warehouse, f"INSERT INTO rejects SELECT * REPLACE ({of_snapshot}) FROM rejects")
    names = ["articles", "snapshots", "loads", "rejects", "internal.titles", "internal.pages"]
    rows = [held(warehouse, f"FROM {name} ORDER BY ALL") for name in names]
    assert all(rows)
    assert [row[2] for row in rows[3]] == [lake.hour(0), None]
    wanted = columns(warehouse.build_path)
    edit(
        warehouse,
        *(f"ALTER TABLE {name} DROP COLUMN batch_hour" for name in ("loads", "rejects")),
        *(f"ALTER TABLE {name} RENAME COLUMN source_at TO batch_hour" for name in names),
        "UPDATE internal.meta SET schema_version = 'another'",
    )
    assert [held(warehouse, f"FROM {name} ORDER BY ALL") for name in names] == rows
    assert columns(warehouse.build_path) == wanted


def test_missing_tables_and_columns_are_added_and_views_and_comments_made_again(lake, warehouse):
    warehouse.load_hour(lake.hour(0), [lake.file(0, [lake.change(1, "A", 1)])])
    wanted = columns(warehouse.build_path)
    edit(
        warehouse,
        "DROP VIEW project_state",
        "CREATE VIEW project_state AS SELECT 'of old' AS project_id",
        "DROP TABLE codes",
        "ALTER TABLE article_changes DROP COLUMN file_row",
        "COMMENT ON TABLE hours IS 'of old'",
        "UPDATE internal.meta SET schema_version = 'another'",
    )
    assert warehouse.pending_hours() == [lake.hour(0)]
    assert columns(warehouse.build_path) == wanted
    assert held(warehouse, "SELECT comment FROM duckdb_tables() WHERE table_name = 'hours'") == [
        (tables.HOURS.description,)
    ]
    assert held(warehouse, "SELECT schema_version FROM internal.meta") == [(digest(),)]


def test_files_of_a_snapshot_from_before_a_column_was_declared_give_nulls(lake, warehouse):
    snapshot = lake.snapshot([[lake.change(1, "A", 1, image_caption="C", html="h")], [lake.change(2, "B", 2)]])
    warehouse.load_snapshot(snapshot)
    with warehouse._connector.build("spoil") as connection:
        for file in snapshot.files:
            pq.write_table(pq.read_table(file.path, partitioning=None).drop_columns(["image_caption"]), file.path)
            found = [file.path.stat().st_size, file.path.relative_to(lake.data / "lake").as_posix()]
            connection.execute("UPDATE loads SET lake_bytes = $1 WHERE lake_path = $2", found)
    for bring in (warehouse.apply_changes, warehouse.rebuild_articles):
        bring()
        assert held(warehouse, "SELECT name, image_caption FROM articles ORDER BY 1") == [("A", None), ("B", None)]
    warehouse.publish()
    assert warehouse.sql("SELECT name, image_caption FROM snapshot_articles ORDER BY 1").rows == [
        ("A", None),
        ("B", None),
    ]
    assert warehouse.sql("SELECT html FROM article_bodies WHERE article_id = 1").rows == [("h",)]
    assert len(warehouse.sql("FROM articles_at('2026-11-01 02:00:00+00', inexact := true)").rows) == 2


@pytest.mark.parametrize(
    ("change", "version"),
    [
        ("SELECT 1", "0.0"),
        ("ALTER TABLE rejects DROP COLUMN reason", "another"),
        ("ALTER TABLE internal.titles ALTER COLUMN version_id TYPE VARCHAR", "another"),
        ("ALTER TABLE hours ADD COLUMN of_tomorrow BIGINT", "another"),
        ("COMMENT ON TABLE internal.meta IS 'keys of other formulas'", "another"),
    ],
)
def test_build_of_other_tables_is_refused_whole(warehouse, change, version):
    assert warehouse.pending_hours() == []
    edit(warehouse, change, f"UPDATE internal.meta SET schema_version = '{version}'")
    before = columns(warehouse.build_path)
    with pytest.raises(WarehouseVersionError, match=rf"made for tables of version {version}.*Remove build\.duckdb"):
        warehouse.pending_hours()
    assert columns(warehouse.build_path) == before


def test_the_version_knows_the_formulas_of_the_keys(monkeypatch):
    natives = schema.native_tables()
    before = schema._script.__wrapped__(natives)
    monkeypatch.setattr(schema, "KEYS_DIGEST", "of other formulas")
    assert schema._script.__wrapped__(natives) != before


def test_the_version_follows_from_the_declarations_alone():
    before = digest()
    table = Table("things", "Things.", (Column("thing_id", INT, "Number.", "identifier", required=True),))
    with also(Dataset(table, Family.LIST, "things", "things", "The things.")):
        assert digest() != before
    assert digest() == before
