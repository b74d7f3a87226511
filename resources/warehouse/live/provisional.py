"""Provisional rows: what the stream has of hours that have no file so far, as if their files were loaded.

What decides is taken in as that of loaded hours is, by the same code, and nothing of it is kept in the build file. What came of it is written
into a file beside the published one, whose views put it over what they hold themselves. So the rule by which a page lives is the same, and an
hour that is loaded later finds nothing of this.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import duckdb

from resources import files
from resources.datasets import RETENTION
from resources.datasets.live import LIVE_CHANGES, files_of, step_of
from resources.errors import clause
from resources.tables import ARTICLE_CHANGES, COVERED, Table
from resources.warehouse.database.connect import answer, is_exhausted
from resources.warehouse.database.formulas import FORMULAS
from resources.warehouse.database.sql import column_list, moment, quoted, statement
from resources.warehouse.errors import WarehouseFullError
from resources.warehouse.live.rows import filled, pieces, rows_of, unreadable, write_rows
from resources.warehouse.state.current import preview

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


_COVERED = ", ".join(quoted(state) for state in sorted(COVERED))
#: The columns by which it is decided which page lives; the others stay in the files.
_DECIDING = Table(
    ARTICLE_CHANGES.name, "", tuple(one for one in ARTICLE_CHANGES.narrow if one.required), ARTICLE_CHANGES.key
)
#: These, and what tells an event that comes twice.
_KNOWN = Table(_DECIDING.name, "", (*_DECIDING, ARTICLE_CHANGES["event_id"]), ARTICLE_CHANGES.key)
_NO_DIGESTS = (
    "CREATE OR REPLACE TEMP TABLE live_digests (file_row BIGINT, event_id VARCHAR, digest VARCHAR, event_key UBIGINT)"
)
#: What DuckDB may hold in memory meanwhile: the rest goes to disk. It is done every minute beside a stream whose memory does not grow either. The second is
#: for what does not get by with the first, as with more than a million events.
_MEMORY_LIMITS = ("64MB", "256MB")


@dataclass(frozen=True)
class Provisional:
    """What was written.

    Attributes:
        path: The file.
        event_count: Events of hours without a file.
        page_count: Pages that live by one of them.
        left_count: Pages whose published row, if they have one, counts no longer, because they changed or are gone.
        newest_at: When the newest event was published; None: there is none.
        seconds: Time for all of it, under the warehouse's lock.
    """

    path: Path
    event_count: int
    page_count: int
    left_count: int
    newest_at: datetime | None
    seconds: float


def write(
    connection: duckdb.DuckDBPyConnection, lake_root: Path, path: Path, now: datetime, *, is_empty: bool = False
) -> Provisional:
    """Write the provisional rows over what the build file holds, or none of them; nothing in it is changed.

    Time is in proportion to the events of the hours that have no file, which are those of two days at the most. Memory is not: DuckDB puts on disk what
    is more than a fixed amount. The connection keeps that limit.

    Raises:
        LakeFileError: A file of the stream is gone or damaged; nothing was written.
        WarehouseFullError: The disk or the memory ran out; nothing was written.
    """
    started = time.perf_counter()
    since = _first_open_hour(connection, now)
    # a clock that is slow, or was set back, lays events of an hour into the folder of the hour before
    found = [] if is_empty else files_of(lake_root.resolve() / LIVE_CHANGES, since - timedelta(hours=1))
    paths = [str(file.path) for file in found]
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    # one thread needs a fifth less processor time than two, and nobody waits for it
    connection.execute("SET threads = 1")
    try:
        _decide(connection, lake_root, paths, since)
        written = write_rows(connection, paths, temporary, _state(lake_root))
        # durably: after a loss of power the newest file would be none
        files.put(temporary, path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, duckdb.Error) and not is_exhausted(error):
            raise unreadable(error) from error
        if isinstance(error, OSError) and files.is_full(error):
            raise WarehouseFullError(
                f"There is no room for the events of the stream beside the published file ({clause(error)}). Analysts see no newer ones. Make room."
            ) from error
        raise
    return Provisional(path, *written, time.perf_counter() - started)


def _state(lake_root: Path) -> dict[str, list[dict[str, Any]]]:
    """How far the stream is kept, as rows of the views `stream_state` and `stream_runs`; nothing where its newest file does not say it."""
    state: list[dict[str, Any]] = []
    runs: list[dict[str, Any]] = []
    if found := files_of(lake_root / LIVE_CHANGES):
        with contextlib.suppress(OSError, ValueError):
            step = step_of(found[-1].last, found[-1].path)
            runs = [_row(**vars(run)) for run in step.runs]
            state = [
                _row(
                    partition=partition,
                    next_offset=following,
                    event_count=step.event_counts.get(partition, 0),
                    newest_published_at=step.published_at.get(partition),
                )
                for partition, following in sorted(step.offsets.items())
            ]
    return {"stream_state": state, "stream_runs": runs}


def _row(**values: Any) -> dict[str, Any]:
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in values.items()}


def _decide(connection: duckdb.DuckDBPyConnection, lake_root: Path, paths: Sequence[str], since: datetime) -> None:
    """Make the tables that say what is to be written: `live_events` and `leaving`. Nothing else is held in memory afterwards."""
    for limit in _MEMORY_LIMITS:
        connection.execute(f"SET memory_limit = '{limit}'")
        try:
            _read(connection, paths, since)
            preview(connection, lake_root, "live_changes")
            connection.execute(statement("live/living"))
            break
        except duckdb.OutOfMemoryException:
            if limit == _MEMORY_LIMITS[-1]:
                raise
    _drop_all_but(connection, "live_events", "leaving")


def _read(connection: duckdb.DuckDBPyConnection, paths: Sequence[str], since: datetime) -> None:
    """What decides of the events of hours without a file, in the table `live_changes`: each with its title once, as the file of their hour has it."""
    found = {"columns": column_list(_DECIDING, "event."), "events": rows_of(paths, _KNOWN), "since": moment(since)}
    keys = {"event_key": FORMULAS["event_key"], "row_digest": "NULL"}
    connection.execute(statement("live/changes", covered=_COVERED, **found, **keys))
    if answer(connection, "SELECT 1 FROM live_suspects LIMIT 1"):
        connection.execute(_NO_DIGESTS)
        for _, suspects, rows in pieces(connection, paths, "live_suspects"):
            connection.register("suspects", filled(rows).append_column("file_row", suspects["file_row"]))
            connection.execute(statement("live/digests"))
            connection.unregister("suspects")
        connection.execute(statement("live/repeated"))


def _drop_all_but(connection: duckdb.DuckDBPyConnection, *kept: str) -> None:
    """Give back what other temporary tables hold in memory."""
    query = "SELECT table_name FROM duckdb_tables() WHERE temporary AND table_name NOT IN (SELECT unnest(?))"
    for (name,) in answer(connection, query, [kept]):
        connection.execute(f"DROP TABLE temp.{name}")


def first_hour(now: datetime) -> datetime:
    """The first hour of which the service may have a file that is not loaded."""
    return (now - RETENTION).replace(minute=0, second=0, microsecond=0)


def _first_open_hour(connection: duckdb.DuckDBPyConnection, now: datetime) -> datetime:
    """The first hour without a file, two days ago at the earliest: what the service has no file of any more is a gap."""
    earliest = first_hour(now)
    query = statement("live/first_open_hour", covered=_COVERED)
    [(found,)] = answer(connection, query, {"earliest": earliest, "now": now})
    return found or earliest
