"""The tables of the build file, made from the declarations, with their comments, and brought up to date when these change.

What the declarations do not name is in the schema `internal`, or in columns that `articles` and `article_changes` carry for the
pipeline alone and that are dropped when they are published.
"""

from __future__ import annotations

import functools
import hashlib
import re
from typing import TYPE_CHECKING

import duckdb

from resources import datasets, tables
from resources.warehouse.database.formulas import KEYS_DIGEST, STATE
from resources.warehouse.database.sql import identifier, quoted, sql_type, statement, transaction
from resources.warehouse.errors import WarehouseVersionError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

#: Columns for the pipeline alone: the keys, and the row's place in its file.
INTERNAL_COLUMNS = {
    tables.ARTICLE_CHANGES.name: {"event_key": "UBIGINT", "file_row": "BIGINT"},
    tables.LOOKUPS.name: {"event_key": "UBIGINT"},
    tables.ARTICLES.name: {"title_key": "UBIGINT NOT NULL", "event_key": "UBIGINT NOT NULL"},
}
#: Versions of build files before they had a digest.
_NUMBERED = ("1.2", "1.3", "1.4")
#: Of tables of older files: the columns that they lack, as expressions over those that they have. `batch_hour` was what is
#: `source_at` now; tables that had nothing else to be changed have that column renamed.
_HOUR = "CASE WHEN batch_hour = time_bucket(INTERVAL 1 HOUR, batch_hour) THEN batch_hour END"
_DERIVED = {
    tables.HOURS: {"table_name": "'article_changes'"},
    tables.SNAPSHOTS: {"table_name": "'snapshot_articles'", "source_at": "batch_hour"},
    tables.LOADS: {"source_at": "batch_hour", "compaction_id": "NULL"},
    tables.REJECTS: {
        "table_name": f"CASE WHEN {_HOUR} IS NULL THEN 'snapshot_articles' ELSE 'article_changes' END",
        "source_at": "batch_hour",
        "raw_bytes": "octet_length(raw)",
        "raw_path": "NULL",
        "raw_offset": "NULL",
    },
}
#: The same of views of published files; what an older version did not count is null.
_UNCOUNTED = ("reason", "absent_count", "reject_count", "uncertain_count", "repaired_count")
_SHOWN = _DERIVED | {tables.PROJECT_STATE: dict.fromkeys(_UNCOUNTED, "NULL")}
_RENAMED = ("main.articles", "internal.titles", "internal.pages")
VIEWS = (tables.REDIRECTS, tables.PROJECT_STATE)


def create_view(table: tables.Table) -> str:
    """The `CREATE VIEW` of a declared view that is computed from other tables."""
    return statement(
        f"views/{table.name}", beginnings=statement("load/beginnings"), exact_bases=statement("views/exact_bases")
    )


def create_table(table: tables.Table) -> str:
    """The `CREATE TABLE` of a declared table."""
    columns = [
        f"{identifier(column.name)} {sql_type(column.type)}{' NOT NULL' if column.required else ''}" for column in table
    ]
    columns += [f"{name} {kind}" for name, kind in INTERNAL_COLUMNS.get(table.name, {}).items()]
    return f"CREATE TABLE IF NOT EXISTS {identifier(table.name)} (\n  " + ",\n  ".join(columns) + "\n)"


def comments(table: tables.Table, kind: str = "TABLE") -> Iterator[str]:
    """The statements that give a table or view (`kind`) and its columns their descriptions."""
    yield f"COMMENT ON {kind} {identifier(table.name)} IS {quoted(table.description)}"
    for column in table:
        yield f"COMMENT ON COLUMN {identifier(table.name)}.{identifier(column.name)} IS {quoted(column.description)}"


def native_tables() -> tuple[tables.Table, ...]:
    """The declared tables of the build file: those of every dataset, less their bodies, and the ledger."""
    of_datasets = (
        table
        for dataset in datasets.datasets()
        if dataset is not datasets.SNAPSHOT_ARTICLES
        for table in (dataset.table.narrow, *dataset.native)
    )
    states = dict.fromkeys(dataset.state for dataset in datasets.datasets() if dataset.state is not None)
    return (
        *states,
        *of_datasets,
        tables.SNAPSHOTS,
        tables.HOURS,
        tables.LOADS,
        tables.COMPACTED_FILES,
        tables.REJECTS,
        tables.VISIBILITY_CHANGES,
        tables.STREAM_COMPARISONS,
    )


def table_names() -> list[str]:
    """All tables of the build file, with their schemas, quoted."""
    own = [("main", table.name) for table in native_tables()]
    internal = re.findall(r"^CREATE TABLE IF NOT EXISTS internal\.(\w+)", statement("database/internal"), re.MULTILINE)
    return [f"{identifier(schema)}.{identifier(name)}" for schema, name in (*own, *(("internal", n) for n in internal))]


def digest() -> str:
    """The version of a build file: a digest of everything that is declared of it."""
    return _digest(native_tables())


@functools.cache
def _digest(natives: tuple[tables.Table, ...]) -> str:
    return hashlib.sha256(_script(natives).encode()).hexdigest()[:16]


