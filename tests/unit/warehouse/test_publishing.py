"""What analysts open: whole, described, readable from anywhere, replaced at once."""

import os
import shutil
import stat
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import duckdb
import filelock
import pytest

from resources import datasets
from resources.tables import HourState
from resources.warehouse import HourStatus, NotPublishedError, QueryError, Warehouse, WarehouseBusyError, WarehouseError
from resources.warehouse.database.connect import OLDEST_STORAGE
from resources.warehouse.database.recovery import copy_file
from resources.warehouse.database.schema import digest
from resources.warehouse.views import analysts
from tests.builds import lay
from tests.unit.warehouse.conftest import mirror_in


def fill(mirror):
    """Two hours, loaded, applied and published; the rows of every kind that a view must treat."""
    lake, warehouse = mirror.lake, mirror.warehouse
    redirects = [{"name": "Ah", "url": "u"}, {"name": "Aleph", "url": None}]
    first = [lake.change(1, "A", 1, html="<p>a1", wikitext="a1", redirects=redirects)]
    first.append(lake.change(2, "B", 2, html="<p>b", wikitext="b"))
    moved = lake.change(1, "C", 61, html="<p>a2", wikitext="a2", redirects=[{"name": "A", "url": None}], event_id="m")
    gone = moved | {"name": "A", "change_type": "delete", "html": None, "wikitext": None}
    warehouse.load_hour(lake.hour(0), [lake.file(0, first)])
    warehouse.load_hour(lake.hour(1), [lake.file(1, [gone, moved, moved], rejects=[b"bad"])])
    projects = lake.reference("projects", [{"project_id": "enwiki", "name": "Wikipedia"}])
    warehouse.load_list(lake.dataset("projects"), projects)
    warehouse.publish({"service": "sandbox"})
    return warehouse


@pytest.fixture
def published(again, data, lake, warehouse, clock):
    """For tests that change it."""
    again(SimpleNamespace(data=data, lake=lake, warehouse=warehouse), fill)
    warehouse._clock = clock
    warehouse.publish({"service": "sandbox"})
    return warehouse


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """For tests that only read it."""
    return fill(mirror_in(tmp_path_factory.mktemp("library") / "data"))


def test_nothing_published_yet_is_said(warehouse):
    todo = r"run the pipeline once \(`wme run`\)\. .* only `wme publish` publishes\."
    with pytest.raises(NotPublishedError, match=todo) as told:
        warehouse.sql("SELECT 1")
    assert str(warehouse.published_path.absolute()) in str(told.value)
    os.mkfifo(warehouse.published_path)
    with pytest.raises(QueryError, match=r"is not a file, so it cannot be read\. Nothing was changed\. Move it, then"):
        warehouse.sql("SELECT 1")


def test_everything_is_there(library, lake):
    found = library.sql("SELECT article_id, name, source_at FROM articles ORDER BY 1").rows
    assert found == [(1, "C", lake.hour(1)), (2, "B", lake.hour(0))]
    assert library.sql("SELECT count(*) FROM article_changes").rows == [(4,)]
    assert library.sql("SELECT redirect_name, article_id, name FROM redirects").rows == [("A", 1, "C")]
    assert library.sql("SELECT name FROM projects").rows == [("Wikipedia",)]
    assert library.sql("SELECT raw FROM rejects").rows == [(b"bad",)]
    assert library.sql("SELECT count(*) FROM loads").rows == [(2,)]
    query = "SELECT string_agg(value, ' ' ORDER BY name) FROM about WHERE name <> 'attribution'"
    about = f"{duckdb.__version__} 2 {(library.data / 'lake').resolve()} 0 2026-11-02T06:00:00+00:00"
    about += f" {library.publication().revision} {digest()} sandbox {OLDEST_STORAGE}"
    assert library.sql(query).rows == [(about,)]
    assert library.sql("SELECT value IS NOT NULL FROM about WHERE name = 'attribution'").rows == [(True,)]
    assert [row.state for row in library.coverage()] == ["loaded", "loaded"]
    assert [row.first_gap_at for row in library.project_states()] == [None]
    assert [row.row_count for row in library.summary([lake.hour(1)])] == [2]
    assert [library.sql(query).rows for query in ("SET threads = 1", "SELECT 1 AS a, 2 AS a")] == [[], [(1, 2)]]


