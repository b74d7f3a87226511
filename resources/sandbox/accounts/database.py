"""SQLite database for accounts, quotas and admitted addresses, and an in-memory rate limit.

Source: the service's documentation of groups and quotas. The service's rate limits are not public, so the sandbox has
no default rate limit.
"""

from __future__ import annotations

import ipaddress
import json
import sqlite3
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from resources.sandbox.accounts.users import User
from resources.sandbox.files import DATA
from resources.sandbox.settings import TOP_GROUP, QuotaKind

#: Requests per month by group. The free group has the documented limits. Paid contracts vary, so the limits of paid
#: groups are high. The service does not count batches, but tests can set a batch limit for an account.
_LIMITS: dict[str, dict[str, int | None]] = {
    "group_1": {"ondemand": 50_000, "snapshot": 30, "chunk": 1_500, "batch": None},
    "group_2": {"ondemand": 10_000_000, "snapshot": 100_000, "chunk": 10_000_000, "batch": None},
    "group_3": {"ondemand": 10_000_000, "snapshot": 100_000, "chunk": 10_000_000, "batch": None},
}


class Database:
    """Database connection for use by one thread at a time."""

    def __init__(self, path: Path) -> None:
        self._lock = threading.RLock()
        self._connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._connection.row_factory = sqlite3.Row
        # with a write-ahead log, commits survive a killed process without a sync to disk
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = NORMAL")
        self._connection.executescript((DATA / "accounts.sql").read_text(encoding="utf-8"))

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Run the block as one transaction and exclude other threads."""
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    def rows(self, query: str, *parameters: object) -> list[sqlite3.Row]:
        with self._lock:
            return self._connection.execute(query, parameters).fetchall()

    def row(self, query: str, *parameters: object) -> sqlite3.Row | None:
        return next(iter(self.rows(query, *parameters)), None)

    def change(self, statement: str, *parameters: object) -> int:
        with self._lock:
            return self._connection.execute(statement, parameters).rowcount


@dataclass(frozen=True)
class Quota:
    """Request count and request limit. If `limit` is None, requests are unlimited."""

    used: int
    limit: int | None


class Quotas:
    """Thread-safe request counters for all accounts."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def set(self, username: str, kind: QuotaKind, *, limit: int | None, used: int) -> None:
        """Set the user's request limit and request count for `kind`. If `limit` is None, the group limit applies."""
        self._database.change("REPLACE INTO quotas VALUES (?, ?, ?, ?)", username, kind, used, limit)

    def of(self, user: User, kind: QuotaKind) -> Quota:
        row = self._database.row("SELECT used, quota FROM quotas WHERE username = ? AND kind = ?", user.username, kind)
        limit = row["quota"] if row is not None else None
        if limit is None and user.group in _LIMITS:
            limit = _LIMITS[user.group][kind]
        return Quota(row["used"] if row is not None else 0, limit)

    def spend(self, user: User, kind: QuotaKind) -> bool:
        """Count one request and return True, or return False without counting if the quota is used up."""
        with self._database.transaction() as database:
            quota = self.of(user, kind)
            if quota.limit is not None and quota.used >= quota.limit:
                return False
            database.execute(
                "INSERT INTO quotas (username, kind, used) VALUES (?, ?, 1) "
                "ON CONFLICT (username, kind) DO UPDATE SET used = used + 1",
                (user.username, kind),
            )
            return True


class Admissions:
    """Thread-safe list of address ranges that are admitted without a token."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def admit(self, network: str, groups: Sequence[str] = (TOP_GROUP,)) -> None:
        """Accept requests without a token from `network` (for example `127.0.0.0/8`) as a user in these groups."""
        text = str(ipaddress.ip_network(network))
        self._database.change("REPLACE INTO admissions VALUES (?, ?)", text, json.dumps(list(groups)))

    def all(self) -> dict[str, list[str]]:
        rows = self._database.rows("SELECT * FROM admissions ORDER BY network")
        return {row["network"]: json.loads(row["groups"]) for row in rows}

    def withdraw(self) -> None:
        self._database.change("DELETE FROM admissions")

    def user(self, address: str) -> User | None:
        """Return the user for requests without a token from `address`, or None if the address is not admitted."""
        for row in self._database.rows("SELECT * FROM admissions ORDER BY network"):
            if ipaddress.ip_address(address) in ipaddress.ip_network(row["network"]):
                name = f"anonymous-{row['network']}"
                subject = str(uuid.uuid5(uuid.NAMESPACE_OID, name))
                return User(name, subject, "", tuple(json.loads(row["groups"])))
        return None


class RateLimit:
    """Thread-safe rate limiter with one token bucket per user. The rate limiter uses real time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._per_second: float | None = None
        self._burst = 1
        self._buckets: dict[str, tuple[float, float]] = {}

    def set(self, per_second: float | None, burst: int = 1) -> None:
        """Limit each user to `per_second` requests on average and to bursts of `burst`. None removes the limit."""
        with self._lock:
            self._per_second, self._burst = per_second, burst
            self._buckets.clear()

    def admit(self, username: str) -> bool:
        """Return whether the user's request is allowed now, and count an allowed request."""
        with self._lock:
            if self._per_second is None:
                return True
            now = time.monotonic()
            level, since = self._buckets.get(username, (float(self._burst), now))
            level = min(float(self._burst), level + (now - since) * self._per_second)
            allowed = level >= 1
            self._buckets[username] = (level - 1 if allowed else level, now)
            return allowed
