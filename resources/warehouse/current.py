"""The current state: which pages live, and with which row, kept up hour by hour.

The rule. An update is live when no update or delete of its title and no update of its page is newer. `newer` is one
total order: moment of the event, revision, an update after a delete, event, the earlier hour file first (so that the
copies of one event in overlapping files are one state whatever was loaded first), namespace. `visibility-change`
never decides. Titles compare with `_` as space.

Two maxima carry it: the newest row of each title and the newest update of each page; a page lives when both are the
same row. Both are functions of the rows in `article_changes` alone, never of the order in which they came. An hour
that only adds rows moves the maxima up. An hour that was loaded again may have lost the row that decided: every title
and page that was decided by a row of that very file is looked up anew in all changes.

Does not belong here: loading rows, deciding when to apply.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from resources.tables import ARTICLES
from resources.warehouse.connect import raise_revision, transaction
from resources.warehouse.records import Applied
from resources.warehouse.schema import column_list, statement

if TYPE_CHECKING:
    from datetime import datetime

    import duckdb

#: The one total order of states; rows of one title or page that are equal in all of it are the same row.
_NEWEST_FIRST = "event_at DESC, version_id DESC, is_update DESC, event_key DESC, batch_hour, namespace_id"
_ROW_KEY = (
    "project_id",
    "title",
    "article_id",
    "event_at",
    "version_id",
    "is_update",
    "event_key",
    "batch_hour",
    "namespace_id",
)


def apply_changes(connection: duckdb.DuckDBPyConnection, now: datetime) -> Applied:
    """Advance `articles` by the files of the ledger that it has not taken in yet, in one transaction."""
    started = time.perf_counter()
    upserted = removed = recomputed = 0
    with transaction(connection):
        connection.execute(statement("apply_pending"))
        hours, file_count = _pending(connection)
        if file_count:
            recomputed = _count(connection, "redone_titles") + _count(connection, "redone_pages")
            if recomputed:
                connection.execute(statement("apply_history"))
            connection.execute(_with_rule("apply_maxima"))
            removed = _rows(
                connection,
                "SELECT count(*) FROM articles SEMI JOIN touched USING (project_id, article_id) "
                "ANTI JOIN deciding USING (project_id, article_id)",
            )
            connection.execute(
                "DELETE FROM articles AS old USING touched "
                "WHERE old.project_id = touched.project_id AND old.article_id = touched.article_id"
            )
            upserted = _rows(connection, _insert_articles())
            _mark_applied(connection, now)
        article_count = _count(connection, "articles")
    return Applied(
        hours=hours,
        file_count=file_count,
        upserted_count=upserted,
        removed_count=removed,
        recomputed_count=recomputed,
        article_count=article_count,
        rebuilt=False,
        seconds=time.perf_counter() - started,
    )


def rebuild_articles(connection: duckdb.DuckDBPyConnection, now: datetime) -> Applied:
    """Make both maxima and `articles` from all changes, in one transaction: the table that applying leads to."""
    started = time.perf_counter()
    with transaction(connection):
        connection.execute(
            "CREATE OR REPLACE TEMP TABLE pending AS SELECT batch_hour, project_id, namespace_id FROM loads"
        )
        hours, file_count = _pending(connection)
        connection.execute(_with_rule("rebuild_maxima"))
        connection.execute("DELETE FROM articles")
        upserted = _rows(connection, _insert_articles())
        _mark_applied(connection, now)
    return Applied(
        hours=hours,
        file_count=file_count,
        upserted_count=upserted,
        removed_count=0,
        recomputed_count=upserted,
        article_count=upserted,
        rebuilt=True,
        seconds=time.perf_counter() - started,
    )


def _with_rule(name: str) -> str:
    """A statement with the order of states and the identity of a row written in."""
    return (
        statement(name)
        .replace("{newest_first}", _NEWEST_FIRST)
        .replace("{row_key}", ", ".join(_ROW_KEY))
        .replace("{same_title}", " AND ".join(f"new_titles.{column} = old.{column}" for column in _ROW_KEY))
        .replace("{same_page}", " AND ".join(f"new_pages.{column} = old.{column}" for column in _ROW_KEY))
    )


def _insert_articles() -> str:
    return statement("insert_articles").replace("{columns}", column_list(ARTICLES))


def _mark_applied(connection: duckdb.DuckDBPyConnection, now: datetime) -> None:
    connection.execute("UPDATE loads SET applied_at = ? WHERE applied_at IS NULL", [now])
    raise_revision(connection)


def _pending(connection: duckdb.DuckDBPyConnection) -> tuple[tuple[datetime, ...], int]:
    """The hours taken in, and the number of their files."""
    found = connection.sql("SELECT DISTINCT batch_hour FROM pending ORDER BY batch_hour").to_arrow_table()
    return tuple(found.column("batch_hour").to_pylist()), _count(connection, "pending")


def _count(connection: duckdb.DuckDBPyConnection, table: str) -> int:
    return _rows(connection, f"SELECT count(*) FROM {table}")  # noqa: S608  names of this module


def _rows(connection: duckdb.DuckDBPyConnection, query: str) -> int:
    """The single number that a count, an insert or a delete answers with."""
    return int(connection.execute(query).fetchall()[0][0])
