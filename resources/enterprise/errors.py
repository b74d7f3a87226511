"""Client errors: failures of the service, the network, the disk or the account.

Every message states what happened, what was kept and what to do. No message contains a password, a token or a signed
URL. Messages are at most `LONGEST_MESSAGE` characters long, and control characters in them are escaped. `Redactor`
removes secrets from all other text that leaves the client.
"""

import json
import re
from typing import Final
from urllib.parse import quote, quote_plus

from resources import errors
from resources.formatting import legible

_HIDDEN = "[hidden]"
# The regular expressions run in linear time even on hostile input, because a match can start at only one position in a
# run of characters.
_JWT = re.compile(r"(?<![\w-])[\w-]{8,}\.[\w-]{8,}\.[\w-]{8,}")
_BEARER = re.compile(r"(?i)\b(bearer\s+)[^\s\"'<>,;]+")
_URL_QUERY = re.compile(r"(://(?:(?!://)[^\s\"'<>?])*)\?[^\s\"'<>]*")
_ANY_QUERY = re.compile(r"\?[^\s\"'<>)]+")

#: Minimum length of a secret. Shorter values could occur in ordinary text.
_SHORTEST_SECRET = 6


class Redactor:
    """Removes known secrets, and strings that look like secrets, from text."""

    def __init__(self) -> None:
        self._known: frozenset[str] = frozenset()

    def learn(self, *secrets: str | None) -> None:
        self._known |= {form for s in secrets if s and len(s) >= _SHORTEST_SECRET for form in _forms(s)}

    def clean(self, text: str) -> str:
        for secret in sorted(self._known, key=len, reverse=True):
            text = text.replace(secret, _HIDDEN)
        return _JWT.sub(_HIDDEN, _BEARER.sub(rf"\1{_HIDDEN}", without_queries(text)))


def _forms(secret: str) -> set[str]:
    """Return a secret as it appears in text: unmodified, in JSON, and in a URL or a form."""
    in_json = (json.dumps(secret, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False))
    in_urls = (escape(secret, safe, errors="replace") for escape, safe in ((quote, "/"), (quote, ""), (quote_plus, "")))
    return {secret, *in_json, *in_urls}


def without_queries(text: str) -> str:
    """Remove the query strings from all URLs in a text, because a signed URL's query string grants access."""
    return _URL_QUERY.sub(rf"\1?{_HIDDEN}", text)


def without_any_query(text: str) -> str:
    """Remove tokens, and remove the query strings from all URLs, including relative URLs."""
    return _JWT.sub(_HIDDEN, _ANY_QUERY.sub(f"?{_HIDDEN}", text))


# ruff: noqa: N818  the names say what happened; the base class says that it is an error


#: Maximum number of characters in a message.
LONGEST_MESSAGE: Final = 2_000


class EnterpriseError(errors.MirrorError):
    """Base class of client errors, with a message, an HTTP status, and the requested wait in seconds."""

    def __init__(self, message: str, *, status: int | None = None, retry_after: float | None = None) -> None:
        self.message = legible(without_queries(message), LONGEST_MESSAGE)
        super().__init__(self.message)
        self.status = status
        self.retry_after = retry_after


class AuthenticationError(EnterpriseError):
    """The service refused the account: the password is wrong, the token is invalid, or an account is required."""

    ends_run = True
    unavailable = "service"


class NewPasswordRequired(AuthenticationError):
    """The user must set a new password before the service issues tokens (challenge NEW_PASSWORD_REQUIRED)."""


class TokenSpent(AuthenticationError):
    """The refresh token is used up, expired or revoked, and no password is configured for a new login."""


class Forbidden(EnterpriseError):
    """The account is valid, but its group has no access to this path (403)."""

    ends_run = True


class NotFound(EnterpriseError):
    """The service does not know the requested object (404)."""


class NotPublishedYet(NotFound):
    """The batch listing has not been published yet, because some of the hour's exports are not finished."""

    retryable = True


class RetentionPassed(NotFound):
    """The hour is older than two days, so the service has deleted its files."""


class QuotaExceeded(EnterpriseError):
    """The account has no units left for this product (429, confirmed by the account's counters)."""

    ends_run = True


class BudgetExceeded(EnterpriseError):
    """The request needs more units than the caller allows."""

    ends_run = True


class RateLimited(EnterpriseError):
    """The client sent too many requests in too short a time (429, with units left)."""

    retryable = True


class ServiceUnavailable(EnterpriseError):
    """The service did not send a usable response: no connection, a 5xx status, an HTML page, or a truncated body."""

    retryable = True


class UnreachableError(ServiceUnavailable):
    """A host cannot be reached, or its TLS certificate is invalid. Other requests would fail as well."""

    ends_run = True
    unavailable = "service"


class ClockError(EnterpriseError):
    """This machine's clock differs too much from the service's clock to determine the hour."""

    ends_run = True


class UnexpectedAnswer(EnterpriseError):
    """The response does not have the documented form."""


class StaleSnapshot(EnterpriseError):
    """The service replaced a snapshot or a chunk during the download, so the files are inconsistent.

    This error is not retryable, because the same plan can never succeed and a new plan uses quota again.
    """


class IntegrityError(EnterpriseError):
    """An archive does not match the MD5 in the service's record, or is damaged."""


class DiskFull(EnterpriseError, errors.DiskFullError):
    """The disk is full, or the user's disk quota or file size limit has been reached."""


class InvalidRequest(EnterpriseError):
    """The request is invalid: a setting or an argument is malformed, or the service rejected it (400, 422)."""


class StateError(EnterpriseError):
    """The client's state folder cannot be read or written to."""

    ends_run = True


class StateBusy(StateError):
    """Another process has held a lock on the client's state for too long."""

    retryable = True
    ends_run = False
