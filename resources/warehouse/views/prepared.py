"""The views and macros of analysts in the build file, with more than four hundred comments.

They are made in the build file, once for each version, so that a publication takes them over with the copy and only
replaces what
names files of the lake.
"""

from __future__ import annotations

import functools
import hashlib
from typing import TYPE_CHECKING

from resources import datasets
from resources.tables import ABOUT
from resources.warehouse.database import schema
from resources.warehouse.database.sql import identifier, quoted, transaction
from resources.warehouse.read.faults import VIEWS
from resources.warehouse.views.analysts import questions
from resources.warehouse.views.lake import frames

if TYPE_CHECKING:
    import duckdb


def prepare(connection: duckdb.DuckDBPyConnection) -> None:
    """Create the prepared views in the build file, unless their current declarations are there."""
    script, wanted = _script(datasets.datasets())
    if connection.execute("SELECT prepared_version FROM internal.meta").fetchall() == [(wanted,)]:
        return
    # the names that analysts ask are those in the schema main
    connection.execute("SET search_path = 'main'")
    with transaction(connection):
        for kind, name in _found(connection):
            connection.execute(f"DROP {kind} main.{identifier(name)}")
        connection.execute(script)
        # these are without lake files now
        connection.execute("DELETE FROM internal.publication WHERE name = ?", [VIEWS])
        connection.execute("UPDATE internal.meta SET prepared_version = ?", [wanted])
    schema.search_internal(connection)


@functools.cache
def _script(_of: tuple[datasets.Dataset, ...]) -> tuple[str, str]:
    """The statements that make them, and their version."""
    script = ";\n".join((schema.create_table(ABOUT), *schema.comments(ABOUT), *frames(), *questions()))
    # the views know the types of the tables below them
    return script, hashlib.sha256((schema.digest() + script).encode()).hexdigest()[:16]


def _found(connection: duckdb.DuckDBPyConnection) -> list[tuple[str, str]]:
    """The views, macros and tables of another version."""
    kept = ", ".join(quoted(view.name) for view in schema.VIEWS)
    here = "NOT internal AND schema_name = 'main' AND database_name = current_database()"
    return connection.execute(
        f"SELECT 'VIEW', view_name FROM duckdb_views() WHERE {here} AND view_name NOT IN ({kept}) "  # noqa: S608
        f"UNION ALL SELECT DISTINCT 'MACRO TABLE', function_name FROM duckdb_functions() WHERE {here} "
        f"UNION ALL SELECT 'TABLE', table_name FROM duckdb_tables() WHERE {here} AND table_name = {quoted(ABOUT.name)}"
    ).fetchall()
