"""Creation of the build file's tables, with comments, from the declarations.

Tables with internal columns are in the `internal` schema, and views in `main` expose the declared columns. Writers
access both kinds of tables by unqualified names, because their connections search `internal` first
(`Connector.open_file`).
"""

import functools
import hashlib
from collections.abc import Iterator

import duckdb

from resources import datasets, tables
from resources.errors import clause
from resources.tables.articles import REDIRECTS
from resources.warehouse.database.sql import KEYS_DIGEST, STATE, identifier, quoted, sql_type, statement, transaction

#: Columns that only the pipeline uses: computed keys and the row's position in its file.
INTERNAL_COLUMNS = {
    **{one.name: {"event_key": "UBIGINT", "file_row": "BIGINT"} for one in datasets.datasets() if one.leaves_warehouse},
    tables.LOOKUPS.name: {"event_key": "UBIGINT"},
    tables.ARTICLES.name: {"title_key": "UBIGINT NOT NULL", "event_key": "UBIGINT NOT NULL"},
}
VIEWS = (REDIRECTS, tables.PROJECT_STATE)


def create_table(table: tables.Table) -> str:
    """Return the `CREATE TABLE` statement of a declared table."""
    columns = [
        f"{identifier(column.name)} {sql_type(column.type)}{' NOT NULL' if column.required else ''}" for column in table
    ]
    schema = "internal" if table.name in INTERNAL_COLUMNS else "main"
    columns += [f"{name} {kind}" for name, kind in INTERNAL_COLUMNS.get(table.name, {}).items()]
    return f"CREATE TABLE IF NOT EXISTS {schema}.{identifier(table.name)} (\n  " + ",\n  ".join(columns) + "\n)"


def comments(table: tables.Table, kind: str = "TABLE") -> Iterator[str]:
    """Return the statements that store the descriptions of a table or view (`kind`) and its columns as comments."""
    name = f"main.{identifier(table.name)}"
    yield f"COMMENT ON {kind} {name} IS {quoted(table.description)}"
    for column in table:
        yield f"COMMENT ON COLUMN {name}.{identifier(column.name)} IS {quoted(column.description)}"


def native_tables() -> tuple[tables.Table, ...]:
    """Return the build file's declared tables: current states, datasets without page text, and the ledger."""
    of_datasets = (
        table
        for dataset in datasets.datasets()
        if not dataset.rows_stay_in_lake
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
    )


def digest() -> str:
    """Return the build file's schema version, a digest of all table declarations."""
    return hashlib.sha256(_script(native_tables()).encode()).hexdigest()[:16]


class OutdatedError(Exception):
    """The tables of a build file differ from the current declarations."""


def ensure(connection: duckdb.DuckDBPyConnection) -> None:
    """Create missing tables, views and comments, unless the file has the current schema version.

    Undeclared tables are preserved. Raises OutdatedError, without changing the file, if its columns or keys differ.
    """
    wanted = digest()
    connection.execute("CREATE SCHEMA IF NOT EXISTS internal")
    search_internal(connection)
    try:
        found = connection.execute("SELECT schema_version FROM internal.meta").fetchall()[0][0]
    except duckdb.CatalogException:  # a catalog query would take ten times as long each time a file is opened
        found = None
    if found == wanted:
        return
    script = _script(native_tables())
    if found is not None:
        declared = _declared(script)
        changed = sorted(name for name, text in _tables(connection).items() if declared.get(name, text) != text)
        if changed:
            raise OutdatedError(
                f"it was created for version {found} of the tables; changed since: {', '.join(changed)}"
            )
    try:
        with transaction(connection):
            connection.execute(script)
            connection.execute("UPDATE internal.meta SET schema_version = ?", [wanted])
    except duckdb.CatalogException as error:
        raise OutdatedError(f"another object has the same name as a table or view ({clause(error)})") from error


def search_internal(connection: duckdb.DuckDBPyConnection) -> None:
    """Resolve unqualified names in `internal` first, because writers need the tables instead of the views."""
    connection.execute("SET search_path = 'internal,main'")


@functools.cache
def _script(natives: tuple[tables.Table, ...]) -> str:
    """Return the statements that create all missing tables, views and comments."""
    statements: list[str] = []
    for table in natives:
        # analysts see a table in the `internal` schema through a view with these comments
        statements += [create_table(table), *(() if table.name in INTERNAL_COLUMNS else comments(table))]
    state = ", ".join(f"{name} {kind} NOT NULL" for name, kind in STATE.items())
    candidates = statement("state/candidates", changes="article_changes", base="internal.bases", more="")
    statements.append(statement("database/internal", state=state, candidates=candidates, keys=quoted(KEYS_DIGEST)))
    parts = {"beginnings": statement("load/beginnings"), "exact_bases": statement("views/exact_bases")}
    for view in VIEWS:
        statements += [statement(f"views/{view.name}", **parts), *comments(view, "VIEW")]
    return ";\n".join(statements)


@functools.cache
def _declared(script: str) -> dict[str, str]:
    """Return the tables that the script creates in an empty file, in the format of `_tables`."""
    with duckdb.connect() as alone:
        alone.execute("ATTACH ':memory:' AS warehouse; USE warehouse; CREATE SCHEMA internal")
        search_internal(alone)
        alone.execute(script)
        return _tables(alone)


def _tables(connection: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """Return a file's tables and the text of their definitions, which for `meta` includes the comment."""
    query = (
        "SELECT concat(schema_name, '.', table_name), concat(sql, CASE WHEN table_name = 'meta' THEN comment END) "
        "FROM duckdb_tables() WHERE database_name = current_database()"
    )
    return dict(connection.execute(query).fetchall())
