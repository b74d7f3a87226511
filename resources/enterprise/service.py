"""The service's hosts and the account to use there."""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import ip_address
from urllib.parse import urlsplit

from resources.enterprise.errors import InvalidRequest

AUTH_URL = "https://auth.enterprise.wikimedia.com"
BASE_URL = "https://api.enterprise.wikimedia.com"
REALTIME_URL = "https://realtime.enterprise.wikimedia.com"


@dataclass(frozen=True)
class Service:
    """The hosts of one service and the account to use there.

    Attributes:
        auth_url: Root of the authentication paths (`/v1/...`).
        base_url: Root of the data paths (`/v2/...`).
        realtime_url: Root of the streams.
        username: Account name; kept in lower case, because the service's user pool is.
        password: Password, or None where stored tokens shall do; never shown in a repr.
        contact: Operator of this client (mail address or page); sent in the User-Agent.
        anonymous: Send no token at all: for address ranges that the service admits without an account.
        allow_http: Send passwords and tokens to other machines over `http://` as well, where anyone on the way reads
            them.

    Raises:
        InvalidRequest: An address is not an http(s) address, or is one of another machine over `http://`.
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
            object.__setattr__(self, name, _root(name, getattr(self, name)))
            if not self.allow_http and is_open(getattr(self, name)):
                raise InvalidRequest(
                    f"The setting {name} is an http:// address of another machine, and passwords and tokens would "
                    f"cross the network in the clear. Nothing was sent. Write https:// in WME_{name.upper()}, or set "
                    "WME_ALLOW_HTTP=1 if the network is yours."
                )
        username = (self.username or "").strip().lower()
        object.__setattr__(self, "username", username or None)
        object.__setattr__(self, "password", self.password or None)
        contact = " ".join((self.contact or "").split())  # a line break would end the header it is sent in
        object.__setattr__(self, "contact", contact or None)

    @property
    def origins(self) -> frozenset[tuple[str, str]]:
        """(scheme, host and port) of the hosts that may see the bearer token."""
        return frozenset(origin(url) for url in (self.auth_url, self.base_url, self.realtime_url))


def origin(url: str) -> tuple[str, str]:
    """(scheme, host and port) of an address."""
    parts = urlsplit(url)
    return parts.scheme.lower(), parts.netloc.lower()


def is_web_address(url: str) -> bool:
    """Return whether a request could be sent there: http or https, a host, a port that exists, no password."""
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
    except ValueError:  # brackets or a port that are none
        return False


def is_open(url: str) -> bool:
    """Return whether an address is of another machine and its connections are not encrypted."""
    parts = urlsplit(url)
    host = (parts.hostname or "").removesuffix(".")
    if parts.scheme == "https" or host == "localhost" or host.endswith(".localhost"):
        return False
    try:
        return not ip_address(host).is_loopback
    except ValueError:
        return True


def _root(name: str, url: str) -> str:
    url = url.strip().rstrip("/")
    if not is_web_address(url) or any(mark in url for mark in "?#@"):
        # the address itself is not repeated: people put passwords into addresses
        raise InvalidRequest(
            f"The setting {name} is not an address of the form https://host[:port][/path]. Nothing was sent. "
            f"Correct WME_{name.upper()} or leave it out for the real service."
        )
    return url
