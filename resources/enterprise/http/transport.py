"""HTTP transport: one session with a User-Agent, timeouts, retries, and a mapping from failures to client errors.

Requests to the service are repeated here after failed connections, broken responses, temporary refusals and a refused
token. urllib3 retries nothing.

Source: the service's error body `{"status", "message"}` and its status codes.
"""

import logging
import time
from collections.abc import Callable, Mapping
from functools import partial
from importlib import metadata
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import requests
from pydantic import TypeAdapter, ValidationError
from urllib3.exceptions import ConnectTimeoutError, DecodeError, NewConnectionError, ProtocolError
from urllib3.util.retry import Retry

from resources import files
from resources.enterprise import errors
from resources.enterprise.endpoints import Service, origin
from resources.enterprise.errors import Redactor
from resources.enterprise.http.answers import Answer, BrokenAnswer, NoConnection, ServiceClock, read_body
from resources.enterprise.http.bounds import Deadline, Limits, RetryPolicy, TooSlowError, current_deadline, network_of
from resources.enterprise.http.workarounds import LIBRARY_ERRORS, Adapter, hide_queries_in_http_log, reason, stems_from
from resources.enterprise.listing import shape_problem
from resources.formatting import legible

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

_DISTRIBUTION = "enterprise-content-mirror"
#: Statuses of temporary failures.
_RETRIED: Final = frozenset({500, 502, 503, 504})
#: Maximum length of quoted service messages.
_LONGEST_SAID = 300


