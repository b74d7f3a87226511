"""DuckDB's texts that the warehouse relies on; a failure here says that an entry of `workarounds` must change."""

import duckdb
import pytest

from resources.warehouse.database.workarounds import is_exhausted, is_other_storage, memory_limit


@pytest.fixture
def connection():
    with duckdb.connect() as connection:
        yield connection


def test_a_full_disk(connection):
    with pytest.raises(duckdb.IOException) as caught:
        connection.execute("COPY (FROM range(1000)) TO '/dev/full' (FORMAT csv)")
    assert is_exhausted(caught.value)
    with pytest.raises(duckdb.IOException) as caught:
        connection.execute("FROM '/absent/version number.csv'")
    assert not is_exhausted(caught.value)


def test_full_memory(connection):
    connection.execute("SET memory_limit = '10MB'; SET max_temp_directory_size = '0KB'")
    with pytest.raises(duckdb.Error) as caught:
        connection.execute("CREATE TABLE long AS SELECT range, md5(range::VARCHAR) FROM range(3_000_000)")
    assert is_exhausted(caught.value)


def test_other_storage_versions(connection, tmp_path):
    path = tmp_path / "version" / "a.duckdb"
    path.parent.mkdir()
    with pytest.raises(duckdb.Error) as caught:
        connection.execute(f"ATTACH '{path}' AS one (STORAGE_VERSION 'v9.9.9')")
    assert is_other_storage(caught.value)
    path.write_bytes(bytes(100))
    with pytest.raises(duckdb.Error) as caught:
        connection.execute(f"ATTACH '{path}' AS one")
    assert not is_other_storage(caught.value)


@pytest.mark.parametrize(("limit", "size"), [("2GB", 2e9), ("180MB", 180e6), ("900KB", 900e3)])
def test_the_memory_limit(connection, limit, size):
    connection.execute(f"SET memory_limit = '{limit}'")
    assert memory_limit(connection) == pytest.approx(size, rel=0.06)
