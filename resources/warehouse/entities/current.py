"""The current state of Wikidata: which entities there are, and with which row, kept up hour by hour.

The rule. The newest update or delete of an entity decides, and the entity is there where that is an update. `newer` is one total
order: moment of the event, revision where the record tells it, an update after a delete, event, the earlier source first, so that
the copies of one event in overlapping files are one state whatever was loaded first. An item that is merged into another is
deleted by the event of its redirect. `visibility-change` never decides. The entities of the newest snapshot of a namespace compete
like updates; updates that are older than its boundary do not, since an entity that only they know ended in a gap.

An entity's identifier is its title and never moves, so that one maximum is enough where pages need two. It is a function of the
loaded rows alone, never of the order in which they came. Where an update decides, its row is in `entities`; where a delete does, in
`internal.ended_entities`. So an hour is compared with what decided before; only where its file was loaded again may the row that decided
be gone, and the other rows of these entities are looked up anew.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from resources.tables import ENTITIES
from resources.warehouse.database.connect import raise_revision
from resources.warehouse.database.sql import column_list, statement, transaction
from resources.warehouse.records import AppliedEntities

if TYPE_CHECKING:
    from datetime import datetime

    import duckdb

#: The one total order of states.
NEWEST_FIRST = (
    "event_at DESC, version_id DESC NULLS LAST, is_update DESC, event_id DESC NULLS LAST, source_at, namespace_id"
)
_TABLES = ("entity_changes", "snapshot_entities")
#: A state, but for whether the entity is there.
_STATE = "project_id, namespace_id, entity_id, event_at, version_id, event_id, source_at"


def with_rule(name: str, *, moment: str | None = None, **values: str) -> str:
    """A statement with the rule written in, over everything or over what happened before `moment`, an expression."""
    before = "" if moment is None else f" < CAST({moment} AS TIMESTAMPTZ)"
    return statement(
        name,
        **values,
        states=statement("entities/states"),
        states_of_changes=statement("entities/states_of_changes"),
        rows=statement("entities/rows"),
        rows_of_changes=statement("entities/rows_of_changes"),
        base=statement("entities/base"),
        of=before and " that was whole by then",
        known_snapshots=before and f" AND newest_event_at{before}",
        known_changes=before and f" AND change.event_at{before}",
        columns=column_list(ENTITIES),
        state=_STATE,
        newest_first=NEWEST_FIRST,
    )


def apply_changes(connection: duckdb.DuckDBPyConnection, now: datetime) -> AppliedEntities:
    """Advance `entities` by the files and snapshots that it has not taken in yet, in one transaction."""
    with transaction(connection):
        return _take_in(connection, now)


def rebuild(connection: duckdb.DuckDBPyConnection, now: datetime) -> AppliedEntities:
    """Make `entities` from all rows, in one transaction: the table that applying leads to."""
    with transaction(connection):
        return _take_in(connection, now, rebuilt=True)


def _take_in(connection: duckdb.DuckDBPyConnection, now: datetime, *, rebuilt: bool = False) -> AppliedEntities:
    started = time.perf_counter()
    connection.execute(
        "CREATE OR REPLACE TEMP TABLE pending AS SELECT source_at, project_id, namespace_id FROM loads "
        "WHERE table_name = 'entity_changes' AND applied_at IS NULL"
    )
    file_count = _number(connection, "SELECT count(*) FROM pending")
    renewed = rebuilt or bool(
        _number(
            connection, "SELECT count(*) FROM snapshots WHERE table_name = 'snapshot_entities' AND applied_at IS NULL"
        )
    )
    written = touched = 0
    if file_count or renewed:
        if renewed:  # a new snapshot replaces nearly all rows
            connection.execute(with_rule("entities/rebuild"))
            touched, rows = _number(connection, "SELECT count(*) FROM winning"), "{rows}"
        else:
            touched, rows = _advance(connection)
        written = _number(connection, with_rule("entities/insert", chosen=rows))
        for table in ("loads", "snapshots"):
            connection.execute(
                f"UPDATE {table} SET applied_at = $now WHERE applied_at IS NULL AND list_contains($tables, table_name)",  # noqa: S608
                {"now": now, "tables": list(_TABLES)},
            )
        raise_revision(connection)
    return AppliedEntities(
        file_count=file_count,
        is_renewed=renewed,
        entity_count=_number(connection, "SELECT count(*) FROM entities"),
        touched_count=touched,
        written_count=written,
        seconds=time.perf_counter() - started,
    )


def _advance(connection: duckdb.DuckDBPyConnection) -> tuple[int, str]:
    """Let what is pending compete; returns the entities looked at, and the rows among which those are that decide now.

    Snapshots, and the hours before, are read only where a row that decided may be gone.
    """
    connection.execute(with_rule("entities/fresh"))
    redone = _number(connection, "SELECT count(*) FROM redone")
    again = "SELECT * FROM ({states}) SEMI JOIN redone USING (project_id, entity_id)"
    again = again if redone else "SELECT * FROM fresh WHERE false"
    connection.execute(with_rule("entities/advance", states_of_redone=again))
    return _number(connection, "SELECT count(*) FROM touched"), "{rows}" if redone else "{rows_of_changes}"


def _number(connection: duckdb.DuckDBPyConnection, query: str) -> int:
    """The single number that a count or an insert answers with."""
    return int(connection.execute(query).fetchall()[0][0])
