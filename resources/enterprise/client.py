"""The client of the Enterprise Content Service: reference lists, hourly batches, snapshots, the account.

Source: the service's reference for metadata, realtime batches, snapshots and authentication.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from pydantic import TypeAdapter

from resources.datasets import ARTICLE_CHANGES, SNAPSHOT_ARTICLES
from resources.enterprise import models
from resources.enterprise.account.authenticator import Authenticator
from resources.enterprise.account.token_store import TokenStore
from resources.enterprise.data_api import DataApi
from resources.enterprise.download.archived import Sidecar, land_listing
from resources.enterprise.download.downloader import Download, Downloader
from resources.enterprise.download.opening import Ranges
from resources.enterprise.hourly import Hours
from resources.enterprise.http import endpoints
from resources.enterprise.http.clock import ServiceClock
from resources.enterprise.http.foreign import guarded
from resources.enterprise.http.transport import Patience, Transport
from resources.enterprise.http.wire import Limits
from resources.enterprise.listing import list_of
from resources.enterprise.lookups import Lookups
from resources.enterprise.query import Kind
from resources.enterprise.reading import read_archive, read_pieces
from resources.enterprise.redaction import Redactor
from resources.enterprise.service_files import ServiceFiles
from resources.enterprise.snapshot.plan import Wishes
from resources.enterprise.snapshot.planner import Snapshots
from resources.enterprise.stream.positions import Positions
from resources.enterprise.stream.stream import Stream, StreamOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from os import PathLike
    from types import TracebackType
    from typing import BinaryIO

    from resources.datasets import Dataset
    from resources.enterprise.download.signed_url import Progress
    from resources.enterprise.listing import Listing
    from resources.enterprise.query import Query
    from resources.enterprise.service import Service
    from resources.enterprise.service_files import FileHead
    from resources.enterprise.snapshot.plan import Piece, SnapshotPlan
    from resources.files import StrPath

_ENTRIES: Final = list_of(models.Entry)
_RECORDS: Final = list_of(models.Record)
_RECORD: Final = TypeAdapter(models.Record)


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

    Attributes:
        account: The operations on the account and its tokens.

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
        state: StrPath,
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
        store = TokenStore(Path(state) / "tokens.json", service.auth_url, service.username)
        self.account = Authenticator(service, self._transport, store, clock)
        self._api = DataApi(service, self._transport, self.account, clock)
        self._downloader = Downloader(self._transport, ranges or Ranges(), clock)
        self._lookups = Lookups(self._api)
        self._hours = Hours(self._api, self._downloader, self._clock)
        self._files = ServiceFiles(self._api, self._downloader)
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

    def reference(self, kind: str) -> Listing[models.Entry]:
        """A reference list: `codes`, `languages`, `projects` or `namespaces` (`GET /v2/codes` ...). Costs no quota."""
        return self._api.listing(endpoints.reference(kind), _ENTRIES, f"list the {kind}")

    def records(self, path: str, query: Query | None = None) -> Listing[models.Record]:
        """The records of any list, by its path from `endpoints`; fields are read by name: `record["identifier"]`.

        Raises:
            InvalidRequest: The query has a form that the service would ignore or refuse; nothing was sent.
            NotFound: There is no such list.
        """
        name = path.removeprefix("/v2/")
        return self._api.listing(path, _RECORDS, f"list {path}" if "/" in name else f"list the {name}", query)

    def record(self, path: str, query: Query | None = None) -> models.Record:
        """A single record of a list, by its path from `endpoints`, with the `fields` of a query.

        Raises:
            InvalidRequest: As for `records`.
            NotFound: There is no such record.
        """
        return self._api.record(path, _RECORD, f"read {path}", query)[0]

    # --- hourly batches ----------------------------------------------------------------------------------------------

    def batches(self, hour: datetime, dataset: Dataset = ARTICLE_CHANGES) -> Listing[models.Batch]:
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
        target: StrPath,
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
        return self._hours.download(dataset, hour, record, Path(target), progress)

    def land(self, listing: Listing[Any], target: StrPath) -> Sidecar:
        """Write a list as the service sent it, with a sidecar; whole or not at all, replacing what was there."""
        return land_listing(listing, Path(target))

    # --- snapshots ---------------------------------------------------------------------------------------------------

    def snapshots(self, dataset: Dataset = SNAPSHOT_ARTICLES) -> Listing[models.Snapshot]:
        """All snapshots the account may have (`GET /v2/snapshots`): one per project and namespace. Costs no quota."""
        return self._snapshots.listing(dataset)

    def snapshot(self, identifier: str, dataset: Dataset = SNAPSHOT_ARTICLES) -> models.Snapshot:
        """The record of one snapshot (`GET /v2/snapshots/{identifier}`). Costs no quota.

        Raises:
            NotFound: There is none of that name, for example because the namespace has no pages.
        """
        return self._snapshots.snapshot(dataset, identifier)

    def chunks(self, identifier: str, dataset: Dataset = SNAPSHOT_ARTICLES) -> Listing[models.Chunk]:
        """The chunks of a snapshot (`GET /v2/snapshots/{identifier}/chunks`), in no order. Costs no quota.

        Raises:
            NotFound: There is no such snapshot, or it has no chunks.
        """
        return self._snapshots.chunks(dataset, identifier)

    def plan_snapshot(
        self, identifier: str, folder: StrPath, wishes: Wishes | None = None, dataset: Dataset = SNAPSHOT_ARTICLES
    ) -> SnapshotPlan:
        """What it takes to have a snapshot in a folder: as one file or in chunks, in units of quota and bytes.

        Reads the records of the snapshot and of its chunks, whose versions are pinned by it, the account's counters,
        and what lies in the folder. Costs no quota and changes nothing, so it is a dry run as well.

        Raises:
            NotFound: There is no such snapshot.
        """
        return self._snapshots.plan(dataset, identifier, Path(folder), wishes or Wishes())

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

    # --- single files ------------------------------------------------------------------------------------------------

    def head(self, path: str) -> FileHead:
        """The size and other headers of a file, by the path of its record from `endpoints`. Costs no quota.

        Raises:
            NotFound: There is no such file.
            InvalidRequest: The path is not that of a file's record; nothing was sent.
        """
        return self._files.head(path)

    def download(self, path: str, target: BinaryIO, progress: Progress | None = None) -> models.ArchiveRecord:
        """Write a file to any object with `write`, in order and in bounded memory; it is not closed.

        A broken connection is continued within this call. A call that failed cannot be continued: discard what it wrote.
        `download_batch` and `download_snapshot` continue across calls, and fetch large files over several connections. One unit
        of quota at most, and one more for each new signed URL.

        Returns:
            The record of the file that was written.

        Raises:
            IntegrityError: The bytes that were written are not those that the record names (MD5).
            EnterpriseError: As for `head`, or the file could not be fetched.
        """
        return self._files.download(path, target, progress)

    def read(self, archive: str | PathLike[str] | BinaryIO, model: Any = None) -> Iterator[Any]:
        """The records of an archive, one by one: of a local file, an open binary file, or a file of the service.

        A text that begins with `/v2/` is the path of a record of the service: its file is read while it is fetched, without a disk, and
        each call costs a unit of quota where the product has one. A local file needs no account: `read_archive` is the same
        without a client.

        Args:
            archive: What to read.
            model: The model of the records, from `record_model`; without it each record is a dict.

        Raises:
            IntegrityError: After the last good record: the archive is damaged or truncated, lines are no records, or the bytes are
                not those that the service's record names.
            EnterpriseError: As for `download`.
        """
        if isinstance(archive, str) and archive.startswith("/v2/"):
            return read_pieces(archive, self._files.pieces(archive), model)
        return read_archive(archive, model)

    # --- lookups -----------------------------------------------------------------------------------------------------

    def article(self, name: str, query: Query | None = None) -> Listing[models.Record]:
        """The articles of that title, one of each project that has one (`/v2/articles/{name}`). Costs one unit.

        Which projects come first under the limit, 3 unless the query says otherwise and 10 at most, is not for certain:
        filter by `is_part_of.identifier` to be exact.

        Raises:
            NotFound: No project has an article of exactly that title; the unit is spent.
            QuotaExceeded: The account has no lookup left.
            InvalidRequest: The title or the query cannot be right; nothing was sent, no unit is spent.
        """
        return self._lookups.articles(name, query, Kind.ARTICLES)

    def structured(self, name: str, query: Query | None = None) -> Listing[models.Record]:
        """The same as structured contents (`/v2/structured-contents/{name}`). Costs one unit.

        A record has the form of an article (`article_body`) where the service could not take its page apart.

        Raises:
            EnterpriseError: As for `article`.
        """
        return self._lookups.articles(name, query, Kind.STRUCTURED)

    def entity(self, kind: str, identifier: str, query: Query | None = None) -> Listing[models.Record]:
        """An entity of Wikidata (`/v2/wikidata/{kind}/{identifier}`), with the `fields` of a query. Costs one unit.

        Args:
            kind: `items`, `properties` or `labels`.
            identifier: For example `Q42` or `P31`.
            query: Its `fields`.

        Raises:
            EnterpriseError: As for `article`.
        """
        return self._lookups.entity(kind, identifier, query)

    # --- streams -----------------------------------------------------------------------------------------------------

    def stream(
        self,
        path: str = endpoints.ARTICLE_STREAM,
        *,
        since: datetime | None = None,
        offsets: Mapping[int, int] | None = None,
        query: Query | None = None,
        options: StreamOptions | None = None,
    ) -> Stream:
        """A realtime stream, for `with`: every event of the service, seconds after it happened. Costs no quota.

        Args:
            path: `/v2/articles`, or that of Wikidata.
            since: Where partitions begin that are not in `offsets`; default: now. The service keeps 48 hours.
            offsets: By partition the offset that comes next: that of the last event that was kept, and one more.
            query: `fields` and `filters`.
            options: Connections, form, and what may wait in memory.

        Raises:
            InvalidRequest: What is asked for cannot be; nothing was sent.
        """
        positions = Positions(since or self._clock.now(), offsets or {})
        return Stream(self._transport, self.account, self.service, path, positions, query, options or StreamOptions())

    # --- within ------------------------------------------------------------------------------------------------------

    def _remaining(self) -> dict[str, models.Quota]:
        """The account's counters; none for a client without an account, of which the service says nothing."""
        return self.account.quotas()