def test_bodies_have_one_row_per_page_revision_and_hour(library, lake):
    result = library.sql("SELECT article_id, version_id, batch_hour, html FROM article_bodies ORDER BY 1, 2")
    assert result.columns == ("article_id", "version_id", "batch_hour", "html")
    first, second = lake.hour(0), lake.hour(1)
    assert result.rows == [(1, 1001, first, "<p>a1"), (1, 1061, second, "<p>a2"), (2, 1002, first, "<p>b")]
    joined = "articles JOIN article_bodies USING (project_id, article_id, version_id, source_at)"
    assert library.sql(f"SELECT name, wikitext FROM {joined} ORDER BY 1").rows == [("B", "b"), ("C", "a2")]


def test_question_for_an_hour_opens_the_files_of_that_hour_only_and_finds_one_body_of_a_page(lake, warehouse):
    for hour in range(3):
        warehouse.load_hour(lake.hour(hour), [lake.file(hour, [lake.change(1, "A", 60 * hour, html=f"h{hour}")])])
    # a page that changes its namespace has one body
    moved = lake.change(1, "C", 185, html="<p>new", event_id="m")
    gone = lake.change(1, "Draft:C", 186, "delete", version_id=moved["version_id"], html="<p>old")
    for namespace, row in ((0, gone), (14, moved)):
        warehouse.load_hour(lake.hour(3), [lake.file(3, [row], namespace=namespace)])
    warehouse.publish()
    assert warehouse.sql("SELECT html FROM article_bodies WHERE batch_hour = ?", [lake.hour(3)]).rows == [("<p>new",)]
    for path in (warehouse.data / "lake").rglob("hour=01/*.parquet"):
        path.write_bytes(b"unreadable")
    for question in ("batch_hour = $1", "batch_hour >= $1 AND batch_hour < $1 + INTERVAL 1 HOUR"):
        found = warehouse.sql(f"SELECT html FROM article_bodies WHERE {question}", [lake.hour(2)]).rows
        assert found == [("h2",)]
    with pytest.raises(WarehouseError, match="Parquet"):
        warehouse.sql("SELECT html FROM article_bodies")


def test_tables_columns_and_comments_are_the_declared_ones(library):
    stored = {dataset.name for dataset in datasets.datasets()}
    wanted = {table.name: table.narrow if table.name in stored else table for table in datasets.tables()}
    here = "FROM {} WHERE database_name = 'warehouse' AND schema_name = 'main' AND NOT internal"
    columns = here.format("duckdb_columns()")
    query = f"SELECT table_name, column_name, comment {columns} ORDER BY table_name, column_index"
    told = [(name, one.name, one.description) for name, table in sorted(wanted.items()) for one in table]
    assert library.sql(query).rows == told
    kinds = (f"SELECT {kind}_name, comment {here.format(f'duckdb_{kind}s()')}" for kind in ("table", "view"))
    described = library.sql(" UNION ALL ".join(kinds)).rows
    # its schema has what is declared, and nothing else; what the pipeline needs is in one of its own
    assert dict(described) == {table.name: table.description for table in datasets.tables()}
    assert len(described) == len(wanted)
    for table in ("titles", "pages", "meta", "articles", "article_changes"):
        library.sql(f"SELECT count(*) FROM internal.{table}")
    with library.connect_published() as connection:
        for name, table in wanted.items():
            schema = connection.sql(f"SELECT * FROM {name} LIMIT 0").to_arrow_table().schema
            assert {field.name: field.type for field in schema} == {column.name: column.type for column in table}, name


