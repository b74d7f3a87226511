"""Instances of DuckDB that are kept: nothing passes from one user to the next, and none is kept that may be spoilt."""

import os

import duckdb
import pytest

from resources.warehouse.database.sql import NAME, Instances


@pytest.fixture
def instances():
    made = Instances()
    yield made
    made.end()


def attach(connection, path):
    connection.execute(f"ATTACH '{path}' AS {NAME}")
    connection.execute(f"USE {NAME}")


def idle(instances):
    return [one for of_limit in instances._idle.values() for one in of_limit]


def test_one_serves_file_after_file_and_nothing_passes_on(instances, tmp_path):
    with instances.connection() as connection:
        asked = [f"current_setting('{name}_known_extensions')" for name in ("autoinstall", "autoload")]
        query = f"SELECT txid_current() > 0, current_setting('TimeZone'), {', '.join(asked)}"
        assert connection.execute(query).fetchall() == [(True, "UTC", False, False)]
        attach(connection, tmp_path / "one.duckdb")
        connection.execute("CREATE TABLE here AS SELECT 1 AS n")
        connection.execute("CREATE TEMP TABLE passing AS SELECT 1 AS n")
        connection.execute("SET VARIABLE passing = 1")
        connection.execute("SET TimeZone = 'Asia/Tokyo'")
    [instance] = idle(instances)
    # as after the end of an instance: there is no log, and the file is whole for everybody
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.duckdb"]
    with instances.connection() as connection:
        assert idle(instances) == []
        attach(connection, tmp_path / "other.duckdb")
        assert connection.execute("SHOW TABLES").fetchall() == []
        found = connection.execute("SELECT getvariable('passing'), current_setting('TimeZone')").fetchall()
        assert found == [(None, "UTC")]
    assert idle(instances) == [instance]
    with duckdb.connect(tmp_path / "one.duckdb", read_only=True) as connection:
        assert connection.execute("FROM here").fetchall() == [(1,)]


def test_users_at_the_same_time_have_one_each(instances, tmp_path):
    with instances.connection() as one, instances.connection() as other:
        attach(one, tmp_path / "one.duckdb")
        attach(other, tmp_path / "other.duckdb")
        one.execute("CREATE TABLE only_here (n INTEGER)")
        assert other.execute("SHOW TABLES").fetchall() == []
    assert len(idle(instances)) == 2
    with instances.connection(), instances.connection(), instances.connection():
        pass
    assert len(idle(instances)) == 2
    with instances.connection(memory_limit="50MB") as connection:
        limit = connection.execute("SELECT current_setting('memory_limit')").fetchall()
    with instances.connection() as connection:
        assert connection.execute("SELECT current_setting('memory_limit')").fetchall() != limit


def test_one_that_failed_or_spilled_is_ended(instances, tmp_path):
    def fail():
        with instances.connection() as connection:
            attach(connection, tmp_path / "one.duckdb")
            connection.execute("BEGIN")
            connection.execute("CREATE TABLE never (n INTEGER)")
            connection.execute("FROM nowhere")

    with pytest.raises(duckdb.CatalogException):
        fail()
    assert idle(instances) == []
    spill = tmp_path / "spill"
    with instances.connection(spill) as connection:
        attach(connection, tmp_path / "one.duckdb")
        assert connection.execute("SHOW TABLES").fetchall() == []
        connection.execute(f"SET temp_directory = '{spill}'")
        connection.execute("SET memory_limit = '20MB'")
        connection.execute("SET threads = 1")
        rows = "SELECT hash(range) AS n, repeat('x', 90) AS t FROM range(400_000)"
        connection.execute(f"CREATE TEMP TABLE large AS {rows}")
        assert spill.exists()
    assert idle(instances) == []
    assert not spill.exists()


def test_a_process_that_is_forked_inherits_none(instances):
    with instances.connection():
        pass
    assert len(idle(instances)) == 1
    pid = os.fork()
    if pid == 0:
        try:
            inherited = len(idle(instances))
            with instances.connection() as connection:
                [(found,)] = connection.execute("SELECT sum(range) FROM range(1_000_000)").fetchall()
            os._exit(inherited if found == 499_999_500_000 else 9)
        finally:
            os._exit(8)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
