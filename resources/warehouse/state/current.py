"""The current state: which pages live, and with which row, kept up hour by hour.

The rule. An update is live when no update or delete of its title and no update of its page is newer. `newer` is one
total order: moment of the event, revision, an update after a delete, event, the earlier source first (so that the
copies of one event in overlapping files are one state whatever was loaded first), namespace. `visibility-change`
never decides. Titles compare with `_` as space. The pages of the newest snapshot of a project and namespace compete like
updates; updates that are older than its boundary do not, since a page that only they know ended in a gap. Deletes always do.

Two maxima carry it: the newest row of each title and the newest update of each page; a page lives when both are the
same row. Both are functions of the loaded rows alone, never of the order in which they came. Where the two agree, the row
stands in `articles` and nowhere else; where they do not, in `internal.titles` and `internal.pages`, which stay small.

An hour that only adds rows moves the maxima up. An hour that was loaded again may have lost the row that decided: every
title and page that was decided by a row of that very file is looked up anew in all rows. A new snapshot replaces nearly
all rows of its project, so the project is made anew: neither titles nor pages reach over projects.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from resources.datasets import SNAPSHOT_ARTICLES, datasets
from resources.files import UnusableFileError
from resources.tables import ARTICLE_CHANGES, ARTICLES
from resources.warehouse.database.connect import answer, is_exhausted, raise_revision
from resources.warehouse.database.formulas import STATE
from resources.warehouse.database.memory import limit_of
from resources.warehouse.database.sql import column_list, quoted, statement, transaction
from resources.warehouse.errors import LakeFileError
from resources.warehouse.faulty import named
from resources.warehouse.load.files import retire, supersede
from resources.warehouse.load.hours import hide_same_revisions
from resources.warehouse.read.faults import note_damaged
from resources.warehouse.read.history import make_all_changes, window
from resources.warehouse.read.lake_parts import lake_parts
from resources.warehouse.read.reading import of_projects
from resources.warehouse.records import Applied

if TYPE_CHECKING:
    from datetime import datetime

    from resources.warehouse.read.lake_parts import LakePart

#: A row of `articles` as it competes, and its place there.
_LIVING = (
    "articles.rowid AS place, project_id, replace(name, '_', ' ') AS title, article_id, event_at, version_id, "
    "true AS is_update, event_key, source_at, namespace_id"
)
#: About what a row takes while the newest of each title is found.
_STATE_BYTES = 250
_RENEWED = "SELECT DISTINCT project_id FROM internal.bases WHERE applied_at IS NULL"


def apply_changes(connection: duckdb.DuckDBPyConnection, lake_root: Path, now: datetime) -> Applied:
    """Advance `articles` by the files and snapshots that it has not taken in yet, in one transaction.

    Raises:
        LakeFileError: A file with older rows that decide is gone or damaged; nothing was changed.
    """
    try:
        with transaction(connection):
            return take_in(connection, lake_root, now)
    except (duckdb.Error, UnusableFileError) as error:
        raise _unreadable(connection, lake_root, error) from error


def _unreadable(
    connection: duckdb.DuckDBPyConnection, lake_root: Path, error: duckdb.Error | UnusableFileError
) -> duckdb.Error | UnusableFileError | LakeFileError:
    """The failure as a sentence that names the files at fault; as it is where none is."""
    if isinstance(error, duckdb.Error) and is_exhausted(error):
        return error
    wanted = [
        Path(path)
        for base in lake_parts(connection, lake_root, SNAPSHOT_ARTICLES, bases_only=True)
        for path in base.paths
    ]
    older = "SELECT lake_path FROM compacted_files WHERE table_name = $table AND first_hour < $first"
    if (known := window(connection)) is not None:
        asked = {"table": ARTICLE_CHANGES.name, "first": known.first_hour}
        wanted += [lake_root.resolve() / path for (path,) in answer(connection, older, asked)]
    if not (found := note_damaged(connection, lake_root, wanted, SNAPSHOT_ARTICLES.table.narrow.schema.names)):
        return error
    return LakeFileError(
        f"Older rows are needed for the current articles, and cannot be read: {named(found)}. Nothing was changed; what is loaded stays pending. "
        "The files are made again from the archive if it has them; else restore them from a backup, or load a newer snapshot."
    )


def rebuild_articles(connection: duckdb.DuckDBPyConnection, lake_root: Path, now: datetime) -> Applied:
    """Make both maxima and `articles` from all rows, in one transaction: the table that applying leads to."""
    renewed = "SELECT project_id FROM loads UNION SELECT project_id FROM articles"
    with transaction(connection):
        return take_in(connection, lake_root, now, renewed=renewed, rebuilt=True)


def drop_rows(
    connection: duckdb.DuckDBPyConnection, lake_root: Path, now: datetime, project_id: str, namespace_id: int | None
) -> Applied:
    """Forget a project, or one of its namespaces, and make what is left of it anew, in one transaction."""
    where = "project_id = $project AND ($namespace IS NULL OR namespace_id = $namespace)"
    key = {"project": project_id, "namespace": namespace_id}
    with transaction(connection):
        connection.execute(f"DELETE FROM internal.hidden_rows WHERE file_row IS NOT NULL AND {where}", key)  # noqa: S608
        supersede(
            connection,
            "dropped",
            where.replace("project_id", "loads.project_id").replace("namespace_id", "loads.namespace_id"),
            key,
        )
        for table in (*of_projects(), "internal.ended_entities"):
            connection.execute(f"DELETE FROM {table} WHERE {where}", key)  # noqa: S608
        retire(connection)
        # a page that changed its namespace within an hour had its body shown from one of the two files
        hours = "SELECT min(batch_hour), max(batch_hour) FROM loads WHERE (table_name, project_id) = (?, ?)"
        for dataset in (one for one in datasets() if one.body_of and namespace_id is not None):
            [(first, last)] = answer(connection, hours, [dataset.name, project_id])
            if first is not None:
                hide_same_revisions(connection, lake_root, dataset, (first, last), [project_id])
        return take_in(connection, lake_root, now, renewed=f"{_RENEWED} UNION SELECT {quoted(project_id)}")


def take_in(
    connection: duckdb.DuckDBPyConnection,
    lake_root: Path,
    now: datetime,
    *,
    renewed: str = _RENEWED,
    rebuilt: bool = False,
) -> Applied:
    """Take in what is pending (everything where it is rebuilt), and make the projects of the query `renewed` anew, inside a transaction."""
    started = time.perf_counter()
    upserted = removed = recomputed = 0
    pending = "table_name IN ('article_changes', 'lookups')" + ("" if rebuilt else " AND applied_at IS NULL")
    connection.execute(
        f"CREATE OR REPLACE TEMP TABLE pending AS SELECT source_at, batch_hour, project_id, namespace_id FROM loads WHERE {pending}"  # noqa: S608
    )
    connection.execute(f"CREATE OR REPLACE TEMP TABLE renewed AS {renewed}")
    hours = tuple(
        hour
        for (hour,) in answer(
            connection, "SELECT DISTINCT batch_hour FROM pending WHERE batch_hour IS NOT NULL ORDER BY ALL"
        )
    )
    file_count = _count(connection, "pending WHERE batch_hour IS NOT NULL")
    lookup_file_count = _count(connection, "pending WHERE batch_hour IS NULL")
    projects = tuple(name for (name,) in connection.execute("SELECT project_id FROM renewed ORDER BY ALL").fetchall())
    if file_count or lookup_file_count or projects:
        bases = lake_parts(connection, lake_root, SNAPSHOT_ARTICLES, bases_only=True, checked=True)
        if projects:
            upserted += _renew(connection, lake_root, bases)
        if not rebuilt:
            counts = _advance(connection, lake_root, bases)
            upserted, removed, recomputed = upserted + counts[0], counts[1], counts[2]
        _mark_applied(connection, now)
    article_count = _count(connection, "articles")
    return Applied(
        hours=hours,
        file_count=file_count,
        lookup_file_count=lookup_file_count,
        renewed_projects=() if rebuilt else projects,
        upserted_count=upserted,
        removed_count=removed,
        recomputed_count=upserted if rebuilt else recomputed,
        article_count=article_count,
        rebuilt=rebuilt,
        seconds=time.perf_counter() - started,
    )


def _compete(connection: duckdb.DuckDBPyConnection, lake_root: Path, bases: list[LakePart], projects: str) -> None:
    """The views `all_changes` and `states`, of the projects of a query: everything that can decide.

    Raises:
        LakeFileError: A compacted file that may have changes of theirs is gone.
    """
    make_all_changes(connection, lake_root, [project for (project,) in connection.execute(projects).fetchall()])
    parts = [
        statement("state/candidates", changes="all_changes", base="internal.bases", more=""),
        "SELECT * FROM internal.looked_up",
        *(base.states() for base in bases),
    ]
    connection.execute("CREATE OR REPLACE TEMP VIEW states AS\n" + "\nUNION ALL\n".join(parts))


def _advance(connection: duckdb.DuckDBPyConnection, lake_root: Path, bases: list[LakePart]) -> tuple[int, int, int]:
    """Take in the pending files of the projects that are not made anew; pages written, removed, looked up anew."""
    if not _count(connection, "pending ANTI JOIN renewed USING (project_id)"):
        return 0, 0, 0
    recomputed = _decide(connection, lake_root, bases)
    removed = _count(connection, "leaving ANTI JOIN deciding USING (project_id, article_id)")
    connection.execute(statement("state/keep_maxima"))
    # where nothing was loaded again, what decides anew is of pending files, which are in `article_changes`
    return _insert(connection, bases, "all_changes" if recomputed else "article_changes"), removed, recomputed


def _decide(connection: duckdb.DuckDBPyConnection, lake_root: Path, bases: list[LakePart]) -> int:
    """Make `deciding` and `leaving` of what is pending; returns how many titles and pages were looked up anew."""
    connection.execute(statement("state/apply_pending", candidates="internal.candidates"))
    redone = ("(SELECT DISTINCT * FROM redone_titles)", "(SELECT DISTINCT * FROM redone_pages)")
    recomputed = sum(_count(connection, rows) for rows in redone)
    if recomputed:
        _compete(connection, lake_root, bases, "SELECT DISTINCT project_id FROM advancing")
        connection.execute(statement("state/apply_history"))
    connection.execute(statement("state/moved"))
    connection.execute(statement("state/near", living=_LIVING))
    connection.execute(statement("state/apply_maxima"))
    return recomputed


def _renew(connection: duckdb.DuckDBPyConnection, lake_root: Path, bases: list[LakePart]) -> int:
    """Make the projects of `renewed` from all their rows; returns the pages written."""
    _compete(connection, lake_root, bases, "SELECT project_id FROM renewed")
    for table in ("new_titles", "new_pages"):
        connection.execute(f"CREATE OR REPLACE TEMP TABLE {table} AS FROM states LIMIT 0")
    passes = _passes(connection)
    for number in range(passes):
        connection.execute(statement("state/rebuild_pass", passes=str(passes), number=str(number)))
    connection.execute(statement("state/rebuild_maxima"))
    return _insert(connection, bases, "all_changes")


def _passes(connection: duckdb.DuckDBPyConnection) -> int:
    """In how many passes the maxima of the projects of `renewed` are found, so that the rows of one fit into half the memory.

    DuckDB moves whole tables out of the memory, but finding the newest rows of all titles at once takes memory in proportion.
    """
    query = "SELECT coalesce(sum(row_count), 0) FROM loads SEMI JOIN renewed USING (project_id)"
    return 1 + _rows(connection, query) * _STATE_BYTES * 2 // limit_of(connection)


def _insert(connection: duckdb.DuckDBPyConnection, bases: list[LakePart], changes: str) -> int:
    """Put the rows of `deciding` into `articles`, whole, from `changes` or wherever they stand; returns their number."""
    row_key = ", ".join(name for name in STATE if name != "is_update")
    columns = {"columns": column_list(ARTICLES), "row_key_of_changes": row_key}
    inserted = _rows(connection, statement("state/insert_articles", changes=changes, **columns))
    inserted += _rows(connection, statement("state/insert_looked_up", **columns))
    sources = set(connection.execute("SELECT DISTINCT epoch_us(source_at), project_id FROM deciding").fetchall())
    for base in bases:
        assert base.source_at is not None
        if (round(base.source_at.timestamp() * 1_000_000), base.project_id) in sources:
            inserted += _rows(connection, base.insert_deciding(ARTICLES))
    connection.execute("DROP TABLE deciding")
    return inserted


def _mark_applied(connection: duckdb.DuckDBPyConnection, now: datetime) -> None:
    for table in ("loads", "snapshots"):
        connection.execute(
            f"UPDATE {table} SET applied_at = ? "  # noqa: S608
            "WHERE applied_at IS NULL AND table_name IN ('article_changes', 'snapshot_articles', 'lookups')",
            [now],
        )
    raise_revision(connection)


def _count(connection: duckdb.DuckDBPyConnection, table: str) -> int:
    return _rows(connection, f"SELECT count(*) FROM {table}")  # noqa: S608  names of this module


def _rows(connection: duckdb.DuckDBPyConnection, query: str) -> int:
    """The single number that a count, an insert or a delete answers with."""
    return int(connection.execute(query).fetchall()[0][0])
