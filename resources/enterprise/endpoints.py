"""The service's hosts and endpoints: paths, supported queries, and quotas.

`registered()` returns an `Endpoint` for each endpoint that responds with records, derived from the dataset
declarations. Commands use these endpoints generically. Other functions build individual paths.

Source: the service's reference for metadata (`/v2/codes` ...), realtime batches (`/v2/batches/{date}/{hour}`),
snapshots (`/v2/snapshots`) and on-demand lookups.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from ipaddress import ip_address
from typing import Final, Literal
from urllib.parse import quote, urlsplit

from resources.datasets import LOOKUPS, Dataset, Family, datasets
from resources.enterprise.errors import InvalidRequest
from resources.enterprise.query import UNPAIRED, Kind

AUTH_URL = "https://auth.enterprise.wikimedia.com"
BASE_URL = "https://api.enterprise.wikimedia.com"
REALTIME_URL = "https://realtime.enterprise.wikimedia.com"


@dataclass(frozen=True)
class Service:
    """The service's hosts, and the account to use.

    Attributes:
        auth_url: Base URL of the authentication paths (`/v1/...`).
        base_url: Base URL of the data paths (`/v2/...`).
        realtime_url: Base URL of the streams.
        username: Account name, converted to lower case because the service stores names in lower case.
        password: Password, or None to use only stored tokens. The password is omitted from the repr.
        contact: Email address or web page of the client's operator, sent in the User-Agent.
        anonymous: True to send no token, for IP addresses that the service accepts without an account.
        allow_http: True to allow unencrypted `http://` connections to other machines, even for passwords and tokens.

    Raises:
        InvalidRequest: A URL is not an HTTP(S) URL, or is an `http://` URL that points to another machine while
            `allow_http` is False.
    """

    auth_url: str = AUTH_URL
    base_url: str = BASE_URL
    realtime_url: str = REALTIME_URL
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    contact: str | None = None
    anonymous: bool = False
    allow_http: bool = False

    def __post_init__(self) -> None:
        for name in ("auth_url", "base_url", "realtime_url"):
            url = getattr(self, name).strip().rstrip("/")
            if not is_web_address(url) or any(mark in url for mark in "?#@"):
                # do not repeat the URL, which may contain a password
                raise InvalidRequest(
                    f"The setting {name} is not an address of the form https://host[:port][/path]. Nothing was sent. "
                    f"Correct WME_{name.upper()}, or unset it to use the real service."
                )
            object.__setattr__(self, name, url)
            if not self.allow_http and is_open(url):
                raise InvalidRequest(
                    f"The setting {name} is an http:// address of another machine, so passwords and tokens would be "
                    f"sent unencrypted. Nothing was sent. Use https:// in WME_{name.upper()}, or set WME_ALLOW_HTTP=1 "
                    "if you trust the network."
                )
        username = (self.username or "").strip().lower()
        object.__setattr__(self, "username", username or None)
        object.__setattr__(self, "password", self.password or None)
        contact = " ".join((self.contact or "").split())  # a line break would end the header
        object.__setattr__(self, "contact", contact or None)

    @property
    def origins(self) -> frozenset[tuple[str, str]]:
        """Return the origins (scheme, host and port) that may receive the bearer token."""
        return frozenset(origin(url) for url in (self.auth_url, self.base_url, self.realtime_url))


def origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme.lower(), parts.netloc.lower()


def is_web_address(url: str) -> bool:
    """Return whether requests can use a URL. The URL must use http(s) and have a host, a valid port and no password."""
    try:
        parts = urlsplit(url)
        return (
            parts.scheme in {"http", "https"}
            and bool(parts.hostname)
            and parts.port != 0
            and "@" not in parts.netloc
            and url.isascii()
            and url.isprintable()
        )
    except ValueError:  # unbalanced brackets or an invalid port
        return False


def is_open(url: str) -> bool:
    """Return whether a URL is unencrypted and points to another machine."""
    parts = urlsplit(url)
    host = (parts.hostname or "").removesuffix(".")
    if parts.scheme == "https" or host == "localhost" or host.endswith(".localhost"):
        return False
    try:
        return not ip_address(host).is_loopback
    except ValueError:
        return True


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
    """An endpoint that responds with records.

    Attributes:
        role: Content of the response.
        path: Path with placeholders, for example `/v2/snapshots/{identifier}/chunks`. `{hour}` is a date and an hour.
        kind: Kind of endpoint, which determines the supported query parameters.
        dataset: Dataset of the returned records, or None if they belong to no dataset.
        quota: `get-user` counter that a request uses, or None if requests are free.
        has_file: True if the record describes a file, which is served at `/download` below the record's path.
        file_quota: Counter that a download of the file uses, or None if downloads are free.
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
        return tuple(_PLACEHOLDER.findall(self.path))

    def at(self, **values: str | int | datetime) -> str:
        """Fill in the path's placeholders. Raises InvalidRequest if a value is invalid."""
        return _PLACEHOLDER.sub(lambda found: _written(values[found[1]]), self.path)

    def matches(self, path: str) -> bool:
        parts = (
            (r"[^/]+/[^/]+" if name == "hour" else r"[^/]+") if number % 2 else re.escape(name)
            for number, name in enumerate(_PLACEHOLDER.split(self.path))
        )
        return re.fullmatch("".join(parts), path) is not None


