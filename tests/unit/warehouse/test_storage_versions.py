"""The published file in either storage version, and in the hands of another DuckDB than the one that made it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from resources import datasets
from resources.tables import HourState
from resources.warehouse import HourStatus, Warehouse, WarehouseVersionError
from tests.builds import NO_BAR, lay

#: Folder with another DuckDB than the installed one. `make test` makes it and names it here.
OTHER = "TEST_OTHER_DUCKDB"

#: What a client with nothing but DuckDB does: it opens the first file and attaches the others. It prints the version
#: and, as JSON, the answers or the error.
CLIENT = """
import duckdb, json, sys
questions = json.loads(sys.argv[1])
def ask(connection):
    found = {}
    for question in questions:
        try:
            found[question] = len(connection.execute(question).fetchall())
        except duckdb.Error as error:
            found[question] = str(error)
    return found
def attached(path):
    connection = duckdb.connect()
    try:
        connection.execute(f"ATTACH '{path}' AS mirror (READ_ONLY); USE mirror")
    except duckdb.Error as error:
        return str(error)
    return ask(connection)
first, *others = sys.argv[2:]
print(json.dumps([duckdb.__version__, ask(duckdb.connect(first, read_only=True)), *map(attached, others)]))
"""
ANSWERS = {
    "DESCRIBE article_bodies": 7,
    "FROM articles": 3,
    "FROM article_changes": 2,
    "FROM loads": 2,
    "FROM article_bodies": 3,
    "FROM snapshot_articles": 1,
    "FROM articles_at(TIMESTAMPTZ '2026-11-01 12:00:00+00', inexact := true)": 3,
    "FROM articles_at(TIMESTAMPTZ '2026-11-01 12:00:00+00', project := 'frwiki')": 1,
    "FROM find_article('enwiki', 'A')": 1,
    "FROM article_history('enwiki', 'A')": 1,
    "FROM changes_between(TIMESTAMPTZ '2026-11-01', TIMESTAMPTZ '2026-11-02')": 2,
    "FROM activity": 1,
    "FROM project_state": 2,
}


def filled(data, make_lake, **options):
    lake = make_lake(data)
    warehouse = Warehouse(data, lock_timeout=5.0, **options)
    rows = [lake.change(1, "A", 1, html="h", wikitext="t"), lake.change(2, "B", 2, html="h")]
    warehouse.load_hour(lake.hour(0), [lake.file(0, rows)], dataset=datasets.ARTICLE_CHANGES)
    warehouse.load_snapshot(lake.snapshot([[lake.change(5, "E", 10, html="e")]], "frwiki"))
    warehouse.publish()
    return warehouse


def storage(path):
    with duckdb.connect() as connection:
        connection.execute(f"ATTACH '{path}' AS found (READ_ONLY)")
        (found,) = connection.execute(
            "SELECT tags['storage_version'] FROM duckdb_databases() WHERE database_name = 'found'"
        ).fetchone()
        return found


def ask(folder, *files, **environ):
    command = [sys.executable, "-c", NO_BAR + CLIENT, json.dumps(list(ANSWERS)), *map(str, files)]
    told = subprocess.run(command, cwd=folder, env=os.environ | environ, capture_output=True, timeout=120, check=True)
    return json.loads(told.stdout)


@pytest.fixture(scope="module")
def old(tmp_path_factory, make_lake):
    return filled(lay(tmp_path_factory.mktemp("old") / "data"), make_lake)


@pytest.fixture(scope="module")
def new(tmp_path_factory, make_lake):
    return filled(tmp_path_factory.mktemp("new") / "data", make_lake, storage_version="v2.0.0")


def test_the_installed_duckdb_answers_from_both_and_from_anywhere(old, new, tmp_path):
    assert (storage(old.published_path), storage(new.published_path)) == ("v1.5.0+", "v2.0.0+")
    found = ask(tmp_path, old.published_path, new.published_path)
    assert found == [duckdb.__version__, ANSWERS, ANSWERS]
    for warehouse in (old, new):
        [(told,)] = warehouse.sql("SELECT value FROM about WHERE name = 'storage_version'").rows
        assert told + "+" == storage(warehouse.published_path)


def test_another_duckdb_answers_the_same(old, new, tmp_path):
    folder = os.environ.get(OTHER)
    if folder is None:
        pytest.skip(f"{OTHER} names no folder with another DuckDB, as it does in `make test`")
    path = str(Path(folder).resolve())
    version, *found, of_new = ask(tmp_path, *[old.published_path] * 2, new.published_path, PYTHONPATH=path)
    assert version != duckdb.__version__
    assert found == [ANSWERS, ANSWERS]
    if version.startswith("1."):
        assert "we can only read versions between" in of_new


def test_raised_by_the_setting_kept_without_and_never_lowered(old, make_lake, tmp_path):
    data = shutil.copytree(old.data, tmp_path / "data")
    raised = Warehouse(data, lock_timeout=5.0, storage_version="v2.0.0")
    raised.record_statuses(
        [HourStatus(make_lake.hour(1), "enwiki", 0, HourState.NOT_YET)], dataset=datasets.ARTICLE_CHANGES
    )
    assert raised.publish().changed
    assert storage(raised.published_path) == storage(raised.build_path) == "v2.0.0+"
    kept = Warehouse(data, lock_timeout=5.0)
    assert not kept.publish().changed
    assert storage(kept.build_path) == "v2.0.0+"
    with pytest.raises(WarehouseVersionError, match="can be raised but not lowered"):
        Warehouse(data, storage_version="v1.5.0").publish()
    with pytest.raises(WarehouseVersionError, match="version v9"):
        Warehouse(data, storage_version="v9.9.9").publish()
    assert kept.sql("SELECT count(*) FROM articles").rows == [(3,)]
