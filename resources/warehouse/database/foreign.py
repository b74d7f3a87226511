"""Build files that come from elsewhere: removal of the SQL stored in them, which may read any file of this machine."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import duckdb

from resources.errors import clause
from resources.warehouse.database.instances import NAME, connect
from resources.warehouse.database.schema import digest
from resources.warehouse.database.sql import identifier, quoted
from resources.warehouse.errors import WarehouseDamagedError

if TYPE_CHECKING:
    from pathlib import Path

_HERE = f"database_name = {quoted(NAME)}"
#: Kind, schema, name and table of what is removed. Triggers first, since they run with the others; DuckDB 1.5 has none.
_CODE = (
    f"SELECT 'TRIGGER', schema_name, trigger_name, table_name FROM duckdb_triggers() WHERE {_HERE}",  # noqa: S608
    f"SELECT 'VIEW', schema_name, view_name, NULL FROM duckdb_views() WHERE NOT internal AND {_HERE}",  # noqa: S608
    f"""
    SELECT DISTINCT if(function_type = 'table_macro', 'MACRO TABLE', 'MACRO'), schema_name, function_name, NULL
    FROM duckdb_functions() WHERE NOT internal AND {_HERE}
    """,  # noqa: S608
)


def remove_code(build: Path) -> None:
    """Remove all views, macros and triggers of a build file. The next opening creates the declared ones again.

    A macro may have the name of a DuckDB function. The file is therefore not made the current database, and DuckDB may
    open no other file.

    Raises:
        WarehouseDamagedError: DuckDB cannot read or write the file.
    """
    try:
        with connect() as connection:
            connection.execute(f"ATTACH {quoted(str(build))} AS {NAME}")
            connection.execute("SET enable_external_access = false")
            for query in _CODE:
                for kind, schema, name, table in _found(connection, query):
                    place = f"{NAME}.{identifier(schema)}"
                    of = f"{place}.{identifier(name)}"
                    if table is not None:
                        of = f"{identifier(name)} ON {place}.{identifier(table)}"
                    connection.execute(f"DROP {kind} {of}")
            # a file of today's version would be taken for complete
            with contextlib.suppress(duckdb.CatalogException, duckdb.BinderException):
                connection.execute(
                    f"UPDATE {NAME}.internal.meta SET schema_version = '', prepared_version = NULL "  # noqa: S608
                    "WHERE schema_version = ?",
                    [digest()],
                )
    except duckdb.Error as error:
        raise WarehouseDamagedError(
            f"DuckDB cannot remove the views, macros and triggers of {build} ({clause(error)}). Nothing was published. "
            "Use another copy, or make the warehouse "
            "from the archive: `wme rebuild`."
        ) from error


def _found(connection: duckdb.DuckDBPyConnection, query: str) -> list[tuple[str, str, str, str | None]]:
    try:
        return connection.execute(query).fetchall()
    except duckdb.CatalogException:
        return []