def registered() -> tuple[Endpoint, ...]:
    """Return all endpoints that respond with records, grouped by dataset."""
    return (*(one for dataset in datasets() for one in endpoints_of(dataset)), *_OTHERS)


def endpoints_of(dataset: Dataset) -> tuple[Endpoint, ...]:
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
    return next((one for one in registered() if one.has_file and one.matches(path)), None)


def reference(kind: str) -> str:
    """Return the path of a reference list: `codes`, `languages`, `projects` or `namespaces`."""
    return f"/v2/{kind}"


def records(dataset: Dataset) -> str:
    """Return the path for listing all records in a reference list, or all snapshots."""
    return f"/v2/{dataset.endpoint}"


def hourly(dataset: Dataset, hour: datetime) -> str:
    """Return the path of a batch listing. Raises InvalidRequest if the time is not the start of an hour in UTC."""
    return f"{records(dataset)}/{_written(hour)}"


def record(listing: str, identifier: str | int) -> str:
    """Return the path of one record in the list at this path. Raises InvalidRequest if the identifier is invalid."""
    return f"{listing}/{_written(identifier)}"


def article(name: str) -> str:
    """Return the path for looking up articles by title. Slashes in the title are escaped."""
    return f"/v2/articles/{quote(name, safe='')}"


def structured(name: str) -> str:
    return f"/v2/structured-contents/{quote(name, safe='')}"


def entity(kind: str, identifier: str) -> str:
    """Return the path for looking up a Wikidata entity. `kind` is `items`, `properties` or `labels`."""
    return f"/v2/wikidata/{kind}/{quote(identifier, safe='')}"


def chunks(snapshot: str) -> str:
    return f"{snapshot}/chunks"


def download(record: str) -> str:
    return f"{record}/download"


def _written(value: str | int | datetime) -> str:
    if isinstance(value, datetime):
        return _hour(value)
    if value in {"", ".", ".."} or UNPAIRED.search(str(value)):
        raise InvalidRequest(
            f"{value!r} is not a valid record identifier. Nothing was sent. Use an identifier from the list."
        )
    return quote(str(value), safe="")


def _hour(hour: datetime) -> str:
    if hour.tzinfo is None:
        raise InvalidRequest(
            f"The hour {hour.isoformat()} has no time zone, so it is ambiguous. Nothing was sent. Pass an aware "
            "datetime in UTC."
        )
    hour = hour.astimezone(UTC)
    if hour.minute or hour.second or hour.microsecond:
        raise InvalidRequest(
            f"{hour.isoformat()} is not the start of an hour in UTC. Nothing was sent. Pass the start of an hour."
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
