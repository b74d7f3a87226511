"""DuckDB instances that are reused for the next file.

Starting and closing an instance takes 25 ms, mostly for its functions, and attaching a file 1 ms.

An instance has one user and one file at a time. Nothing passes from one user to the next: each has a connection of its
own, and an instance in which something failed is closed. Settings of a whole instance are set again by each user.
"""

from __future__ import annotations

import atexit
import contextlib
import os
from typing import TYPE_CHECKING

import duckdb

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: Nothing may try the network unasked: without it, a missing extension is said at once instead of after seconds.
_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}
#: Kept at most: there is seldom more than one user of a kind at a time.
_KEPT = 2
#: The name under which every file is attached.
NAME = "warehouse"


def connect() -> duckdb.DuckDBPyConnection:
    """Return a connection to a separate instance, which ends with the connection."""
    return _in_utc(duckdb.connect(":memory:", config=_CONFIG))


class Instances:
    """Instances for one kind of use. Safe for threads."""

    def __init__(self) -> None:
        """Keep none so far."""
        self._idle: list[duckdb.DuckDBPyConnection] = []
        # a process that is forked would inherit instances without their threads
        os.register_at_fork(before=self.end)
        atexit.register(self.end)

    @contextlib.contextmanager
    def connection(self, spill: Path | None = None) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection to attach a file with, as `NAME`; it is detached at the end, as if the instance were closed.

        An instance that has spilled into the folder `spill` is ended: it removes the folder and keeps to its name.
        """
        try:
            instance = self._idle.pop()
        except IndexError:
            instance = duckdb.connect(":memory:", config=_CONFIG)
        try:
            with instance.cursor() as connection:
                yield _in_utc(connection)
        except BaseException:
            instance.close()
            raise
        # closing an instance never fails either: what the last checkpoint could not write stays in the log
        with contextlib.suppress(duckdb.Error):
            instance.execute(f"DETACH DATABASE IF EXISTS {NAME}")
            if len(self._idle) < _KEPT and not (spill is not None and spill.exists()):
                self._idle.append(instance)
                return
        instance.close()

    def end(self) -> None:
        """End those that nobody uses."""
        while self._idle:
            self._idle.pop().close()


def _in_utc(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    connection.execute("SET TimeZone = 'UTC'")
    return connection
