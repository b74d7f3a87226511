"""Counts loaded rows again: whether DuckDB holds what the ledger says, once each, and in its hour.

The numbers are handed out as found; nothing is mended or judged here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from resources.datasets import ARTICLE_CHANGES
from resources.warehouse.schema import identifier, statement

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    import duckdb

    from resources.datasets import Dataset


@dataclass(frozen=True)
class HourAudit:
    """One hour: its rows, the rows its ledger promises, rows whose key is there already, events before the hour."""

    batch_hour: datetime
    row_count: int
    expected_count: int
    repeated_count: int
    early_count: int


def audit(connection: duckdb.DuckDBPyConnection, dataset: Dataset, hours: Iterable[datetime]) -> list[HourAudit]:
    """Count the rows of the given hours again, in order of the hours; an hour without a ledger row is left out."""
    table = dataset.table
    columns = [identifier(name) for name in table.key if name != "batch_hour"]
    key = {column: column for column in ('"project_id"', '"namespace_id"', *columns)}
    if dataset.name == ARTICLE_CHANGES.name:  # titles compare with _ as space
        key['"name"'] = "replace(name, '_', ' ') AS name"
    text = (
        statement("audit")
        .replace("{table}", identifier(table.name))
        .replace("{key}", ", ".join(key.values()))
        .replace("{has_key}", " AND ".join(f"{column} IS NOT NULL" for column in columns) or "false")
        .replace("{event_at}", "event_at" if "event_at" in table.schema.names else "NULL")
    )
    found = connection.sql(text, params={"hours": list(hours), "table": table.name}).to_arrow_table()
    return [HourAudit(**row) for row in found.to_pylist()]
