"""The published file in a notebook: from any folder, read-only, and with a sentence where there is none."""

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


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A data folder with a published file; nothing in the environment or a `.env` names another."""
    Warehouse(lay(tmp_path / "data")).publish({"service": "first"})
    monkeypatch.delenv("WME_DATA", raising=False)
    monkeypatch.setattr(notebook, "dotenv_values", lambda _path: {})
    return tmp_path / "data"


def service(connection):
    with connection:
        return connection.execute("SELECT value FROM about WHERE name = 'service'").fetchall()


def test_it_reads_only_shows_utc_locks_nobody_out_and_keeps_what_it_learns_of_lake_files(data):
    with connect(data) as old:
        assert old.execute("SELECT current_setting('parquet_metadata_cache')").fetchall() == [(True,)]
        assert old.execute("SELECT current_setting('TimeZone')").fetchall() == [("UTC",)]
        with pytest.raises(duckdb.Error, match="read-only"):
            old.execute("CREATE TABLE mine (a INTEGER)")
        assert old.sql("FROM articles").to_arrow_table().num_rows == 0
        # each call sees the newest
        Warehouse(lay(data)).publish({"service": "second"})
        assert (service(connect(data)), service(old)) == ([("second",)], [("first",)])


def test_the_folder_is_that_of_the_call_of_the_environment_or_of_the_env_file(data, monkeypatch, tmp_path):
    monkeypatch.setattr(notebook, "dotenv_values", lambda _path: {"WME_DATA": str(data), "WME_PASSWORD": None})
    assert service(connect()) == [("first",)]
    monkeypatch.setenv("WME_DATA", "/nowhere")
    with pytest.raises(NotPublishedError, match="/nowhere/warehouse"):
        connect()
    assert service(connect(data)) == service(connect(str(data))) == [("first",)]
    monkeypatch.setenv("WME_DATA", str(data))
    # no other setting has to be right
    monkeypatch.setenv("WME_SANDBOX", "perhaps")
    assert service(connect()) == [("first",)]


def test_the_folder_data_of_the_project_or_nothing_is_published(data, tmp_path, monkeypatch):
    monkeypatch.setattr(types, "PROJECT", tmp_path)
    assert service(connect()) == [("first",)]
    empty = tmp_path / "elsewhere"
    empty.mkdir()
    monkeypatch.setattr(types, "PROJECT", empty)
    monkeypatch.chdir(tmp_path)
    for given in ((), ("elsewhere/data",)):
        with pytest.raises(NotPublishedError) as told:
            connect(*given)
        assert str(told.value) == (
            f"There is no published file {empty}/data/warehouse.duckdb. If this is not the data folder, specify the "
            "folder, for example connect('/srv/mirror/data'), or set WME_DATA. If nothing has been published yet, run "
            "`wme run`."
        )
    assert list(empty.iterdir()) == []


def test_it_does_not_wait_for_dagster():
    code = "import sys; from pipelines.notebook import connect; print('dagster' in sys.modules)"
    root = Path(notebook.__file__).parents[1]
    told = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert told.stdout == "False\n"
