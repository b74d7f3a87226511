"""Views and macros for common analyst queries, with comments.

These views and macros are created in the build file once per version. A publication copies the views and macros, and
replaces only views that list lake files. Historical page states follow the same rule as current articles. Entity views
parse the JSON in the lake at query time.
"""

import functools
import hashlib
from collections.abc import Iterator

import duckdb

from resources import datasets, tables
from resources.tables import entities, ledger, views
from resources.tables.declaration import Macro
from resources.warehouse.database import schema
from resources.warehouse.database.schema import comments
from resources.warehouse.database.sql import column_list, identifier, quoted, sql_type, statement, transaction
from resources.warehouse.read.lake_parts import LEAVING, derived
from resources.warehouse.read.ledger import VIEWS
from resources.warehouse.state.entities import ENTITIES_AT, with_rule
from resources.warehouse.views.lake import frames

#: For each macro, the table to search for another spelling of a title, and the condition that no exact match exists.
_TITLES = {
    "find_article": {
        "none_is_right": "NOT bool_or(spelling = replace(title, '_', ' '))",
        "title": "title",
        "name": "redirect_name",
        "names": "redirects",
    },
    "article_history": {
        "none_is_right": "count(*) > 0 AND NOT EXISTS (FROM pages)",
        "title": "CASE WHEN typeof(page) = 'VARCHAR' THEN CAST(page AS VARCHAR) END",
        "name": "name",
        "names": "article_changes",
    },
}
_HERE = "NOT internal AND schema_name = 'main' AND database_name = current_database()"
#: Query for the views, macros and tables that a different version created.
_CREATED = f"""
SELECT 'VIEW', view_name FROM duckdb_views()
WHERE {_HERE} AND view_name NOT IN ({", ".join(quoted(view.name) for view in schema.VIEWS)})
UNION ALL
SELECT DISTINCT 'MACRO TABLE', function_name FROM duckdb_functions() WHERE {_HERE}
UNION ALL
SELECT 'TABLE', table_name FROM duckdb_tables() WHERE {_HERE} AND table_name = {quoted(ledger.ABOUT.name)}
"""  # noqa: S608  declared names
#: State columns that a macro returns but that do not affect the order of states.
_MORE = {"project_size": ", change.size_bytes, change.character_count"}
#: Query for all changes, including looked-up pages, with the columns of `articles`. Two lookups of a run can find the
#: same page under different spellings of its title; the first one counts, as in `articles`.
_CHANGES = (
    "(SELECT {columns} FROM (SELECT * RENAME (batch_hour AS source_at) FROM article_changes) UNION ALL "
    "SELECT {columns} FROM (SELECT *, 'update' AS change_type FROM lookups WHERE is_found AND purpose <> 'watch' "
    "QUALIFY row_number() OVER (PARTITION BY project_id, name, article_id, version_id, source_at "
    "ORDER BY looked_up_at, asked_name) = 1))"
)


def questions() -> Iterator[str]:
    """Yield the statements that create the views and macros, with comments. The lake views must already exist."""
    for table in views.QUESTIONS:
        yield _written(table.name)
        yield from comments(table, "VIEW")
    for dataset in datasets.datasets(datasets.Family.SNAPSHOT):
        for table in dataset.views:
            query = derived(table.name, today=f"({statement('views/entities_today')})")
            yield f"CREATE VIEW main.{identifier(table.name)} AS SELECT {column_list(table)} FROM (\n{query})"  # noqa: S608
            yield from comments(table, "VIEW")
    for macro in views.MACROS:
        given = _given(macro)
        is_of_entities = macro is entities.ENTITIES_AT
        moment = macro.parameters[0]
        yield with_rule(ENTITIES_AT, moment=moment, **given) if is_of_entities else _written(macro.name, **given)
        yield f"COMMENT ON MACRO TABLE main.{identifier(macro.name)} IS {quoted(macro.description)}"


def _given(macro: Macro) -> dict[str, str]:
    """Return the parts of a macro's SQL that refuse arguments which would become columns of the macro's own query."""
    types = {column.name: sql_type(column.type) for table in datasets.tables() for column in table}
    return {
        "captured": statement("views/captured").strip(),
        "macro": macro.name,
        "hidden": ", ".join(f"CAST(NULL AS {kind}) AS {identifier(name)}" for name, kind in types.items()),
        "parameters": ", ".join(macro.parameters),
    }


def _written(name: str, **given: str) -> str:
    """Return the SQL for a view or macro.

    `{complaints}` replaces every page column with a cast of the `complaint` string. A query of any column then fails
    with this string as the error message.
    """
    exact_bases = statement("views/exact_bases")
    more = _MORE.get(name, ", change.mark")
    return statement(
        f"views/{name}",
        other_spelling=statement("views/other_spelling", **_TITLES.get(name, {})),
        unmirrored=statement("views/unmirrored"),
        inexact=statement("views/inexact", exact_bases=exact_bases),
        exact_bases=exact_bases,
        candidates=statement("state/candidates", changes="changes", base="base", more=more),
        changes=_CHANGES,
        columns=column_list(tables.ARTICLES),
        change_columns=column_list(LEAVING.table.narrow),
        complaints=", ".join(f"CAST(complaint AS {sql_type(c.type)}) AS {identifier(c.name)}" for c in tables.ARTICLES),
        mark="CASE WHEN event_id IS NULL THEN {row_digest} ELSE event_id END",
        **given,
    )


def prepare(connection: duckdb.DuckDBPyConnection) -> None:
    """Create the views and macros in the build file, unless their current version already exists."""
    script, wanted = _script(datasets.datasets())
    if connection.execute("SELECT prepared_version FROM internal.meta").fetchall() == [(wanted,)]:
        return
    # unqualified names in the views and macros refer to the `main` schema
    connection.execute("SET search_path = 'main'")
    with transaction(connection):
        for kind, name in connection.execute(_CREATED).fetchall():
            connection.execute(f"DROP {kind} main.{identifier(name)}")
        connection.execute(script)
        # the internal views no longer list any lake files
        connection.execute("DELETE FROM internal.publication WHERE name = ?", [VIEWS])
        connection.execute("UPDATE internal.meta SET prepared_version = ?", [wanted])
    schema.search_internal(connection)


@functools.cache
def _script(_of: tuple[datasets.Dataset, ...]) -> tuple[str, str]:
    """Return the statements that create the views and macros, and their version."""
    script = ";\n".join((schema.create_table(ledger.ABOUT), *comments(ledger.ABOUT), *frames(), *questions()))
    # views store the column types of their tables, so the version includes the table definitions
    return script, hashlib.sha256((schema.digest() + script).encode()).hexdigest()[:16]
