"""Provisional rows: what the stream has of hours that have no file so far, as if their files were loaded.

The hours are loaded and taken in like any other, in a transaction of the build file that is never committed. What it made of them is
written into a file beside the published one, whose views put it over what they hold themselves. So the rule by which a page lives is the
same, and an hour that is loaded later finds nothing of this.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import duckdb

from resources import files
from resources.datasets import RETENTION
from resources.datasets.live import LIVE_CHANGES, files_of, step_of
from resources.tables import ARTICLE_CHANGES, COVERED, Table
from resources.warehouse.database.connect import answer, is_exhausted
from resources.warehouse.database.sql import column_list, moment, nulls, quoted, statement
from resources.warehouse.errors import LakeFileError, WarehouseFullError
from resources.warehouse.state.current import take_in

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


_COVERED = ", ".join(quoted(state) for state in sorted(COVERED))
#: The columns by which it is decided which page lives; the others stay in the files.
_DECIDING = Table(
    ARTICLE_CHANGES.name, "", tuple(one for one in ARTICLE_CHANGES.narrow if one.required), ARTICLE_CHANGES.key
)
#: Rows of a row group of the file: while it is written, so many are in memory as a whole.
_GROUP_ROWS = 8192
#: What DuckDB may hold in memory meanwhile: the rest goes to disk. It is done every minute beside a stream whose memory does not grow either. One thread needs
#: a fifth less processor time than two, and nobody waits for it.
_MEMORY_LIMIT, _THREADS = "256MB", 1
#: More than a file has: places of rows in several files are told apart by it.
_ROWS_OF_A_FILE = "4294967296"


@dataclass(frozen=True)
class Provisional:
    """What was written.

    Attributes:
        path: The file.
        event_count: Events of hours without a file.
        page_count: Pages that live by one of them.
        left_count: Pages whose row of before counts no longer, because they changed or are gone.
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
    paths = [] if is_empty else [str(file.path) for file in files_of(lake_root.resolve() / LIVE_CHANGES, since)]
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    connection.execute(f"SET memory_limit = '{_MEMORY_LIMIT}'")
    connection.execute(f"SET threads = {_THREADS}")
    connection.execute("BEGIN")
    try:
        _load(connection, paths, since)
        if take_in(connection, lake_root, now, passing=True).file_count:
            connection.execute("INSERT INTO live_left SELECT project_id, article_id FROM leaving")
        connection.execute(statement("live/living", since=moment(since)))
        rows = statement("live/rows", columns=column_list(ARTICLE_CHANGES.narrow, "event."), events=rows_of(paths))
        said = ", ".join(f"{name}: {quoted(json.dumps(told))}" for name, told in _state(lake_root).items())
        connection.execute(
            f"COPY (\n{rows}) TO {quoted(str(temporary))} (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {_GROUP_ROWS}, KV_METADATA {{{said}}})"
        )
        [(events, pages, left, newest)] = answer(
            connection,
            "SELECT count(*) FILTER (is_change), count(*) FILTER (is_living), count(*) FILTER (is_left), max(event_published_at) "  # noqa: S608  our own path
            f"FROM read_parquet({quoted(str(temporary))}, hive_partitioning := false)",
        )
        # durably: after a loss of power the newest file would be none
        files.put(temporary, path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, duckdb.Error) and not is_exhausted(error):
            raise LakeFileError(
                f"A file of the stream cannot be read ({error}). Analysts see no newer events of it, and nothing was changed. Remove that file: its "
                "events are then missing until the files of their hours are loaded."
            ) from error
        if isinstance(error, OSError) and files.is_full(error):
            raise WarehouseFullError(
                f"There is no room for the events of the stream beside the published file ({error}). Analysts see no newer ones. Make room."
            ) from error
        raise
    finally:
        connection.execute("ROLLBACK")
    return Provisional(path, events, pages, left, newest, time.perf_counter() - started)


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


def _load(connection: duckdb.DuckDBPyConnection, paths: Sequence[str], since: datetime) -> None:
    """Let the events of hours without a file be those of hours that are loaded and not taken in."""
    connection.execute("CREATE OR REPLACE TEMP TABLE live_left (project_id VARCHAR, article_id BIGINT)")
    connection.execute(
        "CREATE OR REPLACE TEMP TABLE live_hours AS SELECT batch_hour, project_id, namespace_id FROM hours LIMIT 0"
    )
    if paths:
        connection.execute(statement("live/hours", covered=_COVERED), {"paths": paths, "since": since})
        events = rows_of(paths)
        connection.execute(statement("live/repeated", events=events))
        connection.execute(statement("live/events", columns=column_list(_DECIDING, "event."), events=events))
        connection.execute(statement("live/pending"))


def rows_of(paths: Sequence[str], table: Table = ARTICLE_CHANGES.narrow) -> str:
    """What to select all rows of some files from, and their places, with `file_row` for both; columns that a file does not have are null."""
    rows = f"SELECT {nulls(table)}, NULL AS filename, NULL AS file_row_number, NULL AS file_row WHERE false"
    if paths:
        options = "hive_partitioning := false, union_by_name := true, filename := true, file_row_number := true"
        place = f"CAST(file_index AS BIGINT) * {_ROWS_OF_A_FILE} + file_row_number AS file_row"
        listed = ", ".join(map(quoted, paths))
        rows += f" UNION ALL BY NAME SELECT *, {place} FROM read_parquet([{listed}], {options})"  # noqa: S608  our own paths
    return f"({rows})"


def first_hour(now: datetime) -> datetime:
    """The first hour of which the service may have a file that is not loaded."""
    return (now - RETENTION).replace(minute=0, second=0, microsecond=0)


def _first_open_hour(connection: duckdb.DuckDBPyConnection, now: datetime) -> datetime:
    """The first hour without a file, two days ago at the earliest: what the service has no file of any more is a gap."""
    earliest = first_hour(now)
    query = statement("live/first_open_hour", covered=_COVERED)
    [(found,)] = answer(connection, query, {"earliest": earliest, "now": now})
    return found or earliest
