"""Coverage: for each hour, project and namespace what became of it, so that gaps are never silent.

Belongs here: the table `hours` and the rules by which one state follows another. Does not belong here: rows.
What was once loaded stays loaded, whatever the service says of the hour later.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from resources.tables import HourState
from resources.warehouse.records import utc_text
from resources.warehouse.schema import statement

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    import duckdb

    from resources.warehouse.records import HourStatus

#: How long the service keeps hourly files, as its documentation says.
RETENTION = timedelta(hours=48)


def record_loads(connection: duckdb.DuckDBPyConnection) -> None:
    """Note, inside a transaction, that the files of the table `incoming` were loaded."""
    connection.execute(statement("coverage_loaded"))


def record(connection: duckdb.DuckDBPyConnection, statuses: Sequence[HourStatus], now: datetime) -> int:
    """Note, inside a transaction, what is known of hours without a file; returns how many rows said something new.

    Raises:
        ValueError: an hour is said to be loaded, and no file of it is.
    """
    changed = 0
    for status in statuses:
        key = [status.batch_hour, status.project_id, status.namespace_id]
        found = connection.execute(
            "SELECT h.state, h.reason, EXISTS (FROM loads l WHERE (l.batch_hour, l.project_id, l.namespace_id) "
            "= (h.batch_hour, h.project_id, h.namespace_id)) "
            "FROM hours h WHERE batch_hour = ? AND project_id = ? AND namespace_id = ?",
            key,
        ).fetchall()
        state, reason, has_file = found[0] if found else (None, None, False)
        if status.state is HourState.LOADED and not has_file:
            raise ValueError(
                f"Hour {utc_text(status.batch_hour)} of {status.project_id} {status.namespace_id} cannot be noted as loaded: "
                "no file of it is in the warehouse."
            )
        if has_file:
            continue
        row_count = 0 if status.state is HourState.EMPTY else None
        if found:
            connection.execute(
                "UPDATE hours SET state = ?, reason = ?, checked_at = ?, row_count = ? "
                "WHERE batch_hour = ? AND project_id = ? AND namespace_id = ?",
                [status.state.value, status.reason, now, row_count, *key],
            )
        else:
            connection.execute(
                "INSERT INTO hours VALUES (?, ?, ?, ?, ?, NULL, NULL, ?, ?)",
                [*key, status.state.value, row_count, now, status.reason],
            )
        changed += (state, reason) != (status.state.value, status.reason)
    return changed


def fill(
    connection: duckdb.DuckDBPyConnection,
    projects: Sequence[str],
    namespaces: Sequence[int],
    now: datetime,
    until: datetime | None,
) -> int:
    """Give every hour between the first and the last known one a row, inside a transaction; returns rows changed.

    Per project and namespace, from its first hour that had a file, or the hour of its newest snapshot's boundary, to the last
    known hour of all (or `until`, an hour, where that is later). Hours that the service no longer keeps become
    `past_retention`, the others `missing`; of those before the beginning that it no longer keeps, the rows go.
    """
    parameters = {
        "projects": list(projects),
        "namespaces": list(namespaces),
        "now": now,
        "until": until,
        "kept_from": now - RETENTION,
        "missing_reason": "The hour was not fetched; the service still keeps it, so a run or a backfill brings it in.",
        "past_reason": "The hour was not fetched while the service kept it (two days); a snapshot closes the gap.",
    }
    connection.execute(f"CREATE OR REPLACE TEMP TABLE beginnings AS {statement('beginnings')}")
    changed = 0
    for name, needed in (
        ("coverage_expire", ("kept_from", "past_reason", "now")),
        ("coverage_trim", ("past_reason",)),
        ("coverage_fill", tuple(parameters)),
    ):
        changed += int(
            connection.execute(statement(name), {each: parameters[each] for each in needed}).fetchall()[0][0]
        )
    return changed
