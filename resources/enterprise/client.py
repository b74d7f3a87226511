"""The client of the Enterprise Content Service: reference lists, hourly batches, snapshots, the account.

Source: the service's reference for metadata, realtime batches, snapshots and authentication.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal, Self, overload

from resources.datasets import ARTICLE_CHANGES, LISTS, SNAPSHOT_ARTICLES
from resources.enterprise import models
from resources.enterprise.account.authenticator import Authenticator, TokenStatus
from resources.enterprise.account.token_store import TokenStore
from resources.enterprise.data_api import DataApi
from resources.enterprise.download.archived import Sidecar, land_listing
from resources.enterprise.download.downloader import Download, Downloader
from resources.enterprise.download.transfer import Ranges
from resources.enterprise.hourly import Hours
from resources.enterprise.http import endpoints
from resources.enterprise.http.clock import ServiceClock
from resources.enterprise.http.foreign import guarded
from resources.enterprise.http.transport import Patience, Transport
from resources.enterprise.http.wire import Limits
from resources.enterprise.redaction import Redactor
from resources.enterprise.snapshot.plan import Wishes
from resources.enterprise.snapshot.planner import Snapshots

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType

    from pydantic import TypeAdapter

    from resources.datasets import Dataset
    from resources.enterprise.download.signed_url import Progress
    from resources.enterprise.service import Service
    from resources.enterprise.snapshot.plan import Piece, SnapshotPlan

_TYPED: Final[dict[str, TypeAdapter[Any]]] = {
    "codes": models.list_of(models.Code),
    "languages": models.list_of(models.Language),
    "projects": models.list_of(models.Project),
    "namespaces": models.list_of(models.Namespace),
}
_RECORDS: Final = models.list_of(models.Record)


def utc_now() -> datetime:
    """The moment, aware, in UTC."""
    return datetime.now(UTC)


@guarded
class EnterpriseClient:
    """A client for one service and one account.

    An hour is the aware moment at which it starts. Progress is told how many bytes came since it was told last, from one
    thread at a time; a folder that is missing is made.

    Nothing is sent before a method is called. One instance may be used by several threads; instances in several
    processes share the tokens in the state folder, so that together they log in once.

    Args:
        service: The hosts and the account.
        state: Folder for the tokens; made when needed.
        clock: Gives the moment, aware; ages of tokens and of hours are measured with it.
        patience: Timeouts, retries and waits.
        ranges: How large downloads are divided.
        limits: How much of an answer is taken, and for how long.
    """

    def __init__(
        self,
        service: Service,
        state: Path,
        *,
        clock: Callable[[], datetime] = utc_now,
        patience: Patience | None = None,
        ranges: Ranges | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.service = service
        self.redactor = Redactor()
        self._clock = ServiceClock(clock)
        self._transport = Transport(service, patience or Patience(), limits or Limits(), self.redactor, self._clock)
        store = TokenStore(state / "tokens.json", service.auth_url, service.username)
        self._auth = Authenticator(service, self._transport, store, clock)
        self._api = DataApi(service, self._transport, self._auth, clock)
        self._downloader = Downloader(self._transport, ranges or Ranges(), clock)
        self._hours = Hours(self._api, self._downloader, self._clock)
        self._snapshots = Snapshots(self._api, self._downloader, self._remaining)

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
    def reference(self, kind: str) -> models.Listing[Any]:
        """One of the four reference lists as typed records (`GET /v2/codes`, `languages`, `projects`, `namespaces`)."""
        return self._listing(next(one for one in LISTS if one.name == kind), _TYPED[kind])

    def list_records(self, dataset: Dataset) -> models.Listing[models.Record]:
        """All records of a reference list, with fields by name: `record["identifier"]`."""
        return self._listing(dataset, _RECORDS)

    # --- hourly batches ----------------------------------------------------------------------------------------------

    def batches(self, hour: datetime, dataset: Dataset = ARTICLE_CHANGES) -> models.Listing[models.Batch]:
        """The files of an hour (`GET /v2/batches/{date}/{hour}`): one per project and namespace that had changes.

        Raises:
            NotPublishedYet: The exports of the hour have not all ended.
            RetentionPassed: The hour is more than two days old.
        """
        return self._hours.listing(dataset, hour)

    def batch(self, hour: datetime, identifier: str, dataset: Dataset = ARTICLE_CHANGES) -> models.Batch:
        """The record of one file of an hour (`GET /v2/batches/{date}/{hour}/{identifier}`).

        Raises:
            NotFound: The hour is published, this file is not in it: no changes, or its export failed.
            NotPublishedYet: The exports of the hour have not all ended.
            RetentionPassed: The hour is more than two days old.
        """
        return self._hours.record(dataset, hour, identifier)[0]

    def download_batch(
        self,
        hour: datetime,
        record: models.Batch,
        target: Path,
        progress: Progress | None = None,
        dataset: Dataset = ARTICLE_CHANGES,
    ) -> Download:
        """Have a batch's archive at `target`, verified, with its sidecar `target`.json.

        A file that is there in this version is not fetched again. What an interrupted download left beside it
        (`.part`) is continued. When the service has replaced the file meanwhile, the new one is taken, and where the
        name of `target` holds the first eight characters of the old version the new one's take their place:
        `Download.path` and `Download.version` say what was landed.

        Raises:
            IntegrityError: Wrong bytes twice; nothing was landed.
            DiskFull: No room; what was fetched is kept.
            RetentionPassed: The hour is more than two days old.
        """
        return self._hours.download(dataset, hour, record, target, progress)

    def land(self, listing: models.Listing[Any], target: Path) -> Sidecar:
        """Write a list as the service sent it, with a sidecar; whole or not at all, replacing what was there."""
        return land_listing(listing, target)

    # --- snapshots ---------------------------------------------------------------------------------------------------

    def snapshots(self, dataset: Dataset = SNAPSHOT_ARTICLES) -> models.Listing[models.Snapshot]:
        """All snapshots the account may have (`GET /v2/snapshots`): one per project and namespace. Costs no quota."""
        return self._snapshots.listing(dataset)

    def snapshot(self, identifier: str, dataset: Dataset = SNAPSHOT_ARTICLES) -> models.Snapshot:
        """The record of one snapshot (`GET /v2/snapshots/{identifier}`). Costs no quota.

        Raises:
            NotFound: There is none of that name, for example because the namespace has no pages.
        """
        return self._snapshots.snapshot(dataset, identifier)

    def chunks(self, identifier: str, dataset: Dataset = SNAPSHOT_ARTICLES) -> models.Listing[models.Chunk]:
        """The chunks of a snapshot (`GET /v2/snapshots/{identifier}/chunks`), in no order. Costs no quota.

        Raises:
            NotFound: There is no such snapshot, or it has no chunks.
        """
        return self._snapshots.chunks(dataset, identifier)

    def plan_snapshot(
        self, identifier: str, folder: Path, wishes: Wishes | None = None, dataset: Dataset = SNAPSHOT_ARTICLES
    ) -> SnapshotPlan:
        """What it takes to have a snapshot in a folder: as one file or in chunks, in units of quota and bytes.

        Reads the records of the snapshot and of its chunks, whose versions are pinned by it, the account's counters,
        and what lies in the folder. Costs no quota and changes nothing, so it is a dry run as well.

        Raises:
            NotFound: There is no such snapshot.
        """
        return self._snapshots.plan(dataset, identifier, folder, wishes or Wishes())

    def fetch_piece(self, plan: SnapshotPlan, piece: Piece, progress: Progress | None = None) -> Download:
        """Have one file of a plan, verified, with its sidecar; the versions that the plan pinned are read again first.

        One unit of quota at most, none for a file that is there. Each piece may have a thread of its own, and may be
        tried again alone: a part that was left is continued for one more unit.

        Raises:
            StaleSnapshot: The service has replaced the snapshot or the chunk since it was planned.
            QuotaExceeded: The plan does not fit what is left of the quota, or the service says so.
            DiskFull: No room; what was fetched is kept.
            IntegrityError: Wrong bytes twice; nothing was landed.
        """
        return self._snapshots.fetch(plan, piece, progress)

    def confirm_snapshot(self, plan: SnapshotPlan) -> Path:
        """See that all files of a plan are there and still belong together, and write down which they are.

        To be called when every piece was fetched. Reads the versions once more; costs no quota.

        Returns:
            The manifest (`plan.manifest`): JSON with the record of the snapshot and of each file. It is there only for
            a set that is complete.

        Raises:
            StaleSnapshot: The service has replaced the snapshot or a chunk meanwhile.
            StateError: A file of the plan is missing.
        """
        return self._snapshots.confirm(plan)

    def download_snapshot(
        self,
        plan: SnapshotPlan,
        *,
        workers: int = 4,
        progress: Progress | None = None,
    ) -> tuple[Download, ...]:
        """Fetch all files of a plan, `workers` at once, and confirm the set; one download per piece, in their order.

        A file that fails does not keep the others from being fetched, unless they would all meet the same: a snapshot that
        was replaced, a spent quota, a full disk. Where all failures may pass, those files are tried once more.

        Raises:
            EnterpriseError: As `fetch_piece` and `confirm_snapshot`; files that are complete are kept, and of the others
                what was fetched.
        """
        return self._snapshots.fetch_all(plan, workers, progress)

    # --- account -----------------------------------------------------------------------------------------------------

    def user(self) -> models.User:
        """The account's groups and counters (`POST /v1/get-user`)."""
        return self._auth.user()

    def login(self, password: str | None = None) -> TokenStatus:
        """Log in, whatever is stored (`POST /v1/login`), with this password or the configured one.

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

        Raises:
            InvalidRequest: The service asks for no new password.
        """
        return self._auth.new_password(proposed, password)

    # --- within ------------------------------------------------------------------------------------------------------

    def _remaining(self) -> dict[str, models.Quota]:
        """The account's counters; none for a client without an account, of which the service says nothing."""
        return {} if self.service.anonymous else self.user().quotas

    def _listing(self, dataset: Dataset, form: TypeAdapter[Any]) -> models.Listing[Any]:
        return self._api.listing(endpoints.records(dataset), form, f"list the {dataset.endpoint}")
