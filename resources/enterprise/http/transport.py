"""HTTP transport: one session with a User-Agent, timeouts, retries, and a mapping from failures to client errors.

urllib3 retries only failed connections and 5xx responses. The callers of this module handle broken bodies, rate limits
and refused tokens.

Source: the service's error body `{"status", "message"}` and its status codes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from importlib import metadata
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import requests
from pydantic import TypeAdapter, ValidationError
from urllib3.exceptions import ConnectTimeoutError, DecodeError, NewConnectionError, ProtocolError
from urllib3.util.retry import Retry

from resources.enterprise import errors
from resources.enterprise.endpoints import Service
from resources.enterprise.errors import Redactor
from resources.enterprise.http.answers import (
    Answer,
    BrokenAnswer,
    NoConnection,
    ServiceClock,
    TooLongError,
    read_body,
    requests_of,
)
from resources.enterprise.http.bounds import (
    PUBLIC,
    Deadline,
    Limits,
    RetryPolicy,
    TooSlowError,
    addresses_of,
    network_of,
    until,
)
from resources.enterprise.http.workarounds import (
    LIBRARY_ERRORS,
    Adapter,
    BoundedRetry,
    Session,
    hide_queries_in_http_log,
    no_auth,
    reason,
    stems_from,
)
from resources.enterprise.listing import shape_problem
from resources.formatting import legible

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
#: Function that adds the token to a request.
Auth = Callable[[requests.PreparedRequest], requests.PreparedRequest]

_DISTRIBUTION = "enterprise-content-mirror"
_RETRIED: Final = frozenset({500, 502, 503, 504})
#: Maximum number of retries after a read timeout. Each retry can take a full read timeout.
_READ_RETRIES = 2
#: Maximum length of quoted service messages.
_LONGEST_SAID = 300


class Transport:
    """Sends requests over pooled connections, and never stores cookies. Thread-safe."""

    def __init__(
        self, service: Service, retry: RetryPolicy, limits: Limits, redactor: Redactor, clock: ServiceClock
    ) -> None:
        self.retry = retry
        self.limits = limits
        self.redactor = redactor
        self.clock = clock
        self._anonymous = service.anonymous
        #: Networks of the service's own hosts, to which redirects may lead as well. New connections can add networks.
        self._networks = {PUBLIC}
        to_service = BoundedRetry(
            total=retry.retries,
            read=min(retry.retries, _READ_RETRIES),
            status_forcelist=_RETRIED,
            allowed_methods=None,  # all methods, because the service's POST requests can be repeated safely
            backoff_factor=retry.first_wait,
            backoff_max=retry.longest_wait,
            backoff_jitter=retry.first_wait / 2,
            raise_on_status=False,
        )
        self._service = _session(service.contact, to_service)
        self._store = _session(service.contact, Retry(total=0, redirect=False, raise_on_status=False))
        hide_queries_in_http_log()

    def close(self) -> None:
        """Close all connections. Later requests open new connections."""
        self._service.close()
        self._store.close()

    def send(
        self,
        method: str,
        url: str,
        *,
        doing: str,
        auth: Auth | None = None,
        body: Any = None,
        longest: int | None = None,
    ) -> Answer:
        """Send a request to the service and return the response, regardless of its status. Redirects are not followed.

        `doing` is the purpose, worded to follow "Could not" in a message. `auth` adds the token. By default, no token
        is sent. `body` is sent as JSON. `longest` is the maximum response size in bytes (default: a record's maximum).
        A response that breaks off raises BrokenAnswer, and is not retried.
        """
        try:
            deadline = Deadline(self.limits.answer_seconds)
            deadline.meet = self._is_at
            with until(deadline):
                response = self._service.request(
                    method,
                    url,
                    json=body,
                    auth=auth or no_auth,
                    headers={"Accept": "application/json", "Accept-Encoding": "gzip"},
                    allow_redirects=False,
                    stream=True,
                    timeout=self.retry.timeouts,
                )
                limit = longest or self.limits.record_bytes
                if response.status_code >= 300:
                    limit = min(limit, self.limits.refusal_bytes)
                content = read_body(response, limit)
        except TooLongError as error:
            failure: errors.EnterpriseError = errors.UnexpectedAnswer(
                f"Could not {doing}: the response exceeds {error.limit:,} bytes, the limit for such responses. Nothing "
                "was changed. Check the configured service addresses, and any proxy between this machine and the "
                "service."
            )
        except LIBRARY_ERRORS as error:
            failure = self._failure(error, url, doing)
        else:
            self.clock.heard(response.headers)
            return Answer(response.status_code, content, response.headers, requests_of(response))
        # Raised outside the handler, so that the library's exception, whose message contains the full URL, is not
        # attached.
        raise failure

    def open(
        self,
        url: str,
        headers: Mapping[str, str],
        *,
        doing: str,
        deadline: Deadline,
        body: Mapping[str, Any] | None = None,
        auth: Auth | None = None,
    ) -> requests.Response:
        """Open a stream, or a signed URL for the object store. The body is not read yet, and failures are not retried.

        Without `auth`, no token is sent, and the URL is treated as a redirect target, which must be in the service's
        own network or in the public network. A `body` is sent as JSON in a POST request without a read timeout. The
        deadline also applies to the response body.

        Raises BrokenAnswer (for a failed connection, NoConnection), or UnexpectedAnswer for a forbidden network.
        """
        connect, read = self.retry.timeouts
        deadline.meet = self._is_at
        if auth is None:
            deadline.meet = partial(self._may_be_at, doing)
            for address in addresses_of(url):
                deadline.meet(address)
        try:
            with until(deadline):
                return self._store.request(
                    "GET" if body is None else "POST",
                    url,
                    json=body,
                    headers={"Accept-Encoding": "identity", "Accept": "*/*", **headers},
                    auth=auth or no_auth,
                    allow_redirects=False,
                    stream=True,
                    timeout=(connect, read if body is None else None),
                )
        except LIBRARY_ERRORS as error:
            failure = self.broken(error, url, doing)
        raise failure

    def _is_at(self, address: str) -> None:
        self._networks.add(network_of(address))

    def _may_be_at(self, doing: str, address: str) -> None:
        if (network := network_of(address)) not in self._networks:
            raise errors.UnexpectedAnswer(
                f"Could not {doing}: the service redirects to a {network} address, but its own address is not "
                f"{network}. Nothing was sent to that address, and nothing was fetched. Check the configured service "
                "addresses and this machine's DNS server."
            )

    def broken(self, error: BaseException, url: str, doing: str) -> BrokenAnswer:
        found = self._failure(error, url, doing)
        return (NoConnection if isinstance(found, errors.UnreachableError) else BrokenAnswer)(found.message)

    def error(self, answer: Answer, doing: str) -> errors.EnterpriseError:
        status, message = answer.status, self.said(answer)
        if not message and answer.is_html and status not in {401, 429}:
            return self.html_error(status, doing)
        said = f" ({message})" if message else ""
        what = f"Could not {doing}: the service responded with status {status}{said}."
        if status >= 500:
            return errors.ServiceUnavailable(
                f"{what} The error persisted after {self.retry.retries} retries. Earlier downloads are kept. Try "
                "again later.",
                status=status,
            )
        if self._anonymous and status in {401, 403}:
            return errors.AuthenticationError(
                f"{what} Nothing was changed. This client sends no token, but the service does not accept this "
                "machine's IP address. Unset WME_ANONYMOUS, and set WME_USERNAME and WME_PASSWORD.",
                status=status,
            )
        kind, advice = _MEANING.get(
            status,
            (errors.UnexpectedAnswer, "This status is not documented. Check the configured service addresses."),
        )
        return kind(f"{what} Nothing was changed. {advice}", status=status)

    def parse(self, answer: Answer, form: TypeAdapter[_T], doing: str) -> _T:
        """Parse a successful response's JSON body.

        Raises BrokenAnswer for an empty body or an HTML page, and UnexpectedAnswer for any other undocumented form.
        """
        if not answer.body.strip():
            raise BrokenAnswer(
                f"Could not {doing}: the response (status {answer.status}) has an empty body. Earlier downloads are "
                "kept. Try again later.",
                status=answer.status,
            )
        if answer.is_html:
            raise self.html_error(answer.status, doing)
        try:
            return form.validate_json(answer.body)
        except ValidationError as error:
            problem = shape_problem(error)
        raise self.form_error(answer.status, doing, problem)

    @staticmethod
    def form_error(status: int, doing: str, problem: str) -> errors.UnexpectedAnswer:
        return errors.UnexpectedAnswer(
            f"Could not {doing}: the response does not have the documented form ({problem}). Nothing was changed. If "
            "the configured address is correct, the service's API has changed, and this client needs an update.",
            status=status,
        )

    def html_error(self, status: int, doing: str) -> errors.EnterpriseError:
        what = f"Could not {doing}: the response (status {status}) is an HTML page instead of JSON."
        if 400 <= status < 500:
            return errors.UnexpectedAnswer(
                f"{what} Nothing was changed. The service never sends HTML pages: check the configured service "
                "addresses, and any proxy between this machine and the service.",
                status=status,
            )
        kind = BrokenAnswer if status < 300 else errors.ServiceUnavailable  # 5xx responses have already been retried
        return kind(
            f"{what} The page came from a load balancer or a captive portal. Earlier downloads are kept. Try "
            "again later.",
            status=status,
        )

    def said(self, answer: Answer) -> str:
        """Return the service's message without secrets and control characters, or "" if there is none."""
        message = " ".join(self.redactor.clean(answer.message or "").split())
        return legible(message.removesuffix("."), _LONGEST_SAID)

    def _failure(self, error: BaseException, url: str, doing: str) -> errors.EnterpriseError:
        what = f"Could not {doing}: {reason(error)} ({urlsplit(url).hostname})."
        if stems_from(error, TooSlowError):
            return errors.ServiceUnavailable(
                f"{what} The time limit is {self.limits.answer_seconds:,.0f} s. Earlier downloads are kept. Check this "
                "machine's network, and try again later."
            )
        if isinstance(error, ProtocolError | DecodeError):  # while the body was read
            return BrokenAnswer(f"{what} Earlier downloads are kept. Try again later.")
        if isinstance(error, requests.exceptions.SSLError):
            return errors.UnreachableError(
                f"{what} Nothing was sent. Check this machine's clock and, if there is a proxy, the installed "
                "certificates."
            )
        unreachable = stems_from(error, NewConnectionError, ConnectTimeoutError)
        kind = errors.UnreachableError if unreachable else errors.ServiceUnavailable
        return kind(f"{what} Earlier downloads are kept. Check this machine's network, and try again.")


def _session(contact: str | None, retry: Retry) -> requests.Session:
    session = Session()
    session.headers["User-Agent"] = user_agent(contact)
    adapter = Adapter(max_retries=retry, pool_maxsize=32)
    session.mount("https://", adapter)
    session.mount("http://", adapter)
    return session


def user_agent(contact: str | None) -> str:
    """Return the User-Agent, which contains the operator's contact details, as requested by the service."""
    about = (contact or "operator unknown").encode("ascii", "replace").decode()
    return f"{_DISTRIBUTION}/{metadata.version(_DISTRIBUTION)} ({about}) python-requests/{requests.__version__}"


_MEANING: Final[dict[int, tuple[type[errors.EnterpriseError], str]]] = {
    400: (errors.InvalidRequest, "The same request will be refused again: correct its arguments."),
    401: (
        errors.AuthenticationError,
        "Check the account with `wme auth status`, and log in again with `wme auth login`.",
    ),
    403: (
        errors.Forbidden,
        "The account's groups have no access. `wme auth status` shows the groups. Ask the vendor for access.",
    ),
    404: (errors.NotFound, "Check the spelling of the requested name."),
    422: (errors.InvalidRequest, "The same request will be refused again: correct its arguments."),
    429: (errors.RateLimited, "Try again later, or with fewer parallel downloads."),
}
