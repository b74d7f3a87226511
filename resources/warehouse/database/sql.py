"""SQL as text (statements from files, literals, names, types), and instances of DuckDB with their transactions."""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib import resources
from pathlib import Path

import duckdb
import pyarrow as pa

from resources import tables

#: A row as it competes for its title and its page: the columns that decide, with their types.
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
#: How the keys are computed that the build file stores. `event_key`: 64 bits of a digest over event and title, over the
#: whole row where it names no event; the last word in the order of states. `title_key`: 64 bits of a digest over
#: project and title, by which a title is found among millions without comparing texts. A build file of other formulas
#: is refused.
KEYS = {
    "event_key": (
        "md5_number_lower(CASE WHEN event_id IS NULL THEN {row_digest} "
        "ELSE concat(event_id, chr(10), replace(name, '_', ' ')) END)"
    ),
    # a row of a snapshot has the key of the same event in an hour's file
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
    # rows of one title or page that are equal in all of it are the same row
    "newest_state_first": "event_at DESC, version_id DESC, is_update DESC, event_key DESC, source_at, namespace_id",
    "oldest_state_first": "event_at, version_id, is_update, event_key, source_at DESC, namespace_id DESC",
    "newest_snapshot_first": "boundary_at DESC, exported_at DESC NULLS LAST, snapshot_version DESC",
    # both halves of a move share the event
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


#: The line before a statement of a file with several.
_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


def statement(name: str, /, **values: str) -> str:
    """The text of a statement by its folder and name, for example `load/beginnings`.

    It is all of `<name>.sql`, or in another .sql file of the folder what follows the line `-- name: <name>`. `{name}`
    in it stands for a value, which may have further ones of those after it, or for a shared formula.
    """
    folder, _, key = name.rpartition("/")
    return filled(_statements(folder)[key], **values)


def filled(text: str, /, **values: str) -> str:
    """A statement with its `{name}` places filled: with these values, in order, then with the shared formulas."""
    for place, value in (*values.items(), *FORMULAS.items()):
        text = text.replace(f"{{{place}}}", value)
    return text


@functools.cache
def _statements(folder: str) -> dict[str, str]:
    """The statements in the .sql files of a folder, by name."""
    found: dict[str, str] = {}
    for file in resources.files("resources.warehouse").joinpath(folder).iterdir():
        if file.name.endswith(".sql"):
            # the name of a file stands for what is before the first name in it
            words = [file.name.removesuffix(".sql"), *_NAME.split(file.read_text(encoding="utf-8"))]
            found |= dict(zip(words[::2], words[1::2], strict=True))
    return found


def quoted(text: str) -> str:
    """A text as an SQL literal, for the places where DuckDB takes no parameter (comments, views)."""
    return "'" + text.replace("'", "''") + "'"


def moment(when: datetime) -> str:
    """An aware moment as an SQL literal, for the places where DuckDB takes no parameter."""
    return f"TIMESTAMPTZ {quoted(when.astimezone(UTC).isoformat(sep=' '))}"


def identifier(name: str) -> str:
    """A name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def sql_type(arrow: pa.DataType) -> str:
    """The DuckDB type that holds an Arrow type without loss. Raises TypeError if none is declared."""
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
    """Nulls of the types and names of the table's columns, comma separated, as SQL."""
    return ", ".join(f"CAST(NULL AS {sql_type(c.type)}) AS {identifier(c.name)}" for c in table)


def column_list(table: tables.Table) -> str:
    """The table's columns, comma separated, as SQL."""
    return ", ".join(identifier(column.name) for column in table)


@contextlib.contextmanager
def transaction(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """All or nothing: committed at the end, rolled back on any exception."""
    connection.execute("BEGIN")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


#: Nothing may try the network unasked: without it, a missing extension is said at once instead of after seconds.
_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}
#: Kept at most: there is seldom more than one user of a kind at a time.
_KEPT = 2
#: The name under which every file is attached.
NAME = "warehouse"


def connect() -> duckdb.DuckDBPyConnection:
    """Return a connection to a separate instance, which ends with the connection."""
    return _in_utc(duckdb.connect(":memory:", config=_CONFIG))


class Instances:
    """Idle DuckDB instances that are reused for the next file, for one kind of use. Safe for threads.

    Starting and closing an instance takes 25 ms, attaching a file 1 ms. An instance has one user and one file at a
    time. Nothing passes to the next user: each has a separate connection and sets the instance's settings again, and an
    instance in which something failed is closed.
    """

    def __init__(self) -> None:
        """Keep none so far."""
        self._idle: list[duckdb.DuckDBPyConnection] = []
        # a process that is forked would inherit instances without their threads
        os.register_at_fork(before=self.end)
        atexit.register(self.end)

    @contextlib.contextmanager
    def connection(self, spill: Path | None = None) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection to attach a file with, as `NAME`; it is detached at the end, as if the instance were closed.

        An instance that has spilled into the folder `spill` is ended: it removes the folder and keeps to its name.
        """
        try:
            instance = self._idle.pop()
        except IndexError:
            instance = duckdb.connect(":memory:", config=_CONFIG)
        try:
            with instance.cursor() as connection:
                yield _in_utc(connection)
        except BaseException:
            instance.close()
            raise
        # closing an instance never fails either: what the last checkpoint could not write stays in the log
        with contextlib.suppress(duckdb.Error):
            instance.execute(f"DETACH DATABASE IF EXISTS {NAME}")
            if len(self._idle) < _KEPT and not (spill is not None and spill.exists()):
                self._idle.append(instance)
                return
        instance.close()

    def end(self) -> None:
        """End those that nobody uses."""
        while self._idle:
            self._idle.pop().close()


def _in_utc(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    connection.execute("SET TimeZone = 'UTC'")
    return connection
