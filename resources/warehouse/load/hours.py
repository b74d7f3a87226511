"""Loads hourly files: rows, rejects, ledger and coverage of an hour in one transaction.

The rows of a project and namespace of the hour are replaced as a whole. Of the changes of articles each event and title
of a file is loaded once, and what `article_bodies` passes over is noted.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import duckdb

from resources.datasets import ARTICLE_CHANGES
from resources.datasets.paths import hour_folder
from resources.warehouse.database.connect import raise_revision
from resources.warehouse.database.sql import filled, transaction
from resources.warehouse.errors import LakeFileError
from resources.warehouse.load import coverage
from resources.warehouse.load.deduplication import hide_repeated, insert_once
from resources.warehouse.load.files import (
    announce,
    check_counts,
    enter,
    forget_incoming,
    lake_path,
    unreadable,
)
from resources.warehouse.read.faults import faulty
from resources.warehouse.read.history import make_all_changes, window
from resources.warehouse.records import HourLoad, utc_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from resources.datasets import Dataset
    from resources.lake_files import ConvertedFile
    from resources.warehouse.database.connect import Build
    from resources.warehouse.records import HourStatus

# Rows in a compacted file that is gone stay hidden: the file may be put back.
_SHOW_AGAIN = """
DELETE FROM internal.hidden_rows
WHERE reason = 'same_revision' AND batch_hour BETWEEN $first AND $last AND list_contains($projects, project_id)
  AND (batch_hour, project_id, namespace_id) NOT IN (
    SELECT (batch_hour, project_id, namespace_id)
    FROM loads
    WHERE table_name = $table AND batch_hour < $cold_until AND list_contains(CAST($gone AS VARCHAR[]), compaction_id)
  )
"""
# All files of a project's hour are compared: a page that changes its namespace is in two of them with one revision.
_HIDE_SAME_REVISIONS = """
INSERT INTO internal.hidden_rows
SELECT lake_path, file_row, 'same_revision', batch_hour, project_id, namespace_id
FROM (
  SELECT batch_hour, project_id, namespace_id, file_row
  FROM {changes}
  WHERE batch_hour BETWEEN $first AND $last AND list_contains($projects, project_id)
  QUALIFY row_number() OVER (
    PARTITION BY batch_hour, project_id, {body}
    ORDER BY change_type = 'update' DESC, event_at DESC, event_key DESC, namespace_id
  ) > 1
)
JOIN (FROM loads WHERE table_name = $table) USING (batch_hour, project_id, namespace_id)
"""
# Files with rows of another hour, project or namespace than announced.
_STRANGERS = """
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
    dataset: Dataset = ARTICLE_CHANGES,
    reload: bool = False,
) -> HourLoad:
    """Load a dataset's files of one hour, and note the states of its other scopes, in one transaction.

    Files that are loaded under the same digest are left alone unless `reload`, or the compacted file with their rows is
    gone or damaged. If nothing is left to do, `changed` is False. For a project and namespace with a file, the file
    decides its state. Rows of other projects and namespaces of the hour stay.

    Raises:
        LakeFileError: a file is absent or does not hold what was announced; nothing was changed.
        ValueError: the arguments contradict one another.
    """
    started, (connection, lake_root, now) = time.perf_counter(), build
    _check_arguments(hour, files, statuses)
    key = [dataset.name, hour]
    with transaction(connection):
        known = {
            (project, namespace): digest
            for project, namespace, digest in connection.execute(
                "SELECT project_id, namespace_id, digest FROM loads WHERE table_name = ? AND batch_hour = ?", key
            ).fetchall()
        }
        lost = _lost(connection, lake_root, key)
        fresh = [
            file
            for file in files
            for place in ((file.project_id, file.namespace_id),)
            if reload or known.get(place) != file.digest or place in lost
        ]
        rows = _replace_rows(connection, lake_root, dataset, hour, fresh, known, now) if fresh else 0
        pairs = {(file.project_id, file.namespace_id) for file in files}
        others = [status for status in statuses if (status.project_id, status.namespace_id) not in pairs]
        noted = coverage.record(connection, dataset, others, now)
        if fresh or noted:
            raise_revision(connection)
        held = connection.execute(
            "SELECT sum(row_count - duplicate_count), sum(duplicate_count) FROM loads "
            "WHERE table_name = ? AND batch_hour = ?",
            key,
        ).fetchall()[0]
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


