"""Recovery from a damaged build file: rename the file, and replace it with a copy of the published file.

This module never writes into DuckDB's blocks. A new or copied build file is marked as incomplete in `internal.meta`, so
the next publication reloads the missing data (see `assets/steps/rebuilding.py`). If a build file comes from elsewhere,
for example from a backup, `remove_code` removes its views, macros and triggers.
"""

import contextlib
import errno
import fcntl
import logging
import os
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

import duckdb

from resources import files
from resources.errors import clause
from resources.warehouse.database.schema import OutdatedError, digest, ensure
from resources.warehouse.database.sql import NAME, connect, identifier, quoted
from resources.warehouse.database.workarounds import is_exhausted
from resources.warehouse.records import WarehouseDamagedError, WarehouseVersionError

#: Function that opens a file for writing.
Open = Callable[[Path], AbstractContextManager[duckdb.DuckDBPyConnection]]


_log = logging.getLogger(__name__)
#: Suffix that a damaged build file gets when it is renamed.
ASIDE: Final = "damaged"


def replace_build(build: Path, published: Path, open_file: Open, why: Exception | None) -> None:
    """Rename the build file and replace it with a copy of the published file or with a new file.

    The caller must hold the lock and have no open connection. If the process is killed, it leaves a damaged build file,
    no build file, or the complete copy. The next process can resume from any of these states. `why` is the error that
    made the file unusable, or None if the file is missing.
    """
    aside = build.with_name(f"{build.name}.{ASIDE}")
    if build.exists():
        build.replace(aside)
    # the write-ahead log belongs to the renamed file
    if (log := build.with_name(f"{build.name}.wal")).exists():
        log.replace(aside.with_name(f"{aside.name}.wal"))
    is_copied = published.exists() and put_in_place(build, published, open_file)
    if not is_copied:
        put_in_place(build, None, open_file)
    _log.warning(
        "%s. %s takes its place. The next publication loads missing data from the lake and the archive.",
        f"{build.name} is missing"
        if why is None
        else f"{build.name} cannot be used ({clause(why)}) and was renamed to {aside.name}",
        f"A copy of {published.name}" if is_copied else "A new file",
    )


def put_in_place(build: Path, published: Path | None, open_file: Open) -> bool:
    """Replace the build file with a copy of the published file, or with a new file, which is marked as incomplete.

    Return False if the copy is unusable.
    """
    temporary = build.with_name(f"{build.name}.tmp")
    build.parent.mkdir(parents=True, exist_ok=True)
    for left in (temporary, build.with_name(f"{build.name}.wal")):
        left.unlink(missing_ok=True)
    try:
        if published is not None:
            copy_file(published, temporary)
            # the published file might be a copy from another machine
            remove_code(temporary)
        with open_file(temporary) as connection:
            read_metadata(connection)
            if published is not None:
                # a file without this column has only the analysts' tables, so no data could be loaded into it
                connection.execute("SELECT is_complete FROM internal.meta")
            ensure(connection)
            connection.execute("UPDATE internal.meta SET is_complete = false")
            connection.execute("CHECKPOINT")
        files.put(temporary, build)
    except (duckdb.Error, OutdatedError, WarehouseDamagedError, WarehouseVersionError) as error:
        if published is None or (isinstance(error, duckdb.Error) and is_exhausted(error)):
            raise
        _log.info("%s cannot be used as a build file: %s", published.name, clause(error))
        return False
    finally:
        for left in (temporary, temporary.with_name(f"{temporary.name}.wal")):
            left.unlink(missing_ok=True)
    return True


