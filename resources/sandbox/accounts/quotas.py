"""How many downloads and lookups an account has made, and how many it may make.

Source: the service's documentation of groups and quotas.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from resources.sandbox.accounts.database import Database
    from resources.sandbox.accounts.users import User

QuotaKind = Literal["ondemand", "snapshot", "chunk", "batch"]

#: Requests per month by group. The free group has the documented numbers; paid contracts vary, so theirs are high.
#: The service does not count batches; a limit of theirs can be set on one account to see how a client takes it.
_LIMITS: dict[str, dict[str, int | None]] = {
    "group_1": {"ondemand": 50_000, "snapshot": 30, "chunk": 1_500, "batch": None},
    "group_2": {"ondemand": 10_000_000, "snapshot": 100_000, "chunk": 10_000_000, "batch": None},
    "group_3": {"ondemand": 10_000_000, "snapshot": 100_000, "chunk": 10_000_000, "batch": None},
}
#: The same of the free group in the public source of August 2025.
_LIMITS_2025: dict[str, int | None] = {"ondemand": 5_000, "snapshot": 15, "chunk": 15, "batch": None}


@dataclass(frozen=True)
class Quota:
    """Requests counted, and how many are allowed (None: no bound)."""

    used: int
    limit: int | None


class Quotas:
    """The counters of all accounts. Safe for threads."""

    def __init__(self, database: Database, *, source_2025: bool) -> None:
        self._database = database
        self._source_2025 = source_2025

    def set(self, username: str, kind: QuotaKind, *, limit: int | None, used: int) -> None:
        """Set how many requests of `kind` are allowed and counted; `limit` None: the limit of the group."""
        self._database.change("REPLACE INTO quotas VALUES (?, ?, ?, ?)", username, kind, used, limit)

    def of(self, user: User, kind: QuotaKind) -> Quota:
        """Requests of `kind` that are counted and allowed."""
        row = self._database.row("SELECT used, quota FROM quotas WHERE username = ? AND kind = ?", user.username, kind)
        limit = row["quota"] if row is not None else None
        if limit is None and user.group in _LIMITS:
            free_2025 = self._source_2025 and user.group == "group_1"
            limit = (_LIMITS_2025 if free_2025 else _LIMITS[user.group])[kind]
        return Quota(row["used"] if row is not None else 0, limit)

    def spend(self, user: User, kind: QuotaKind) -> bool:
        """Count one request; False when the quota is used up, and then nothing is counted."""
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
