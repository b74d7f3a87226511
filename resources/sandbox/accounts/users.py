"""What the accounts hand out: users, tokens, challenges, and refusals."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from resources.sandbox.accounts.tokens import ACCESS_TOKEN_SECONDS

if TYPE_CHECKING:
    import sqlite3


class AccountError(Exception):
    """An account operation is refused; the message is the text that the user pool gives."""


class RefreshTokenSpentError(AccountError):
    """The refresh token was used as often as it may be."""


@dataclass(frozen=True)
class User:
    """Who a request comes from."""

    username: str
    subject: str
    email: str
    groups: tuple[str, ...]

    @property
    def group(self) -> str | None:
        """The group that counts: the highest by name."""
        return max(self.groups, default=None)


@dataclass(frozen=True)
class Tokens:
    """What a login or a refresh hands out. `refresh_token` is None after a refresh."""

    id_token: str
    access_token: str
    refresh_token: str | None
    expires_in: int = ACCESS_TOKEN_SECONDS

    def __repr__(self) -> str:
        return "Tokens(...)"


@dataclass(frozen=True)
class Challenge:
    """A login that must first set a new password."""

    session: str
    name: str = "NEW_PASSWORD_REQUIRED"


def user_of(row: sqlite3.Row) -> User:
    """The user of a row of the table `users`."""
    return User(row["username"], row["subject"], row["email"], tuple(json.loads(row["groups"])))
