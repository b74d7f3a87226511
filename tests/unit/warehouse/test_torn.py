"""A kill amid the one write that DuckDB makes in place: nothing is lost, and other damage is not taken for it."""

from __future__ import annotations

import contextlib
import logging
import shutil
import subprocess
import sys
from types import SimpleNamespace

import duckdb
import pytest

from resources.warehouse import Warehouse, WarehouseDamagedError
from resources.warehouse.database.file_format import BLOCK_BYTES, HEADER_BYTES, checksum

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
PAGE = 4096
ROWS = "SELECT part, count(*), sum(hash(COLUMNS('^c.*'))) FROM wide GROUP BY part ORDER BY part"


@pytest.fixture(scope="module")
def before_and_after(tmp_path_factory):
    """A build file whose metadata are several blocks: as the process that was killed left it, and after the checkpoint that it was about to make."""
    data = tmp_path_factory.mktemp("torn") / "data"
    warehouse = Warehouse(data)
    with warehouse._connector.build("fill the catalog") as connection:
        # so that the places of the rows are in blocks that DuckDB does not read when it opens the file
        connection.execute(f"CREATE VIEW padding AS SELECT '{'x' * 150_000}' AS x")
    for parts in (range(120), range(120, 121), range(121, 122)):  # the second and third leave parts of blocks free
        with warehouse._connector.build("add rows") as connection:
            columns = ", ".join(f"c{number} VARCHAR" for number in range(100))
            connection.execute(f"CREATE TABLE IF NOT EXISTS wide (part INTEGER, {columns})")
            for part in parts:  # a row group each, with the places of a hundred columns
                values = ", ".join(f"'{part}-{number}'" for number in range(100))
                connection.execute(f"INSERT INTO wide SELECT {part}, {values} FROM range(3)")
    killed = subprocess.run([sys.executable, "-c", PROGRAM, str(data)], check=False, capture_output=True, text=True)
    assert killed.returncode == -9, killed.stderr
    names = {path.name for path in warehouse.build_path.parent.iterdir()}
    assert names == {"build.duckdb", "build.duckdb.wal", "build.duckdb.open"}
    after = data.with_name("after")
    shutil.copytree(data, after)
    with Warehouse(after)._connector.build("make the checkpoint") as connection:
        rows = connection.execute(ROWS).fetchall()
    old, new = (Warehouse(folder).build_path.read_bytes() for folder in (data, after))
    in_place = [
        start
        for start in range(HEADER_BYTES, len(old), BLOCK_BYTES)
        if old[start : start + BLOCK_BYTES] != new[start : start + BLOCK_BYTES] and any(old[start : start + 8])
    ]
    return SimpleNamespace(data=data, old=old, new=new, rows=rows, in_place=in_place)


def torn(made, tmp_path, pages, blocks=None):
    """A mirror in which these pages of the blocks that were written in place are already new."""
    data = tmp_path / "data"
    shutil.copytree(made.data, data)
    content = bytearray(made.old)
    for start in made.in_place if blocks is None else blocks:
        for page in pages:
            place = slice(start + page * PAGE, start + (page + 1) * PAGE)
            content[place] = made.new[place]
    warehouse = Warehouse(data)
    warehouse.build_path.write_bytes(content)
    return warehouse


def asked_plainly(warehouse, folder, query):
    """The answer of DuckDB alone, to a copy."""
    copied = shutil.copytree(warehouse.build_path.parent, folder)
    with duckdb.connect() as connection:
        connection.execute(f"ATTACH '{copied / 'build.duckdb'}' AS build")
        return connection.execute(query).fetchall()


def test_the_checksum_is_duckdbs(before_and_after):
    assert before_and_after.in_place
    blocks = [before_and_after.new[start : start + BLOCK_BYTES] for start in before_and_after.in_place]
    assert [checksum(block) for block in blocks] == [int.from_bytes(block[:8], "little") for block in blocks]


