"""Coverage: what became of each hour of a dataset, per project and namespace, so that gaps are never silent.

A loaded hour stays loaded, even if the service later reports another state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from resources.datasets import ARTICLE_CHANGES, RETENTION
from resources.tables import HOURS, HourState
from resources.warehouse.database.connect import answer, raise_revision
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


#: What is reported of hours: the columns of `hours` that a status has.
_TOLD = ("table_name", "batch_hour", "project_id", "namespace_id", "state", "reason", "row_count", "checked_at")
_STATUSES = pa.schema([HOURS.schema.field(name) for name in _TOLD])
# What is reported of hours without a file.
_NOTED = """
CREATE OR REPLACE TEMP TABLE noted AS
SELECT
  announced.*,
  hours.state IS NOT NULL AS is_known,
  (announced.state, announced.reason) IS DISTINCT FROM (hours.state, hours.reason) AS is_new
FROM announced
LEFT JOIN hours USING (table_name, batch_hour, project_id, namespace_id)
ANTI JOIN loads USING (table_name, batch_hour, project_id, namespace_id)
"""
_RECORD = """
UPDATE hours
SET state = noted.state, reason = noted.reason, row_count = noted.row_count, checked_at = noted.checked_at
FROM noted
WHERE (hours.table_name, hours.batch_hour, hours.project_id, hours.namespace_id)
  = (noted.table_name, noted.batch_hour, noted.project_id, noted.namespace_id);

INSERT INTO hours BY NAME SELECT * EXCLUDE (is_known, is_new) FROM noted WHERE NOT is_known
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
    """Note, inside a transaction, what is known of hours without a file; return how many rows said something new.

    Raises:
        ValueError: An hour is said to be loaded, and no file of it is.
    """
    if not statuses:
        return 0
    told = {
        (status.batch_hour, status.project_id, status.namespace_id): {
            "table_name": dataset.name,
            "batch_hour": status.batch_hour,
            "project_id": status.project_id,
            "namespace_id": status.namespace_id,
            "state": status.state.value,
            "reason": status.reason,
            "row_count": 0 if status.state is HourState.EMPTY else None,
            "checked_at": status.checked_at or now,
        }
        for status in statuses
    }
    connection.register("announced", pa.Table.from_pylist([*told.values()], schema=_STATUSES))
    connection.execute(_NOTED)
    connection.unregister("announced")
    wrong = answer(connection, "SELECT batch_hour, project_id, namespace_id FROM noted WHERE state = 'loaded' LIMIT 1")
    for hour, project, namespace in wrong:
        raise ValueError(
            f"Hour {utc_text(hour)} of {project} {namespace} cannot be noted as loaded: no file of it is in the "
            "warehouse."
        )
    connection.execute(_RECORD)
    return int(connection.execute("SELECT count(*) FROM noted WHERE is_new").fetchall()[0][0])


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
