"""One tree of errors for everything the service, the network, the disk or the account can do to a client.

Every message is a whole sentence: what happened, what was kept, what to do. None ever holds a password, a token or a
signed URL; none is longer than `LONGEST_MESSAGE`, and what a terminal would obey in it (the service's own words may
be part of it) is shown as an escape. `Redactor` removes secrets from other texts that leave the client.
"""

from __future__ import annotations

import re
from typing import Final

from resources import errors
from resources.formatting import legible

_HIDDEN = "[hidden]"
# Written so that a text made for it takes no longer than another: each begins at one place of a run only.
_JWT = re.compile(r"(?<![\w-])[\w-]{8,}\.[\w-]{8,}\.[\w-]{8,}")
_BEARER = re.compile(r"(?i)\b(bearer\s+)[^\s\"'<>,;]+")
_RUN = re.compile(r"[^\s\"'<>]+")
_ANY_QUERY = re.compile(r"\?[^\s\"'<>)]+")

#: Shorter values are too likely to be part of ordinary words.
_SHORTEST_SECRET = 6


class Redactor:
    """Removes known secrets, and whatever looks like one, from a text."""

    def __init__(self) -> None:
        self._known: frozenset[str] = frozenset()

    def learn(self, *secrets: str | None) -> None:
        self._known |= {s for s in secrets if s and len(s) >= _SHORTEST_SECRET}

    def clean(self, text: str) -> str:
        for secret in sorted(self._known, key=len, reverse=True):
            text = text.replace(secret, _HIDDEN)
        text = without_queries(text)
        text = _BEARER.sub(rf"\1{_HIDDEN}", text)
        return _JWT.sub(_HIDDEN, text)


def without_queries(text: str) -> str:
    """A text whose addresses have no query: that of a signed URL is a key."""
    return _RUN.sub(_without_query, text)


def _without_query(run: re.Match[str]) -> str:
    address, mark, _ = run[0].partition("?")
    return f"{address}?{_HIDDEN}" if mark and "://" in address else run[0]


def without_any_query(text: str) -> str:
    """Return a text without queries, of addresses without a host too, and without tokens."""
    return _JWT.sub(_HIDDEN, _ANY_QUERY.sub(f"?{_HIDDEN}", text))


# ruff: noqa: N818  the names say what happened; the base class says that it is an error


#: Characters of a message.
LONGEST_MESSAGE: Final = 2_000


class EnterpriseError(errors.MirrorError):
    """Any failure of the client: its sentence, the HTTP status, and the seconds that the service asks to wait."""

    def __init__(self, message: str, *, status: int | None = None, retry_after: float | None = None) -> None:
        self.message = legible(without_queries(message), LONGEST_MESSAGE)
        super().__init__(self.message)
        self.status = status
        self.retry_after = retry_after


class AuthenticationError(EnterpriseError):
    """The service refused the account: wrong password, refused token, or no account where one is needed."""

    ends_run = True
    unavailable = "service"


class NewPasswordRequired(AuthenticationError):
    """The account must be given a new password before it gets tokens (challenge NEW_PASSWORD_REQUIRED)."""


class TokenSpent(AuthenticationError):
    """The refresh token is used up, expired or revoked, and no password is configured to log in again."""


class Forbidden(EnterpriseError):
    """The account is known, its group may not use this path (403)."""

    ends_run = True


class NotFound(EnterpriseError):
    """The service does not know the requested object (404)."""


class NotPublishedYet(NotFound):
    """A batch listing appears only when all exports of its hour have ended; that has not happened."""

    retryable = True


class RetentionPassed(NotFound):
    """The service keeps an hour for two days; they are over."""


class QuotaExceeded(EnterpriseError):
    """The account has used up its units of this product (429, confirmed by the account's counters)."""

    ends_run = True


class BudgetExceeded(EnterpriseError):
    """The request takes more units than the caller would spend."""

    ends_run = True


class RateLimited(EnterpriseError):
    """Too many requests in too short a time (429, with units left)."""

    retryable = True


class ServiceUnavailable(EnterpriseError):
    """No usable answer: no connection, 5xx, a page of HTML, a body that broke off."""

    retryable = True


class UnreachableError(ServiceUnavailable):
    """No connection to a host, or none that it could prove (TLS), after all attempts; others would fail as slowly."""

    ends_run = True
    unavailable = "service"


class ClockError(EnterpriseError):
    """The clock of this machine is so far from the service's that an hour cannot be what it seems to be."""

    ends_run = True


class UnexpectedAnswer(EnterpriseError):
    """An answer that does not have the documented form."""


class StaleSnapshot(EnterpriseError):
    """The service replaced a snapshot, or a chunk of it, while its files were fetched: they no longer belong together.

    The same plan never succeeds again, a new one does: not retryable, because that costs quota again.
    """


class IntegrityError(EnterpriseError):
    """An archive is not what the service's record says (MD5), or is damaged."""


class DiskFull(EnterpriseError, errors.DiskFullError):
    """The disk, the quota of the user or the allowed file size leaves no room."""


class InvalidRequest(EnterpriseError):
    """The request cannot be right: a setting or an argument is malformed, or the service says so (400, 422)."""


class StateError(EnterpriseError):
    """The folder of the client's own state cannot be read or written."""

    ends_run = True


class StateBusy(StateError):
    """Another process holds a lock of the client's state for longer than anyone should."""

    retryable = True
    ends_run = False
