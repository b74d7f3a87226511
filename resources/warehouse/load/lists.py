"""Loads lists: a table is replaced as a whole by the rows of one lake file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from resources.warehouse.database.connect import raise_revision
from resources.warehouse.database.sql import column_list, identifier, transaction
from resources.warehouse.load.files import checked_row_count

if TYPE_CHECKING:
    from pathlib import Path

    import duckdb

    from resources.datasets import Dataset


def load_list(connection: duckdb.DuckDBPyConnection, dataset: Dataset, path: Path) -> int:
    """Replace a table by the rows of a lake file; returns their number.

    Raises:
        LakeFileError: the file is absent or of other columns.
    """
    table = dataset.table
    row_count = checked_row_count(path, table)
    name, columns = identifier(table.name), column_list(table.narrow)
    source = f"SELECT {columns} FROM read_parquet($path, hive_partitioning := false)"  # noqa: S608  declared names
    target = f"SELECT {columns} FROM {name}"  # noqa: S608
    with transaction(connection):
        difference = connection.execute(
            f"SELECT count(*) FROM ((({source}) EXCEPT ALL ({target})) UNION ALL (({target}) EXCEPT ALL ({source})))",  # noqa: S608
            {"path": str(path)},
        ).fetchall()[0][0]
        if difference:
            connection.execute(f"DELETE FROM {name}")  # noqa: S608
            connection.execute(f"INSERT INTO {name} BY NAME {source}", {"path": str(path)})
            raise_revision(connection)
    return row_count