def test_views_and_macros_of_another_version_are_made_anew(published, library, monkeypatch):
    def made(warehouse):
        here = "database_name = 'warehouse' AND NOT internal"
        return warehouse.sql(
            f"SELECT schema_name, view_name, sql, comment FROM duckdb_views() WHERE {here} AND view_name NOT LIKE "
            "'lake_%' UNION ALL SELECT '', function_name, macro_definition, comment FROM duckdb_functions() WHERE "
            f"{here} ORDER BY ALL"
        ).rows

    wanted = made(library)
    assert made(published) == wanted
    # what did not change is not made again
    with duckdb.connect(published.build_path) as connection:
        connection.execute("CREATE VIEW by_us AS SELECT 1; CREATE OR REPLACE VIEW internal.live_window AS FROM by_us")
    assert published.publish({"service": "another"}).changed
    query = "SELECT view_name FROM duckdb_views() WHERE contains(sql, 'by_us') ORDER BY ALL"
    assert published.sql(query).rows == [("by_us",), ("live_window",)]
    with duckdb.connect(published.build_path) as connection:
        connection.execute("DROP VIEW titles; DROP MACRO TABLE find_article; DROP TABLE about")
        connection.execute("CREATE OR REPLACE VIEW article_bodies AS SELECT '' AS html; CREATE VIEW once AS SELECT 1")
        connection.execute("CREATE MACRO once_asked(a) AS TABLE SELECT a")
        connection.execute("UPDATE internal.meta SET prepared_version = 'another'")
        connection.execute("UPDATE internal.publication SET value = '\"another\"' WHERE name = 'views_version'")
    assert published.publish({"service": "sandbox"}).changed
    assert made(published) == wanted
    found = "SELECT (SELECT count(*) FROM about) > 5, (SELECT count(*) FROM article_bodies)"
    assert published.sql(found).rows == [(True, 3)]
    # another type of a column in a table makes another version of the views
    script, version = analysts._script(datasets.datasets())
    monkeypatch.setattr(analysts.schema, "digest", lambda: "of other tables")
    other_script, other_version = analysts._script.__wrapped__(datasets.datasets())
    assert (other_script == script, other_version == version) == (True, False)


def test_unchanged_is_a_no_op_and_each_change_is_not(published, lake, clock):
    def publish(**about):
        facts = {"service": "sandbox"} | about
        known, made = published.is_published(facts), published.publish(facts)
        assert made.changed is not known
        assert published.is_published(facts)
        return made

    mark, again = published.published_path.stat().st_ino, publish()
    assert (again.changed, again.lake_file_count, again.missing_lake_file_count) == (False, 2, 0)
    assert published.published_path.stat().st_ino == mark
    assert published.apply_changes().changed is False
    assert not publish().changed

    assert publish(service="another").changed
    assert publish().changed
    published.record_statuses([HourStatus(lake.hour(2), "enwiki", 0, HourState.NOT_YET)])
    assert publish().changed
    published.record_statuses([HourStatus(lake.hour(2), "enwiki", 0, HourState.NOT_YET)])
    assert not publish().changed
    published.published_path.unlink()
    assert publish().changed


def test_file_that_somebody_overwrote_is_published_again(published, tmp_path):
    target = published.published_path
    before = target.stat()
    # bytes of the same number and age in its place
    beside = tmp_path / "beside"
    beside.write_bytes(b"x" * before.st_size)
    os.utime(beside, ns=(before.st_atime_ns, before.st_mtime_ns))
    beside.replace(target)
    with pytest.raises(QueryError, match=r"cannot open warehouse.* unaffected\. Remove .* `wme publish` to create"):
        published.sql("SELECT 1")
    assert published.publish({"service": "sandbox"}).changed
    assert published.sql("SELECT count(*) FROM articles").rows == [(2,)]
    assert not published.publish({"service": "sandbox"}).changed
    # written into in place, as by somebody who made it writable
    target.chmod(0o644)
    with target.open("r+b") as file:
        file.write(b"y" * 4096)
    assert published.publish({"service": "sandbox"}).changed
    assert published.sql("SELECT count(*) FROM articles").rows == [(2,)]


@pytest.mark.parametrize("name", ["warehouse.lock", "publish.lock"])
def test_publication_waits_for_the_lock(published, lake, name):
    mark = published.published_path.stat().st_ino
    published.record_statuses([HourStatus(lake.hour(3), "enwiki", 0, HourState.NOT_YET)])
    impatient = Warehouse(published.data, lock_timeout=0.05)
    told = r"for more than 0 s, so .* could not publish\. Nothing was changed"
    lock = filelock.FileLock(published.data / "state" / name)
    with lock, pytest.raises(WarehouseBusyError, match=told) as caught:
        impatient.publish()
    assert caught.value.retryable
    assert published.published_path.stat().st_ino == mark
    assert published.publish().changed


