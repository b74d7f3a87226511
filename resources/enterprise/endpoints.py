"""The endpoints of the service: their paths, the queries they understand, and the quota they draw on.

`registered()` has one `Endpoint` for each that answers with records, derived from the declarations of the datasets.
Commands that list, show and look up records can be derived from it: `kind` says which options apply, `at()` makes the
path, and `client.lists` or `client.lookups` send the request. The other functions make single paths.

Source: the service's reference for metadata (`/v2/codes` ...), realtime batches (`/v2/batches/{date}/{hour}`),
snapshots (`/v2/snapshots`) and on-demand lookups.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import quote

from resources.datasets import LOOKUPS, Family, datasets
from resources.enterprise.errors import InvalidRequest
from resources.enterprise.query import UNPAIRED, Kind

if TYPE_CHECKING:
    from resources.datasets import Dataset

LOGIN = "/v1/login"
TOKEN_REFRESH = "/v1/token-refresh"  # noqa: S105  a path
TOKEN_REVOKE = "/v1/token-revoke"  # noqa: S105  a path
FORGOT_PASSWORD = "/v1/forgot-password"  # noqa: S105  a path
FORGOT_PASSWORD_CONFIRM = "/v1/forgot-password-confirm"  # noqa: S105  a path
CHANGE_PASSWORD = "/v1/change-password"  # noqa: S105  a path
NEW_PASSWORD_REQUIRED = "/v1/new-password-required"  # noqa: S105  a path
GET_USER = "/v1/get-user"
ARTICLE_STREAM = "/v2/articles"
ENTITY_STREAM = "/v2/wikidata"
_PLACEHOLDER: Final = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class Endpoint:
    """An endpoint that answers with records.

    Attributes:
        role: Content of its response: all records of a list, one record, the chunks of a snapshot, one chunk, a
            lookup, a stream.
        path: Its path with placeholders, for example `/v2/snapshots/{identifier}/chunks`. `{hour}` stands for a date
            and an hour.
        kind: Parts of a query that it understands: `fields` (all), `filters` (`kind.has_filters`) and `limit`
            (`kind.has_limit`).
        dataset: The dataset of its records, None where there is none.
        quota: Counter of `get-user` that one request draws on; None: it is free.
        has_file: True if the record describes a file, at `/download` below its path.
        file_quota: Counter that a download of the file draws on; None: it is free.
    """

    role: Literal["list", "record", "chunks", "chunk", "lookup", "stream"]
    path: str
    kind: Kind
    dataset: Dataset | None = None
    quota: str | None = None
    has_file: bool = False
    file_quota: str | None = None

    @property
    def arguments(self) -> tuple[str, ...]:
        """The names of the placeholders."""
        return tuple(_PLACEHOLDER.findall(self.path))

    def at(self, **values: str | int | datetime) -> str:
        """Return the path with these values in place of the placeholders.

        Raises:
            InvalidRequest: A value would lead to another path, or cannot be sent.
        """
        return _PLACEHOLDER.sub(lambda found: _written(values[found[1]]), self.path)

    def matches(self, path: str) -> bool:
        """Return whether a path is one of this endpoint."""
        parts = (
            (r"[^/]+/[^/]+" if name == "hour" else r"[^/]+") if number % 2 else re.escape(name)
            for number, name in enumerate(_PLACEHOLDER.split(self.path))
        )
        return re.fullmatch("".join(parts), path) is not None


def registered() -> tuple[Endpoint, ...]:
    """Return every endpoint that answers with records, those of a dataset together."""
    return (*(one for dataset in datasets() for one in endpoints_of(dataset)), *_OTHERS)


def endpoints_of(dataset: Dataset) -> tuple[Endpoint, ...]:
    """Return the endpoints of one dataset."""
    if dataset.family is Family.LOOKUP:
        return (Endpoint("lookup", f"{records(dataset)}/{{name}}", Kind.ARTICLES, dataset, dataset.quota),)
    listing = records(dataset) + ("/{hour}" if dataset.family is Family.HOURLY else "")
    one, has_file = f"{listing}/{{identifier}}", dataset.family is not Family.LIST
    found = (
        Endpoint("list", listing, Kind.LIST, dataset),
        Endpoint("record", one, Kind.RECORD, dataset, has_file=has_file, file_quota=dataset.quota),
    )
    if not dataset.is_chunked:
        return found
    chunk = Endpoint(
        "chunk", f"{one}/chunks/{{chunk}}", Kind.RECORD, dataset, has_file=True, file_quota=dataset.chunk_quota
    )
    return (*found, Endpoint("chunks", f"{one}/chunks", Kind.LIST, dataset), chunk)


def of_file(path: str) -> Endpoint | None:
    """Return the endpoint of the file's record that has this path, None where there is none."""
    return next((one for one in registered() if one.has_file and one.matches(path)), None)


