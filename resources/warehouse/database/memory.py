"""DuckDB's memory limit: what it is, and a lower one while something is read that will not be read again."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from resources.warehouse.database.sql import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb

#: The units in which DuckDB names its limit.
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")
#: Room for the blocks that a scan of a few columns needs at a time, with some to spare.
_SCAN_BYTES = 8 << 20


def limit_of(connection: duckdb.DuckDBPyConnection) -> int:
    """What DuckDB may hold in memory, in bytes, about."""
    return _bytes(connection.execute("SELECT current_setting('memory_limit')").fetchall()[0][0])


@contextlib.contextmanager
def keeping_nothing_read(connection: duckdb.DuckDBPyConnection, own_bytes: int) -> Iterator[None]:
    """Within it, blocks that are read make room for the next ones. What is held already stays; the limit is never raised.

    Otherwise DuckDB keeps blocks until its memory is full, and in a new process touching memory for the first time costs more than reading: about 50 ms
    of processor time for 64 MB.

    Args:
        connection: Its instance must have no other user.
        own_bytes: Memory needed for results, besides the blocks that are read.
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
