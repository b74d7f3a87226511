"""The storage version of the build file and of the published one."""

import duckdb
import pytest

from resources import datasets
from resources.warehouse import Warehouse, WarehouseVersionError


def storage(path):
    with duckdb.connect() as connection:
        connection.execute(f"ATTACH '{path}' AS found (READ_ONLY)")
        query = "SELECT tags['storage_version'] FROM duckdb_databases() WHERE database_name = 'found'"
        return connection.execute(query).fetchone()[0]


def test_the_oldest_is_raised_by_the_setting_kept_without_and_never_lowered(lake, data):
    hour = lake.file(0, [lake.change(1, "A", 1)])
    Warehouse(data).load_hour(lake.hour(0), [hour], dataset=datasets.ARTICLE_CHANGES)
    for setting, version, is_news in ((None, "v1.5.0", True), ("v2.0.0", "v2.0.0", True), (None, "v2.0.0", False)):
        warehouse = Warehouse(data, storage_version=setting)
        assert warehouse.publish().changed is is_news
        assert storage(warehouse.published_path) == storage(warehouse.build_path) == f"{version}+"
        assert warehouse.sql("SELECT value FROM about WHERE name = 'storage_version'").rows == [(version,)]
    with pytest.raises(WarehouseVersionError, match="can be raised but not lowered"):
        Warehouse(data, storage_version="v1.5.0").publish()
    with pytest.raises(WarehouseVersionError, match="version v9"):
        Warehouse(data, storage_version="v9.9.9").publish()
    assert warehouse.sql("SELECT name FROM articles").rows == [("A",)]
