"""Data types and errors for accounts, password rules, and the mail outbox.

Source: none, because the service does not publish its password policy. The sandbox uses the default policy of the user
pool in the service's public source code.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import threading
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from resources.sandbox.clock import Clock
from resources.sandbox.files import read_state, write_private

#: Lifetime of access and ID tokens, as reported in `expires_in`.
ACCESS_TOKEN_SECONDS = 86_400


class AccountError(Exception):
    """The account operation was refused. The error message is the user pool's message."""


class UnknownEmailError(AccountError):
    """The e-mail address does not belong to an account."""


class RefreshTokenSpentError(AccountError):
    """All uses of the refresh token are spent."""


@dataclass(frozen=True)
class User:
    username: str
    subject: str
    email: str
    groups: tuple[str, ...]
    #: True if the next login returns a challenge.
    is_temporary: bool = False

    @property
    def group(self) -> str | None:
        """Return the user's effective group, which is the group with the highest number."""
        return max(self.groups, default=None)


@dataclass(frozen=True)
class Tokens:
    """Tokens from a login or a token refresh. `refresh_token` is None after a token refresh."""

    id_token: str
    access_token: str
    refresh_token: str | None
    expires_in: int = ACCESS_TOKEN_SECONDS

    def __repr__(self) -> str:
        return "Tokens(...)"


@dataclass(frozen=True)
class Challenge:
    session: str
    name: str = "NEW_PASSWORD_REQUIRED"


def user_of(row: sqlite3.Row) -> User:
    return User(row["username"], row["subject"], row["email"], tuple(json.loads(row["groups"])), bool(row["temporary"]))


def hash_password(password: str, salt: bytes | None = None) -> tuple[bytes, bytes]:
    """Return the salt and digest of a password. By default, a new salt is generated."""
    salt = os.urandom(16) if salt is None else salt
    # a cheap hash is enough, because the sandbox listens only on loopback and tests log in often
    return salt, hashlib.scrypt(password.encode(), salt=salt, n=1024, r=8, p=1)


def policy_violation(password: str) -> str | None:
    """Return the user pool's message for the first violated rule, or None for a valid password."""
    for holds, text in (
        (len(password) >= 8, "Password not long enough"),
        (any(c.isupper() for c in password), "Password must have uppercase characters"),
        (any(c.islower() for c in password), "Password must have lowercase characters"),
        (any(c.isdigit() for c in password), "Password must have numeric characters"),
        (any(not c.isalnum() for c in password), "Password must have symbol characters"),
    ):
        if not holds:
            return text
    return None


@dataclass(frozen=True)
class Mail:
    """Sent message. `secret` is a confirmation code or, in an invitation, a temporary password."""

    path: Path
    to: str
    username: str
    purpose: str
    secret: str = field(repr=False)
    sent_at: datetime


class Outbox:
    """Thread-safe outbox that stores each message as a JSON file in the state folder."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        """Store messages in `folder`, which is created for the first message."""
        self._folder = folder
        self._clock = clock
        self._lock = threading.Lock()

    def send(self, username: str, to: str, purpose: str, secret: str) -> None:
        sent_at = self._clock.now().isoformat()
        content = {"to": to, "username": username, "purpose": purpose, "secret": secret, "sent_at": sent_at}
        with self._lock:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            last = max((int(path.name[:6]) for path in self._folder.glob("*.json")), default=0)
            path = self._folder / f"{last + 1:06d}-{purpose}.json"
            write_private(path, json.dumps(content, indent=2).encode())

    def messages(self, username: str | None = None) -> list[Mail]:
        found = []
        for path in sorted(self._folder.glob("*.json")):
            content = read_state(path, "to", "username", "purpose", "secret", "sent_at")
            if username in (None, content["username"]):
                sent_at = datetime.fromisoformat(content.pop("sent_at"))
                found.append(Mail(path=path, sent_at=sent_at, **content))
        return found
