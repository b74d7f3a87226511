"""DuckDB's memory limit while something is read that will not be read again."""

from __future__ import annotations

import duckdb
import pytest

from resources.warehouse.database.memory import keeping_nothing_read, limit_of

_SUM = "SELECT bit_xor(key) FROM keys"


@pytest.fixture
def connection(tmp_path):
    """A file with 40 MB of keys, of which nothing is in memory, and a temporary table that is."""
    path = tmp_path / "keys.duckdb"
    with duckdb.connect(path) as made:
        made.execute("CREATE TABLE keys AS SELECT hash(number) AS key FROM range(5_000_000) numbers(number)")
    with duckdb.connect(path, config={"memory_limit": "64MB", "threads": 1}) as connection:
        connection.execute("CREATE TEMP TABLE held AS SELECT hash(number) AS key FROM range(500_000) numbers(number)")
        yield connection


def in_memory(connection, tag):
    query = "SELECT memory_usage_bytes, temporary_storage_bytes FROM duckdb_memory() WHERE tag = ?"
    return connection.execute(query, [tag]).fetchall()[0]


def test_what_was_read_goes_and_what_was_held_stays(connection):
    before, held = limit_of(connection), in_memory(connection, "IN_MEMORY_TABLE")
    with keeping_nothing_read(connection, 0):
        assert limit_of(connection) < 20_000_000
        connection.execute(_SUM).fetchall()
        assert in_memory(connection, "BASE_TABLE")[0] < 9_000_000
    assert in_memory(connection, "IN_MEMORY_TABLE") == held
    assert limit_of(connection) == before
    # it is what DuckDB keeps otherwise
    connection.execute(_SUM).fetchall()
    assert in_memory(connection, "BASE_TABLE")[0] > 30_000_000


def test_the_limit_is_never_raised_and_comes_back_after_an_error(connection):
    before = limit_of(connection)
    with keeping_nothing_read(connection, 1 << 40):
        assert limit_of(connection) == before
    with pytest.raises(duckdb.CatalogException), keeping_nothing_read(connection, 0):
        connection.execute("FROM nowhere")
    assert limit_of(connection) == before


def test_a_result_has_the_memory_that_is_named(connection):
    keys = "CREATE TEMP TABLE found AS SELECT keys.key FROM keys JOIN held USING (key)"
    with keeping_nothing_read(connection, 500_000 * 100):
        connection.execute(keys)
    assert connection.execute("SELECT count(*) FROM found").fetchall() == [(500_000,)]
