"""The client of the Enterprise Content Service: reference lists, hourly batches, the account.

Belongs here: one method per thing a user of the service wants, and what the service's refusals mean for it.
Does not belong here: how requests travel (`transport`), how tokens are got (`auth`), how bytes come (`downloads`).

Source: the service's reference for metadata, realtime batches and authentication.
"""

from __future__ import annotations

import logging
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeVar, overload
from urllib.parse import urljoin, urlsplit

from pydantic import TypeAdapter

from resources.enterprise import endpoints, errors, models
from resources.enterprise.auth import Authenticator, TokenStatus
from resources.enterprise.downloads import Download, Downloader
from resources.enterprise.filling import Ranges, Source
from resources.enterprise.landing import Sidecar, md5_of_bytes, write_atomically
from resources.enterprise.redaction import Redactor
from resources.enterprise.service import is_web_address
from resources.enterprise.tokens import TokenStore
from resources.enterprise.transport import Answer, BrokenAnswer, Patience, Transport

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType

    from resources.enterprise.endpoints import ReferenceKind
    from resources.enterprise.service import Service

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

_LISTS: Final[dict[str, TypeAdapter[Any]]] = {
    "codes": TypeAdapter(tuple[models.Code, ...]),
    "languages": TypeAdapter(tuple[models.Language, ...]),
    "projects": TypeAdapter(tuple[models.Project, ...]),
    "namespaces": TypeAdapter(tuple[models.Namespace, ...]),
}
_BATCHES: Final = TypeAdapter(tuple[models.Batch, ...])
_BATCH: Final = TypeAdapter(models.Batch)


def utc_now() -> datetime:
    """The moment, aware, in UTC."""
    return datetime.now(UTC)


