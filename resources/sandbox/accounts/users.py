"""Users, their passwords, the tokens and challenges they get, refusals, and the mail that is sent to them.

Source: the service publishes no password policy; this is the default of the user pool that its public source uses.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from resources.sandbox.accounts.tokens import ACCESS_TOKEN_SECONDS
from resources.sandbox.files import read_state, write_private

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

    from resources.sandbox.clock import Clock


class AccountError(Exception):
    """An account operation is refused; the message is the text that the user pool gives."""


class UnknownEmailError(AccountError):
    """No account has this e-mail address."""


class RefreshTokenSpentError(AccountError):
    """The refresh token was used as often as it may be."""


@dataclass(frozen=True)
class User:
    """The user of a request."""

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
    """The tokens of a login or a refresh. `refresh_token` is None after a refresh."""

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


def hash_password(password: str, salt: bytes | None = None) -> tuple[bytes, bytes]:
    """Salt and digest of a password; without a salt, under a new one."""
    salt = os.urandom(16) if salt is None else salt
    # Cheap on purpose: these accounts open a sandbox on loopback, and tests log in often.
    return salt, hashlib.scrypt(password.encode(), salt=salt, n=1024, r=8, p=1)


def policy_violation(password: str) -> str | None:
    """Return what a password lacks, in the user pool's words; None: 8 characters, both cases, a digit, a symbol."""
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
    """One message. `secret` is the confirmation code (`forgot-password`) or temporary password (`invitation`)."""

    path: Path
    to: str
    username: str
    purpose: str
    secret: str = field(repr=False)
    sent_at: datetime


class Outbox:
    """The messages of one state folder. Safe for threads."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        """`folder` is made with the first message."""
        self._folder = folder
        self._clock = clock
        self._lock = threading.Lock()

    def send(self, username: str, to: str, purpose: str, secret: str) -> None:
        """Add a message."""
        sent_at = self._clock.now().isoformat()
        content = {"to": to, "username": username, "purpose": purpose, "secret": secret, "sent_at": sent_at}
        with self._lock:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            last = max((int(path.name[:6]) for path in self._folder.glob("*.json")), default=0)
            path = self._folder / f"{last + 1:06d}-{purpose}.json"
            write_private(path, json.dumps(content, indent=2).encode())

    def messages(self, username: str | None = None) -> list[Mail]:
        """The messages, oldest first, of one account or of all."""
        found = []
        for path in sorted(self._folder.glob("*.json")):
            content = read_state(path, "to", "username", "purpose", "secret", "sent_at")
            if username in (None, content["username"]):
                sent_at = datetime.fromisoformat(content.pop("sent_at"))
                found.append(Mail(path=path, sent_at=sent_at, **content))
        return found