def test_build_file_made_anew_is_published_though_it_counts_the_same(lake, warehouse):
    def load(number, name):
        warehouse.load_hour(lake.hour(number), [lake.file(number, [lake.change(number, name, 60 * number + 1)])])
        warehouse.apply_changes()

    load(0, "A")
    warehouse.create()  # it is there
    first = warehouse.publish()
    assert warehouse.sql("SELECT name FROM articles").rows == [("A",)]
    warehouse.build_path.unlink()
    warehouse.create()
    load(1, "B")
    assert warehouse.unpublished_revision() == first.revision
    warehouse.note_complete()
    assert warehouse.publish().changed
    assert warehouse.unpublished_revision() is None
    assert warehouse.sql("SELECT name FROM articles").rows == [("B",)]


def test_open_reader_keeps_its_file_and_a_new_one_sees_the_next(published, lake, monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    with published.connect_published() as reader:
        assert reader.execute("SELECT current_setting('TimeZone')").fetchall() == [("UTC",)], "wherever the machine is"
        # a load leaves alone what a publication has put on disk for want of memory: neither holds the other's lock, so
        # an hour is loaded while the copy is made ready
        with published._connector.open_file(published.data / "warehouse.duckdb.4711.tmp") as connection:
            ((folder,),) = connection.execute("SELECT current_setting('temp_directory')").fetchall()
            spilt = Path(folder, "spilt")
            spilt.parent.mkdir(parents=True)
            spilt.touch()
            published.load_hour(lake.hour(2), [lake.file(2, [lake.change(9, "Z", 121)])])
            assert spilt.exists()
        published.apply_changes()
        assert published.publish().changed
        assert reader.execute("SELECT count(*) FROM articles").fetchall() == [(2,)]
        assert published.sql("SELECT count(*) FROM articles").rows == [(3,)]
        with pytest.raises(duckdb.Error, match="read-only"):
            reader.execute("DELETE FROM internal.articles")


def test_a_publication_removes_a_stale_log_sweeps_leftovers_and_mends_a_moved_data_folder(published, tmp_path):
    # of somebody who wrote into the published file, and of a killed publication
    for name in ["warehouse.duckdb.wal", "warehouse.duckdb.4711.tmp", "warehouse.duckdb.4711.tmp.wal"]:
        (published.data / name).write_bytes(b"left over")
    (published.data / "warehouse.duckdb.4711.tmp.spill" / "spilt").mkdir(parents=True)
    assert published.publish({"service": "next"}).changed
    assert not [*published.data.glob("*.tmp*"), *published.data.glob("*.wal")]
    moved = tmp_path / "elsewhere, it's here"
    shutil.move(published.data, moved)
    warehouse = Warehouse(moved, lock_timeout=5.0)
    assert warehouse.sql("SELECT count(*) FROM articles").rows == [(2,)]
    assert warehouse.publish({"service": "next"}).changed
    assert warehouse.sql("SELECT count(*) FROM article_bodies").rows == [(3,)]


def test_moved_data_folder_is_mended_without_a_run(mirror, tmp_path):
    """Neither the build file nor the state is needed: a copy of what analysts open and of the lake is enough."""
    warehouse = fill(mirror)
    warehouse.load_snapshot(mirror.lake.snapshot([[mirror.lake.change(5, "E", 10, html="e")]], "frwiki"))
    warehouse.publish({"service": "sandbox"})
    assert warehouse.relocate() is None
    moved = tmp_path / "else where"
    moved.mkdir()
    shutil.move(warehouse.data / "lake", moved / "lake")
    shutil.move(warehouse.published_path, moved / "warehouse.duckdb")
    other = Warehouse(moved, lock_timeout=5.0)
    for is_confined in (True, False):
        with pytest.raises(QueryError, match="wme relocate" if is_confined else None):
            other.sql("SELECT count(*) FROM article_bodies", is_confined=is_confined)
    assert other.relocate() == 3
    assert other.relocate() is None
    # confined to its folder, also through a link
    (tmp_path / "linked").symlink_to(moved)
    for one in (other, Warehouse(tmp_path / "linked")):
        assert one.sql("SELECT count(*), count(html) FROM article_bodies", is_confined=True).rows == [(4, 4)]
    assert other.sql("SELECT count(*) FROM article_bodies").rows == [(4,)]
    assert other.sql("SELECT name FROM snapshot_articles").rows == [("E",)]
    assert other.sql("SELECT count(*) FROM articles_at('2026-11-02', inexact := true)").rows == [(3,)]
    assert other.sql("SELECT value FROM about WHERE name = 'lake_root'").rows == [(str((moved / "lake").resolve()),)]
    assert stat.S_IMODE(other.published_path.stat().st_mode) == 0o444
    assert not other.build_path.exists()
    with pytest.raises(NotPublishedError):
        warehouse.relocate()
    # a lake that lacks a file
    next((moved / "lake" / "article_changes").rglob("*.parquet")).unlink()
    other = Warehouse(moved.rename(tmp_path / "once more"))
    assert other.relocate() == 2
    query = "SELECT name, value FROM about WHERE ends_with(name, 'lake_file_count') ORDER BY ALL"
    assert other.sql(query).rows == [("lake_file_count", "2"), ("missing_lake_file_count", "1")]


def test_a_copy_has_what_is_not_published_yet_and_nobody_writes_meanwhile(published, lake, tmp_path, monkeypatch):
    def copy(*paths):
        with pytest.raises(WarehouseBusyError), Warehouse(published.data, lock_timeout=0.0).writing("load"):
            pass
        copy_file(*paths)

    monkeypatch.setattr("resources.warehouse.warehouse.copy_file", copy)
    published.load_hour(lake.hour(5), [lake.file(5, [lake.change(5, "E", 301)])])
    published.copy_to(tmp_path / "copy.duckdb")
    count = "SELECT count(*) FROM article_changes"
    with duckdb.connect(tmp_path / "copy.duckdb", read_only=True) as copy:
        assert copy.execute(count).fetchall()[0][0] > published.sql(count).rows[0][0]


def test_how_often_to_publish(lake, warehouse, clock):
    often, hourly, never = timedelta(0), timedelta(hours=1), None
    assert [warehouse.publish_is_due(every) for every in (often, hourly, never)] == [True, True, False]
    warehouse.publish()
    assert [warehouse.publish_is_due(every) for every in (often, hourly, never)] == [True, False, False]
    clock.now += timedelta(minutes=59)
    assert not warehouse.publish_is_due(hourly)
    clock.now += timedelta(minutes=1)
    assert warehouse.publish_is_due(hourly)
    clock.now -= timedelta(minutes=30)
    warehouse.published_path.unlink()
    assert warehouse.publish_is_due(hourly)
    # a clock that was put back holds up nothing
    warehouse.publish()
    clock.now -= timedelta(seconds=1)
    assert [warehouse.publish_is_due(every) for every in (often, hourly, never)] == [True, True, False]


def test_relative_data_folder(lake, data, monkeypatch, tmp_path):
    """Through a link."""
    monkeypatch.chdir(data.parent)
    data.mkdir()
    lake.data = Path("linked")
    lake.data.symlink_to(data)
    warehouse = Warehouse(lay(lake.data))
    file = lake.file(0, [lake.change(1, "A", 1, html="x")])
    warehouse.load_hour(lake.hour(0), [file], dataset=datasets.ARTICLE_CHANGES)
    warehouse.publish()
    target = data / "warehouse.duckdb"
    (tmp_path / "away").mkdir()
    monkeypatch.chdir(tmp_path / "away")
    assert Warehouse(data).sql("SELECT html FROM article_bodies").rows == [("x",)]
    assert target.exists()


def test_what_was_loaded_since_the_articles_were_brought_up_to_date_is_taken_in(lake, warehouse):
    for edition in ("first", "second"):
        page = lake.change(1, "Page", 1, version_id=len(edition), event_id=edition, html=edition)
        warehouse.load_hour(lake.hour(0), [lake.file(0, [page])])
        assert not warehouse.is_published()
        warehouse.publish()
        assert warehouse.is_published()
        query = "SELECT html FROM articles JOIN article_bodies USING (project_id, article_id, version_id, source_at)"
        assert warehouse.sql(query).rows == [(edition,)]