@pytest.mark.parametrize("pages", [range(1), range(1, 64), range(20), range(40, 64), range(0, 64, 2)])
def test_what_was_committed_is_there(before_and_after, tmp_path, caplog, pages):
    warehouse = torn(before_and_after, tmp_path, pages)
    with pytest.raises(duckdb.Error, match="Corrupt database file"):
        asked_plainly(warehouse, tmp_path / "copied", "SELECT sum(hash(COLUMNS(*))) FROM build.wide")
    with caplog.at_level(logging.WARNING), warehouse._connector.build("look") as connection:
        assert connection.execute(ROWS).fetchall() == before_and_after.rows
    assert "A process was killed, or the power failed, while DuckDB wrote build.duckdb" in caplog.text
    assert {path.name for path in warehouse.build_path.parent.iterdir()} == {"build.duckdb"}
    caplog.clear()
    with warehouse._connector.build("look again") as connection:
        assert connection.execute(ROWS).fetchall() == before_and_after.rows
    assert not caplog.text


def test_a_block_that_duckdb_reads_late_is_found_at_once(before_and_after, tmp_path):
    for block in before_and_after.in_place:  # which of them that is depends on the size of the catalog before the table
        warehouse = torn(before_and_after, tmp_path / str(block), range(20), [block])
        with contextlib.suppress(duckdb.Error):
            assert asked_plainly(warehouse, tmp_path / f"opened-{block}", "SELECT 1") == [(1,)]
            break
    with pytest.raises(duckdb.Error, match=f"at location {block}"):
        asked_plainly(warehouse, tmp_path / "asked", "SELECT sum(hash(COLUMNS(*))) FROM build.wide")
    with warehouse._connector.build("look"):
        pass
    assert asked_plainly(warehouse, tmp_path / "mended", "SELECT count(*) FROM build.wide") == [
        (sum(row[1] for row in before_and_after.rows),)
    ]


def test_what_nobody_left_open_is_not_mended(before_and_after, tmp_path):
    block, *_ = before_and_after.in_place
    warehouse = torn(before_and_after, tmp_path, range(20), [block])
    warehouse.build_path.with_name("build.duckdb.open").unlink()
    refused = r"could not count.*Corrupt.*published stays.*wme rebuild"
    for _ in range(2):
        with (
            pytest.raises(WarehouseDamagedError, match=refused) as caught,
            warehouse._connector.build("count") as connection,
        ):
            connection.execute(ROWS).fetchall()
        assert not caught.value.retryable
    assert not warehouse.build_path.with_name("build.duckdb.open").exists()


def test_whoever_cannot_open_it_leaves_the_mending_to_the_next(before_and_after, tmp_path):
    warehouse = torn(before_and_after, tmp_path, range(20))
    with pytest.raises(WarehouseDamagedError, match="could not bring articles up to date"):
        Warehouse(warehouse.data, memory_limit="some").apply_changes()
    assert warehouse.build_path.with_name("build.duckdb.open").exists()
    with warehouse._connector.build("look") as connection:
        assert connection.execute(ROWS).fetchall() == before_and_after.rows
    assert {path.name for path in warehouse.build_path.parent.iterdir()} == {"build.duckdb"}


def test_damage_of_rows_is_not_mended(before_and_after, tmp_path):
    """Rows are never written in place: a block of them with a wrong checksum is what a disk did."""
    warehouse = torn(before_and_after, tmp_path, ())
    with warehouse._connector.build("ask where rows are") as connection:
        [(block,)] = connection.execute(
            "SELECT max(block_id) FROM pragma_storage_info('wide') WHERE block_id >= 0"
        ).fetchall()
    warehouse.build_path.with_name("build.duckdb.open").touch()
    with warehouse.build_path.open("r+b") as file:
        file.seek(HEADER_BYTES + block * BLOCK_BYTES + 100)
        file.write(b"rot")
    before = warehouse.build_path.read_bytes()
    with (
        pytest.raises(WarehouseDamagedError, match="could not count"),
        warehouse._connector.build("count") as connection,
    ):
        connection.execute(ROWS).fetchall()
    assert warehouse.build_path.read_bytes() == before
