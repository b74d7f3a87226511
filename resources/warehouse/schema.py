"""The tables of the build file, made from the declarations, with their comments.

Belongs here: DuckDB types, DDL, comments, what the build holds beyond the declared tables. Does not belong here:
rows. What the declarations do not name stands in the schema `internal`, or in columns that `articles` and
`article_changes` carry for the pipeline alone and that are dropped when they are published.
"""

from __future__ import annotations

from datetime import UTC
from importlib import resources
from typing import TYPE_CHECKING

import pyarrow as pa

from resources import tables
from resources.warehouse.errors import WarehouseVersionError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime
    from pathlib import Path

    import duckdb

#: Raised by one whenever `sql/internal.sql`, the internal columns or the views change their meaning.
BUILD_VERSION = 4
#: Versions whose files are brought up to date when they are opened: `rejects` gets columns, and all views are made anew.
_OLDER = (2, 3)

#: Columns for the pipeline alone. `event_key`: 64 bits of a digest over event and title (over the whole row where it
#: names no event), the last word in the order of states. `file_row`: the row's place in its file. `title_key`: 64 bits of
#: a digest over project and title, by which a title is found among millions without comparing texts.
INTERNAL_COLUMNS = {
    tables.ARTICLE_CHANGES.name: {"event_key": "UBIGINT", "file_row": "BIGINT"},
    tables.ARTICLES.name: {"title_key": "UBIGINT NOT NULL", "event_key": "UBIGINT NOT NULL"},
}
#: `title_key` of a row that has a project and a title.
TITLE_KEY = "md5_number_lower(concat(project_id, chr(10), title))"

NATIVE_TABLES = (
    tables.ARTICLES,
    tables.ARTICLE_CHANGES.narrow,
    *tables.REFERENCE_TABLES,
    tables.SNAPSHOTS,
    tables.HOURS,
    tables.LOADS,
    tables.REJECTS,
)
VIEWS = (tables.REDIRECTS, tables.PROJECT_STATE)
#: Views over files of the lake, in what is published.
LAKE_VIEWS = (tables.ARTICLE_BODIES, tables.SNAPSHOT_ARTICLES.narrow)

_SCALARS: dict[pa.DataType, str] = {
    pa.string(): "VARCHAR",
    pa.int64(): "BIGINT",
    pa.bool_(): "BOOLEAN",
    pa.float64(): "DOUBLE",
    pa.binary(): "BLOB",
    tables.TIMESTAMP: "TIMESTAMP WITH TIME ZONE",
}


def statement(name: str) -> str:
    """The text of `sql/<name>.sql`."""
    return resources.files("resources.warehouse").joinpath("sql", f"{name}.sql").read_text(encoding="utf-8")


def create_view(table: tables.Table) -> str:
    """The `CREATE VIEW` of a declared view that is computed from other tables."""
    return statement(table.name).replace("{beginnings}", statement("beginnings"))


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
    """The DuckDB type that holds an Arrow type without loss.

    Raises:
        TypeError: for a type that no declaration uses so far.
    """
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


def column_list(table: tables.Table, prefix: str = "") -> str:
    """The table's columns, comma separated, as SQL."""
    return ", ".join(prefix + identifier(column.name) for column in table)


def create_table(table: tables.Table) -> str:
    """The `CREATE TABLE` of a declared table."""
    columns = [
        f"{identifier(column.name)} {sql_type(column.type)}{' NOT NULL' if column.required else ''}" for column in table
    ]
    columns += [f"{name} {kind}" for name, kind in INTERNAL_COLUMNS.get(table.name, {}).items()]
    return f"CREATE TABLE {identifier(table.name)} (\n  " + ",\n  ".join(columns) + "\n)"


def comments(table: tables.Table, kind: str = "TABLE") -> Iterator[str]:
    """The statements that give a table or view (`kind`) and its columns their descriptions."""
    yield f"COMMENT ON {kind} {identifier(table.name)} IS {quoted(table.description)}"
    for column in table:
        yield f"COMMENT ON COLUMN {identifier(table.name)}.{identifier(column.name)} IS {quoted(column.description)}"


def ensure(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Make the tables in a new build file, bring an older one up to date, leave one of the same version alone.

    Raises:
        WarehouseVersionError: the file was made for other tables.
    """
    wanted = f"{tables.SCHEMA_VERSION}.{BUILD_VERSION}"
    made = connection.execute(
        "SELECT count(*) FROM duckdb_tables() WHERE schema_name = 'internal' AND table_name = 'meta'"
    ).fetchall()[0][0]
    if made:
        found = connection.execute("SELECT schema_version FROM internal.meta").fetchall()[0][0]
        if found in {f"{tables.SCHEMA_VERSION}.{number}" for number in _OLDER}:
            views = [f"DROP VIEW {identifier(view.name)}" for view in reversed(VIEWS)] + _views()
            _execute(connection, [statement("upgrade_rejects"), *comments(tables.REJECTS), *views], wanted)
        elif found != wanted:
            raise WarehouseVersionError(
                f"{path.name} was made for tables of version {found}, and this program declares version {wanted}. "
                f"Nothing was changed. Remove {path.name} and load the hours again: archive and lake are enough for that."
            )
        return
    statements: list[str] = []
    for table in NATIVE_TABLES:
        statements += [create_table(table), *comments(table)]
    statements += [statement("internal"), "INSERT INTO internal.meta VALUES ('', 0)"]
    _execute(connection, statements + _views(), wanted)


def _views() -> list[str]:
    return [text for view in VIEWS for text in (create_view(view), *comments(view, "VIEW"))]


def _execute(connection: duckdb.DuckDBPyConnection, statements: list[str], version: str) -> None:
    """Change the tables, all or nothing, and note the version that they are of now."""
    connection.execute("BEGIN")
    connection.execute(";\n".join(statements))
    connection.execute("UPDATE internal.meta SET schema_version = ?", [version])
    connection.execute("COMMIT")
