"""Sandbox accounts with passwords, challenges, confirmation codes and tokens.

Accounts are stored in a database in the state folder and survive restarts.

Source: the service's authentication documentation. Access tokens are valid for 24 hours, and refresh tokens are valid
for 90 days and 90 uses. Error messages and the lifetimes of codes and sessions are not documented, so they follow the
user pool in the service's public source code.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import sqlite3
import uuid
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from resources.sandbox.accounts.database import Admissions, Database, Quotas
from resources.sandbox.accounts.tokens import TokenMint, TokenRefusedError
from resources.sandbox.accounts.users import (
    ACCESS_TOKEN_SECONDS,
    AccountError,
    Challenge,
    Mail,
    Outbox,
    RefreshTokenSpentError,
    Tokens,
    UnknownEmailError,
    User,
    hash_password,
    policy_violation,
    user_of,
)
from resources.sandbox.clock import Clock
from resources.sandbox.files import read_state, write_private
from resources.sandbox.settings import QuotaKind

REFRESH_TOKEN_LIFE = timedelta(days=90)
REFRESH_TOKEN_USES = 90
CODE_LIFE = timedelta(hours=1)
SESSION_LIFE = timedelta(minutes=3)

#: Username of the default account, which has all permissions.
DEFAULT_USERNAME = "sandbox"


class Accounts:
    """Thread-safe access to the accounts in a state folder."""

    def __init__(self, state: Path, clock: Clock, mint: TokenMint) -> None:
        """Open the accounts in `state`. In a new folder, create the default account in `account.json` (mode 0600)."""
        self._state = state
        self._clock = clock
        self._mint = mint
        self._outbox = Outbox(state / "outbox", clock)
        self._database = Database(state / "accounts.sqlite")
        self.quotas = Quotas(self._database)
        self.admissions = Admissions(self._database)
        self.username = ""
        #: Default account. `password` is valid at the sandbox's start; `account.json` contains the current password.
        try:
            self.username, self.password = self._default_account()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._database.close()

    def create(
        self,
        username: str,
        password: str,
        *,
        groups: Sequence[str] = ("group_1",),
        email: str | None = None,
        temporary: bool = False,
    ) -> User:
        """Create an account, or raise ValueError if the account exists.

        If `temporary` is true, the first login returns a challenge and the outbox receives an invitation.
        """
        subject = str(uuid.uuid5(uuid.NAMESPACE_OID, username))
        email = email or (username if "@" in username else f"{username}@example.org")
        salt, digest = hash_password(password)
        with self._database.transaction():
            if self._row(username) is not None:
                raise ValueError(f"The sandbox already has an account {username}. Choose another name.")
            self._database.change(
                "INSERT INTO users VALUES (?, ?, ?, ?, ?, ?, ?)",
                *(username, subject, email, salt, digest, temporary, json.dumps(list(groups))),
            )
        if temporary:
            self._outbox.send(username, email, "invitation", password)
        return User(username, subject, email, tuple(groups), temporary)

    def usernames(self) -> list[str]:
        return [row["username"] for row in self._database.rows("SELECT username FROM users ORDER BY username")]

    def user(self, username: str) -> User | None:
        row = self._row(username)
        return None if row is None else user_of(row)

    def set_groups(self, username: str, groups: Sequence[str]) -> None:
        """Replace the account's groups, such as `group_1` (free), `group_2` (batches) or `group_3` (everything)."""
        self._update_user(username, "groups = ?", json.dumps(list(groups)))

    def set_email(self, username: str, email: str) -> None:
        self._update_user(username, "email = ?", email)

    def set_password(self, username: str, password: str, *, temporary: bool = False) -> None:
        """Set a password without the old password. If `temporary` is true, the next login returns a challenge."""
        salt, digest = hash_password(password)
        with self._database.transaction():
            row = self._require(username)
            if username == self.username:
                # write the file first, because the next start after a crash uses the password in the file
                _write_default_account(self._state, self.username, password)
            self._update_user(username, "salt = ?, digest = ?, temporary = ?", salt, digest, temporary)
        if temporary:
            self._outbox.send(username, row["email"], "invitation", password)

    def set_quota(self, username: str, kind: QuotaKind, *, limit: int | None = None, used: int = 0) -> None:
        """Set the account's request limit and request count for `kind`. If `limit` is None, the group limit applies."""
        self._require(username)
        self.quotas.set(username, kind, limit=limit, used=used)

    def exhaust(self, username: str) -> int:
        """Use up the account's refresh tokens and return their number."""
        return self._database.change(
            "UPDATE refresh_tokens SET uses = ? WHERE username = ?", REFRESH_TOKEN_USES, username
        )

    def revoke_access(self, username: str) -> int:
        """Revoke only the account's access tokens and return the number of revoked tokens."""
        return self._database.change(
            "UPDATE access_tokens SET revoked = 1 WHERE username = ? AND NOT revoked", username
        )

    def revoke_all(self, username: str) -> int:
        """Revoke the account's access and refresh tokens and return the number of revoked refresh tokens."""
        self.revoke_access(username)
        return self._database.change(
            "UPDATE refresh_tokens SET revoked = 1 WHERE username = ? AND NOT revoked", username
        )

    def outbox(self, username: str | None = None) -> list[Mail]:
        """Return the messages sent to one account or to all accounts, oldest first."""
        return self._outbox.messages(username)

    def login(self, username: str, password: str) -> Tokens | Challenge:
        """Log in with a password. A temporary password returns a challenge instead of tokens."""
        row = self._authenticate(username, password)
        if row["temporary"]:
            session = secrets.token_urlsafe(96)
            self._database.change("INSERT INTO sessions VALUES (?, ?, ?)", session, username, self._now())
            return Challenge(session)
        return self._grant(row)

    def answer_challenge(self, username: str, session: str, new_password: str) -> Tokens:
        """Set the first permanent password and log in. A session can be used only once."""
        row = self._row(username)
        with self._database.transaction() as database:
            found = database.execute(
                "SELECT issued_at FROM sessions WHERE session = ? AND username = ?", (session, username)
            ).fetchone()
            if row is None or found is None:
                raise AccountError("NotAuthorizedException: Invalid session for the user.")
            if self._now() - found["issued_at"] > SESSION_LIFE.total_seconds():
                raise AccountError("NotAuthorizedException: Invalid session for the user, session is expired.")
            _check_policy(new_password)
            database.execute("DELETE FROM sessions WHERE username = ?", (username,))
        self.set_password(username, new_password)
        return self._grant(row)

    def refresh(self, username: str, refresh_token: str) -> Tokens:
        digest = _fingerprint(refresh_token)
        with self._database.transaction() as database:
            found = database.execute(
                "SELECT * FROM refresh_tokens WHERE digest = ? AND username = ?", (digest, username)
            ).fetchone()
            if found is None:
                raise AccountError("NotAuthorizedException: Invalid Refresh Token")
            # check the use count first, because it takes precedence over a revocation in the error message
            if found["uses"] >= REFRESH_TOKEN_USES:
                raise RefreshTokenSpentError("Refresh tokens limit has been exceeded.")
            if found["revoked"]:
                raise AccountError("NotAuthorizedException: Refresh Token has been revoked")
            if self._now() - found["issued_at"] >= REFRESH_TOKEN_LIFE.total_seconds():
                raise AccountError("NotAuthorizedException: Refresh Token has expired")
            database.execute("UPDATE refresh_tokens SET uses = uses + 1 WHERE digest = ?", (digest,))
        row = self._require(username)
        return self._sign(row, digest, None)

    def revoke(self, refresh_token: str) -> None:
        """Revoke a refresh token and the access tokens issued for it."""
        digest = _fingerprint(refresh_token)
        with self._database.transaction() as database:
            if not database.execute("UPDATE refresh_tokens SET revoked = 1 WHERE digest = ?", (digest,)).rowcount:
                raise AccountError("UnauthorizedException: Invalid refresh token.")
            database.execute("UPDATE access_tokens SET revoked = 1 WHERE origin = ?", (digest,))

    def change_password(self, access_token: str, previous: str, proposed: str) -> None:
        try:
            user = self.identify(access_token)
        except TokenRefusedError as refusal:
            raise AccountError(str(refusal)) from None
        self._authenticate(user.username, previous)
        _check_policy(proposed)
        self.set_password(user.username, proposed)

    def forgot_password(self, username: str) -> None:
        """Send a confirmation code to the outbox. The account is identified by its name or e-mail address."""
        if "@" in username:
            found = self._database.row("SELECT username FROM users WHERE email = ?", username)
            if found is None:
                raise UnknownEmailError("User not found.")
            username = found["username"]
        row = self._row(username)
        if row is None:
            raise AccountError("UserNotFoundException: Username/client id combination not found.")
        if row["temporary"] or not json.loads(row["groups"]):
            raise AccountError("NotAuthorizedException: User password cannot be reset in the current state.")
        code = f"{secrets.randbelow(1_000_000):06d}"
        self._database.change("REPLACE INTO codes VALUES (?, ?, ?)", username, code, self._now())
        self._outbox.send(username, row["email"], "forgot-password", code)

    def confirm_password(self, username: str, code: str, password: str) -> None:
        """Set a new password with the code from `forgot_password`."""
        self._require(username)
        with self._database.transaction() as database:
            found = database.execute("SELECT * FROM codes WHERE username = ?", (username,)).fetchone()
            if found is None or self._now() - found["issued_at"] > CODE_LIFE.total_seconds():
                raise AccountError("ExpiredCodeException: Invalid code provided, please request a code again.")
            if not hmac.compare_digest(found["code"].encode(), code.encode()):
                raise AccountError("CodeMismatchException: Invalid verification code provided, please try again.")
            _check_policy(password)
            database.execute("DELETE FROM codes WHERE username = ?", (username,))
        self.set_password(username, password)

    def identify(self, access_token: str) -> User:
        """Return the access token's user, or raise TokenRefusedError for an invalid token."""
        claims = self._mint.verify(access_token)
        known = self._database.row("SELECT revoked FROM access_tokens WHERE identifier = ?", claims["jti"])
        if known is None or known["revoked"]:
            raise TokenRefusedError("NotAuthorizedException: Access Token has been revoked")
        row = self._row(claims["username"])
        if row is None:
            raise TokenRefusedError("UserNotFoundException: User does not exist.")
        return user_of(row)

    def _now(self) -> float:
        return self._clock.now().timestamp()

    def _row(self, username: str) -> sqlite3.Row | None:
        return self._database.row("SELECT * FROM users WHERE username = ?", username)

    def _require(self, username: str) -> sqlite3.Row:
        row = self._row(username)
        if row is None:
            raise AccountError("UserNotFoundException: Username/client id combination not found.")
        return row

    def _update_user(self, username: str, assignment: str, *values: object) -> None:
        self._require(username)
        # `assignment` is always a literal in this module
        self._database.change(f"UPDATE users SET {assignment} WHERE username = ?", *values, username)  # noqa: S608

    def _authenticate(self, username: str, password: str) -> sqlite3.Row:
        row = self._row(username)
        salt = row["salt"] if row is not None else b""
        _, digest = hash_password(password, salt)
        if row is None or not hmac.compare_digest(digest, row["digest"]):
            raise AccountError("NotAuthorizedException: Incorrect username or password.")
        return row

    def _grant(self, row: sqlite3.Row) -> Tokens:
        refresh_token = self._mint.refresh_token(user_of(row), REFRESH_TOKEN_LIFE)
        digest = _fingerprint(refresh_token)
        now = self._now()
        with self._database.transaction() as database:
            # an expired token gets the same response as an unknown token
            database.execute("DELETE FROM access_tokens WHERE issued_at < ?", (now - 2 * ACCESS_TOKEN_SECONDS,))
            database.execute(
                "INSERT INTO refresh_tokens (digest, username, issued_at) VALUES (?, ?, ?)",
                (digest, row["username"], now),
            )
        return self._sign(row, digest, refresh_token)

    def _sign(self, row: sqlite3.Row, origin: str, refresh_token: str | None) -> Tokens:
        user = user_of(row)
        access, identifier = self._mint.access_token(user, origin[:32])
        self._database.change(
            "INSERT INTO access_tokens (identifier, username, origin, issued_at) VALUES (?, ?, ?, ?)",
            *(identifier, user.username, origin, self._now()),
        )
        return Tokens(self._mint.id_token(user, origin[:32]), access, refresh_token)

    def _default_account(self) -> tuple[str, str]:
        """Return the name and password from `account.json`. If this login would fail, create or repair the account."""
        try:
            content = read_state(self._state / "account.json", "username", "password")
            username, password = content["username"], content["password"]
        except FileNotFoundError:
            username, password = DEFAULT_USERNAME, f"Sandbox-{secrets.token_hex(8)}-1"
            _write_default_account(self._state, username, password)
        if self._row(username) is None:
            self.create(username, password, groups=("group_3",))
        else:
            try:
                self._authenticate(username, password)
            except AccountError:
                self.set_password(username, password)
        return username, password


def _write_default_account(state: Path, username: str, password: str) -> None:
    write_private(state / "account.json", json.dumps({"username": username, "password": password}).encode())


def _fingerprint(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _check_policy(password: str) -> None:
    violation = policy_violation(password)
    if violation is not None:
        raise AccountError(f"InvalidPasswordException: Password did not conform with policy: {violation}")
