"""Workarounds for DuckDB information that is available only in error messages or setting strings.

Each docstring names the affected versions and the condition for removing the workaround.
`tests/unit/warehouse/test_workarounds.py` fails if a DuckDB version behaves differently.
"""

from typing import Final

import duckdb

#: Units in which DuckDB prints its memory limit.
_UNITS: Final = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")


def is_exhausted(error: duckdb.Error) -> bool:
    """Return True if disk space or memory ran out, which means that the input is not at fault.

    DuckDB 1.5 and 2.0 have an exception for memory but none for a full disk, which only the error message identifies.
    Remove this workaround once the exception contains the system's error number.
    """
    return isinstance(error, duckdb.OutOfMemoryException) or "No space left" in str(error)


def is_other_storage(error: duckdb.Error) -> bool:
    """Return True if a file cannot be opened with the requested storage version.

    The requested version is older than the file's version, newer than DuckDB supports, or unknown. DuckDB 1.5 and 2.0
    have no exception for this error. The pattern does not match paths in other error messages. Remove this workaround
    once DuckDB has such an exception.
    """
    kinds = ((duckdb.InvalidInputException, "version"), (duckdb.IOException, "version number"))
    return any(isinstance(error, kind) and words in str(error) for kind, words in kinds)


def memory_limit(connection: duckdb.DuckDBPyConnection) -> int:
    """Return DuckDB's memory limit in bytes, rounded.

    DuckDB 1.5 and 2.0 return the setting as a rounded string such as `1.8 GiB`. Remove this workaround once DuckDB
    returns a number.
    """
    number, unit = connection.execute("SELECT current_setting('memory_limit')").fetchall()[0][0].split()
    return int(float(number) * 1024 ** _UNITS.index(unit))
