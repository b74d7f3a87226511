"""Access to the data host for one account: lists, records and signed URLs, with size limits and rate limiting.

Source: the service's documentation on lists, downloads (redirects to signed URLs) and `get-user`. The service does not
publish its rate limits, which apply per account. Requests over the limit receive a 429 response.
"""

import logging
import math
import threading
import time
from collections.abc import Callable
from datetime import UTC
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlencode, urljoin, urlsplit

from pydantic import TypeAdapter

from resources import files
from resources.enterprise import endpoints, errors, models
from resources.enterprise.account.authenticator import Authenticator
from resources.enterprise.download.archived import Sidecar
from resources.enterprise.download.downloader import Transfer
from resources.enterprise.endpoints import is_web_address
from resources.enterprise.http.answers import Answer
from resources.enterprise.http.transport import Transport
from resources.enterprise.http.workarounds import guarded
from resources.enterprise.listing import Listing, list_of, sorted_out
from resources.enterprise.query import Kind, Query
from resources.files import StrPath

#: Requests per second: the initial rate after the first refusal, the minimum rate, and the rate treated as unlimited.
_FIRST_RATE, _LOWEST_RATE, _ANY_RATE = 40.0, 1.0, 250.0
#: Network delays vary, so requests that are sent at regular intervals do not arrive at regular intervals.
_MARGIN: Final = 1.05


class Pace:
    """Rate limiter shared by a client's threads. `per_second` is the initial rate, or None if unknown.

    Each refusal halves the rate. Each success adds one request per second.
    """

    def __init__(self, per_second: float | None) -> None:
        self._highest = math.inf if per_second is None else per_second / _MARGIN
        self._rate = self._highest
        self._free_at = self._slowed_at = 0.0
        self._lock = threading.Lock()

    def turn(self) -> float:
        """Wait until the next request is allowed. Return the request's start time, which `refused` needs."""
        with self._lock:
            now = time.monotonic()
            begins = max(now, self._free_at)
            self._free_at = begins + 1 / self._rate
        if begins > now:
            time.sleep(begins - now)
        return begins

    def refused(self, began: float) -> None:
        """Halve the rate, unless the refused request was sent before the last reduction."""
        with self._lock:
            if began >= self._slowed_at:
                self._slowed_at = time.monotonic()
                self._rate = min(max(min(self._rate / 2, _FIRST_RATE), _LOWEST_RATE), self._highest)

    def admitted(self) -> None:
        with self._lock:
            faster = self._rate + 1
            self._rate = self._highest if faster >= _ANY_RATE else min(faster, self._highest)


_log = logging.getLogger(__name__)
_T = TypeVar("_T")

#: Label for requests that use no quota.
UNCOUNTED: Final = "batch"
#: Seconds for which a positive balance of quota units is assumed to remain valid.
_BELIEVED: Final = 5.0


