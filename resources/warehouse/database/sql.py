"""Functions that generate SQL, and DuckDB instances with their transactions."""

import atexit
import contextlib
import functools
import hashlib
import os
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from importlib import resources
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from resources import tables

#: Columns, with their types, that determine which row is current for a title and page.
STATE = {
    "project_id": "VARCHAR",
    "title": "VARCHAR",
    "article_id": "BIGINT",
    "event_at": "TIMESTAMPTZ",
    "version_id": "BIGINT",
    "is_update": "BOOLEAN",
    "event_key": "UBIGINT",
    "source_at": "TIMESTAMPTZ",
    "namespace_id": "BIGINT",
}
#: Formulas for the keys that the build file stores. `event_key`, which breaks ties in the order of states, is a 64-bit
#: digest of event and title, or of all columns if the row has no event. `title_key` is a 64-bit digest of project and
#: title, used to find one title among millions without comparing strings. A build file with other formulas is outdated.
KEYS = {
    "event_key": (
        "md5_number_lower(CASE WHEN event_id IS NULL THEN {row_digest} "
        "ELSE concat(event_id, chr(10), replace(name, '_', ' ')) END)"
    ),
    # a snapshot row has the same key as the hourly file's row for the same event
    "event_key_of_snapshot": (
        "md5_number_lower(concat(coalesce(event_id, concat('page ', article_id)), chr(10), title))"
    ),
    "title_key": "md5_number_lower(concat(project_id, chr(10), title))",
    "row_digest": "md5(CAST(row({content}) AS VARCHAR))",
}
KEYS_DIGEST = hashlib.sha256(repr(KEYS).encode()).hexdigest()[:16]
FORMULAS = KEYS | {
    "content": ", ".join(f'"{column.name}"' for column in tables.ARTICLE_CHANGES.narrow if column.name != "batch_hour"),
    "covered": ", ".join(f"'{state}'" for state in sorted(tables.COVERED)),
    "no_snapshot": tables.NO_SNAPSHOT,
    "last_recheck_hours": str(tables.RECHECKS[-1] // timedelta(hours=1)),
    "row_key": ", ".join(STATE),
    # rows of a title or page that agree in all these columns are identical
    "newest_state_first": "event_at DESC, version_id DESC, is_update DESC, event_key DESC, source_at, namespace_id",
    "oldest_state_first": "event_at, version_id, is_update, event_key, source_at DESC, namespace_id DESC",
    "newest_snapshot_first": "boundary_at DESC, exported_at DESC NULLS LAST, snapshot_version DESC",
    # both rows of a page move share the event
    "event": (
        "project_id, replace(name, '_', ' '), "
        "coalesce(event_id, concat(article_id, ' ', version_id, ' ', change_type, ' ', event_at))"
    ),
}


_SCALARS: dict[pa.DataType, str] = {
    pa.string(): "VARCHAR",
    pa.int64(): "BIGINT",
    pa.bool_(): "BOOLEAN",
    pa.float64(): "DOUBLE",
    pa.binary(): "BLOB",
    tables.TIMESTAMP: "TIMESTAMP WITH TIME ZONE",
}


#: Pattern for the line that names the next statement in a file with several statements.
_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


def statement(name: str, /, **values: str) -> str:
    """Return an SQL statement by folder and name, for example `load/beginnings`.

    The statement is the content of `<name>.sql`, or the section that follows the line `-- name: <name>` in another .sql
    file of the folder. Each `{name}` placeholder is replaced by a value or a shared formula. A value can contain
    placeholders for later values and for formulas.
    """
    folder, _, key = name.rpartition("/")
    return filled(_statements(folder)[key], **values)


def filled(text: str, /, **values: str) -> str:
    """Replace the `{name}` placeholders in a statement with the values, in order, then with the shared formulas."""
    for place, value in (*values.items(), *FORMULAS.items()):
        text = text.replace(f"{{{place}}}", value)
    return text


@functools.cache
def _statements(folder: str) -> dict[str, str]:
    """Return the statements in a folder's .sql files by name."""
    found: dict[str, str] = {}
    for file in resources.files("resources.warehouse").joinpath(folder).iterdir():
        if file.name.endswith(".sql"):
            # the text before the first name line is named after the file
            words = [file.name.removesuffix(".sql"), *_NAME.split(file.read_text(encoding="utf-8"))]
            found |= dict(zip(words[::2], words[1::2], strict=True))
    return found


def quoted(text: str) -> str:
    """Return a string as an SQL literal, for statements that do not accept parameters (comments, views)."""
    return "'" + text.replace("'", "''") + "'"


def moment(when: datetime) -> str:
    """Return a time-zone-aware timestamp as an SQL literal, for statements that do not accept parameters."""
    return f"TIMESTAMPTZ {quoted(when.astimezone(UTC).isoformat(sep=' '))}"


def identifier(name: str) -> str:
    """Return a name as a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def sql_type(arrow: pa.DataType) -> str:
    """Return the DuckDB type that losslessly stores an Arrow type. Raises TypeError if no type is declared."""
    if isinstance(arrow, pa.ListType):
        return f"{sql_type(arrow.value_type)}[]"
    if isinstance(arrow, pa.StructType):
        fields = ", ".join(
            f"{identifier(arrow.field(i).name)} {sql_type(arrow.field(i).type)}" for i in range(arrow.num_fields)
        )
        return f"STRUCT({fields})"
    if arrow not in _SCALARS:
        raise TypeError(f"No DuckDB type is declared for the Arrow type {arrow}.")
    return _SCALARS[arrow]


def nulls(table: tables.Table) -> str:
    """Return SQL with a comma-separated list of typed nulls, named after the table's columns."""
    return ", ".join(f"CAST(NULL AS {sql_type(c.type)}) AS {identifier(c.name)}" for c in table)


def column_list(table: tables.Table) -> str:
    """Return the table's column names as comma-separated SQL identifiers."""
    return ", ".join(identifier(column.name) for column in table)


@contextlib.contextmanager
def transaction(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Run the block as one transaction: commit at the end, roll back on any exception."""
    connection.execute("BEGIN")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def temporary_table(
    connection: duckdb.DuckDBPyConnection, name: str, rows: Sequence[Mapping[str, Any]], schema: pa.Schema
) -> None:
    """Create or replace a temporary table with these rows."""
    connection.register("rows_of_python", pa.Table.from_pylist([*rows], schema=schema))
    connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS FROM rows_of_python")
    connection.unregister("rows_of_python")


#: Extensions are never downloaded implicitly, so a missing extension fails immediately instead of after seconds.
_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}
#: Maximum number of idle instances per memory limit. Concurrent users of the same pool are rare.
_KEPT = 2
#: Name under which every file is attached.
NAME = "warehouse"


def connect() -> duckdb.DuckDBPyConnection:
    """Return a connection to a separate DuckDB instance, which is closed along with the connection."""
    return _in_utc(duckdb.connect(":memory:", config=_CONFIG))


class Instances:
    """Thread-safe pool of idle DuckDB instances, which are reused for the next file of the same kind.

    Starting and closing an instance takes 25 ms; attaching a file takes 1 ms. An instance has one user and one file at
    a time. Users share no state, because each user opens a separate connection and resets the instance's settings. The
    memory limit is an exception: setting it takes 5 ms, so each limit has separate instances. An instance is closed
    after any failure.
    """

    def __init__(self) -> None:
        self._idle: defaultdict[str | None, list[duckdb.DuckDBPyConnection]] = defaultdict(list)
        # a forked process would inherit the instances but not their threads
        os.register_at_fork(before=self.end)
        atexit.register(self.end)

    @contextlib.contextmanager
    def connection(
        self, spill: Path | None = None, memory_limit: str | None = None
    ) -> Iterator[duckdb.DuckDBPyConnection]:
        """Yield a connection to which the caller attaches a file as `NAME`; the file is detached on exit.

        If the `spill` folder exists, the instance has spilled to disk and is closed, because the instance would
        continue to use that path.
        """
        idle = self._idle[memory_limit]
        try:
            instance = idle.pop()
        except IndexError:
            limit = {} if memory_limit is None else {"memory_limit": memory_limit}
            instance = duckdb.connect(":memory:", config=_CONFIG | limit)
        try:
            with instance.cursor() as connection:
                yield _in_utc(connection)
        except BaseException:
            instance.close()
            raise
        # detaching never fails: rows that the last checkpoint could not write stay in the log
        with contextlib.suppress(duckdb.Error):
            instance.execute(f"DETACH DATABASE IF EXISTS {NAME}")
            if len(idle) < _KEPT and not (spill is not None and spill.exists()):
                idle.append(instance)
                return
        instance.close()

    def end(self) -> None:
        """Close all idle instances."""
        for idle in [*self._idle.values()]:
            while idle:
                idle.pop().close()


def _in_utc(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    connection.execute("SET TimeZone = 'UTC'")
    return connection
