"""The published file in a notebook: from any folder, read-only, and with a sentence where there is none."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from pipelines import notebook
from pipelines.notebook import connect
from resources.settings import types
from resources.warehouse import NotPublishedError, Warehouse
from tests.builds import lay


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    folder = tmp_path_factory.mktemp("published")
    Warehouse(lay(folder)).publish({"service": "first"})
    return folder


@pytest.fixture
def data(published, tmp_path, monkeypatch):
    """A data folder with a published file; nothing in the environment or a `.env` names another."""
    monkeypatch.delenv("WME_DATA", raising=False)
    monkeypatch.setattr(notebook, "dotenv_values", lambda _path: {})
    return shutil.copytree(published, tmp_path / "data")


def service(connection):
    with connection:
        return connection.execute("SELECT value FROM about WHERE name = 'service'").fetchall()


def test_the_folder_that_is_named(data, monkeypatch):
    monkeypatch.setenv("WME_DATA", "/nowhere")
    assert service(connect(data)) == service(connect(str(data))) == [("first",)]


def test_what_is_learnt_of_lake_files_is_kept(data):
    with connect(data) as connection:
        assert connection.execute("SELECT current_setting('parquet_metadata_cache')").fetchall() == [(True,)]


def test_the_folder_of_the_environment(data, tmp_path, monkeypatch):
    monkeypatch.setenv("WME_DATA", str(data))
    # no other setting has to be right
    monkeypatch.setenv("WME_SANDBOX", "perhaps")
    assert service(connect()) == [("first",)]


def test_the_folder_of_the_env_file(data, monkeypatch):
    monkeypatch.setattr(notebook, "dotenv_values", lambda _path: {"WME_DATA": str(data), "WME_PASSWORD": None})
    assert service(connect()) == [("first",)]
    monkeypatch.setenv("WME_DATA", "/nowhere")
    with pytest.raises(NotPublishedError, match="/nowhere/warehouse"):
        connect()


def lies_in(folder, monkeypatch):
    """The project's folder is another one: for its `.env`, and for relative folders."""
    monkeypatch.setattr(types, "PROJECT", folder)


def test_the_folder_data_of_the_project(data, tmp_path, monkeypatch):
    lies_in(tmp_path, monkeypatch)
    assert service(connect()) == [("first",)]


def test_nothing_published(data, tmp_path, monkeypatch):
    empty = tmp_path / "elsewhere"
    empty.mkdir()
    lies_in(empty, monkeypatch)
    with pytest.raises(NotPublishedError) as told:
        connect()
    assert str(empty / "data" / "warehouse.duckdb") in str(told.value)
    assert "WME_DATA" in str(told.value)
    assert "`wme run`" in str(told.value)
    assert list(empty.iterdir()) == []


def test_it_reads_only_and_shows_utc(data):
    with connect(data) as connection:
        assert connection.execute("SELECT current_setting('TimeZone')").fetchall() == [("UTC",)]
        with pytest.raises(duckdb.Error, match="read-only"):
            connection.execute("CREATE TABLE mine (a INTEGER)")
        assert connection.sql("FROM articles").to_arrow_table().num_rows == 0


def test_it_locks_nobody_out_and_each_call_sees_the_newest(data):
    with connect(data) as old:
        Warehouse(lay(data)).publish({"service": "second"})
        with connect(data) as new:
            found = [c.execute("SELECT value FROM about WHERE name = 'service'").fetchall() for c in (old, new)]
    assert found == [[("first",)], [("second",)]]


def test_it_does_not_wait_for_dagster():
    code = "import sys; from pipelines.notebook import connect; print('dagster' in sys.modules)"
    root = Path(notebook.__file__).parents[1]
    told = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert told.stdout == "False\n"
