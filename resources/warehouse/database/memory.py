"""DuckDB's memory limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb

#: The units in which DuckDB names its limit.
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")


def limit_of(connection: duckdb.DuckDBPyConnection) -> int:
    """Return what DuckDB may hold in memory, in bytes, about."""
    number, unit = connection.execute("SELECT current_setting('memory_limit')").fetchall()[0][0].split()
    return int(float(number) * 1024 ** _UNITS.index(unit))
