"""Small row groups: each hour adds one to every table it writes, and they are put together afterwards, when nobody waits.

DuckDB keeps rows in groups of up to 122,880 and, when it commits, merges small ones with their neighbours, full ones among them. That
is as much work as loading the rows was, and it fell on the hour that happened to commit. Here no commit merges (`Connector` sees to
that). Instead the build file lists the row groups at the end of each table, and `merge_some` writes a bounded number of rows anew, in
a transaction of its own: those of small groups as one, and those of groups that most rows have left.

The list is about speed alone. Where it is wrong, because a group was emptied and DuckDB dropped it, other rows are moved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from resources.warehouse.database.schema import table_names
from resources.warehouse.database.sql import quoted, transaction

if TYPE_CHECKING:
    import duckdb

#: Rows of a full row group, and the most that are moved at a time.
FULL = 122_880
#: A group of fewer rows is small.
_SMALL = FULL // 2
#: So many small groups are put together, however few rows they have.
_MANY = 16
#: Rows of which the density is looked at together.
_STRETCH = 20_480
#: Rows that a transaction has added and not committed have numbers from here on.
_UNCOMMITTED = 36_028_797_018_960_000


def note_added(connection: duckdb.DuckDBPyConnection) -> None:
    """Note, at the end of a transaction, the row groups that it adds."""
    added = " UNION ALL ".join(
        f"SELECT {quoted(table)} AS name FROM {table} WHERE rowid >= {_UNCOMMITTED}"  # noqa: S608
        for table in _tables()
    )
    for table, count in connection.execute(f"SELECT name, count(*) FROM ({added}) GROUP BY name").fetchall():  # noqa: S608
        _append(connection, table, count)


def merge_some(connection: duckdb.DuckDBPyConnection) -> int:
    """Write some rows of one table anew, in a transaction: at most those of a full row group. What the rows say stays.

    Returns the number of rows moved; 0 where no table needs it.
    """
    with transaction(connection):
        for table in _tables():
            moved = 0
            for first, end in _small(connection, table) or _sparse(connection, table):
                where = f"WHERE rowid >= {first} AND rowid < {end}"
                moved += _rows(connection, f"INSERT INTO {table} SELECT * FROM {table} {where}")  # noqa: S608
                connection.execute(f"DELETE FROM {table} {where}")  # noqa: S608
            if moved:
                _append(connection, table, moved)
                return moved
        _write_list_anew(connection)
    return 0


def _tables() -> list[str]:
    """The tables of the build file, quoted. To ask DuckDB for them takes longer than all that is done with them."""
    return [name for name in table_names() if name != '"internal"."row_groups"']


def _write_list_anew(connection: duckdb.DuckDBPyConnection) -> None:
    """Put the list itself together: each transaction adds a row group to it as well, which takes a block of the file for a few numbers."""
    counted = "SELECT count(DISTINCT row_group_id) FROM pragma_storage_info('internal.row_groups')"
    if _rows(connection, counted) > _MANY:
        connection.execute("CREATE OR REPLACE TEMP TABLE listed AS FROM internal.row_groups")
        connection.execute("DELETE FROM internal.row_groups")
        connection.execute("INSERT INTO internal.row_groups FROM listed")


def _append(connection: duckdb.DuckDBPyConnection, table: str, row_count: int) -> None:
    connection.execute(
        "INSERT INTO internal.row_groups SELECT $table, coalesce(max(position), 0) + 1, $count "
        "FROM internal.row_groups WHERE table_name = $table",
        {"table": table, "count": row_count},
    )


def _small(connection: duckdb.DuckDBPyConnection, table: str) -> list[tuple[int, int]]:
    """Where the rows of small groups are that are to become one, and takes these from the list."""
    # larger ones are listed only to know where the others are
    connection.execute(
        "DELETE FROM internal.row_groups WHERE table_name = $table AND position < (SELECT coalesce(min(position), $last) "
        "FROM internal.row_groups WHERE table_name = $table AND row_count < $small)",
        {"table": table, "small": _SMALL, "last": 2**62},
    )
    listed = connection.execute(
        "SELECT position, row_count FROM internal.row_groups WHERE table_name = ? ORDER BY position", [table]
    ).fetchall()
    small = [(position, count) for position, count in listed if count < _SMALL]
    if len(small) < _MANY and (len(small) < 2 or sum(count for _, count in small) < _SMALL):
        return []
    chosen: dict[int, int] = {}
    for position, count in small:
        if sum(chosen.values()) + count > FULL:
            break
        chosen[position] = count
    end = _end(connection, table)
    first = end - sum(count for _, count in listed)
    places: list[tuple[int, int]] = []
    for position, count in listed:
        if position in chosen:
            beside = bool(places) and places[-1][1] == first
            places.append((places.pop()[0] if beside else first, first + count))
        first += count
    connection.execute(
        "DELETE FROM internal.row_groups WHERE table_name = ? AND list_contains(?, position)", [table, list(chosen)]
    )
    return places


def _sparse(connection: duckdb.DuckDBPyConnection, table: str) -> list[tuple[int, int]]:
    """Where a table has lost most of its rows, if it is more than half empty: what is left there is moved."""
    if _end(connection, table) <= 2 * _rows(connection, f"SELECT count(*) FROM {table}") + FULL:  # noqa: S608
        return []
    stretches = connection.execute(
        f"SELECT rowid // {_STRETCH} AS stretch, count(*) AS n FROM {table} GROUP BY ALL "  # noqa: S608
        f"HAVING n < {_STRETCH // 2} ORDER BY stretch"
    ).fetchall()
    places, moved = [], 0
    for stretch, left in stretches:
        if moved + left > _SMALL:
            break
        places.append((stretch * _STRETCH, (stretch + 1) * _STRETCH))
        moved += left
    return places


def _end(connection: duckdb.DuckDBPyConnection, table: str) -> int:
    """The rows that a table takes up, those included that are gone and lie there still."""
    return _rows(connection, f"SELECT coalesce(max(rowid) + 1, 0) FROM {table}")  # noqa: S608


def _rows(connection: duckdb.DuckDBPyConnection, query: str) -> int:
    return int(connection.execute(query).fetchall()[0][0])
