"""Workarounds for DuckDB where only error texts or setting texts carry the information.

Each entry names the affected versions and the condition for its removal. `tests/unit/warehouse/test_workarounds.py`
fails if a DuckDB version behaves differently.
"""

from __future__ import annotations

from typing import Final

import duckdb

#: Units in which DuckDB prints its memory limit.
_UNITS: Final = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")


def is_exhausted(error: duckdb.Error) -> bool:
    """Return whether disk or memory ran out, so that other input would not have helped.

    DuckDB 1.5 and 2.0 have an exception for memory but none for a full disk: only the text identifies it. Remove this
    once the exception has the system's error number.
    """
    return isinstance(error, duckdb.OutOfMemoryException) or "No space left" in str(error)


def is_other_storage(error: duckdb.Error) -> bool:
    """Return whether a file cannot be opened in the requested storage version.

    That version is lower than the file's own, newer than DuckDB, or unknown. DuckDB 1.5 and 2.0 have no exception for
    this. The words do not match a path in an error of another kind. Remove this once there is such an exception.
    """
    kinds = ((duckdb.InvalidInputException, "version"), (duckdb.IOException, "version number"))
    return any(isinstance(error, kind) and words in str(error) for kind, words in kinds)


def memory_limit(connection: duckdb.DuckDBPyConnection) -> int:
    """Return DuckDB's memory limit in bytes, rounded.

    DuckDB 1.5 and 2.0 return the setting as a rounded text, for example `1.8 GiB`. Remove this once there is a number.
    """
    number, unit = connection.execute("SELECT current_setting('memory_limit')").fetchall()[0][0].split()
    return int(float(number) * 1024 ** _UNITS.index(unit))
