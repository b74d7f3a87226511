"""Queries of `wme sql`: they read the published file and its lake, reach nothing else, and write nothing."""

import ast
import functools
import sys
from pathlib import Path

import duckdb
import pytest

from resources.warehouse import QueryError
from resources.warehouse.read.reading import confine, confined
from tests.builds import OpenWarehouse, lay
from tests.unit.warehouse.conftest import Lake

#: Ways out, of which some read and some write. `{lake}` is the folder of the lake, and `{outside}` a folder beside the
#: data folder with a file `secret.txt`. `{write}` writes a file into the lake, and `{copy}` is the same in a text.
FORBIDDEN = [*Path(__file__).with_name("forbidden.sql").read_text().splitlines(), ""]
ANSWERED = [*map(ast.literal_eval, Path(__file__).with_name("answered.txt").read_text().splitlines())]


@pytest.fixture(scope="module")
def outside(tmp_path_factory):
    """What nobody may read, and links to it."""
    folder = tmp_path_factory.mktemp("confined") / "outside"
    data = folder.with_name("data")
    for path in (folder, data / "lake", data / "state"):
        path.mkdir(parents=True)
    (folder / "secret.txt").write_text("secret")
    duckdb.connect(str(folder / "secret.duckdb")).close()
    (data / "lake" / "link").symlink_to(folder)
    (data / "state" / "tokens.json").write_text("secret")
    return folder


@pytest.fixture(scope="module")
def mirror(outside):
    """For tests that only read it."""
    data = outside.with_name("data")
    warehouse, lake = OpenWarehouse(lay(data), lock_timeout=5.0), Lake(data)
    changes = [lake.change(n, f"Page {n}", n, html=f"<p>{n}") for n in (1, 2, 3)]
    warehouse.load_hour(lake.hour(0), [lake.file(0, changes)])
    warehouse.publish()
    # an instance of its own for each query, as users have
    del warehouse._asking
    return warehouse


def tree(folder):
    """All files below a folder, with what shows that they were written."""
    found = ((str(path), path.lstat()) for path in folder.rglob("*"))
    return {name: (stat.st_size, stat.st_mtime_ns, stat.st_ino) for name, stat in found}


def rows(connection, query):
    """What a query that is confined finds."""
    found = connection.sql(confined(connection, query))
    return found and found.fetchall()


def test_no_way_out(mirror, outside, monkeypatch):
    monkeypatch.chdir(outside)
    before, lake = tree(outside.parent), str(mirror.data / "lake")
    write = f"COPY (SELECT 1) TO '{lake}/written.csv'"
    given = {"{lake}": lake, "{outside}": str(outside), "{write}": write, "{copy}": write.replace("'", "''")}
    with mirror.connect_published() as connection:
        confine(connection, [(mirror.data / "lake").resolve()])
        for query in FORBIDDEN:
            asked = functools.reduce(lambda text, name: text.replace(name, given[name]), given, query)
            with pytest.raises((QueryError, duckdb.Error)):
                pytest.fail(f"{asked}: {rows(connection, asked)}")
            assert tree(outside.parent) == before, asked
            assert connection.sql("SELECT count(*) FROM main.articles").fetchall() == [(3,)], asked
    # no variable of this program is a table
    monkeypatch.setattr(sys.modules[__name__], "leaked", mirror.sql("SELECT 1").table, raising=False)
    with pytest.raises(QueryError, match="leaked"):
        mirror.sql("FROM leaked", is_confined=True)


def test_queries_are_answered(mirror):
    with mirror.connect_published() as connection:
        confine(connection, [(mirror.data / "lake").resolve()])
        for query, expected in ANSWERED:
            assert rows(connection, query) == expected, query
    options = ("", " (FORMAT json)", " analyze", "(Analyze, format 'json')")
    explained = (f"EXPLAIN{option} FROM articles" for option in options)
    for query in ("SHOW TABLES", "DESCRIBE articles", "SUMMARIZE articles", *explained):
        assert mirror.sql(query, is_confined=True).rows
    exact = {"INTERVAL 25 HOUR a": "25:00:00", "[BIT '10']": "[10]", "'9'::BIGNUM": "9", "'[1]'::JSON::VARIANT": "[1]"}
    exact |= {"TIMETZ '01:02:03+05'": "01:02:03+05", "TIME_NS '00:00:00.000000001'": "00:00:00.000000001", "2 AS b": 2}
    exact |= {"make_timestamp_ns(1)": "1970-01-01 00:00:00.000000001", f"{2**128 - 1}::UHUGEINT": str(2**128 - 1)}
    found = mirror.sql(f"SELECT {', '.join(exact)}", is_confined=True)
    assert (found.rows, found.columns[:7:6]) == ([tuple(exact.values())], ("a", "b"))
    files = f"read_parquet('{mirror.data}/lake/article_changes/**/*.parquet')"
    assert mirror.sql(f"SELECT count(*) FROM {files}", is_confined=True).rows == [(3,)]
    found = mirror.sql("FROM range(130_000) AS t(n) ORDER BY hash(n)", is_confined=True).rows
    assert found == mirror.sql("FROM range(130_000) AS t(n) ORDER BY hash(n)").rows


def test_refusals_say_what_to_do(mirror):
    for query, told in (
        ("COPY (SELECT 1) TO 'x'; FROM articles", r"this is COPY, SELECT\. Nothing was done.*--allow-files"),
        (" ; ", r"and this is nothing\. Nothing was done"),
        ("SELECT '\udce9'", r"is not valid UTF-8\. Nothing was done\. Check the encoding"),
        ("FROM query('SELECT 1')", r"query\(\) is not a read-only table function.*--allow-files"),
        ("FROM read_text('/etc/hostname')", "Permission Error.*--allow-files removes this restriction.*wme relocate"),
    ):
        with pytest.raises(QueryError, match=told):
            mirror.sql(query, is_confined=True)


def test_large_queries_spill(mirror, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    query = "SELECT count(*) FROM (SELECT hash(i) AS h, repeat('x', 60) AS t FROM range(600_000) AS r(i) ORDER BY h, t)"
    query = query.replace("count(*)", "count(DISTINCT (h, t))")

    def ask(*settings):
        with mirror.connect_published() as connection:
            for setting in ("threads = 1", "memory_limit = '40MB'", *settings):
                connection.execute(f"SET {setting}")
            confine(connection, [mirror.data / "lake"])
            return connection.sql(confined(connection, query)).fetchall()

    with pytest.raises(duckdb.OutOfMemoryException):
        ask("max_temp_directory_size = '0KB'")
    assert ask() == [(600_000,)]
    assert not (tmp_path / ".tmp").exists()
