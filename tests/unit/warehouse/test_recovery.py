"""A build file that DuckDB refuses is replaced by the published one, or by a new one, and says so."""

import logging
import os
import shutil
import subprocess
import sys
from functools import partial
from unittest.mock import Mock

import duckdb
import pytest

from resources import datasets
from resources.warehouse import Warehouse, WarehouseBusyError, WarehouseDamagedError, WarehouseFullError
from resources.warehouse.database import connect, recovery
from resources.warehouse.database.schema import OutdatedError
from tests.builds import NO_BAR, ask, close_all, lay
from tests.unit.warehouse.conftest import Lake

ROWS = "SELECT name FROM articles ORDER BY ALL"
#: Commits, and is killed before the checkpoint.
PROGRAM = """
import contextlib, os, signal, sys
from pathlib import Path
from resources.warehouse import Warehouse

with Warehouse(Path(sys.argv[1]))._connector.build("add rows") as connection:
    connection.execute("INSERT INTO wide SELECT * REPLACE (100 AS part) FROM wide WHERE part = 1")
    connection.execute("DELETE FROM wide WHERE part = 2")
    os.kill(os.getpid(), signal.SIGKILL)
"""
#: Of DuckDB's files: the headers, and a block.
HEADER, BLOCK = 3 * 4096, 256 * 1024
#: Opens the build file as somebody does by hand, and waits.
HOLDER = """
import duckdb, sys
with duckdb.connect(sys.argv[1], read_only=True):
    print("open", flush=True)
    sys.stdin.readline()
"""


