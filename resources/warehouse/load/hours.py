"""Loads of hourly files. Each load stores the hour's rows, rejects, ledger entries and coverage in one transaction.

A load replaces all of the hour's rows for a project and namespace. To reveal gaps, coverage records the state of every
hour per dataset, project and namespace. A loaded hour stays loaded, even if the service later reports another state.
"""

import time
from collections.abc import Mapping, Sequence
from datetime import datetime

import duckdb
import pyarrow as pa

from resources.datasets import RETENTION, Dataset
from resources.datasets.paths import hour_folder
from resources.lake_files import ConvertedFile
from resources.tables import HOURS, HourState
from resources.warehouse.database.connect import Build, answer, raise_revision
from resources.warehouse.database.sql import filled, statement, temporary_table, transaction
from resources.warehouse.load.files import (
    announce,
    enter,
    forget_incoming,
    hide_repeated,
    insert_once,
    lost_in,
    unreadable,
)
from resources.warehouse.read.lake_parts import make_all_changes, window
from resources.warehouse.records import HourLoad, HourStatus, LakeFileError, utc_text

_SHOW_AGAIN = """
DELETE FROM internal.hidden_rows
WHERE reason = 'same_revision' AND batch_hour = $hour AND list_contains($projects, project_id)
"""
# Query that compares all of a project's files for an hour. If a page changes its namespace, two files contain the same
# revision.
_HIDE_SAME_REVISIONS = """
INSERT INTO internal.hidden_rows
SELECT lake_path, file_row, 'same_revision', batch_hour, project_id, namespace_id
FROM (
  SELECT batch_hour, project_id, namespace_id, file_row
  FROM {changes}
  WHERE batch_hour = $hour AND list_contains($projects, project_id)
  QUALIFY row_number() OVER (
    PARTITION BY batch_hour, project_id, {body}
    ORDER BY change_type = 'update' DESC, event_at DESC, event_key DESC, namespace_id
  ) > 1
)
JOIN (FROM loads WHERE table_name = $table) USING (batch_hour, project_id, namespace_id)
"""
# Files with rows that do not belong to the announced hour, project and namespace.
_MISPLACED = """
SELECT path, count(*)
FROM read_parquet($paths, filename := true, hive_partitioning := false) AS file
JOIN incoming ON file.filename = incoming.path
WHERE (file.batch_hour, file.project_id, file.namespace_id)
  IS DISTINCT FROM (incoming.batch_hour, incoming.project_id, incoming.namespace_id)
GROUP BY path
ORDER BY path
"""


def load_hour(
    build: Build,
    hour: datetime,
    files: Sequence[ConvertedFile],
    statuses: Sequence[HourStatus] = (),
    *,
    dataset: Dataset,
    reload: bool = False,
) -> HourLoad:
    """Load a dataset's files for one hour and record the states of other scopes, in one transaction.

    Files that were already loaded with the same digest are skipped, unless `reload` is set or their compacted file is
    missing or damaged. If all files are skipped and no state changes, `changed` is False. A file determines the state
    of its project and namespace; rows of other scopes are preserved. Raises LakeFileError, without changing anything,
    if a file is missing, belongs to another hour, or contradicts the announced counts.
    """
    started, (connection, lake_root, now) = time.perf_counter(), build
    key, by_place = [dataset.name, hour], {(file.project_id, file.namespace_id): file for file in files}
    if len(by_place) < len(files):
        raise ValueError(f"Hour {utc_text(hour)} has two files for the same project and namespace.")
    with transaction(connection):
        loaded = "SELECT project_id, namespace_id, digest FROM loads WHERE table_name = ? AND batch_hour = ?"
        known = {(project, namespace): digest for project, namespace, digest in answer(connection, loaded, key)}
        lost = lost_in(connection, lake_root, dataset, hour)
        fresh = [file for place, file in by_place.items() if reload or known.get(place) != file.digest or place in lost]
        rows = _replace_rows(build, dataset, hour, fresh, known) if fresh else 0
        others = [status for status in statuses if (status.project_id, status.namespace_id) not in by_place]
        noted = _record(connection, dataset, others, now)
        if fresh or noted:
            raise_revision(connection)
        [held] = connection.execute(
            "SELECT sum(row_count - duplicate_count), sum(duplicate_count) FROM loads "
            "WHERE table_name = ? AND batch_hour = ?",
            key,
        ).fetchall()
    return HourLoad(
        hour=hour,
        changed=bool(fresh or noted),
        loaded_file_count=len(fresh),
        unchanged_file_count=len(files) - len(fresh),
        row_count=rows,
        duplicate_count=sum(file.row_count for file in fresh) - rows,
        reject_count=sum(file.reject_count for file in fresh),
        held_row_count=int(held[0] or 0),
        held_duplicate_count=int(held[1] or 0),
        seconds=time.perf_counter() - started,
    )


