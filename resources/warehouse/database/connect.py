"""Connections to the build file, which require a lock, and to the published file, which do not.

Writers acquire a lock file before they open the build file, because DuckDB's own lock fails instead of waiting.
"""

import contextlib
import logging
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import filelock

from resources import files
from resources.errors import clause
from resources.warehouse.database.recovery import ASIDE, is_locked, is_refused, read_metadata, replace_build
from resources.warehouse.database.schema import OutdatedError, ensure
from resources.warehouse.database.sql import NAME, Instances, connect, quoted
from resources.warehouse.database.workarounds import is_exhausted, is_other_storage
from resources.warehouse.records import (
    NotPublishedError,
    QueryError,
    Row,
    WarehouseBusyError,
    WarehouseDamagedError,
    WarehouseFullError,
    WarehouseVersionError,
)

_log = logging.getLogger(__name__)

#: Readers use a separate pool, because writers change instance settings that must stay unchanged for readers.
_WRITERS, _READERS = Instances(), Instances()
#: Errors that DuckDB raises for a damaged file. For a checksum mismatch, DuckDB raises `duckdb.Error` itself.
_REFUSALS = (duckdb.IOException, duckdb.InternalException, duckdb.FatalException, duckdb.SerializationException)
#: Oldest storage version, which every supported client (DuckDB 1.5 and later) can read.
OLDEST_STORAGE = "v1.5.0"
#: Number of transactions between merges. Each appends at most one row group to a table, and an hour takes two or three.
_BETWEEN_MERGES = 48


@contextlib.contextmanager
def locked(lock_path: Path, timeout: float, purpose: str) -> Iterator[None]:
    """Hold a lock file. Before waiting, log a message. Raises WarehouseBusyError after `timeout` seconds."""
    lock_path.parent.mkdir(parents=True, exist_ok=True)
    lock = filelock.FileLock(lock_path)
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        _log.info("Another process is using the warehouse; waiting up to %.0f s to %s.", timeout, purpose)
        try:
            lock.acquire(timeout=timeout, poll_interval=0.05)
        except filelock.Timeout:
            raise WarehouseBusyError(
                f"Another process has been using the warehouse for more than {timeout:.0f} s, so this process could "
                f"not {purpose}. Nothing was changed. Stop the other process or wait for it to finish, then try again."
            ) from None
    try:
        yield
    finally:
        lock.release()


class Build(NamedTuple):
    """The open build file, the lake folder, and the operation's timestamp (time-zone-aware)."""

    connection: duckdb.DuckDBPyConnection
    lake_root: Path
    now: datetime