class Transport:
    """Sends requests over pooled connections, and never stores cookies. Thread-safe."""

    def __init__(self, service: Service, retry: RetryPolicy, limits: Limits, clock: ServiceClock) -> None:
        self.service, self.retry, self.limits, self.clock = service, retry, limits, clock
        self.redactor = Redactor()
        #: Networks of the service's own hosts, to which redirects may lead as well. New connections can add networks.
        self._networks = {"public"}
        # the service requests the operator's contact details
        about = (service.contact or "operator unknown").encode("ascii", "replace").decode()
        client = f"{_DISTRIBUTION}/{metadata.version(_DISTRIBUTION)}"
        self._user_agent = f"{client} ({about}) python-requests/{requests.__version__}"
        self._session = requests.Session()
        adapter = Adapter(max_retries=Retry(total=0, redirect=False, raise_on_status=False), pool_maxsize=32)
        self._session.mount("https://", adapter)
        self._session.mount("http://", adapter)
        hide_queries_in_http_log()

    def close(self) -> None:
        """Close all connections. Later requests open new connections."""
        self._session.close()

    def ask(
        self,
        method: str,
        url: str,
        understand: Callable[[Answer], _T],
        *,
        doing: str,
        token: str | None = None,
        renew: Callable[[str], str] | None = None,
        body: Any = None,
        longest: int | None = None,
        before: Callable[[], object] = lambda: None,
    ) -> _T:
        """Send a request to the service, and return the result of `understand`.

        All requests can be repeated safely. A request is repeated after a failed connection, a broken or temporary
        refusal (RateLimited or BrokenAnswer from `understand`), and once with another token from `renew` after the
        token was refused (401).
        `doing` is the purpose, worded to follow "Could not" in a message. `body` is sent as JSON. `longest` is the
        maximum response size in bytes (default: a record's maximum). `before` is called before each request. The time
        limit includes all repetitions, but not the pauses between repetitions.
        """
        longest = longest or self.limits.record_bytes
        headers = {"Accept": "application/json", "Accept-Encoding": "gzip"}
        request = requests.Request(method, url, headers, json=body)
        count = failures = 0
        before()
        deadline = Deadline(self.limits.answer_seconds, self._is_at)
        while True:
            asked: float | None = None
            count += 1
            try:
                answer = self._answer(request, token, deadline, doing, longest, count)
                if answer.status == 401 and renew is not None and token is not None:
                    token, renew = renew(token), None
                    deadline.restart()
                    continue
                asked = answer.retry_after
                return understand(answer)
            except (errors.RateLimited, BrokenAnswer) as error:
                failures += 1
                if failures > self.retry.retries:
                    if isinstance(error, BrokenAnswer):
                        raise error.final() from None
                    raise
                wait = self.retry.wait(failures, asked)
                if failures == 1:
                    what = error.message.partition(". ")[0]
                    _log.info("%s. Retrying up to %d times.", what, self.retry.retries)
            paused_at = time.monotonic()
            time.sleep(wait)
            before()
            deadline.extend(time.monotonic() - paused_at)

    def _answer(
        self, request: requests.Request, token: str | None, deadline: Deadline, doing: str, longest: int, count: int
    ) -> Answer:
        try:
            response = self._send(request, token, deadline, self.retry.read_timeout)
            refused = response.status_code >= 300
            content = read_body(response, min(longest, self.limits.refusal_bytes) if refused else longest)
        except LIBRARY_ERRORS as error:
            failure = self._failure(error, request.url, doing)
        else:
            self.clock.heard(response.headers)
            if refused or len(content) <= longest:
                return Answer(response.status_code, content, response.headers, count)
            failure = errors.UnexpectedAnswer(
                f"Could not {doing}: the response exceeds {longest:,} bytes, the limit for such responses. Nothing "
                "was changed. Check the configured service addresses, and any proxy between this machine and the "
                "service."
            )
        # Raised outside the handler, to omit the library's exception, whose message contains the full URL.
        raise failure

    def open(
        self,
        url: str,
        headers: dict[str, str],
        *,
        doing: str,
        deadline: Deadline,
        body: Mapping[str, Any] | None = None,
        token: str | None = None,
    ) -> requests.Response:
        """Open a stream, or a signed URL for the object store. The body is not read yet, and failures are not retried.

        A stream has a `body`, which is sent as JSON in a POST request without a read timeout. Without a `body`, the URL
        is treated as a redirect target, which must be in the service's own network or in the public network. The
        deadline also applies to the response body.

        Raises BrokenAnswer (for a failed connection, NoConnection), or UnexpectedAnswer for a forbidden network.
        """
        method, timeout = ("GET", self.retry.read_timeout) if body is None else ("POST", None)
        deadline.meet = self._is_at if body is not None else partial(self._may_be_at, doing)
        headers = {"Accept-Encoding": "identity", "Accept": "*/*", **headers}
        try:
            return self._send(requests.Request(method, url, headers, json=body), token, deadline, timeout)
        except LIBRARY_ERRORS as error:
            failure = self.broken(error, url, doing)
        raise failure

    def _send(
        self, request: requests.Request, token: str | None, deadline: Deadline, timeout: float | None
    ) -> requests.Response:
        """Send a request without following redirects. The body of the response is not read yet."""
        # not `Session.request`, which adds credentials from .netrc and cookies, and prepares redirected requests
        prepared = request.prepare()
        prepared.headers["User-Agent"] = self._user_agent
        if token is not None:
            own = self.service.auth_url, self.service.base_url, self.service.realtime_url
            if origin(request.url) not in map(origin, own):
                raise errors.InvalidRequest(
                    "A request with a token would have gone to a host that does not belong to the service. Nothing was "
                    "sent. Check the configured service addresses."
                )
            prepared.headers["Authorization"] = f"Bearer {token}"
        settings: dict[str, Any] = {**self._session.merge_environment_settings(request.url, {}, True, None, None)}
        settings["timeout"] = (self.retry.connect_timeout, timeout)
        previous = current_deadline.set(deadline)
        try:
            return self._session.get_adapter(request.url).send(prepared, **settings)
        finally:
            current_deadline.reset(previous)

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
        return found if isinstance(found, BrokenAnswer) else BrokenAnswer(found.message)

    def error(self, answer: Answer, doing: str) -> errors.EnterpriseError:
        status, message = answer.status, self.said(answer)
        if not message and answer.is_html and status not in {401, 429}:
            return self.html_error(status, doing)
        said = f" ({message})" if message else ""
        what = f"Could not {doing}: the service responded with status {status}{said}."
        if status >= 500:
            return (BrokenAnswer if status in _RETRIED else errors.ServiceUnavailable)(
                f"{what} The error persisted after {self.retry.retries} retries. Earlier downloads are kept. Try "
                "again later.",
                status=status,
            )
        if self.service.anonymous and status in {401, 403}:
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

        Raises BrokenAnswer for an empty body or an HTML page, and UnexpectedAnswer for any other undocumented form, too
        many values, a redirect or a partial response.
        """
        if not answer.body.strip():
            raise BrokenAnswer(
                f"Could not {doing}: the response (status {answer.status}) has an empty body. Earlier downloads are "
                "kept. Try again later.",
                status=answer.status,
            )
        if answer.is_html:
            raise self.html_error(answer.status, doing)
        if answer.status != 200:  # an empty list in such a response would mean that nothing exists
            raise self.error(answer, doing)
        if files.is_crowded(answer.body):
            raise errors.UnexpectedAnswer(
                f"Could not {doing}: the response contains more than {files.VALUES_MAX:,} values, the limit for "
                "responses. Nothing was changed. Check the configured service addresses, and any proxy between this "
                "machine and the service.",
                status=answer.status,
            )
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
        return (BrokenAnswer if status < 300 or status in _RETRIED else errors.ServiceUnavailable)(
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
        if isinstance(error, ProtocolError | DecodeError):  # raised while the body was being read
            return BrokenAnswer(f"{what} Earlier downloads are kept. Try again later.")
        if isinstance(error, requests.exceptions.SSLError):
            return NoConnection(
                f"{what} Nothing was sent. Check this machine's clock and, if there is a proxy, the installed "
                "certificates."
            )
        unreachable = stems_from(error, NewConnectionError, ConnectTimeoutError)
        kind = NoConnection if unreachable else BrokenAnswer
        return kind(f"{what} Earlier downloads are kept. Check this machine's network, and try again.")


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