def _replace_rows(
    build: Build, dataset: Dataset, hour: datetime, files: Sequence[ConvertedFile], known: Mapping[tuple[str, int], str]
) -> int:
    """Replace rows, rejects, ledger entries and coverage of an hour's files. Return the number of inserted rows.

    Each statement processes all of the hour's files (about 150), because one statement per small file would be slow.
    """
    connection, folder = build.connection, f"{dataset.name}/{hour_folder(hour)}"
    announce(build, dataset, ((file, folder) for file in files), known, source_at=hour)
    if known:
        forget_incoming(connection, dataset.name)
    paths = [str(file.path) for file in files]
    try:
        if misplaced := connection.execute(_MISPLACED, {"paths": paths}).fetchall():
            name, count = misplaced[0]
            raise LakeFileError(
                f"The lake file {name} contains {count} rows whose hour, project or namespace differs from the "
                "archive's. Nothing was loaded. Remove the file and convert its archive again."
            )
        hide_repeated(connection, dataset, paths)
        inserted = insert_once(connection, dataset, paths)
        enter(connection)
    except duckdb.Error as error:
        raise unreadable(f"{dataset.name} {utc_text(hour)}", files, dataset.table, error) from error
    connection.execute(statement("load/cover"))
    if dataset.body_of:
        hot, projects = window(connection), sorted({file.project_id for file in files})
        is_cold = hot is not None and hour < hot.first_hour
        if is_cold:
            make_all_changes(connection, build.lake_root, projects, partly=True)
        changes, values = "all_changes" if is_cold else dataset.name, {"hour": hour, "projects": projects}
        connection.execute(_SHOW_AGAIN, values)
        query = filled(_HIDE_SAME_REVISIONS, changes=changes, body=", ".join(dataset.body_of))
        connection.execute(query, values | {"table": dataset.name})
    return inserted


# An hour can no longer be fetched after the service has deleted its file.
_EXPIRE = """
UPDATE hours SET state = 'past_retention', reason = $past_reason, checked_at = $now
WHERE table_name = $table AND state IN ('missing', 'not_yet') AND batch_hour < $kept_from
"""
# Expired hours before the mirror's first hour are not gaps: an earlier run created their rows too early, or the hours
# were requested by mistake. Neither are hours that have not begun, which a run with a wrong clock requested.
_TRIM = """
DELETE FROM hours
WHERE table_name = $table
  AND (
    state IN ('missing', 'not_yet') AND batch_hour > $now
    OR state = 'past_retention'
      AND NOT EXISTS (
        FROM beginnings
        WHERE (beginnings.table_name, beginnings.project_id, beginnings.namespace_id)
          = (hours.table_name, hours.project_id, hours.namespace_id)
          AND hours.batch_hour >= first_hour
      )
  )
"""
#: Columns of `hours` that a status provides.
_TOLD = ("table_name", "batch_hour", "project_id", "namespace_id", "state", "reason", "row_count", "checked_at")
_STATUSES = pa.schema([HOURS.schema.field(name) for name in _TOLD])
# States passed by the caller for hours without a file.
_NOTED = """
CREATE OR REPLACE TEMP TABLE noted AS
SELECT
  announced.*,
  (announced.state, announced.reason) IS DISTINCT FROM (hours.state, hours.reason) AS is_new
FROM announced
LEFT JOIN hours USING (table_name, batch_hour, project_id, namespace_id)
ANTI JOIN loads USING (table_name, batch_hour, project_id, namespace_id)
"""
_RECORD = """
DELETE FROM hours USING noted
WHERE (hours.table_name, hours.batch_hour, hours.project_id, hours.namespace_id)
  = (noted.table_name, noted.batch_hour, noted.project_id, noted.namespace_id);

INSERT INTO hours BY NAME SELECT * EXCLUDE (is_new) FROM noted
"""


def record_statuses(build: Build, statuses: Sequence[HourStatus], dataset: Dataset) -> int:
    """Record the states of hours that are not loaded, in one transaction. Return the number of changed rows."""
    connection, _, now = build
    with transaction(connection):
        if changed := _record(connection, dataset, statuses, now):
            raise_revision(connection)
    return changed


def _record(
    connection: duckdb.DuckDBPyConnection, dataset: Dataset, statuses: Sequence[HourStatus], now: datetime
) -> int:
    """Record states of hours without a file and return the number of new states. Raises ValueError for `loaded`."""
    if not statuses:
        return 0
    told = {
        (status.batch_hour, status.project_id, status.namespace_id): vars(status)
        | {
            "table_name": dataset.name,
            "row_count": 0 if status.state is HourState.EMPTY else None,
            "checked_at": status.checked_at or now,
        }
        for status in statuses
    }
    temporary_table(connection, "announced", [*told.values()], _STATUSES)
    connection.execute(_NOTED)
    wrong = answer(connection, "SELECT batch_hour, project_id, namespace_id FROM noted WHERE state = 'loaded' LIMIT 1")
    for hour, project, namespace in wrong:
        raise ValueError(
            f"Hour {utc_text(hour)} of {project} {namespace} cannot be recorded as loaded, because the warehouse has "
            "no file for this hour."
        )
    connection.execute(_RECORD)
    return int(connection.execute("SELECT count(*) FROM noted WHERE is_new").fetchall()[0][0])


def fill_coverage(
    build: Build,
    projects: Sequence[str],
    namespaces: Sequence[int],
    now: datetime | None = None,
    *,
    dataset: Dataset,
) -> int:
    """Add missing rows to `hours`, from a dataset's first to its last known hour. Return the number of changed rows.

    All changes are made in one transaction. The first hour of a project and namespace is the first hour with a file.
    For articles, the first hour is the hour of the newest snapshot's boundary if that hour is earlier. The last hour is
    the last known hour of any project. Hours that the service has deleted become `past_retention`; all other hours
    become `missing`. Rows for expired hours before the first hour, and for hours that have not begun, are deleted.
    """
    connection, now = build.connection, now or build.now
    parameters = {
        "table": dataset.name,
        "projects": list(projects),
        "namespaces": list(namespaces),
        "now": now,
        "kept_from": now - RETENTION,
        "missing_reason": "The hour was not fetched; the service still keeps it, so a run or a backfill loads it.",
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
