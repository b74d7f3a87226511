"""The client of the Enterprise Content Service: one object for each kind of data, and the account.

Source: the service's reference for metadata, realtime batches, snapshots and authentication.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Self

from resources.enterprise import endpoints
from resources.enterprise.account.authenticator import Authenticator
from resources.enterprise.account.token_store import TokenStore
from resources.enterprise.archives import ServiceFiles
from resources.enterprise.data_api import DataApi, Lists
from resources.enterprise.download.downloader import Downloader
from resources.enterprise.download.object_reader import Ranges
from resources.enterprise.errors import Redactor
from resources.enterprise.hours import Hours
from resources.enterprise.http.answers import ServiceClock
from resources.enterprise.http.bounds import Limits, RetryPolicy
from resources.enterprise.http.transport import Transport
from resources.enterprise.http.workarounds import guarded
from resources.enterprise.lookups import Lookups
from resources.enterprise.snapshot.planner import Snapshots
from resources.enterprise.stream.stream import Positions, Stream, StreamOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

    from resources.enterprise.query import Query
    from resources.enterprise.service import Service
    from resources.files import StrPath


def utc_now() -> datetime:
    """The moment, aware, in UTC."""
    return datetime.now(UTC)


@guarded
class EnterpriseClient:
    """A client for one service and one account.

    Nothing is sent before a method is called. One instance may be used by several threads; instances in several
    processes share the tokens in the state folder, so that together they log in once.

    Attributes:
        account: The operations on the account and its tokens.
        lists: Reference lists, and any list or record by its path.
        hours: Hourly batches.
        snapshots: Snapshots and their chunks.
        lookups: Lookups on demand.
        files: Single files by their path, and the records of archives.

    Args:
        service: The hosts and the account.
        state: Folder for the tokens; made when needed.
        clock: Gives the moment, aware; ages of tokens and of hours are measured with it.
        retry: Timeouts, retries and waits.
        ranges: Division of large downloads.
        limits: Limits on the size and duration of a response.
    """

    def __init__(
        self,
        service: Service,
        state: StrPath,
        *,
        clock: Callable[[], datetime] = utc_now,
        retry: RetryPolicy | None = None,
        ranges: Ranges | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.service = service
        self.redactor = Redactor()
        self._clock = ServiceClock(clock)
        self._transport = Transport(service, retry or RetryPolicy(), limits or Limits(), self.redactor, self._clock)
        store = TokenStore(Path(state) / "tokens.json", service.auth_url, service.username)
        self.account = Authenticator(service, self._transport, store, clock)
        api = DataApi(service, self._transport, self.account, clock)
        downloader = Downloader(self._transport, ranges or Ranges(), clock)
        self.lists = Lists(api)
        self.hours = Hours(api, downloader, self._clock)
        self.snapshots = Snapshots(api, downloader, self.account.quotas)
        self.lookups = Lookups(api)
        self.files = ServiceFiles(api, downloader)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections. The client stays usable: they are opened again when needed."""
        self._transport.close()

    def stream(
        self,
        path: str = endpoints.ARTICLE_STREAM,
        *,
        since: datetime | None = None,
        offsets: Mapping[int, int] | None = None,
        query: Query | None = None,
        options: StreamOptions | None = None,
    ) -> Stream:
        """Open a realtime stream, for `with`: every event of the service, seconds after it happened. Costs no quota.

        Args:
            path: `/v2/articles`, or that of Wikidata.
            since: Start of partitions that are not in `offsets`; default: now. The service keeps 48 hours.
            offsets: By partition the offset that comes next: that of the last event that was kept, and one more.
            query: `fields` and `filters`.
            options: Connections, form, and what may wait in memory.

        Raises:
            InvalidRequest: The request is invalid; nothing was sent.
        """
        positions = Positions(since or self._clock.now(), offsets or {})
        return Stream(self._transport, self.account, self.service, path, positions, query, options or StreamOptions())
