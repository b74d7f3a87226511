"""Coverage: what became of each hour of a dataset, per project and namespace, so that gaps are never silent.

A loaded hour stays loaded, even if the service later reports another state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from resources.datasets import ARTICLE_CHANGES, RETENTION
from resources.tables import HourState
from resources.warehouse.database.connect import raise_revision
from resources.warehouse.database.sql import statement, transaction
from resources.warehouse.records import utc_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    import duckdb

    from resources.datasets import Dataset
    from resources.warehouse.database.connect import Build
    from resources.warehouse.records import HourStatus
# The hours of the files that were just loaded. Content that differs from what was there counts as another load.
# What was missing while the service kept it is lost once it does not.
_EXPIRE = """
UPDATE hours SET state = 'past_retention', reason = $past_reason, checked_at = $now
WHERE table_name = $table AND state IN ('missing', 'not_yet') AND batch_hour < $kept_from
"""
# Hours before the beginning that nobody can load any more are no gaps: an earlier fill began too early, or they were
# requested by mistake.
_TRIM = """
DELETE FROM hours
WHERE table_name = $table
  AND state = 'past_retention'
  AND NOT EXISTS (
    FROM beginnings
    WHERE (beginnings.table_name, beginnings.project_id, beginnings.namespace_id)
      = (hours.table_name, hours.project_id, hours.namespace_id)
      AND hours.batch_hour >= first_hour
  )
"""
_LOADED = """
CREATE OR REPLACE TEMP TABLE covered AS
SELECT
  table_name,
  batch_hour,
  project_id,
  namespace_id,
  CASE WHEN incoming.row_count + incoming.reject_count > 0 THEN 'loaded' ELSE 'empty' END AS state,
  incoming.row_count - incoming.duplicate_count AS row_count,
  incoming.reject_count,
  greatest(coalesce(hours.load_count, 0) + CAST(redone AS INTEGER), 1) AS load_count,
  loaded_at AS checked_at
FROM incoming
LEFT JOIN hours USING (table_name, batch_hour, project_id, namespace_id);

DELETE FROM hours USING covered
WHERE (hours.table_name, hours.batch_hour, hours.project_id, hours.namespace_id)
  = (covered.table_name, covered.batch_hour, covered.project_id, covered.namespace_id);

INSERT INTO hours BY NAME FROM covered
"""


def record_loads(connection: duckdb.DuckDBPyConnection) -> None:
    """Note, inside a transaction, that the files of the table `incoming` were loaded."""
    connection.execute(_LOADED)


def record_statuses(build: Build, statuses: Sequence[HourStatus], dataset: Dataset = ARTICLE_CHANGES) -> int:
    """Note states of hours that are not loaded, in one transaction; return the number of rows that changed."""
    connection, _, now = build
    with transaction(connection):
        if changed := record(connection, dataset, statuses, now):
            raise_revision(connection)
    return changed


def record(
    connection: duckdb.DuckDBPyConnection, dataset: Dataset, statuses: Sequence[HourStatus], now: datetime
) -> int:
    """Note, inside a transaction, what is known of hours without a file; returns how many rows said something new.

    Raises:
        ValueError: an hour is said to be loaded, and no file of it is.
    """
    changed = 0
    is_row = "(table_name, batch_hour, project_id, namespace_id) = (?, ?, ?, ?)"
    for status in statuses:
        key = [dataset.name, status.batch_hour, status.project_id, status.namespace_id]
        found = connection.execute(f"SELECT state, reason FROM hours WHERE {is_row}", key).fetchall()  # noqa: S608  constant
        has_file = bool(found) and bool(connection.execute(f"SELECT 1 FROM loads WHERE {is_row}", key).fetchall())  # noqa: S608
        if status.state is HourState.LOADED and not has_file:
            raise ValueError(
                f"Hour {utc_text(status.batch_hour)} of {status.project_id} {status.namespace_id} cannot be noted as "
                "loaded: no file of it is in the warehouse."
            )
        if has_file:
            continue
        row_count = 0 if status.state is HourState.EMPTY else None
        told = [status.state.value, status.reason, status.checked_at or now, row_count]
        if found:
            connection.execute(
                f"UPDATE hours SET state = ?, reason = ?, checked_at = ?, row_count = ? WHERE {is_row}",  # noqa: S608
                [*told, *key],
            )
        else:
            connection.execute(
                "INSERT INTO hours "
                "(state, reason, checked_at, row_count, table_name, batch_hour, project_id, namespace_id) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                [*told, *key],
            )
        changed += found != [(status.state.value, status.reason)]
    return changed


def fill_coverage(
    build: Build,
    projects: Sequence[str],
    namespaces: Sequence[int],
    now: datetime | None = None,
    *,
    until: datetime | None = None,
    dataset: Dataset = ARTICLE_CHANGES,
) -> int:
    """Add a row for every hour of a dataset from the first to the last known one; return the rows changed.

    All rows are added in one transaction. The first hour of a project and namespace is its first hour with a file; for
    articles also the hour of the newest snapshot's boundary. The last is the last known hour of all, or `until` if that
    hour is later. Hours that the service no longer keeps become `past_retention`, the others `missing`. Rows of hours
    before the beginning that the service no longer keeps are deleted.
    """
    connection, now = build.connection, now or build.now
    parameters = {
        "table": dataset.name,
        "projects": list(projects),
        "namespaces": list(namespaces),
        "now": now,
        "until": until,
        "kept_from": now - RETENTION,
        "missing_reason": "The hour was not fetched; the service still keeps it, so a run or a backfill brings it in.",
        "past_reason": "The hour was not fetched while the service kept it (two days); a snapshot closes the gap.",
    }
    changed = 0
    with transaction(connection):
        connection.execute(f"CREATE OR REPLACE TEMP TABLE beginnings AS {statement('load/beginnings')}")
        for text in (_EXPIRE, _TRIM, statement("load/coverage_fill")):
            needed = {key: value for key, value in parameters.items() if f"${key}" in text}
            changed += int(connection.execute(text, needed).fetchall()[0][0])
        if changed:
            raise_revision(connection)
    return changed