class EnterpriseClient:
    """A client for one service and one account.

    Nothing is sent before a method is called. One instance may be used by several threads; instances in several
    processes share the tokens in the state folder, so that together they log in once.

    Args:
        service: The hosts and the account.
        state: Folder for the tokens; made when needed.
        clock: Gives the moment, aware; ages of tokens and of hours are measured with it.
        patience: Timeouts, retries and waits.
        ranges: How large downloads are divided.
    """

    def __init__(
        self,
        service: Service,
        state: Path,
        *,
        clock: Callable[[], datetime] = utc_now,
        patience: Patience | None = None,
        ranges: Ranges | None = None,
    ) -> None:
        self.service = service
        self._clock = clock
        self._patience = patience or Patience()
        self._transport = Transport(service, self._patience, Redactor())
        store = TokenStore(state / "tokens.json", service.auth_url, service.username)
        self._auth = Authenticator(service, self._transport, store, clock)
        self._downloader = Downloader(self._transport, ranges or Ranges(), clock)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections. The client stays usable: they are opened again when needed."""
        self._transport.close()

    # --- reference ---------------------------------------------------------------------------------------------------

    @overload
    def reference(self, kind: Literal["codes"]) -> models.Listing[models.Code]: ...
    @overload
    def reference(self, kind: Literal["languages"]) -> models.Listing[models.Language]: ...
    @overload
    def reference(self, kind: Literal["projects"]) -> models.Listing[models.Project]: ...
    @overload
    def reference(self, kind: Literal["namespaces"]) -> models.Listing[models.Namespace]: ...
    def reference(self, kind: ReferenceKind) -> models.Listing[Any]:
        """One of the four reference lists, whole (`GET /v2/codes`, `languages`, `projects`, `namespaces`).

        Raises:
            EnterpriseError: As everywhere; nothing special here.
        """
        return self._list(endpoints.reference(kind), _LISTS[kind], f"list the {kind}")

    # --- hourly batches ----------------------------------------------------------------------------------------------

    def batches(self, hour: datetime) -> models.Listing[models.Batch]:
        """The files of an hour (`GET /v2/batches/{date}/{hour}`): one per project and namespace that had changes.

        Args:
            hour: Start of the hour, aware.

        Raises:
            NotPublishedYet: The exports of the hour have not all ended.
            RetentionPassed: The hour is more than two days old.
        """
        try:
            return self._list(endpoints.batches(hour), _BATCHES, f"list the batches of {_spoken(hour)}")
        except errors.NotFound:
            absent = self._absent(hour)
        raise absent

    def batch(self, hour: datetime, identifier: str) -> models.Batch:
        """The record of one file of an hour (`GET /v2/batches/{date}/{hour}/{identifier}`).

        Raises:
            NotFound: The hour is published, this file is not in it: no changes, or its export failed.
            NotPublishedYet: The exports of the hour have not all ended.
            RetentionPassed: The hour is more than two days old.
        """
        return self._batch(hour, identifier)[0]

    def download_batch(
        self,
        hour: datetime,
        record: models.Batch,
        target: Path,
        progress: Callable[[int, int | None], None] | None = None,
    ) -> Download:
        """Have a batch's archive at `target`, verified, with its sidecar `target`.json.

        A file that is there in this version is not fetched again. What an interrupted download left beside it
        (`.part`) is continued. When the service has replaced the file meanwhile, the new one is taken, and where the
        name of `target` holds the first eight characters of the old version the new one's take their place:
        `Download.path` and `Download.version` say what was landed.

        Args:
            hour: Start of the hour, aware.
            record: The batch's record, from `batches` or `batch`.
            target: The file; its folder is made when needed.
            progress: Called with (bytes there, bytes in all or None where unknown), from one thread at a time.

        Raises:
            IntegrityError: Wrong bytes twice; nothing was landed.
            DiskFull: No room; what was fetched is kept.
            RetentionPassed: The hour is more than two days old.
        """
        try:
            return self._downloader.fetch(self._source(hour, record), target, progress)
        except (errors.NotPublishedYet, errors.RetentionPassed):
            raise
        except errors.NotFound as error:
            failure: errors.EnterpriseError = self._passed(hour) or error
        raise failure

    def land(self, listing: models.Listing[Any], target: Path) -> Sidecar:
        """Write a list as the service sent it, with a sidecar; whole or not at all, replacing what was there."""
        sidecar = Sidecar(
            identifier=listing.url_path.removeprefix("/v2/"),
            version=md5_of_bytes(listing.raw),
            size_bytes=len(listing.raw),
            url_path=listing.url_path,
            fetched_at=listing.fetched_at,
        )
        sidecar.write(target)
        write_atomically(target, listing.raw)
        return sidecar

    # --- account -----------------------------------------------------------------------------------------------------

    def user(self) -> models.User:
        """The account's groups and counters (`POST /v1/get-user`)."""
        return self._auth.user()

    def login(self, password: str | None = None) -> TokenStatus:
        """Log in, whatever is stored (`POST /v1/login`).

        Args:
            password: Used instead of the configured one, which may be missing.

        Raises:
            AuthenticationError: Wrong user or password.
            NewPasswordRequired: A new password must be set first.
        """
        return self._auth.login(password)

    def refresh(self) -> TokenStatus:
        """Buy another access token now (`POST /v1/token-refresh`), by a login where the refresh token is spent."""
        return self._auth.refresh()

    def revoke(self) -> TokenStatus:
        """End the stored refresh token at the service and forget all tokens (`POST /v1/token-revoke`)."""
        return self._auth.revoke()

    def token_status(self) -> TokenStatus:
        """What is stored about the tokens, without a request."""
        return self._auth.status()

    def forgot_password(self) -> None:
        """Have a confirmation code sent to the account's mail address (`POST /v1/forgot-password`)."""
        self._auth.forgot_password()

    def confirm_password(self, code: str, password: str) -> None:
        """Set a new password with the code that was sent (`POST /v1/forgot-password-confirm`)."""
        self._auth.confirm_password(code, password)

    def change_password(self, previous: str, proposed: str) -> None:
        """Replace a known password (`POST /v1/change-password`)."""
        self._auth.change_password(previous, proposed)

    def new_password(self, proposed: str, password: str | None = None) -> TokenStatus:
        """Answer a NEW_PASSWORD_REQUIRED challenge (`POST /v1/new-password-required`) and keep the tokens it brings.

        Args:
            proposed: The new password.
            password: The old one, where it is not the configured one.

        Raises:
            InvalidRequest: The service asks for no new password.
        """
        return self._auth.new_password(proposed, password)

    # --- within ------------------------------------------------------------------------------------------------------

    def _list(self, path: str, form: TypeAdapter[Any], doing: str) -> models.Listing[Any]:
        (answer, records), count = self._ask(
            path, doing, lambda answer: (answer, self._transport.parse(answer, form, doing))
        )
        return models.Listing(answer.body, records, path, self._clock().astimezone(UTC), count)

    def _batch(self, hour: datetime, identifier: str) -> tuple[models.Batch, int]:
        doing = f"read the record of {identifier} of {_spoken(hour)}"
        try:
            return self._ask(
                endpoints.batch(hour, identifier), doing, lambda answer: self._transport.parse(answer, _BATCH, doing)
            )
        except errors.NotFound as error:
            missing = error
        self.batches(hour)  # raises where the whole hour is missing, which is another thing
        raise missing

    def _source(self, hour: datetime, record: models.Batch) -> Source:
        path = endpoints.download(endpoints.batch(hour, record.identifier))
        doing = f"get the address of {record.identifier} of {_spoken(hour)}"

        def read_again() -> tuple[Source, int]:
            fresh, count = self._batch(hour, record.identifier)
            return self._source(hour, fresh), count

        return Source(
            identifier=record.identifier,
            version=record.version,
            size_hint=record.approximate_bytes,
            url_path=path,
            resolve=lambda: self._ask(path, doing, lambda answer: self._location(answer, path, doing)),
            read_again=read_again,
        )

    def _location(self, answer: Answer, path: str, doing: str) -> str:
        """The signed address a download path redirects to; never followed with the token."""
        if answer.status < 300 and answer.is_html:
            raise self._transport.html_error(answer.status, doing)
        location = answer.headers.get("Location", "")
        here = self.service.base_url + path
        there = urljoin(here, location)
        if answer.status not in {302, 303, 307, 308} or not location:
            problem = f"status {answer.status} came where a redirect should be"
        elif not is_web_address(there):
            problem = "it redirects to something that is not a web address"
        elif urlsplit(here).scheme == "https" and urlsplit(there).scheme == "http":
            problem = "it redirects from an encrypted to an open connection"
        else:
            return there
        raise errors.UnexpectedAnswer(
            f"Could not {doing}: {problem}. Nothing was fetched. Check the addresses of the service; if they are right, "
            "its interface has changed."
        )

    def _ask(self, path: str, doing: str, understand: Callable[[Answer], _T]) -> tuple[_T, int]:
        """Send a GET and understand its answer; rate limits and broken answers are waited out, within bounds.

        Returns what was understood and the number of requests it took.
        """
        count = attempt = 0
        while True:
            asked: float | None = None
            try:
                answer = self._transport.send("GET", self.service.base_url + path, doing=doing, auth=self._auth.bearer)
                count += answer.request_count
                asked = answer.retry_after
                if answer.status >= 400:
                    self._refuse(answer, path, doing, first=attempt == 0)
                return understand(answer), count
            except (errors.RateLimited, BrokenAnswer) as error:
                attempt += 1
                if attempt > self._patience.retries:
                    if isinstance(error, BrokenAnswer):  # enough attempts were made: nobody need make more
                        raise errors.ServiceUnavailable(error.message, status=error.status) from None
                    raise
                wait = self._patience.wait(attempt, asked)
                _log.info("%s Trying again in %.1f s (%d of %d).", error, wait, attempt, self._patience.retries)
            time.sleep(wait)

    def _refuse(self, answer: Answer, path: str, doing: str, *, first: bool) -> None:
        """Raise what a refusal means. A 429 alone does not tell a rate limit from a spent quota: the account does."""
        product = endpoints.product(path)
        if answer.status == 429 and first and not self.service.anonymous:
            try:
                quota = self.user().quotas.get(product)
            except errors.EnterpriseError as error:
                _log.info("Could not find out whether a quota is spent: %s", error)
                quota = None
            if quota is not None and quota.exhausted:
                raise errors.QuotaExceeded(
                    f"Could not {doing}: the account has used {quota.used} of its {quota.limit} {product} units. What "
                    "was fetched before is kept. Wait until the vendor resets the counters (monthly), or ask for more.",
                    status=429,
                )
        raise self._transport.error(answer, doing)

    def _passed(self, hour: datetime) -> errors.RetentionPassed | None:
        if self._clock() - hour < endpoints.BATCH_RETENTION:
            return None
        return errors.RetentionPassed(
            f"The service no longer has {_spoken(hour)}: it keeps an hour for two days. What was fetched before is "
            "kept. This hour can only be loaded from an archive that has it; later hours are not touched by this.",
            status=404,
        )

    def _absent(self, hour: datetime) -> errors.NotFound:
        return self._passed(hour) or errors.NotPublishedYet(
            f"The service has not published {_spoken(hour)} yet: the list of an hour appears when all its exports have "
            "ended, some minutes after the hour. Nothing was changed. Run this again later; until two days after the "
            "hour nothing is lost.",
            status=404,
        )


def _spoken(hour: datetime) -> str:
    return f"the hour {hour.astimezone(UTC) if hour.tzinfo else hour:%Y-%m-%d %H}:00 UTC"