def read_metadata(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """Read the attached file's metadata and return its tables. Raises duckdb.Error if the metadata is damaged."""
    query = (
        """SELECT concat_ws('.', database_name, '"' || schema_name || '"', '"' || table_name || '"') """
        "FROM duckdb_tables() WHERE database_name = current_database()"
    )
    tables = [table for (table,) in connection.execute(query).fetchall()]
    for table in tables:
        query = f"SELECT count(*) FROM pragma_storage_info({quoted(table)})"  # noqa: S608  our own tables
        connection.execute(query).fetchall()
    return tables


def is_refused(path: Path, *, with_rows: bool = False) -> bool:
    """Return True if DuckDB cannot open an accessible file or read its metadata (with `with_rows`, also its rows)."""
    try:
        path.open("r+b").close()
    except OSError:
        return False
    try:
        with connect() as connection:
            connection.execute(f"ATTACH {quoted(str(path))} AS {NAME}")
            connection.execute(f"USE {NAME}")
            tables = read_metadata(connection)
            for table in tables if with_rows else ():
                connection.execute(f"SELECT bit_xor(hash(t)) FROM {table} AS t").fetchall()  # noqa: S608
    except duckdb.Error as error:
        return not is_exhausted(error)
    return False


def is_locked(path: Path) -> bool:
    """Return True if another process holds a DuckDB lock on the file."""
    try:
        with path.open("r+b") as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


#: Errors that `copy_file_range` raises for unsupported files, which a plain copy can handle.
_UNSUPPORTED: Final = frozenset({errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM, errno.EBADF})


def copy_file(source: Path, target: Path) -> None:
    """Replace `target` with a copy that can share blocks with `source`, without syncing the copy. Raises OSError."""
    with source.open("rb") as read, target.open("wb") as written:
        try:
            while os.copy_file_range(read.fileno(), written.fileno(), 1 << 30):
                pass
        except (AttributeError, OSError) as error:  # only Linux has this call
            if isinstance(error, OSError) and error.errno not in _UNSUPPORTED:
                raise
            shutil.copyfileobj(read, written)


_HERE = f"database_name = {quoted(NAME)}"
#: Queries for the kind, schema, name and table of each object to remove. Triggers come first, because dropping other
#: objects runs them. DuckDB 1.5 does not support triggers.
_CODE = (
    f"SELECT 'TRIGGER', schema_name, trigger_name, table_name FROM duckdb_triggers() WHERE {_HERE}",  # noqa: S608
    f"SELECT 'VIEW', schema_name, view_name, NULL FROM duckdb_views() WHERE NOT internal AND {_HERE}",  # noqa: S608
    f"""
    SELECT DISTINCT if(function_type = 'table_macro', 'MACRO TABLE', 'MACRO'), schema_name, function_name, NULL
    FROM duckdb_functions() WHERE NOT internal AND {_HERE}
    """,  # noqa: S608
)


def remove_code(build: Path) -> None:
    """Remove all views, macros and triggers from a build file. The declared views and macros are created again later.

    Because a macro can shadow a DuckDB function, the file never becomes the current database. DuckDB is also not
    allowed to open other files. Raises WarehouseDamagedError if DuckDB cannot read or write the file.
    """
    try:
        with connect() as connection:
            connection.execute(f"ATTACH {quoted(str(build))} AS {NAME}")
            connection.execute("SET enable_external_access = false")
            for query in _CODE:
                found: list[tuple[str, str, str, str | None]] = []
                with contextlib.suppress(duckdb.CatalogException):
                    found = connection.execute(query).fetchall()
                for kind, schema, name, table in found:
                    place = f"{NAME}.{identifier(schema)}"
                    of = f"{place}.{identifier(name)}"
                    if table is not None:
                        of = f"{identifier(name)} ON {place}.{identifier(table)}"
                    connection.execute(f"DROP {kind} {of}")
            # otherwise a file with the current schema version would be treated as prepared
            with contextlib.suppress(duckdb.CatalogException, duckdb.BinderException):
                connection.execute(
                    f"UPDATE {NAME}.internal.meta SET schema_version = '', prepared_version = NULL "  # noqa: S608
                    "WHERE schema_version = ?",
                    [digest()],
                )
    except duckdb.Error as error:
        raise WarehouseDamagedError(
            f"DuckDB cannot remove the views, macros and triggers of {build} ({clause(error)}). Nothing was published. "
            "Use another copy, or rebuild the warehouse from the archive: `wme rebuild`."
        ) from error
