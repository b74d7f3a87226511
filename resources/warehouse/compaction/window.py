"""The window of recent months whose changes are stored in the build file.

Changes from settled months are removed from the build file after they have been compacted and applied to `articles`.
Each transaction removes a bounded number of rows and moves the window, so every change is always in exactly one place.
"""

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import duckdb

from resources.formatting import hour_text
from resources.warehouse.compaction.plan import SETTLED, planned
from resources.warehouse.database.connect import Build, answer, raise_revision
from resources.warehouse.database.sql import transaction
from resources.warehouse.read.lake_parts import LEAVING, window
from resources.warehouse.read.ledger import faulty
from resources.warehouse.records import LakeFileError

# Hours before a given time that have changes in the build file, with the number of each hour's rows in compacted files.
# `is_pending` means that a compacted hour has not yet been applied to `articles`.
_MOVABLE = """
SELECT
  batch_hour,
  CAST(coalesce(sum(row_count - duplicate_count) FILTER (WHERE compaction_id IS NOT NULL), 0) AS BIGINT) AS row_count,
  bool_or(compaction_id IS NOT NULL AND applied_at IS NULL) AS is_pending
FROM loads
WHERE table_name = $table AND batch_hour < $before
  AND batch_hour >= coalesce((SELECT first_hour FROM internal.hot_window), batch_hour)
GROUP BY batch_hour
ORDER BY batch_hour
"""
# Parts whose hour is in a range and whose changes are in both compacted files and the build file.
_MAKE_LEAVING = """
CREATE OR REPLACE TEMP TABLE leaving AS
SELECT batch_hour, project_id, namespace_id, row_count - duplicate_count AS row_count
FROM loads
WHERE table_name = $table AND compaction_id IS NOT NULL AND batch_hour >= $first AND batch_hour < $end
"""
# Compacted files of the hours in a range.
_FILES = """
SELECT DISTINCT file.lake_path
FROM compacted_files AS file JOIN loads USING (table_name, compaction_id)
WHERE table_name = $table AND batch_hour >= $first AND batch_hour < $end
ORDER BY ALL
"""
#: Maximum number of rows removed in one transaction, unless a single hour has more rows.
_ROWS: Final = 500_000


@dataclass(frozen=True)
class Moved:
    """A range of hours (excluding `end_hour`) whose changes are removed from the build file, with the row count."""

    first_hour: datetime
    end_hour: datetime
    row_count: int


def movable_changes(build: Build, before: datetime | None = None, most: float = math.inf) -> Moved | None:
    """Return the hours to remove from the build file, or None if there are no changes to remove.

    The hours are before `before` (default: the end of the settled months) and before the first hour that is pending for
    `articles` or due for its first compaction. The range contains at most `most` changes or a single hour.
    """
    waiting = {unit.first_hour for merge in planned(build, LEAVING) for unit in merge.units if unit.span is None}
    hours: list[datetime] = []
    row_count = 0
    # the first hour of the oldest month that can still change
    month = (build.now.astimezone(UTC) - SETTLED).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    values = {"table": LEAVING.name, "before": before or month}
    for hour, count, is_pending in answer(build.connection, _MOVABLE, values):
        if is_pending or hour in waiting or (row_count and row_count + count > most):
            break
        hours.append(hour)
        row_count += count
    return Moved(hours[0], hours[-1] + timedelta(hours=1), row_count) if row_count else None


def move_window(build: Build, before: datetime | None = None) -> Moved | None:
    """Remove changes before a given time from the build file, in one transaction.

    The default time is the end of the settled months. The removed changes are then read from compacted files. To keep
    hourly loads from waiting long, a call removes at most 500,000 rows, unless a single hour has more rows. A call
    preserves changes that have not been applied to `articles`, hours that are waiting to be compacted, and all later
    hours. Returns None if no changes can be removed. Raises LakeFileError, without changing anything, if a compacted
    file is missing or contradicts the ledger.
    """
    connection, step = build.connection, movable_changes(build, before, _ROWS)
    if step is None:
        return None
    values = {"table": LEAVING.name, "first": step.first_hour, "end": step.end_hour}
    paths = (path for (path,) in answer(connection, _FILES, values))
    for file in faulty(connection, build.lake_root, paths).values():
        raise LakeFileError(
            f"The compacted file {file.lake_path} is missing or unreadable ({file.why}), so its changes stay in the "
            "warehouse. Nothing was changed. Restore the file, or delete it and materialize lake/article_changes and "
            "warehouse/article_changes again for its hours."
        )
    with transaction(connection):
        left = leave(connection, step.first_hour, step.end_hour)
        if left != step.row_count:
            raise LakeFileError(
                f"For the hours from {hour_text(step.first_hour)} until {hour_text(step.end_hour)} UTC, the warehouse "
                f"has {left} changes that are also in compacted files, but the ledger counts {step.row_count}. "
                "No file was changed, and the rows remain in the warehouse. Load these hours again."
            )
        connection.execute("UPDATE internal.hot_window SET first_hour = ?", [step.end_hour])
        raise_revision(connection)
    return step


def leave(connection: duckdb.DuckDBPyConnection, first: datetime, end: datetime) -> int:
    """Inside a transaction, remove compacted changes with first <= batch_hour < end. Return the row count."""
    connection.execute(_MAKE_LEAVING, {"table": LEAVING.name, "first": first, "end": end})
    rows = (
        "FROM article_changes SEMI JOIN leaving USING (batch_hour, project_id, namespace_id) "
        "WHERE batch_hour >= $first AND batch_hour < $end"
    )
    values = {"first": first, "end": end}
    [(newest, count)] = answer(connection, f"SELECT max(event_at), count(*) {rows}", values)
    if not count:
        return 0
    if window(connection) is None:
        connection.execute("INSERT INTO internal.hot_window VALUES (?, ?)", [first, newest])
    connection.execute("UPDATE internal.hot_window SET events_until = greatest(events_until, ?)", [newest])
    connection.execute(f"DELETE FROM article_changes WHERE rowid IN (SELECT article_changes.rowid {rows})", values)  # noqa: S608
    return int(count)
