"""Steps that all current states share: finding the files that are pending, and marking them as applied."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import duckdb

from resources.datasets import Family, datasets
from resources.tables import Table
from resources.warehouse.database.connect import raise_revision


def applied_to(state: Table, family: Family | None = None) -> tuple[str, ...]:
    """The tables of the hours and snapshots that decide a current state, or of one of the families."""
    return tuple(dataset.name for dataset in datasets(family) if dataset.state is state)


def find_pending(connection: duckdb.DuckDBPyConnection, tables: Sequence[str], *, rebuilt: bool = False) -> None:
    """Make the table `pending`: the files of tables that a current state has not applied, or all files."""
    connection.execute(
        "CREATE OR REPLACE TEMP TABLE pending AS SELECT source_at, batch_hour, project_id, namespace_id FROM loads "
        "WHERE list_contains($tables, table_name) AND ($rebuilt OR applied_at IS NULL)",
        {"tables": list(tables), "rebuilt": rebuilt},
    )


def mark_applied(connection: duckdb.DuckDBPyConnection, tables: Sequence[str], now: datetime) -> None:
    """Mark all pending files and snapshots of tables as applied, inside a transaction."""
    for ledger in ("loads", "snapshots"):
        connection.execute(
            f"UPDATE {ledger} SET applied_at = $now WHERE applied_at IS NULL AND list_contains($tables, table_name)",  # noqa: S608
            {"now": now, "tables": list(tables)},
        )
    raise_revision(connection)


def one_number(connection: duckdb.DuckDBPyConnection, query: str) -> int:
    """The single number that a count, an insert or a delete answers with."""
    return int(connection.execute(query).fetchall()[0][0])
