"""Looking again at what was loaded: does DuckDB hold what the ledger says, once each, and in its hour?

Belongs here: questions whose answer must be the same for every load. Does not belong here: mending, and judging: the
numbers are handed out as found.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from resources.warehouse.schema import statement

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    import duckdb


@dataclass(frozen=True)
class HourAudit:
    """What was found of one hour: rows, the rows its ledger promises, events standing twice, events before the hour."""

    batch_hour: datetime
    row_count: int
    expected_count: int
    repeated_count: int
    early_count: int


def audit(connection: duckdb.DuckDBPyConnection, hours: Iterable[datetime]) -> list[HourAudit]:
    """Count the rows of the given hours anew, in order of the hours; an hour without a ledger row is left out."""
    found = connection.sql(statement("audit"), params={"hours": list(hours)}).to_arrow_table()
    return [HourAudit(**row) for row in found.to_pylist()]
