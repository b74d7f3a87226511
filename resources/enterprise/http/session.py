"""What of requests and urllib3 is done otherwise: no credentials of its own, no cookies, no redirects, waits that end.

Belongs here: what they would do unasked. Does not belong here: when something is tried again (see `transport`).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Self

import requests
from requests.auth import AuthBase
from requests.cookies import RequestsCookieJar
from urllib3.exceptions import InvalidHeader
from urllib3.util.retry import Retry

from resources.enterprise.http.foreign import reason

if TYPE_CHECKING:
    from urllib3.response import BaseHTTPResponse

_log = logging.getLogger(__name__)


class NoAuth(AuthBase):
    """Sends no credentials, also none that requests would take from a .netrc file."""

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        return request


class NoCookies(RequestsCookieJar):
    """Takes none: so threads share no state that answers could spoil, and nobody parses them."""

    def extract_cookies(self, response: Any, request: Any) -> None:
        pass


class Session(requests.Session):
    """Knows no redirects: requests would otherwise prepare the next request, for whatever address it is given."""

    def get_redirect_target(self, resp: requests.Response) -> str | None:  # noqa: ARG002  the library's signature
        return None


class BoundedRetry(Retry):
    """urllib3's retries, with a `Retry-After` of hours cut to the longest wait, and one that is no date left aside."""

    #: Not 429: whether waiting helps is for the client to find out.
    RETRY_AFTER_STATUS_CODES = frozenset({503})

    def increment(self, *args: Any, **options: Any) -> Self:
        following = super().increment(*args, **options)
        error: Exception | None = options.get("error")
        if error is not None and not self.history:  # once, in place of the library's line for every attempt
            _log.info("A request failed: %s. Trying again, %s times at most.", reason(error), self.total)
        return following

    def get_retry_after(self, response: BaseHTTPResponse) -> float | None:
        try:
            asked = super().get_retry_after(response)
        except (InvalidHeader, ValueError, OverflowError):  # a number of 5,000 digits, a date of the year 99999
            return None
        return None if asked is None else min(asked, float(self.backoff_max))
