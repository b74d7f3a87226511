"""Client for the Enterprise Content Service, with one object for the account and one for each kind of data.

Source: the service's reference for metadata, realtime batches, snapshots, on-demand lookups and authentication.
"""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, Self

from pydantic import TypeAdapter

from resources.datasets import ARTICLE_CHANGES, LOOKUPS, RETENTION, Dataset
from resources.enterprise import endpoints, errors, models
from resources.enterprise.account.authenticator import Authenticator
from resources.enterprise.archives import ServiceFiles
from resources.enterprise.data_api import DataApi, Lists, Section
from resources.enterprise.download.downloader import Download
from resources.enterprise.download.object_reader import Progress
from resources.enterprise.endpoints import Service
from resources.enterprise.http.answers import ServiceClock
from resources.enterprise.http.bounds import Limits, RetryPolicy
from resources.enterprise.http.transport import Transport
from resources.enterprise.http.workarounds import guarded
from resources.enterprise.listing import Listing, list_of
from resources.enterprise.query import UNPAIRED, Kind, Query
from resources.enterprise.snapshot.planner import Snapshots
from resources.enterprise.stream import Positions, Stream, StreamOptions
from resources.files import StrPath


@guarded
class EnterpriseClient:
    """A client for one service and one account.

    Instances are thread-safe. Instances in different processes share one login through the tokens in the `state`
    folder. `clock` returns the current time as an aware datetime. Each attribute has the operations for a kind of data.
    """

    def __init__(
        self,
        service: Service,
        state: StrPath,
        *,
        clock: Callable[[], datetime] | None = None,
        retry: RetryPolicy | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.service = service
        self._transport = Transport(service, retry or RetryPolicy(), limits or Limits(), ServiceClock(clock))
        self.redactor = self._transport.redactor
        self.account = Authenticator(self._transport, Path(state))
        api = DataApi(self._transport, self.account)
        self.lists, self.hours, self.snapshots = Lists(api), Hours(api), Snapshots(api)
        self.lookups, self.files = Lookups(api), ServiceFiles(api)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections. The client remains usable and reopens connections when needed."""
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
        """Open a realtime stream as a context manager. Events arrive within seconds. Streams use no quota.

        `path` is `/v2/articles` or the Wikidata stream's path. `offsets` maps partitions to their next offsets. Other
        partitions begin at `since`, which defaults to the current time. The service retains events for 48 hours. A
        stream's query supports `fields` and `filters`.

        Raises:
            InvalidRequest: The request is invalid and was not sent.
        """
        positions = Positions(since or self._transport.clock.now(), offsets or {})
        return Stream(self._transport, self.account, path, positions, query, options or StreamOptions())


#: The service's guides show a single object, but its API description specifies an array.
_RECORD_OR_LIST: Final = TypeAdapter(models.Record | list[models.Record])
#: Characters that all wikis prohibit in titles.
_ILLEGAL = re.compile(r"[#<>\[\]{}|\x00-\x1f\x7f]")
_LONGEST_TITLE: Final = 512  # bytes, which allows 255 for the title and the rest for its namespace prefix
_ENTITY: Final = {"items": r"Q[1-9]\d{0,9}", "properties": r"P[1-9]\d{0,9}", "labels": r"[QP][1-9]\d{0,9}"}


class Lookups(Section):
    """On-demand lookups. Each lookup costs one `ondemand` unit, even if nothing is found. Thread-safe."""

    def articles(self, name: str, query: Query | None = None) -> Listing[models.Record]:
        """Look up the articles with this title (`/v2/articles/{name}`), at most one per project.

        The limit is 3 by default and 10 at most. If more projects have an article with this title, the service chooses
        among them arbitrarily. To select a project, filter by `is_part_of.identifier`.

        Raises:
            NotFound: No project has an article with exactly that title. The lookup still costs a unit.
            QuotaExceeded: The account has no lookups left.
            InvalidRequest: The title or the query is invalid. The request was not sent and cost nothing.
        """
        return self._titled(name, endpoints.article, query, Kind.ARTICLES)

    def structured(self, name: str, query: Query | None = None) -> Listing[models.Record]:
        """Look up a title's structured contents (`/v2/structured-contents/{name}`).

        Raises the same errors as `articles`. If the service could not parse the page, the record has an article's form
        (`article_body`).
        """
        return self._titled(name, endpoints.structured, query, Kind.STRUCTURED)

    def entity(self, kind: str, identifier: str, query: Query | None = None) -> Listing[models.Record]:
        """Look up an entity in `items`, `properties` or `labels` (`/v2/wikidata/{kind}/{identifier}`).

        Raises the same errors as `articles`.
        """
        if kind not in _ENTITY:
            raise errors.InvalidRequest(
                f"Wikidata lookups do not support {kind!r}. Nothing was sent. Use one of {', '.join(_ENTITY)}."
            )
        if not re.fullmatch(_ENTITY[kind], identifier, re.ASCII):
            meant = identifier.strip().upper()
            example = "P31" if kind == "properties" else "Q42"
            raise errors.InvalidRequest(
                f"{identifier[:100]!r} is not a valid identifier for Wikidata {kind}. Nothing was sent. Use the form "
                f"{meant if re.fullmatch(_ENTITY[kind], meant, re.ASCII) else example}."
            )
        path = endpoints.entity(kind, identifier)
        try:
            return self._ask(path, _RECORD_OR_LIST, f"look up {identifier}", query, Kind.ENTITY)
        except errors.NotFound:
            raise errors.NotFound(
                f"The service does not list {identifier} among Wikidata's {kind}. Nothing was changed. The lookup cost "
                "one unit. The service does not provide merged entities, deleted entities or scholarly articles.",
                status=404,
            ) from None

    def _titled(self, name: str, path: Callable[[str], str], query: Query | None, kind: Kind) -> Listing[models.Record]:
        _check_title(name)
        try:
            return self._ask(path(name), list_of(models.Record), f"look up {name!r}", query, kind)
        except errors.NotFound:
            filtered = " that matches the filters" if query is not None and query.filters else ""
            raise errors.NotFound(
                f"No project has an article called {name!r}{filtered}. Nothing was changed. The lookup cost one unit. "
                "Titles are case-sensitive and must include the namespace prefix (Template:...). Redirects are not "
                "resolved.",
                status=404,
            ) from None

    def _ask(self, path: str, form: TypeAdapter[Any], doing: str, query: Query | None, kind: Kind) -> Listing[Any]:
        return self._api.listing(
            path, form, doing, query, kind=kind, quota=LOOKUPS.quota, longest=self._api.limits.lookup_bytes
        )


def _check_title(name: str) -> None:
    if name.strip(" _") == "" or name in {".", ".."}:
        problem = "is not a title", "Write the title exactly as it appears in the article"
    elif found := _ILLEGAL.search(name):
        problem = f"contains {found[0]!r}, which is not allowed in titles", "Remove section links (#) and markup"
    elif UNPAIRED.search(name):
        problem = "is not valid UTF-8", "Check the character encoding of the terminal or the input file"
    elif len(name.encode()) > _LONGEST_TITLE:
        problem = "is longer than any title", "Write only the title"
    else:
        return
    raise errors.InvalidRequest(
        f"{name[:100]!r} {problem[0]}. Nothing was sent, and the lookup cost no unit. {problem[1]}."
    )


class Hours(Section):
    """Hourly batches, identified by the start of the hour (an aware datetime). Batches use no quota. Thread-safe."""

    def listing(self, hour: datetime, dataset: Dataset = ARTICLE_CHANGES) -> Listing[models.Batch]:
        """List an hour's files, one for each project and namespace with changes (`GET /v2/batches/{date}/{hour}`).

        Raises:
            NotPublishedYet: Some of the hour's exports are not finished yet.
            RetentionPassed: The hour is more than two days old.
        """
        path = endpoints.hourly(dataset, hour)
        try:
            return self._api.listing(path, list_of(models.Batch), f"list the {dataset.endpoint} for {spoken(hour)}")
        except errors.NotFound:
            clock = self._api.clock
            if clock.ahead and clock.now() < hour:
                raise errors.ClockError(
                    f"According to the service's clock, {spoken(hour)} has not begun: {clock.problem}. Nothing was "
                    "changed. Correct this machine's clock (time synchronization), and try again.",
                    status=404,
                ) from None
            raise passed(hour, clock) or errors.NotPublishedYet(
                f"{clock.remark}The service has not published {spoken(hour)} yet: the batch listing appears when all "
                "exports are finished, a few minutes after the hour ends. Nothing was changed. Try again later; the "
                "service retains the hour for two days.",
                status=404,
            ) from None

    def record(self, hour: datetime, identifier: str, dataset: Dataset = ARTICLE_CHANGES) -> models.Batch:
        """Read one record from an hourly listing (`GET /v2/batches/{date}/{hour}/{identifier}`). See `listing`.

        Raises:
            NotFound: The published hour does not contain this file, because nothing changed or its export failed.
        """
        path = endpoints.record(endpoints.hourly(dataset, hour), identifier)
        try:
            return self._api.record(path, models.Batch, f"read the record of {identifier} for {spoken(hour)}")
        except errors.NotFound:
            self.listing(hour, dataset)  # raises another error if the entire hour is missing
            raise

    def download(
        self,
        hour: datetime,
        record: models.Batch,
        target: StrPath,
        progress: Progress | None = None,
        dataset: Dataset = ARTICLE_CHANGES,
    ) -> Download:
        """Download a batch's archive to `target`, verify it, and write the `target`.json sidecar.

        If the file already exists in this version, it is not fetched again. A partial download (`.part`) is resumed. If
        the service has replaced the file since `record` was read, the new version is downloaded. If the name of
        `target` contains the first eight characters of the old version, the new version's characters replace them (see
        `Download`). `progress` is called by one thread at a time.

        Raises:
            IntegrityError: Two attempts returned wrong bytes. No file was written.
            DiskFull: The disk is full. Downloaded bytes are retained.
            RetentionPassed: The hour is more than two days old.
        """
        path = endpoints.record(endpoints.hourly(dataset, hour), record.identifier)
        again = partial(self.record, hour, record.identifier, dataset)
        name = f"{record.identifier} for {spoken(hour)}"
        try:
            return self._api.transfer(path, record, dataset.quota, again, name=name).fetch(Path(target), progress)
        except errors.NotFound as error:
            raise passed(hour, self._api.clock) or error from None


def spoken(hour: datetime) -> str:
    return f"the hour {hour.astimezone(UTC) if hour.tzinfo else hour:%Y-%m-%d %H}:00 UTC"


def passed(hour: datetime, clock: ServiceClock) -> errors.RetentionPassed | None:
    """Return the error for an hour past the service's retention period, or None if the service still has the hour."""
    if clock.now() - hour < RETENTION:
        return None
    return errors.RetentionPassed(
        f"{clock.remark}The service no longer has {spoken(hour)}, because it retains each hour for two days. Earlier "
        "downloads are kept. This hour can be loaded only from an existing archive. Later hours are not affected.",
        status=404,
    )
