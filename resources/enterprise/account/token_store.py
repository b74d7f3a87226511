"""Token file for one account, shared by all processes on this machine.

The file also stores the session of an unanswered challenge.

Source: the service's authentication rules. An access token is valid for a day. A refresh token is valid for 90 days
after the login and for at most 90 refreshes. Lifetimes are measured with this machine's clock.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, NonNegativeInt

from resources import files
from resources.enterprise.errors import DiskFull, StateBusy, StateError
from resources.enterprise.models import in_range
from resources.formatting import counted, moment_text

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

#: Maximum token length in characters. Real tokens have about 1,100.
LONGEST_TOKEN = 8_192
#: Visible ASCII characters only, because a line break in a token would start another header.
Token = Annotated[str, Field(pattern=r"\A[\x21-\x7e]+\z", max_length=LONGEST_TOKEN)]
#: Maximum size of the token file.
_MOST_BYTES = 1 << 16
_Moment = Annotated[AwareDatetime, AfterValidator(in_range)]

REFRESH_LIFE = timedelta(days=90)
REFRESH_USES = 90

#: Safety margin before expiry: a token must still be valid when the service receives it.
MARGIN = timedelta(minutes=10)
#: Maximum tolerated clock step. A token issued further in the future was issued while the clock was wrong.
_STEP = timedelta(minutes=5)
#: The safety margin of a short lifetime is the lifetime divided by this number.
_MARGIN_SHARE = 10

#: Maximum wait for the lock. A login with all its retries takes less time.
_LOCK_SECONDS = 300.0


class Tokens(BaseModel):
    """An access token and its refresh token, which has been used `refresh_count` times."""

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    access_token: Token = Field(repr=False)
    access_obtained_at: _Moment
    access_expires_at: _Moment
    refresh_token: Token = Field(repr=False)
    refresh_obtained_at: _Moment
    refresh_count: NonNegativeInt = 0

    @property
    def refresh_expires_at(self) -> datetime:
        return self.refresh_obtained_at + REFRESH_LIFE

    def is_valid(self, now: datetime) -> bool:
        """Return whether the access token is valid now. Tokens issued in the future are invalid."""
        return self.access_obtained_at - _STEP <= now < self.access_expires_at

    def is_fresh(self, now: datetime) -> bool:
        """Return False if the access token is due for renewal."""
        life = self.access_expires_at - self.access_obtained_at
        return self.is_valid(now + min(MARGIN, life / _MARGIN_SHARE))


@dataclass(frozen=True)
class TokenStatus:
    """Status of the account's tokens, without secrets.

    The access token is renewed before it expires. `refreshes_left` starts at 90. `new_password_required` is True from a
    login that results in this challenge until a new password is set.
    """

    auth_url: str
    username: str | None
    logged_in: bool
    access_expires_at: datetime | None = None
    refresh_obtained_at: datetime | None = None
    refresh_expires_at: datetime | None = None
    refreshes_used: int = 0
    refreshes_left: int = 0
    new_password_required: bool = False

    def sentence(self, now: datetime) -> str:
        asked = " The service requires a new password: run `wme auth new-password`." * self.new_password_required
        access, obtained, refresh = self.access_expires_at, self.refresh_obtained_at, self.refresh_expires_at
        if access is None or obtained is None or refresh is None:
            return f"Not logged in as {self.username or 'anybody'}; the first request logs in.{asked}"
        age, uses = counted((now - obtained).days, "day"), counted(self.refreshes_left + self.refreshes_used, "use")
        return (
            f"Logged in as {self.username}. The access token lasts until {moment_text(access)} UTC, the refresh token, "
            f"{age} old, until {moment_text(refresh)} UTC; {self.refreshes_left} of its {uses} are left.{asked}"
        )


class TokenStore:
    """Token file for one account at one host. Tokens for other accounts are ignored and overwritten."""

    def __init__(self, path: Path, auth_url: str, username: str | None) -> None:
        self._path = path
        self._owner: dict[str, Any] = {"auth_url": auth_url, "username": username}

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the store against other threads and processes. The lock is not reentrant. Raises StateError."""
        lock = self._path.with_name(self._path.name + ".lock")
        busy = StateBusy(
            f"Another process has held the lock on the token file {self._path} for more than {_LOCK_SECONDS:.0f} s. "
            "Nothing was changed. Wait for that process to finish, or end it if it hangs, and try again."
        )
        with contextlib.ExitStack() as held:
            with self._writing():
                held.enter_context(files.held(lock, wait_seconds=_LOCK_SECONDS, mode=0o600, busy=busy))
            yield

    def read(self) -> Tokens | None:
        """Return this account's tokens, or None if there are none. A damaged file is logged and ignored."""
        fields = self._fields()
        return None if fields.keys() <= {"challenge"} else self._parsed(fields, Tokens.model_validate)

    def read_session(self) -> str | None:
        """Return the session from the last login's challenge. Sessions expire within minutes."""
        challenge = self._fields().get("challenge")
        return challenge if isinstance(challenge, str) else None

    def status(self, tokens: Tokens | None) -> TokenStatus:
        asked = self.read_session() is not None
        status = TokenStatus(**self._owner, logged_in=tokens is not None, new_password_required=asked)
        if tokens is None:
            return status
        return replace(
            status,
            access_expires_at=tokens.access_expires_at,
            refresh_obtained_at=tokens.refresh_obtained_at,
            refresh_expires_at=tokens.refresh_expires_at,
            refreshes_used=tokens.refresh_count,
            refreshes_left=max(0, REFRESH_USES - tokens.refresh_count),
        )

    def _fields(self) -> dict[str, Any]:
        """Return the file's fields, or nothing if the file is missing or damaged, or belongs to another account."""
        try:
            content = files.read(self._path, most=_MOST_BYTES)
        except FileNotFoundError:
            return {}
        except files.UnusableFileError as error:
            problem = error.what
        except OSError as error:
            problem = error.strerror or type(error).__name__
        else:
            fields = self._parsed(content, files.JSON_OBJECT.validate_json) or {}
            is_ours = all(fields.pop(name, None) == value for name, value in self._owner.items())
            return fields if is_ours else {}
        raise StateError(
            f"The token file {self._path} cannot be read ({problem}). Nothing was sent. Make the user who runs this "
            "command the owner of the file, or delete the file. The next login creates a new file."
        )

    def write(self, tokens: Tokens) -> None:
        """Replace the stored tokens. The caller must hold the lock. Raises StateError or DiskFull."""
        self._store(tokens.model_dump(mode="json"))

    def write_session(self, session: str) -> None:
        """Store a challenge's session and keep the tokens. The caller must hold the lock."""
        self._store(self._fields() | {"challenge": session})

    def clear(self) -> None:
        with self._writing():
            self._path.unlink(missing_ok=True)

    def _store(self, fields: dict[str, Any]) -> None:
        with self._writing():
            files.write(self._path, json.dumps(self._owner | fields, indent=2).encode() + b"\n", mode=0o600)

    def _parsed(self, content: Any, parse: Callable[[Any], _T]) -> _T | None:
        try:
            return parse(content)
        except ValueError:
            _log.warning("The token file %s is damaged and ignored. The next login creates a new file.", self._path)
            return None

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            problem = error.strerror or type(error).__name__
            if files.is_full(error):
                raise DiskFull(
                    f"The disk is full, so tokens cannot be stored in {self._path} ({problem}). The stored tokens are "
                    "kept. Free up disk space, and try again."
                ) from None
            do = (
                "Mount the file system read-write"
                if error.errno == errno.EROFS
                else "Make the user who runs this command the owner of the folder"
            )
            raise StateError(
                f"The token file {self._path} cannot be written ({problem}). The stored tokens are kept. {do}, or "
                "choose another data folder."
            ) from None
