"""Queries that reach the published file and its lake alone, and change nothing.

DuckDB's own settings close every other file, the network and extensions. They do not distinguish reading from writing,
and a `SELECT` of DuckDB 2 can write: in a `WITH`, and through table functions that run SQL from a text. So a query runs
as a subquery, in which DuckDB itself refuses everything that writes, and only table functions that read are accepted.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import duckdb

from resources.warehouse.database.sql import quoted
from resources.warehouse.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

#: DuckDB's table functions that only read or generate rows. Scalar functions, and macros of the published file, have no
#: side effects.
_READING = (
    "(duckdb|parquet|pragma|read)_\\w+|generate_series|glob|json_each|json_tree|query_table|range|repeat|repeat_row|"
    "sniff_csv|unnest"
)
_TABLE_FUNCTIONS = (
    "SELECT lower(function_name) FROM duckdb_functions() WHERE database_name = 'system' GROUP BY ALL "
    "HAVING bool_and(function_type IN ('table', 'pragma'))"
)
_EXPLAIN = re.compile(r"\s*EXPLAIN(\s+ANALYZE)?\b", re.IGNORECASE)


def confine(connection: duckdb.DuckDBPyConnection, folders: Iterable[Path]) -> None:
    """Close everything but what is attached and the files below these folders, until the connection ends.

    Large queries still spill: DuckDB adds its folder for temporary files itself.
    """
    paths = ", ".join(quoted(str(folder)) for folder in folders)
    connection.execute(f"SET allowed_directories = [{paths}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def confined(connection: duckdb.DuckDBPyConnection, query: str) -> str:
    """The query in the form in which it cannot write.

    Raises:
        QueryError: It is not one query. Nothing was done.
        duckdb.Error: It is not SQL.
    """
    statements = duckdb.extract_statements(query)
    text = statements[0].query.strip("; \t\r\n") if len(statements) == 1 else ""
    explain = found.group() if (found := _EXPLAIN.match(text)) else ""
    text = text.removeprefix(explain)
    [(serialised,)] = connection.execute("SELECT json_serialize_sql($1::VARCHAR)", [text]).fetchall()
    tree = json.loads(serialised)
    # DuckDB serialises queries alone
    if tree["error"] or len(statements) != 1:
        kinds = ", ".join(statement.type.name for statement in statements) or "nothing"
        raise QueryError(
            "Only one query (SELECT, FROM, WITH, DESCRIBE, SHOW, SUMMARIZE, EXPLAIN) is answered, and this is "
            f"{kinds}. Nothing was done. PIVOT needs its values: PIVOT … ON column IN (…). `wme sql --allow-files` "
            "runs all statements."
        )
    names = {name for name in _functions(tree) if not re.fullmatch(_READING, name)}
    of_tables = {name for (name,) in connection.execute(_TABLE_FUNCTIONS).fetchall()} if names else set()
    if refused := sorted(names & of_tables):
        raise QueryError(
            f"{refused[0]}() is none of the table functions that only read, so the query was refused. Nothing was "
            "done. `wme sql --allow-files` runs it."
        )
    return f"{explain} FROM ({text}\n)".lstrip()


def _functions(node: Any) -> Iterator[str]:
    """The names of all functions in a serialised query, in small letters."""
    if isinstance(node, dict):
        if isinstance(name := node.get("function_name"), str):
            yield name.lower()
        node = list(node.values())
    if isinstance(node, list):
        for one in node:
            yield from _functions(one)
