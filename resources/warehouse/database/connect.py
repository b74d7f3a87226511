"""Opening DuckDB: the build file under one lock, the published file without any.

Writers exclude each other through one lock file before DuckDB's own lock on the file is touched, because that one fails
at once instead of waiting.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import filelock

from resources import files
from resources.errors import clause
from resources.warehouse.database.recovery import (
    create_build,
    is_locked,
    is_missing,
    is_refused,
    read_metadata,
    replace_build,
)
from resources.warehouse.database.schema import OutdatedError, ensure
from resources.warehouse.database.sql import NAME, Instances, connect, quoted
from resources.warehouse.database.workarounds import is_exhausted, is_other_storage
from resources.warehouse.errors import (
    NotPublishedError,
    QueryError,
    WarehouseBusyError,
    WarehouseDamagedError,
    WarehouseFullError,
    WarehouseVersionError,
)

__all__ = ["Build", "Connector", "answer", "has_table", "locked", "merge_row_groups", "raise_revision"]


_log = logging.getLogger(__name__)

#: Apart, because writers set for a whole instance what readers do not want.
_WRITERS, _READERS = Instances(), Instances()
#: Errors by which DuckDB refuses what it reads, besides the base class, which stands for a wrong checksum.
_REFUSALS = (duckdb.IOException, duckdb.InternalException, duckdb.FatalException, duckdb.SerializationException)
#: What every supported client reads: DuckDB 1.5 and later. A file keeps its storage version unless it is raised.
OLDEST_STORAGE = "v1.5.0"
#: Merging costs as much work as loading the rows did.
_BETWEEN_MERGES = timedelta(days=1)


@contextlib.contextmanager
def locked(lock_path: Path, timeout: float, purpose: str) -> Iterator[None]:
    """Hold a lock file; waits up to `timeout` seconds, says so, and then raises WarehouseBusyError."""
    lock_path.parent.mkdir(parents=True, exist_ok=True)
    lock = filelock.FileLock(lock_path)
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        _log.info("Another process uses the warehouse; waiting up to %.0f s to %s.", timeout, purpose)
        try:
            lock.acquire(timeout=timeout, poll_interval=0.05)
        except filelock.Timeout:
            raise WarehouseBusyError(
                f"Another process has used the warehouse for more than {timeout:.0f} s, so this one could not "
                f"{purpose}. Nothing was changed. Wait for the other run to end, or end it, and try again."
            ) from None
    try:
        yield
    finally:
        lock.release()


class Build(NamedTuple):
    """The open build file, the folder of the lake, and the moment of an operation."""

    connection: duckdb.DuckDBPyConnection
    lake_root: Path
    now: datetime


@dataclass(frozen=True)
class Connector:
    """The paths of the files, and the settings for opening them."""

    build_path: Path
    published_path: Path
    lock_path: Path
    storage_version: str | None
    lock_timeout: float
    memory_limit: str

    @contextlib.contextmanager
    def build(self, purpose: str) -> Iterator[duckdb.DuckDBPyConnection]:
        """The build file, for writing, under the lock; closed in every case. Its tables are made when it is new."""
        with locked(self.lock_path, self.lock_timeout, purpose), self.build_unlocked(purpose) as connection:
            yield connection

    @contextlib.contextmanager
    def build_unlocked(self, purpose: str) -> Iterator[duckdb.DuckDBPyConnection]:
        """The same for a caller that holds the lock already."""
        self.build_path.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(_spill_path(self.build_path), ignore_errors=True)
        # a process that is killed leaves it
        note = self.build_path.with_name(f"{self.build_path.name}.open")
        was_left_open, is_open = note.exists(), False
        if not was_left_open:
            note.touch()
            files.sync(note.parent)
        try:
            with contextlib.ExitStack() as opened:
                connection = self._open_build(purpose, was_left_open, opened)
                is_open = True
                yield connection
        except duckdb.Error as error:
            if is_exhausted(error):
                raise WarehouseFullError(
                    f"Disk or memory ran out, so this run could not {purpose} ({clause(error)}). The warehouse is as "
                    "it was before. Make "
                    f"room under {self.build_path.parent.name} or give the process more memory, and run it again."
                ) from error
            if (type(error) is duckdb.Error or isinstance(error, _REFUSALS)) and is_refused(
                self.build_path, with_rows=True
            ):
                self._replace_build(error)
                raise WarehouseDamagedError(
                    f"DuckDB could not read {self.build_path.name}, so this run could not {purpose} ({clause(error)}). "
                    "The file was replaced, and the next publication loads again what it lacks. Run it again."
                ) from error
            raise
        finally:
            # a file that could not be opened is left to the next process
            if is_open or not was_left_open:
                note.unlink(missing_ok=True)

    def _open_build(self, purpose: str, was_left_open: bool, opened: contextlib.ExitStack) -> duckdb.DuckDBPyConnection:
        """Open the build file; replace one that DuckDB refuses, and wait for one that another program has open."""
        end = time.monotonic() + self.lock_timeout
        is_replaced = False
        if is_missing(self.build_path, self.published_path):
            self._replace_build(None)
        while True:
            try:
                with contextlib.ExitStack() as opening:
                    connection = opening.enter_context(self.open_file(self.build_path))
                    if was_left_open:
                        read_metadata(connection)
                    ensure(connection)
                    opened.push(opening.pop_all())
                    return connection
            except (OutdatedError, duckdb.Error) as error:
                if isinstance(error, duckdb.Error):
                    if is_exhausted(error):
                        raise
                    if is_locked(self.build_path):
                        if time.monotonic() >= end:
                            raise WarehouseBusyError(
                                f"Another program has {self.build_path.name} open, so this run could not {purpose}. "
                                "Nothing was changed. Close it there; to look at the data open "
                                f"{self.published_path.name}, which never locks."
                            ) from error
                        time.sleep(min(0.2, max(0.0, end - time.monotonic())))
                        continue
                if is_replaced or not (isinstance(error, OutdatedError) or is_refused(self.build_path)):
                    raise WarehouseDamagedError(
                        f"DuckDB cannot open {self.build_path.name}, so this run could not {purpose} "
                        f"({clause(error)}). Nothing was changed. "
                        "What is published stays as it is, and so do archive and lake."
                    ) from error
                self._replace_build(error)
                is_replaced = True

    def create_build(self) -> None:
        """Create an empty build file where there is none, instead of a copy of the published file."""
        with locked(self.lock_path, self.lock_timeout, "create the build file"):
            create_build(self.build_path, self.open_file)

    def _replace_build(self, why: Exception | None) -> None:
        replace_build(self.build_path, self.published_path, self.open_file, why)

    @contextlib.contextmanager
    def open_file(self, path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
        """Open a DuckDB file for writing, in the requested storage version.

        The default is the version of the file, or the oldest one for a new file. Raises WarehouseVersionError: it
        cannot be opened in that storage version.
        """
        spill = _spill_path(path)
        with _WRITERS.connection(spill) as connection:
            version = self.storage_version or (None if path.exists() else OLDEST_STORAGE)
            options = f" (STORAGE_VERSION {quoted(version)})" if version else ""
            try:
                connection.execute(f"SET memory_limit = {quoted(self.memory_limit)}")
                connection.execute(f"SET temp_directory = {quoted(str(spill))}")
                # whoever writes what the stream has takes fewer
                connection.execute("RESET threads")
                # keeping the order of rows would hold back what was read ahead
                connection.execute("SET preserve_insertion_order = false")
                # a commit adds row groups and merges none of those that are there (`merge_row_groups`)
                connection.execute("SET max_vacuum_tasks = 0")
                # where Python was started without a file, as workers of Dagster are, DuckDB draws a bar into the
                # standard output
                connection.execute("SET enable_progress_bar = false")
                connection.execute(f"ATTACH {quoted(str(path))} AS {NAME}{options}")
                connection.execute(f"USE {NAME}")
            except duckdb.Error as error:
                if not is_other_storage(error):
                    raise
                raise WarehouseVersionError(
                    f"DuckDB {duckdb.__version__} cannot open {path.name} in the storage version {version} "
                    f"({clause(error)}). Nothing was changed. A file can be raised and never lowered: set "
                    "WME_STORAGE_VERSION to what it has, or remove warehouse/build.duckdb and run `wme rebuild`."
                ) from error
            yield connection

    @contextlib.contextmanager
    def published(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """The newest published file, read-only, for our own questions.

        Raises NotPublishedError, or QueryError: the file is damaged, or was written by a newer DuckDB.
        """
        with _READERS.connection() as connection:
            self._attach_published(connection)
            yield connection

    def connect_published(self) -> duckdb.DuckDBPyConnection:
        """The same in a separate instance, for any query and setting; the caller closes the connection."""
        connection = connect()
        try:
            self._attach_published(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _attach_published(self, connection: duckdb.DuckDBPyConnection) -> None:
        if not self.published_path.exists():
            raise NotPublishedError(
                f"There is no published file {self.published_path.absolute()}: nothing was published in this data "
                "folder so far. If another one is meant, set WME_DATA; else run the pipeline once (`wme run`). With "
                "WME_PUBLISH=off runs do not publish; `wme publish` does."
            )
        if not self.published_path.is_file():
            # DuckDB would wait for the other end of a pipe
            raise QueryError(
                f"{self.published_path} is not a file, so it cannot be read. Nothing was changed. Move it away and run "
                "`wme publish`: the file is created again."
            )
        try:
            connection.execute(f"ATTACH {quoted(str(self.published_path))} AS {NAME} (READ_ONLY)")
            connection.execute(f"USE {NAME}")
        except duckdb.Error as error:
            raise QueryError(
                f"DuckDB cannot open {self.published_path.name} ({clause(error)}). The pipeline's own file is not "
                "touched by this. Remove the published file and run `wme publish`: it is created again."
            ) from error


def _spill_path(path: Path) -> Path:
    """Folder of one file for what does not fit into the memory; there only while it is needed, or after a kill."""
    return path.with_name(f"{path.name}.spill")


def answer(
    connection: duckdb.DuckDBPyConnection, query: str, parameters: Sequence[Any] | Mapping[str, Any] = ()
) -> list[tuple[Any, ...]]:
    """The rows of an answer as plain Python; times are aware and in UTC, whatever else is installed."""
    found = connection.sql(query, params=parameters or None).to_arrow_table()
    return list(zip(*(column.to_pylist() for column in found.columns), strict=True))


def has_table(connection: duckdb.DuckDBPyConnection, name: str) -> bool:
    """Return whether the file has a table. DuckDB's own list takes ten times as long."""
    try:
        connection.execute(f"SELECT 1 FROM {name} LIMIT 0")  # noqa: S608  our own names
    except duckdb.CatalogException:
        return False
    return True


def raise_revision(connection: duckdb.DuckDBPyConnection) -> None:
    """Note, at the end of a transaction, that something published has changed."""
    connection.execute("UPDATE internal.meta SET revision = revision + 1")


def merge_row_groups(build: Build) -> bool:
    """Let DuckDB merge the small row groups that hours have added, at most once a day; return True if it did.

    It affects only speed and space, and holds the lock for about 20 µs of processor time per row of the day. A
    checkpoint merges them, and only where something has changed since the last one: here the moment itself.
    """
    connection, _, now = build
    [(merged_at,)] = answer(connection, "SELECT merged_at FROM internal.meta")
    if merged_at is not None and timedelta(0) <= now - merged_at < _BETWEEN_MERGES:
        return False
    connection.execute("UPDATE internal.meta SET merged_at = ?", [now])
    # the next writer sets it to 0 again
    connection.execute("RESET max_vacuum_tasks")
    connection.execute("CHECKPOINT")
    return True
