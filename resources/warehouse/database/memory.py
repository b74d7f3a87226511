"""DuckDB's limit of memory: how much it is, and less of it while something is read that is not read again."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from resources.warehouse.database.sql import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb

#: The units in which DuckDB names its limit.
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")
#: What a scan of a few columns needs of their blocks at a time, and some more.
_SCAN_BYTES = 8 << 20


def limit_of(connection: duckdb.DuckDBPyConnection) -> int:
    """What DuckDB may hold in memory, in bytes, about."""
    return _bytes(connection.execute("SELECT current_setting('memory_limit')").fetchall()[0][0])


@contextlib.contextmanager
def keeping_nothing_read(connection: duckdb.DuckDBPyConnection, own_bytes: int) -> Iterator[None]:
    """Within it, what is read of a file makes room for what is read next; what is held already stays, and the limit is not raised.

    Else DuckDB keeps it until the memory is full, and a process that is new pays more for touching memory than for reading: 50 ms of processor time for
    64 MB.

    Args:
        connection: Its instance has no other user.
        own_bytes: What is made meanwhile, beside what is read.
    """
    query = (
        "SELECT current_setting('memory_limit'), CAST((SELECT sum(memory_usage_bytes) FROM duckdb_memory()) AS BIGINT)"
    )
    [(limit, held)] = connection.execute(query).fetchall()
    connection.execute(f"SET memory_limit = '{min(_bytes(limit), held + own_bytes + _SCAN_BYTES)} bytes'")
    try:
        yield
    finally:
        connection.execute(f"SET memory_limit = {quoted(limit)}")


def _bytes(limit: str) -> int:
    number, unit = limit.split()
    return int(float(number) * 1024 ** _UNITS.index(unit))