def reference(kind: str) -> str:
    """Return the path of a reference list: `codes`, `languages`, `projects` or `namespaces`."""
    return f"/v2/{kind}"


def records(dataset: Dataset) -> str:
    """Return the path of the list of all records of a reference list, or of all snapshots."""
    return f"/v2/{dataset.endpoint}"


def hourly(dataset: Dataset, hour: datetime) -> str:
    """Return the path of a batch listing; the service writes dates and hours in UTC, two digits each.

    Raises:
        InvalidRequest: The hour has no time zone, or is not the start of one.
    """
    return f"{records(dataset)}/{_written(hour)}"


def record(listing: str, identifier: str | int) -> str:
    """Return the path of one record, given the path of the list that it is in.

    Raises:
        InvalidRequest: The identifier would lead to another path, or cannot be sent.
    """
    return f"{listing}/{_written(identifier)}"


def article(name: str) -> str:
    """Return the path of the lookup of articles by title.

    A slash of the title is escaped like all that is no letter.
    """
    return f"/v2/articles/{quote(name, safe='')}"


def structured(name: str) -> str:
    """Return the path of the lookup of structured contents by title."""
    return f"/v2/structured-contents/{quote(name, safe='')}"


def entity(kind: str, identifier: str) -> str:
    """Return the path of a lookup of Wikidata: `items`, `properties` or `labels`, and the identifier."""
    return f"/v2/wikidata/{kind}/{quote(identifier, safe='')}"


def chunks(snapshot: str) -> str:
    """Return the path of the list of a snapshot's chunks, given the snapshot's own path."""
    return f"{snapshot}/chunks"


def download(record: str) -> str:
    """Return the path of the download of a file, given the path of its record."""
    return f"{record}/download"


def _written(value: str | int | datetime) -> str:
    """Return an identifier or an hour as a part of a path."""
    if isinstance(value, datetime):
        return _hour(value)
    if value in {"", ".", ".."} or UNPAIRED.search(str(value)):
        raise InvalidRequest(
            f"{value!r} is the identifier of no record. Nothing was sent. Write it as the list has it."
        )
    return quote(str(value), safe="")


def _hour(hour: datetime) -> str:
    if hour.tzinfo is None:
        raise InvalidRequest(
            f"The hour {hour.isoformat()} has no time zone, so it could be any of 24. Nothing was sent. Pass an aware "
            "datetime in UTC."
        )
    hour = hour.astimezone(UTC)
    if hour.minute or hour.second or hour.microsecond:
        raise InvalidRequest(
            f"{hour.isoformat()} is not the start of an hour in UTC. Nothing was sent. Pass the moment the hour begins."
        )
    return f"{hour:%Y-%m-%d}/{hour:%H}"


_OTHERS: Final = (
    Endpoint("lookup", "/v2/structured-contents/{name}", Kind.STRUCTURED, quota=LOOKUPS.quota),
    *(
        Endpoint("lookup", f"/v2/wikidata/{kind}/{{identifier}}", Kind.ENTITY, quota=LOOKUPS.quota)
        for kind in ("items", "properties", "labels")
    ),
    Endpoint("stream", ARTICLE_STREAM, Kind.STREAM),
    Endpoint("stream", ENTITY_STREAM, Kind.STREAM),
)