def load(warehouse, lake, hour, name):
    file = lake.file(hour, [lake.change(hour + 1, name, 60 * hour + 1)])
    warehouse.load_hour(lake.hour(hour), [file], dataset=datasets.ARTICLE_CHANGES)
    warehouse.apply_changes()


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A data folder with one hour that is published, and one that is not."""
    data = lay(tmp_path_factory.mktemp("template"))
    warehouse, lake = Warehouse(data), Lake(data)
    load(warehouse, lake, 0, "A")
    warehouse.publish()
    load(warehouse, lake, 1, "B")
    return data


@pytest.fixture
def published(template, warehouse):
    """A copy of it."""
    shutil.copytree(template, warehouse.data, dirs_exist_ok=True)
    return warehouse


def names(warehouse):
    return [name for (name,) in ask(warehouse, ROWS)]


def beside(warehouse):
    return {path.name for path in warehouse.build_path.parent.iterdir()}


def cut(path):
    os.truncate(path, path.stat().st_size // 2)


def garble(path):
    path.write_bytes(b"no database" * 1000)


def change_tables(path, change="ALTER TABLE loads ADD COLUMN another INTEGER"):
    with duckdb.connect(path) as connection:
        connection.execute(f"{change}; UPDATE internal.meta SET schema_version = 'of another release'")


change_keys = partial(change_tables, change="COMMENT ON TABLE internal.meta IS 'other formulas'")
change_kinds = partial(change_tables, change="DROP VIEW project_state; CREATE TABLE project_state (a INTEGER)")


@pytest.mark.parametrize("damage", [cut, garble, change_tables, change_keys, change_kinds, os.unlink])
def test_published_file_takes_its_place(published, lake, damage, caplog):
    damage(published.build_path)
    if damage is garble:
        published.build_path.with_name("build.duckdb.wal").write_bytes(b"no log")
    with caplog.at_level(logging.WARNING):
        assert not published.is_complete()
    [line] = [one.getMessage() for one in caplog.records]
    assert "A copy of warehouse.duckdb takes its place" in line
    assert line.startswith("build.duckdb is missing. " if damage is os.unlink else "build.duckdb cannot be used (")
    assert names(published) == ["A"]
    assert ("build.duckdb.damaged" in beside(published)) is (damage is not os.unlink)
    assert ("build.duckdb.damaged.wal" in beside(published)) is (damage is garble)
    assert not published.is_published()
    assert published.unpublished_revision() is not None
    if damage in (cut, garble):  # it is retained until the next publication
        load(published, lake, 1, "B")
        published.note_complete()
        assert published.publish().changed
        assert published.is_complete()
        assert (beside(published), published.sql(ROWS).rows) == ({"build.duckdb"}, [("A",), ("B",)])


@pytest.mark.parametrize("damage", [os.unlink, garble, change_tables])
def test_new_file_takes_its_place_where_no_published_one_serves(published, lake, damage, caplog):
    published.published_path.chmod(0o644)
    damage(published.published_path)
    garble(published.build_path)
    if damage is os.unlink:  # as where the process was killed in between
        published.build_path.rename(published.build_path.with_name("build.duckdb.damaged"))
    with caplog.at_level(logging.WARNING):
        assert not published.is_complete()
    assert "A new file takes its place" in caplog.text
    load(published, lake, 0, "A")
    assert names(published) == ["A"]
    if damage is garble:
        assert published.publish().changed
        assert published.sql(ROWS).rows == [("A",)]


def test_the_copy_of_a_published_file_loses_its_code_and_waits_for_memory(published, monkeypatch):
    published.published_path.chmod(0o644)
    with duckdb.connect(published.published_path) as connection:
        connection.execute("CREATE MACRO upper(a) AS 'x'; CREATE VIEW internal.odd AS SELECT 1")
    garble(published.build_path)
    with monkeypatch.context() as patch:
        patch.setattr(recovery, "remove_code", Mock(side_effect=duckdb.OutOfMemoryException("Nothing is left.")))
        with pytest.raises(WarehouseFullError, match="Nothing is left"):
            published.is_complete()
        # nor does a lack of memory make a file one that DuckDB refuses
        patch.setattr(recovery, "read_metadata", Mock(side_effect=duckdb.OutOfMemoryException("Nothing is left.")))
        assert not recovery.is_refused(published.published_path)
    assert not published.is_complete()
    assert names(published) == ["A"]
    views = "SELECT view_name FROM duckdb_views() WHERE view_name = 'odd'"
    assert ask(published, f"SELECT function_name FROM duckdb_functions() WHERE NOT internal UNION ALL {views}") == []
    monkeypatch.setattr(connect, "ensure", Mock(side_effect=duckdb.OutOfMemoryException("Nothing is left.")))
    with pytest.raises(WarehouseFullError, match=r"could not update articles \(Nothing is left"):
        Warehouse(published.data).apply_changes()
    # a file that is refused as well is not replaced once more
    monkeypatch.setattr(connect, "ensure", Mock(side_effect=2 * [OutdatedError("it is of another release")]))
    with pytest.raises(WarehouseDamagedError, match=r"articles \(it is of another release\)\. Nothing was changed"):
        Warehouse(published.data).apply_changes()


def test_rows_that_cannot_be_read_are_noticed_when_they_are_needed(published):
    with published._connector.build("fill") as connection:
        connection.execute("CREATE TABLE wide AS SELECT range AS a, hash(range) AS b FROM range(300000)")
    content = bytearray(published.build_path.read_bytes())
    [(block,)] = ask(published, "SELECT max(block_id) FROM pragma_storage_info('wide') WHERE column_name = 'b'")
    place = HEADER + block * BLOCK + 100_000
    content[place : place + 100] = bytes(100)
    published.build_path.write_bytes(content)
    damaged = r"could not count.*The file was replaced.*Try again"
    with pytest.raises(WarehouseDamagedError, match=damaged), published._connector.build("count") as connection:
        connection.execute("SELECT bit_xor(b) FROM wide").fetchall()
    assert names(published) == ["A"]
    assert not published.is_complete()


def test_file_that_another_program_has_open_is_not_damaged(published, monkeypatch):
    impatient, waited = Warehouse(published.data, lock_timeout=0.2), []
    monkeypatch.setattr(connect.time, "sleep", waited.append)
    published.build_path.with_name("build.duckdb.spill").mkdir()  # of a killed process
    command = [sys.executable, "-c", NO_BAR + HOLDER, str(published.build_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "open\n"
        told = r"Another program has build.* open warehouse\.duckdb, which is never locked"
        with pytest.raises(WarehouseBusyError, match=told):
            impatient.apply_changes()
        monkeypatch.undo()
        process.communicate("\n")
    assert 0 < max(waited) <= 0.2
    assert not impatient.apply_changes().changed
    assert (names(published), beside(published)) == (["A", "B"], {"build.duckdb"})


def test_setting_that_duckdb_refuses_is_not_damage(published):
    published.build_path.with_name("build.duckdb.open").touch()  # of a killed process, and for the next one
    with pytest.raises(WarehouseDamagedError, match=r"could not update articles.*Nothing was changed"):
        Warehouse(published.data, memory_limit="some").apply_changes()
    assert (names(published), beside(published)) == (["A", "B"], {"build.duckdb", "build.duckdb.open"})


def test_what_the_system_does_not_open_is_not_damaged(published):
    """A folder for a file without permission, which the tests as root may open."""
    published.build_path.unlink()
    published.build_path.mkdir()
    told = r"could not update articles.*Nothing was changed.* Correct the cause, for example the owner of .*/warehouse "
    with pytest.raises(WarehouseDamagedError, match=told):
        published.apply_changes()
    assert beside(published) == {"build.duckdb"}
    assert published.build_path.is_dir()


def test_dataset_that_was_declared_since_is_no_other_version(published):
    """Tables that are not there are created, and those that nobody declares stay."""
    with published._connector.build("age it") as connection:
        connection.execute("DROP TABLE main.rejects; CREATE TABLE main.of_another_project (a INTEGER)")
        connection.execute("UPDATE internal.meta SET schema_version = 'of fewer datasets'")
    close_all()
    assert published.is_complete()
    assert ask(published, "SELECT count(*) FROM rejects, of_another_project") == [(0,)]


def test_the_log_of_a_killed_process_is_applied_and_metadata_is_read_that_duckdb_reads_late(tmp_path, caplog):
    """Otherwise damage by the kill would end a later run amid its work."""
    warehouse = Warehouse(tmp_path / "data")
    with warehouse._connector.build("fill the catalog") as connection:
        # so that the places of the rows are in blocks that DuckDB does not read when it opens the file
        connection.execute(f"CREATE VIEW padding AS SELECT '{'x' * 150_000}' AS x")
    for parts in (range(80), range(80, 81), range(81, 82)):
        with warehouse._connector.build("add rows") as connection:
            columns = ", ".join(f"c{number} VARCHAR" for number in range(100))
            connection.execute(f"CREATE TABLE IF NOT EXISTS wide (part INTEGER, {columns})")
            for part in parts:  # a row group each, with the places of a hundred columns
                values = ", ".join(f"'{part}-{number}'" for number in range(100))
                connection.execute(f"INSERT INTO wide SELECT {part}, {values} FROM range(3)")
    command = [sys.executable, "-c", PROGRAM, str(warehouse.data)]
    killed = subprocess.run(command, check=False, capture_output=True, text=True)
    assert killed.returncode == -9, killed.stderr
    assert beside(warehouse) == {"build.duckdb", "build.duckdb.wal", "build.duckdb.open"}
    with warehouse._connector.build("look") as connection:
        assert connection.execute("SELECT count(*) FROM wide WHERE part = 100 GROUP BY ALL").fetchall() == [(3,)]
    assert beside(warehouse) == {"build.duckdb"}
    whole, published = warehouse.build_path.read_bytes(), lay(tmp_path / "other") / "warehouse" / "build.duckdb"
    late = 0
    for start in range(HEADER, len(whole), BLOCK):
        content = bytearray(whole)
        content[start + 16 : start + 80] = bytes(byte ^ 255 for byte in content[start + 16 : start + 80])
        damaged = Warehouse(tmp_path / str(start))
        damaged.build_path.parent.mkdir(parents=True)
        damaged.build_path.write_bytes(content)
        shutil.copyfile(published, damaged.published_path)
        try:
            with duckdb.connect(damaged.build_path) as connection:
                connection.execute("FROM internal.meta")
                with pytest.raises(duckdb.Error, match="checksum"):
                    connection.execute("SELECT count(*) FROM pragma_storage_info('internal.wide')")
        except (duckdb.Error, pytest.fail.Exception):
            continue  # read at once, or no metadata of this table
        late += 1
        damaged.build_path.with_name("build.duckdb.open").touch()
        caplog.clear()
        with damaged._connector.build("look") as connection:
            assert connection.execute("SELECT is_complete FROM internal.meta").fetchall() == [(False,)]
        assert "A copy of warehouse.duckdb takes its place" in caplog.text
    assert late > 0