def _lost(connection: duckdb.DuckDBPyConnection, lake_root: Path, key: Sequence[object]) -> set[tuple[str, int]]:
    """Projects and namespaces of the hour that may have had rows in a compacted file which is gone or damaged."""
    found = connection.execute(
        "SELECT loads.project_id, namespace_id, file.lake_path FROM loads "
        "JOIN compacted_files AS file USING (table_name, compaction_id) WHERE table_name = ? AND batch_hour = ? "
        "AND loads.project_id BETWEEN first_project_id AND last_project_id",
        list(key),
    ).fetchall()
    gone = faulty(connection, lake_root, {path for *_, path in found})
    return {(project, namespace) for project, namespace, path in found if path in gone}


def _check_arguments(hour: datetime, files: Sequence[ConvertedFile], statuses: Sequence[HourStatus]) -> None:
    if hour.tzinfo is None or (hour.minute, hour.second, hour.microsecond) != (0, 0, 0):
        raise ValueError(f"{hour} is not the start of an hour with a time zone.")
    items: list[ConvertedFile | HourStatus] = [*files, *statuses]
    for item in items:
        if item.batch_hour != hour:
            raise ValueError(
                f"{item.project_id} {item.namespace_id} is of hour {item.batch_hour}, not of {utc_text(hour)}."
            )
    pairs = [(file.project_id, file.namespace_id) for file in files]
    if len(set(pairs)) < len(pairs):
        raise ValueError(f"Hour {utc_text(hour)} has two files of one project and namespace.")


def _replace_rows(
    connection: duckdb.DuckDBPyConnection,
    lake_root: Path,
    dataset: Dataset,
    hour: datetime,
    files: Sequence[ConvertedFile],
    known: Mapping[tuple[str, int], str],
    now: datetime,
) -> int:
    """Replace rows, rejects, ledger and coverage of an hour's files; return the rows inserted.

    All files go through each statement together: an hour has about 150, and a statement costs more than a small file.
    """
    folder = f"{dataset.name}/{hour_folder(hour)}"
    announced = []
    for file in files:
        check_counts(file, dataset.table)
        its = {
            "table_name": dataset.name,
            "source_at": hour,
            "lake_path": lake_path(lake_root, folder, file.path),
            "loaded_at": now,
            "applied_at": None if dataset.state is not None else now,
            "redone": known.get((file.project_id, file.namespace_id)) not in (None, file.digest),
        }
        announced.append((file, its))
    announce(connection, announced)
    if known:
        forget_incoming(connection, dataset.name)
    paths = [str(file.path) for file in files]
    try:
        _refuse_misplaced_rows(connection, paths)
        hide_repeated(connection, dataset, paths)
        inserted = insert_once(connection, dataset, paths)
        enter(connection)
    except duckdb.Error as error:
        raise unreadable(f"{dataset.name} {utc_text(hour)}", files, dataset.table, error) from error
    coverage.record_loads(connection)
    if dataset.body_of:
        hide_same_revisions(connection, lake_root, dataset, (hour, hour), sorted({file.project_id for file in files}))
    return inserted


def hide_same_revisions(
    connection: duckdb.DuckDBPyConnection,
    lake_root: Path,
    dataset: Dataset,
    hours: tuple[datetime, datetime],
    projects: Sequence[str],
) -> None:
    """Hide rows of a range of hours whose page text another row of the same hour shows.

    Call it inside a transaction.
    """
    known, changes = window(connection), dataset.name
    values = {"first": hours[0], "last": hours[1], "projects": list(projects)}
    cold: dict[str, object] = {"table": dataset.name, "cold_until": hours[0], "gone": []}
    if known is not None and hours[0] < known.first_hour:
        gone = make_all_changes(connection, lake_root, projects, partly=True)
        changes, cold = "all_changes", cold | {"cold_until": known.first_hour, "gone": sorted(gone)}
    connection.execute(_SHOW_AGAIN, values | cold)
    body = ", ".join(dataset.body_of)
    connection.execute(filled(_HIDE_SAME_REVISIONS, changes=changes, body=body), values | {"table": dataset.name})


def _refuse_misplaced_rows(connection: duckdb.DuckDBPyConnection, paths: Sequence[str]) -> None:
    """Raises LakeFileError where a file of `incoming` holds rows of another hour, project or namespace."""
    strangers = connection.execute(_STRANGERS, {"paths": list(paths)}).fetchall()
    if strangers:
        name, count = strangers[0]
        raise LakeFileError(
            f"The lake file {name} holds {count} rows of another hour, project or namespace than its archive; nothing "
            "was loaded. Remove it and convert its archive again."
        )