def ensure(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Make the tables in a new build file, bring an older one up to date, leave one of the same version alone.

    Missing tables and columns that may be null are added, as are nulls of columns that had none; views and comments are made anew. Tables that no dataset declares stay.

    Raises:
        WarehouseVersionError: the file was made for other tables; nothing was changed.
    """
    wanted = digest()
    try:
        found = connection.execute("SELECT schema_version FROM internal.meta").fetchall()[0][0]
    except duckdb.CatalogException:  # DuckDB's list of its tables would take ten times as long, each time
        found = None
    if found == wanted:
        return
    if found is not None and "." in found and found not in _NUMBERED:
        raise _refusal(path, found)
    script = _script(native_tables())
    with transaction(connection):
        if found is not None:
            _take_over(connection)
            _add_columns(connection, script, found, path)
        connection.execute(script)
        connection.execute("UPDATE internal.meta SET schema_version = ?", [wanted])


@functools.cache
def _script(natives: tuple[tables.Table, ...]) -> str:
    """The statements that make all tables, views and comments that are not there."""
    statements: list[str] = []
    for table in natives:
        statements += [create_table(table), *comments(table)]
    state = ", ".join(f"{name} {kind} NOT NULL" for name, kind in STATE.items())
    candidates = statement("state/candidates", changes="article_changes", base="internal.bases", more="")
    statements.append(statement("database/internal", state=state, candidates=candidates, keys=quoted(KEYS_DIGEST)))
    for view in VIEWS:
        statements += [create_view(view), *comments(view, "VIEW")]
    return ";\n".join(statements)


def _add_columns(connection: duckdb.DuckDBPyConnection, script: str, found: str, path: Path) -> None:
    """Add the columns that tables of the file lack, where a row may have none of them."""
    with duckdb.connect() as alone:
        alone.execute(script)
        wanted = _columns(alone)
    there = _columns(connection)
    wrong = []
    keys = connection.execute(
        "SELECT comment FROM duckdb_tables() WHERE table_name = 'meta' AND database_name = current_database()"
    ).fetchall()
    if keys[0][0] not in (None, KEYS_DIGEST):
        wrong.append("the keys of rows")
    for table in there.keys() & wanted.keys():
        for column, kind in wanted[table].items():
            if column not in there[table] and kind.endswith(" NULL") and not kind.endswith("NOT NULL"):
                connection.execute(f"ALTER TABLE {table} ADD COLUMN {identifier(column)} {kind.removesuffix(' NULL')}")
            elif there[table].get(column) == kind.replace(" NULL", " NOT NULL"):
                connection.execute(f"ALTER TABLE {table} ALTER COLUMN {identifier(column)} DROP NOT NULL")
            elif there[table].get(column) != kind:
                wrong.append(f"{table}.{column}")
        wrong += [f"{table}.{column}" for column in there[table].keys() - wanted[table].keys()]
    if wrong:
        raise _refusal(path, f"{found} ({', '.join(sorted(wrong))} differ)")


def _refusal(path: Path, found: str) -> WarehouseVersionError:
    return WarehouseVersionError(
        f"{path.name} was made for tables of version {found}, and this program declares version {digest()}. "
        f"Nothing was changed. Remove {path.name} and run `wme rebuild`, which makes it again from the archive."
    )


def _columns(connection: duckdb.DuckDBPyConnection, what: str = "table") -> dict[str, dict[str, str]]:
    """Type and nullability of the columns of each table or view of a file, by name."""
    found = connection.execute(
        "SELECT concat(schema_name, '.', table_name), column_name, concat(data_type, if(is_nullable, ' NULL', ' NOT NULL')) "  # noqa: S608  two words
        "FROM duckdb_columns() WHERE NOT internal AND database_name = current_database() "
        f"AND table_oid IN (SELECT {what}_oid FROM duckdb_{what}s() WHERE database_name = current_database())"
    ).fetchall()
    columns: dict[str, dict[str, str]] = {}
    for table, column, kind in found:
        columns.setdefault(table, {})[column] = kind
    return columns


def _take_over(connection: duckdb.DuckDBPyConnection) -> None:
    """Give the tables of an older build file the columns of today that follow from the ones they have."""
    there = _columns(connection)
    for table in _RENAMED:
        if "batch_hour" in there.get(table, ()):
            connection.execute(f"ALTER TABLE {table} RENAME COLUMN batch_hour TO source_at")
    for declared in _DERIVED:
        name = declared.name
        if (columns := _of_today(declared, there.get(f"main.{name}", {}))) is not None:
            connection.execute(f"ALTER TABLE {name} RENAME TO older_{name}")
            connection.execute(create_table(declared))
            connection.execute(f"INSERT INTO {name} SELECT {columns} FROM older_{name}")  # noqa: S608  declared names
            connection.execute(f"DROP TABLE older_{name}")


def show_older(connection: duckdb.DuckDBPyConnection) -> None:
    """Let a file that an older version published, attached as `warehouse`, be asked like one of today."""
    if connection.execute("FROM about WHERE name = 'schema_version' AND value = ?", [digest()]).fetchall():
        return
    there = _columns(connection, "view") | _columns(connection)
    for declared in _SHOWN:
        own = there.get(f"main.{declared.name}", {})
        if (columns := _of_today(declared, own)) is not None:
            # the file's own macros ask this view as well, for the columns that they know
            columns = ", ".join([columns, *(identifier(name) for name in own if name not in declared.schema.names)])
            connection.execute(f"CREATE TEMP VIEW {declared.name} AS SELECT {columns} FROM warehouse.{declared.name}")  # noqa: S608


def _of_today(table: tables.Table, there: Collection[str]) -> str | None:
    """What to select from a table of an older file for its columns of today; None where it has them, or they do not follow."""
    derived = _SHOWN[table]
    missing = {column.name for column in table} - {*there}
    if not missing or not missing <= derived.keys() or {*there} - {*table.schema.names, "batch_hour"}:
        return None
    own = {column.name: identifier(column.name) for column in table} | {name: derived[name] for name in missing}
    if "source_at" in missing and "batch_hour" in own:
        own["batch_hour"] = _HOUR
    return ", ".join(f"CAST({own[c.name]} AS {sql_type(c.type)}) AS {identifier(c.name)}" for c in table)
