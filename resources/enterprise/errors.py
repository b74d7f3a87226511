"""Errors of the client: everything that can fail in the service, the network, the disk or the account.

Every message states what happened, what was kept and what to do. No message contains a password, a token or a signed
URL, or is longer than `LONGEST_MESSAGE`. Control characters in a message, for example in a quoted response of the
service, are escaped. `Redactor` removes secrets from other texts that leave the client.
"""

from __future__ import annotations

import re
from typing import Final

from resources import errors
from resources.formatting import legible

_HIDDEN = "[hidden]"
# These expressions run in linear time even on a hostile text: a match starts at only one position of a run.
_JWT = re.compile(r"(?<![\w-])[\w-]{8,}\.[\w-]{8,}\.[\w-]{8,}")
_BEARER = re.compile(r"(?i)\b(bearer\s+)[^\s\"'<>,;]+")
_RUN = re.compile(r"[^\s\"'<>]+")
_ANY_QUERY = re.compile(r"\?[^\s\"'<>)]+")

#: Shorter values are too likely to occur in ordinary text.
_SHORTEST_SECRET = 6


class Redactor:
    """Removes known secrets, and strings that look like secrets, from a text."""

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
    """Remove the queries of all addresses in a text: the query of a signed URL is a key."""
    return _RUN.sub(_without_query, text)


def _without_query(run: re.Match[str]) -> str:
    address, mark, _ = run[0].partition("?")
    return f"{address}?{_HIDDEN}" if mark and "://" in address else run[0]


def without_any_query(text: str) -> str:
    """Remove tokens, and the queries of all addresses, including those without a host."""
    return _JWT.sub(_HIDDEN, _ANY_QUERY.sub(f"?{_HIDDEN}", text))


# ruff: noqa: N818  the names say what happened; the base class says that it is an error


#: Maximum number of characters in a message.
LONGEST_MESSAGE: Final = 2_000


class EnterpriseError(errors.MirrorError):
    """Any failure of the client: message, HTTP status, and the wait in seconds that the service requested."""

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
    """The account must set a new password before it gets tokens (challenge NEW_PASSWORD_REQUIRED)."""


class TokenSpent(AuthenticationError):
    """The refresh token is used up, expired or revoked, and no password is configured to log in again."""


class Forbidden(EnterpriseError):
    """The account is valid, but its group may not use this path (403)."""

    ends_run = True


class NotFound(EnterpriseError):
    """The service does not know the requested object (404)."""


class NotPublishedYet(NotFound):
    """The batch listing is not published yet: some exports of its hour are not finished."""

    retryable = True


class RetentionPassed(NotFound):
    """The hour is older than two days, so the service has deleted it."""


class QuotaExceeded(EnterpriseError):
    """The account has used up its units of this product (429, confirmed by the account's counters)."""

    ends_run = True


class BudgetExceeded(EnterpriseError):
    """The request needs more units than the caller allows."""

    ends_run = True


class RateLimited(EnterpriseError):
    """Too many requests in too short a time (429, with units left)."""

    retryable = True


class ServiceUnavailable(EnterpriseError):
    """No usable answer: no connection, 5xx, a page of HTML, a body that broke off."""

    retryable = True


class UnreachableError(ServiceUnavailable):
    """No connection to a host after all attempts, or an invalid certificate (TLS); other requests would fail too."""

    ends_run = True
    unavailable = "service"


class ClockError(EnterpriseError):
    """The clock of this machine differs so much from the service's that the hour cannot be correct."""

    ends_run = True


class UnexpectedAnswer(EnterpriseError):
    """A response that does not have the documented form."""


class StaleSnapshot(EnterpriseError):
    """The service replaced a snapshot or a chunk during its download: the files no longer belong together.

    Not retryable: the same plan never succeeds, and a new plan costs quota again.
    """


class IntegrityError(EnterpriseError):
    """An archive does not match the MD5 of the service's record, or is damaged."""


class DiskFull(EnterpriseError, errors.DiskFullError):
    """The disk, the quota of the user or the allowed file size is exhausted."""


class InvalidRequest(EnterpriseError):
    """The request is invalid: a setting or an argument is malformed, or the service reports so (400, 422)."""


class StateError(EnterpriseError):
    """The folder of the client's own state cannot be read or written."""

    ends_run = True


class StateBusy(StateError):
    """Another process has held a lock of the client's state for too long."""

    retryable = True
    ends_run = False
