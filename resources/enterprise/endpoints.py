"""The service's hosts, and functions that build the paths of its endpoints.

Source: the service's reference for metadata (`/v2/codes` ...), realtime batches (`/v2/batches/{date}/{hour}`),
snapshots (`/v2/snapshots`) and on-demand lookups.
"""

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from ipaddress import ip_address
from urllib.parse import quote, unquote, urlsplit

from resources.datasets import Dataset, Family, datasets
from resources.enterprise.errors import InvalidRequest
from resources.enterprise.query import UNPAIRED

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


def origin(url: str) -> tuple[str, str]:
    """Return a URL's scheme, and its host and port."""
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


ARTICLE_STREAM = "/v2/articles"
ENTITY_STREAM = "/v2/wikidata"


def file_quota(path: str) -> str | None:
    """Return the counter that is used by a download of a record's file, or None if the download is free.

    Raises InvalidRequest if the path does not identify a record with a file.
    """
    for dataset in (*datasets(Family.HOURLY), *datasets(Family.SNAPSHOT)):
        one = records(dataset) + "/[^/]+" * (3 if dataset.family is Family.HOURLY else 1)
        if re.fullmatch(one, path):
            return dataset.quota
        if dataset.is_chunked and re.fullmatch(f"{one}/chunks/[^/]+", path):
            return dataset.chunk_quota
    raise InvalidRequest(
        f"{path[:200]!r} is not the path of a file record. Nothing was sent. Build the path with `endpoints`, for "
        "example /v2/snapshots/enwiki_namespace_0 or /v2/batches/2026-11-20/05/enwiki_namespace_0."
    )


def reference(kind: str) -> str:
    """Return the path of a reference list (`codes`, `languages`, `projects` or `namespaces`)."""
    return f"/v2/{kind}"


def records(dataset: Dataset) -> str:
    """Return the path for listing all records in a reference list, or all snapshots."""
    return f"/v2/{dataset.endpoint}"


def hourly(dataset: Dataset, hour: datetime) -> str:
    """Return the path of a batch listing. Raises InvalidRequest if the time is not the start of an hour in UTC."""
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
    return f"{records(dataset)}/{hour:%Y-%m-%d}/{hour:%H}"


def record(listing: str, identifier: str | int) -> str:
    """Return the path of one record in the list at this path. Raises InvalidRequest if the identifier is invalid."""
    if identifier in {"", ".", ".."} or UNPAIRED.search(str(identifier)):
        raise InvalidRequest(
            f"{identifier!r} is not a valid record identifier. Nothing was sent. Use an identifier from the list."
        )
    return f"{listing}/{quote(str(identifier), safe='')}"


def is_of(path: str, identifier: str) -> bool:
    """Return whether a record's path may lead to this identifier. The path of a chunk may contain only its number."""
    *_, snapshot, kind, asked = map(unquote, path.split("/"))
    number = asked.rpartition("_")[2]
    return identifier == asked or (kind == "chunks" and identifier == f"{snapshot}_chunk_{number}")


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
