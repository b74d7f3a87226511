"""Deduplication: of several rows with one key, only one counts.

The rule of the dataset selects it. The others are hidden (`internal.hidden_rows`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from resources.datasets import Family
from resources.warehouse.database.schema import INTERNAL_COLUMNS
from resources.warehouse.database.sql import FORMULAS, column_list, filled, identifier

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb

    from resources.datasets import Dataset

# Repeated rows are few: their keys are found by short columns before anything is sorted or compared in full.
_SUSPECTS = """
CREATE OR REPLACE TEMP TABLE suspects AS
SELECT {numbered}
FROM (SELECT *, {title} AS title FROM read_parquet($paths, filename := true, hive_partitioning := false))
GROUP BY ALL
HAVING count(*) > 1
"""
_REPEATED = """
CREATE OR REPLACE TEMP TABLE repeated AS
SELECT filename AS path, file_row_number AS file_row
FROM (
  SELECT *, {title} AS title
  FROM read_parquet($paths, filename := true, file_row_number := true, hive_partitioning := false)
) AS file
SEMI JOIN suspects ON {is_suspect}
QUALIFY row_number() OVER (PARTITION BY {full_key} ORDER BY {newest_first}filename, file_row_number) > 1
"""
_NONE_REPEATED = "CREATE OR REPLACE TEMP TABLE repeated (path VARCHAR, file_row BIGINT)"
_COUNT = """
UPDATE incoming SET duplicate_count = copies.number
FROM (SELECT path, count(*) AS number FROM repeated GROUP BY path) AS copies
WHERE incoming.path = copies.path
"""
_HIDE = """
INSERT INTO internal.hidden_rows
SELECT lake_path, file_row, 'repeated', batch_hour, project_id, namespace_id
FROM repeated JOIN incoming USING (path)
"""
_INSERT = """
INSERT INTO {table} BY NAME
SELECT {columns}
FROM read_parquet($paths, filename := true, file_row_number := true, hive_partitioning := false) AS file
ANTI JOIN repeated ON file.filename = repeated.path AND file.file_row_number = repeated.file_row
"""
#: How the columns follow from a row of a file that the pipeline knows besides those of the table.
_INTERNAL = {"event_key": FORMULAS["event_key"], "file_row": "file_row_number"}


def hide_repeated(connection: duckdb.DuckDBPyConnection, dataset: Dataset, paths: Sequence[str]) -> int:
    """Hide the repeated rows of the files of `incoming`, and note their number there; returns the number in all.

    An hour's file is compared with itself, since files overlap on purpose; a version of a snapshot with all its files.
    Afterwards the temporary table `repeated` has the rows.
    """
    rule, files = dataset.uniqueness, {"paths": list(paths)}
    connection.execute(_NONE_REPEATED)
    if not rule.key or not paths:
        return 0
    key = ["filename", *rule.key] if dataset.family is Family.HOURLY else [*rule.key]
    parts = {
        "numbered": ", ".join(f"{one} AS key_{number}" for number, one in enumerate(key)),
        "is_suspect": " AND ".join(f"{one} = suspects.key_{number}" for number, one in enumerate(key)),
        "full_key": ", ".join([*key, *rule.further]),
        "newest_first": "".join(f"{one}, " for one in rule.newest_first),
        "title": "replace(name, '_', ' ')" if "name" in dataset.table.schema.names else "NULL",
    }
    connection.execute(filled(_SUSPECTS, **parts), files)
    if not connection.execute("SELECT count(*) FROM suspects").fetchall()[0][0]:
        return 0
    connection.execute(filled(_REPEATED, **parts), files)
    connection.execute(_COUNT)
    return int(connection.execute(_HIDE).fetchall()[0][0])


def insert_once(connection: duckdb.DuckDBPyConnection, dataset: Dataset, paths: Sequence[str]) -> int:
    """Insert the rows of the files of `incoming` that `hide_repeated` has left, less their bodies.

    Return the number of rows.
    """
    table = dataset.table.narrow
    more = "".join(f", {_INTERNAL[name]} AS {name}" for name in INTERNAL_COLUMNS.get(table.name, ()))
    query = filled(_INSERT, table=identifier(table.name), columns=column_list(table) + more)
    return int(connection.execute(query, {"paths": list(paths)}).fetchall()[0][0]) if paths else 0
