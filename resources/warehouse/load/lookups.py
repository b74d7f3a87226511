"""Loads lookups: the answers of a run, and what they say of the pages of `articles`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb

from resources.datasets import LOOKUPS
from resources.datasets.paths import hour_folder
from resources.warehouse.database.connect import raise_revision
from resources.warehouse.database.sql import column_list, filled, transaction
from resources.warehouse.load.files import announce, check_counts, enter, lake_path, unreadable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from pathlib import Path

    from resources.lake_files import ConvertedFile
    from resources.warehouse.database.connect import Build

_INSERT = """
INSERT INTO lookups BY NAME
SELECT {columns}, {event_key} AS event_key
FROM (SELECT *, event_type AS change_type FROM read_parquet($paths, hive_partitioning := false))
"""
_OF_FILE = "(project_id, namespace_id, source_at)"
_INCOMING = "SELECT project_id, namespace_id, source_at FROM incoming"
_LATER = (
    "SELECT later.project_id, later.namespace_id, later.source_at FROM loads AS later "
    "JOIN (SELECT project_id, namespace_id, min(source_at) AS source_at FROM incoming GROUP BY ALL) AS first "
    "ON later.project_id = first.project_id AND later.source_at >= first.source_at "
    "WHERE later.table_name = 'lookups'"
)
_EARLIER = (
    "SELECT project_id, namespace_id, source_at FROM lookups AS earlier SEMI JOIN "  # noqa: S608  constants
    f"(FROM lookups WHERE {_OF_FILE} IN ({_INCOMING})) AS again ON earlier.project_id = again.project_id "
    "AND replace(earlier.asked_name, '_', ' ') = replace(again.asked_name, '_', ' ') WHERE NOT is_found"
)


def load_lookups(build: Build, files: Sequence[ConvertedFile], *, reload: bool = False) -> int:
    """Load lookup responses about single pages in one transaction; return the rows of the new files.

    Files that are loaded under the same digest are skipped unless `reload`. Two files together show that a title was
    not found twice; a third may show that it was found after all. So later files of the same project and namespace are
    applied again, and so are earlier ones that did not find a title requested here. The result never depends on the
    order in which files are loaded.

    Raises:
        LakeFileError: a file is absent or does not hold what was announced; nothing was changed.
    """
    connection, lake_root, now = build
    with transaction(connection):
        known = set(connection.execute("SELECT source_at, digest FROM loads WHERE table_name = 'lookups'").fetchall())
        fresh = [file for file in files if reload or (file.source_at, file.digest) not in known]
        if not fresh:
            return 0
        _replace(connection, lake_root, fresh, now)
        raise_revision(connection)
    return sum(file.row_count for file in fresh)


def _replace(
    connection: duckdb.DuckDBPyConnection, lake_root: Path, files: Sequence[ConvertedFile], now: datetime
) -> None:
    announced = []
    for file in files:
        check_counts(file, LOOKUPS.table)
        assert file.source_at is not None  # of lookups
        hour = file.source_at.replace(minute=0, second=0, microsecond=0)
        path = lake_path(lake_root, f"{LOOKUPS.name}/{hour_folder(hour)}", file.path)
        its = {"table_name": LOOKUPS.name, "batch_hour": None, "lake_path": path, "loaded_at": now, "applied_at": None}
        announced.append((file, its | {"redone": False}))
    announce(connection, announced)
    for table in (LOOKUPS.name, "rejects", "loads"):
        ours = "" if table == LOOKUPS.name else "table_name = 'lookups' AND "
        connection.execute(f"DELETE FROM {table} WHERE {ours}{_OF_FILE} IN ({_INCOMING})")  # noqa: S608  declared names
    try:
        insert = filled(_INSERT, columns=column_list(LOOKUPS.table.narrow))
        connection.execute(insert, {"paths": [str(file.path) for file in files]})
        enter(connection)
    except duckdb.Error as error:
        raise unreadable("the lookups", files, LOOKUPS.table, error) from error
    connection.execute(
        f"UPDATE loads SET applied_at = NULL WHERE table_name = 'lookups' AND {_OF_FILE} IN ({_LATER} UNION {_EARLIER})"  # noqa: S608
    )
