"""The database of the accounts: one SQLite file in the state folder, shared by the threads of one process."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_SCHEMA = """
CREATE TABLE IF NOT EXISTS users (
    username TEXT PRIMARY KEY, subject TEXT NOT NULL, email TEXT NOT NULL, salt BLOB NOT NULL, digest BLOB NOT NULL,
    temporary INTEGER NOT NULL, groups TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS quotas (
    username TEXT NOT NULL, kind TEXT NOT NULL, used INTEGER NOT NULL DEFAULT 0, quota INTEGER,
    PRIMARY KEY (username, kind));
CREATE TABLE IF NOT EXISTS refresh_tokens (
    digest TEXT PRIMARY KEY, username TEXT NOT NULL, issued_at REAL NOT NULL, uses INTEGER NOT NULL DEFAULT 0,
    revoked INTEGER NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS access_tokens (
    identifier TEXT PRIMARY KEY, username TEXT NOT NULL, origin TEXT NOT NULL, refreshed INTEGER NOT NULL,
    issued_at REAL NOT NULL, revoked INTEGER NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS sessions (session TEXT PRIMARY KEY, username TEXT NOT NULL, issued_at REAL NOT NULL);
CREATE TABLE IF NOT EXISTS codes (username TEXT PRIMARY KEY, code TEXT NOT NULL, issued_at REAL NOT NULL);
CREATE TABLE IF NOT EXISTS admissions (network TEXT PRIMARY KEY, groups TEXT NOT NULL);
"""


class Database:
    """The tables, one thread at a time."""

    def __init__(self, path: Path) -> None:
        """Open the file, or make it."""
        self._lock = threading.RLock()
        self._connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._connection.row_factory = sqlite3.Row
        # A write-ahead log outlives a kill of the process without a sync to disk at each commit.
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = NORMAL")
        self._connection.executescript(_SCHEMA)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing of what the block does, with no other thread in between."""
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    def rows(self, query: str, *parameters: object) -> list[sqlite3.Row]:
        """The rows of a query."""
        with self._lock:
            return self._connection.execute(query, parameters).fetchall()

    def row(self, query: str, *parameters: object) -> sqlite3.Row | None:
        """The first row of a query, or None."""
        return next(iter(self.rows(query, *parameters)), None)

    def change(self, statement: str, *parameters: object) -> int:
        """Carry out one statement; returns the number of rows it changed."""
        with self._lock:
            return self._connection.execute(statement, parameters).rowcount
