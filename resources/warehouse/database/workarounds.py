"""Workarounds for DuckDB: what it reports in texts alone. Each entry names the versions and its end.

`tests/unit/warehouse/test_workarounds.py` notices a DuckDB that behaves differently.
"""

from __future__ import annotations

from typing import Final

import duckdb

#: The units in which DuckDB names its limit.
_UNITS: Final = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")


def is_exhausted(error: duckdb.Error) -> bool:
    """Return whether the disk or the memory ran out, which no other input would have helped.

    DuckDB 1.5 and 2.0 have an exception for memory and none for a full disk: only the text says so. It ends once the
    exception has the error number of the system.
    """
    return isinstance(error, duckdb.OutOfMemoryException) or "No space left" in str(error)


def is_other_storage(error: duckdb.Error) -> bool:
    """Return whether a file cannot be opened in a storage version: lower than its own, newer than DuckDB, or unknown.

    DuckDB 1.5 and 2.0 have no exception for it. The words do not match a path in an error of another kind. It ends once
    there is such an exception.
    """
    kinds = ((duckdb.InvalidInputException, "version"), (duckdb.IOException, "version number"))
    return any(isinstance(error, kind) and words in str(error) for kind, words in kinds)


def memory_limit(connection: duckdb.DuckDBPyConnection) -> int:
    """Return what DuckDB may hold in memory, in bytes, about.

    DuckDB 1.5 and 2.0 return the setting as a rounded text, for example `1.8 GiB`. It ends once there is a number.
    """
    number, unit = connection.execute("SELECT current_setting('memory_limit')").fetchall()[0][0].split()
    return int(float(number) * 1024 ** _UNITS.index(unit))