@dataclass(frozen=True)
class Connector:
    """Connector that opens the build file and the published file with the configured settings."""

    build_path: Path
    published_path: Path
    lock_path: Path
    storage_version: str | None
    lock_timeout: float
    memory_limit: str

    @contextlib.contextmanager
    def build(self, purpose: str) -> Iterator[duckdb.DuckDBPyConnection]:
        """Hold the lock and yield the build file for writing. Create missing tables, and always close the file."""
        with locked(self.lock_path, self.lock_timeout, purpose), self.build_unlocked(purpose) as connection:
            yield connection

    @contextlib.contextmanager
    def build_unlocked(self, purpose: str) -> Iterator[duckdb.DuckDBPyConnection]:
        """Yield the build file as `build` does, for a caller that already holds the lock."""
        self.build_path.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(self.build_path.with_name(f"{self.build_path.name}.spill"), ignore_errors=True)
        # a killed process leaves its marker file behind
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
                    f"Disk space or memory ran out, so this run could not {purpose} ({clause(error)}). The warehouse "
                    f"is unchanged. Free disk space under {self.build_path.parent.name} or give the process more "
                    "memory, then try again."
                ) from error
            if (type(error) is duckdb.Error or isinstance(error, _REFUSALS)) and is_refused(
                self.build_path, with_rows=True
            ):
                replace_build(self.build_path, self.published_path, self.open_file, error)
                raise WarehouseDamagedError(
                    f"DuckDB could not read {self.build_path.name}, so this run could not {purpose} ({clause(error)}). "
                    "The file was replaced, and the next publication reloads the missing data. Try again."
                ) from error
            raise
        finally:
            # if the file could not be opened, the marker stays for the next process
            if is_open or not was_left_open:
                note.unlink(missing_ok=True)

    def _open_build(self, purpose: str, was_left_open: bool, opened: contextlib.ExitStack) -> duckdb.DuckDBPyConnection:
        """Open the build file. Wait while another program has the file open; replace a damaged file."""
        end = time.monotonic() + self.lock_timeout
        is_replaced = False
        aside = self.build_path.with_name(f"{self.build_path.name}.{ASIDE}")
        if not self.build_path.exists() and (self.published_path.exists() or aside.exists()):
            replace_build(self.build_path, self.published_path, self.open_file, None)
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
                                "Nothing was changed. Close the file in that program. To query the data, open "
                                f"{self.published_path.name}, which is never locked."
                            ) from error
                        time.sleep(min(0.2, max(0.0, end - time.monotonic())))
                        continue
                if is_replaced or not (isinstance(error, OutdatedError) or is_refused(self.build_path)):
                    raise WarehouseDamagedError(
                        f"DuckDB cannot open {self.build_path.name}, so this run could not {purpose} "
                        f"({clause(error)}). Nothing was changed; the published file, the archive and the lake are "
                        f"intact. Correct the cause, for example the owner of {self.build_path.parent} and its files, "
                        "then try again."
                    ) from error
                replace_build(self.build_path, self.published_path, self.open_file, error)
                is_replaced = True

    @contextlib.contextmanager
    def open_file(self, path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
        """Open a DuckDB file for writing, with the requested storage version.

        By default, an existing file keeps its version, and a new file gets the oldest version. Raises
        WarehouseVersionError if the file cannot be opened with the requested version.
        """
        # folder for data that exceeds the memory limit, which only a killed process leaves behind
        spill = path.with_name(f"{path.name}.spill")
        with _WRITERS.connection(spill, self.memory_limit) as connection:
            version = self.storage_version or (None if path.exists() else OLDEST_STORAGE)
            options = f" (STORAGE_VERSION {quoted(version)})" if version else ""
            try:
                connection.execute(f"SET temp_directory = {quoted(str(spill))}")
                # an earlier user of the instance might have changed the thread count
                connection.execute("RESET threads")
                # preserving insertion order would buffer rows that were read ahead
                connection.execute("SET preserve_insertion_order = false")
                # without vacuum tasks, a commit only appends row groups, which `merge_row_groups` merges
                connection.execute("SET max_vacuum_tasks = 0")
                # DuckDB prints a progress bar if Python was started without a script, as Dagster's workers are
                connection.execute("SET enable_progress_bar = false")
                connection.execute(f"ATTACH {quoted(str(path))} AS {NAME}{options}")
                connection.execute(f"USE {NAME}")
            except duckdb.Error as error:
                if not is_other_storage(error):
                    raise
                raise WarehouseVersionError(
                    f"DuckDB {duckdb.__version__} cannot open {path.name} with storage version {version} "
                    f"({clause(error)}). Nothing was changed. A file's storage version can be raised but not lowered. "
                    "Set WME_STORAGE_VERSION to the file's version, or remove warehouse/build.duckdb and run `wme "
                    "rebuild`."
                ) from error
            yield connection

    @contextlib.contextmanager
    def published(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Yield a read-only connection to the newest published file, for the pipeline's own queries.

        Raises NotPublishedError, or QueryError if the file is damaged or was written by a newer DuckDB version.
        """
        with _READERS.connection() as connection:
            self._attach_published(connection)
            yield connection

    def connect_published(self) -> duckdb.DuckDBPyConnection:
        """Return a connection to the published file in a separate DuckDB instance, for any query and setting.

        The caller closes the connection.
        """
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
                f"There is no published file {self.published_path.absolute()}, because nothing has been published in "
                "this data folder yet or the file was removed. To use another folder, set WME_DATA; otherwise run the "
                "pipeline once (`wme run`). With WME_PUBLISH=off, only `wme publish` publishes."
            )
        if not self.published_path.is_file():
            # DuckDB would block on a named pipe
            raise QueryError(
                f"{self.published_path} is not a file, so it cannot be read. Nothing was changed. Move it, then "
                "run `wme publish` to create the file."
            )
        try:
            connection.execute(f"ATTACH {quoted(str(self.published_path))} AS {NAME} (READ_ONLY)")
            connection.execute(f"USE {NAME}")
        except duckdb.Error as error:
            raise QueryError(
                f"DuckDB cannot open {self.published_path.name} ({clause(error)}). The pipeline's own file is "
                "unaffected. Remove the published file and run `wme publish` to create it again."
            ) from error


def answer(
    connection: duckdb.DuckDBPyConnection, query: str, parameters: Sequence[Any] | Mapping[str, Any] = ()
) -> list[tuple[Any, ...]]:
    """Return a query's rows as plain Python values. Timestamps are time-zone-aware and in UTC."""
    found = connection.sql(query, params=parameters or None).to_arrow_table()
    return list(zip(*(column.to_pylist() for column in found.columns), strict=True))


def records(
    connection: duckdb.DuckDBPyConnection, query: str, parameters: Sequence[Any] | Mapping[str, Any] = ()
) -> list[Row]:
    """Return a query's rows as objects with the columns as attributes."""
    return [Row(**row) for row in connection.sql(query, params=parameters or None).to_arrow_table().to_pylist()]


def raise_revision(connection: duckdb.DuckDBPyConnection) -> None:
    """Record at the end of a transaction that published data has changed."""
    connection.execute("UPDATE internal.meta SET revision = revision + 1")


def merge_row_groups(build: Build, after: int = _BETWEEN_MERGES) -> bool:
    """Merge small row groups if `after` transactions have changed data since the last merge. Return True if so.

    Merging affects only speed and size. A merge holds the lock and takes about 20 µs of CPU time per row loaded since
    the last merge. `merged_revision` is updated first, because a checkpoint merges row groups only if the file has
    changed since the last checkpoint.
    """
    connection = build.connection
    due = "UPDATE internal.meta SET merged_revision = revision WHERE revision - merged_revision >= ?"
    [(merges,)] = connection.execute(due, [after]).fetchall()
    if merges:
        # with its default of 100, a merge after a long backfill would end early; the next writer resets it to 0
        connection.execute("SET max_vacuum_tasks = 1_000_000_000")
        connection.execute("CHECKPOINT")
    return bool(merges)