class DataApi:
    """Sends requests to the data host for one account. Thread-safe."""

    def __init__(self, transport: Transport, account: Authenticator) -> None:
        self._transport, self.account = transport, account
        self._pace = Pace(transport.retry.requests_per_second)
        #: Time of the last positive quota balance, by product.
        self._left_at: dict[str, float] = {}
        self.limits, self.redactor, self.clock = transport.limits, transport.redactor, transport.clock

    def listing(
        self, path: str, form: TypeAdapter[Any], doing: str, query: Query | None = None, **options: Any
    ) -> Listing[Any]:
        """Read a list (see `ask`). A single record is returned as a list. Unusable records are logged and skipped.

        Raises UnexpectedAnswer if no record is usable and no record identifies its project.
        """
        answer, found = self.ask(
            path,
            doing,
            lambda answer: (answer, self._transport.parse(answer, form, doing)),
            query=query,
            **{"kind": Kind.LIST, "longest": self.limits.list_bytes, **options},
        )
        records, odd = sorted_out((found,) if isinstance(found, models.Record) else tuple(found))
        if odd and not records and not any(one.projects or one.namespaces for one in odd):
            raise self._transport.form_error(answer.status, doing, str(odd[0]))
        listing: Listing[Any] = Listing(answer.body, records, path, self.clock.local().astimezone(UTC), odd)
        if (remark := listing.remark) is not None:
            _log.warning("%s", remark)
        return listing

    def record(self, path: str, model: type[_T], doing: str, query: Query | None = None) -> _T:
        """Read a record (see `ask`). Raises UnexpectedAnswer if the response is the record of another file."""
        form = TypeAdapter(model)
        found = self.ask(path, doing, lambda answer: self._transport.parse(answer, form, doing), query=query)
        if isinstance(found, models.ArchiveRecord) and not endpoints.is_of(path, found.identifier):
            raise errors.UnexpectedAnswer(
                f"Could not {doing}: the service responded with the record of {found.identifier} instead. Nothing was "
                "changed. Try again later. If the error persists, check any proxy between this machine and the service."
            )
        return found

    def transfer(
        self,
        path: str,
        record: models.ArchiveRecord,
        quota: str | None,
        again: Callable[[], models.ArchiveRecord],
        *,
        name: str | None = None,
        pinned: bool = False,
    ) -> Transfer:
        """Return the download of a record's archive. `again` returns the current record."""
        address, doing = endpoints.download(path), f"get the download URL of {name or record.identifier}"
        resolve = partial(self.ask, address, doing, lambda answer: self._location(answer, address, doing), quota=quota)
        return Transfer(self._transport, record, address, resolve, again, pinned=pinned)

    def ask(
        self,
        path: str,
        doing: str,
        understand: Callable[[Answer], _T],
        *,
        longest: int | None = None,
        quota: str | None = None,
        query: Query | None = None,
        kind: Kind = Kind.RECORD,
        plain: str = "GET",
    ) -> _T:
        """Send a request and parse the response (see `Transport.ask`).

        `doing` is the purpose, worded to follow "Could not" in a message. `longest` is the maximum response size in
        bytes. `quota` is the `get-user` counter that the request uses. `plain` is the HTTP method for requests without
        a query.
        """
        method, url, body = plain, self._transport.service.base_url + path, None
        if query is not None and query.body():
            query.check(kind)
            method = query.method
            if method == "POST":
                body = query.body()
            else:
                url += f"?{urlencode(query.parameters())}"
        product, began = quota or UNCOUNTED, 0.0
        token = None if self._transport.service.anonymous else self.account.access_token()

        def wait_for_turn() -> None:
            nonlocal began
            began = self._pace.turn()

        def read(answer: Answer) -> _T:
            if answer.status == 429:
                self._pace.refused(began)
                if time.monotonic() - self._left_at.get(product, -_BELIEVED) >= _BELIEVED:
                    self._check_quota(doing, product)
            if answer.status >= 400:
                raise self._transport.error(answer, doing)
            self._pace.admitted()
            return understand(answer)

        try:
            return self._transport.ask(
                method,
                url,
                read,
                doing=doing,
                token=token,
                renew=self.account.renew,
                body=body,
                longest=longest,
                before=wait_for_turn,
            )
        except errors.RateLimited:
            self._check_quota(doing, product)
            raise

    def _location(self, answer: Answer, path: str, doing: str) -> tuple[str, int]:
        """Return the signed URL to which a download path redirects, and the number of requests sent.

        The token is never sent to that URL.
        """
        if answer.status < 300 and answer.is_html:
            raise self._transport.html_error(answer.status, doing)
        location = answer.headers.get("Location", "")
        here = self._transport.service.base_url + path
        try:
            there = urljoin(here, location)
        except ValueError:  # unbalanced brackets
            there = ""
        if answer.status not in {302, 303, 307, 308} or not location:
            problem = f"the service responded with status {answer.status} instead of a redirect"
        elif not is_web_address(there):
            problem = "the service redirects to an invalid URL"
        elif urlsplit(here).scheme == "https" and urlsplit(there).scheme == "http":
            problem = "the service redirects from https:// to http://"
        else:
            return there, answer.request_count
        raise errors.UnexpectedAnswer(
            f"Could not {doing}: {problem}. Nothing was fetched. Check the configured service addresses. If they are "
            "correct, the service's API has changed."
        )

    def _check_quota(self, doing: str, product: str) -> None:
        """Raise QuotaExceeded if the counters show that the quota, not a rate limit, caused a 429 response."""
        if self._transport.service.anonymous:
            return
        try:
            quota = self.account.user().quotas.get(product)
        except errors.EnterpriseError as error:
            _log.info("Could not determine whether a quota is exhausted: %s", error)
            quota = None
        if quota is not None and quota.left == 0:
            raise errors.QuotaExceeded(
                f"Could not {doing}: the account has used {quota.used} of its {quota.limit} {product} units. "
                "Earlier downloads are kept. Wait until the vendor resets the counters (monthly), or request more "
                "units.",
                status=429,
            )
        self._left_at[product] = time.monotonic()


class Section:
    """Base class of the client's public objects. Their public methods raise only client errors."""

    def __init__(self, api: DataApi) -> None:
        self._api = api
        self.redactor = api.redactor

    def __init_subclass__(cls) -> None:
        guarded(cls)


class Lists(Section):
    """Reference lists, and access to any list or record by its path from `endpoints`. Uses no quota. Thread-safe."""

    def reference(self, kind: str) -> Listing[models.Entry]:
        """Read a reference list (`codes`, `languages`, `projects` or `namespaces`), for example `GET /v2/codes`."""
        return self._api.listing(endpoints.reference(kind), list_of(models.Entry), f"list the {kind}")

    def records(self, path: str, query: Query | None = None) -> Listing[models.Record]:
        """Return the records in any list. Access a record's fields by name, for example `record["identifier"]`.

        Raises InvalidRequest for a query that the service would ignore or refuse, and NotFound for an unknown list.
        """
        name = path.removeprefix("/v2/")
        doing = f"list {path}" if "/" in name else f"list the {name}"
        return self._api.listing(path, list_of(models.Record), doing, query)

    def record(self, path: str, query: Query | None = None) -> models.Record:
        """Read a single record. A query can select the record's `fields`. Raises the same errors as `records`."""
        return self._api.record(path, models.Record, f"read {path}", query)

    def land(self, listing: Listing[Any], target: StrPath) -> Sidecar:
        """Store a list's original bytes and a sidecar. An existing file is replaced atomically."""
        name, version = listing.url_path.removeprefix("/v2/"), files.new_md5(listing.raw).hexdigest()
        sidecar = Sidecar(name, version, len(listing.raw), listing.url_path, listing.fetched_at)
        sidecar.write(target)
        files.write(Path(target), listing.raw)
        return sidecar
