"""Kinds of networks that an address belongs to, and the addresses of a host: a redirect leads nowhere inside the operator's network.

A host is looked up before anything is sent, and the address of each new connection is looked at once more: a name may
have changed its address in between.
"""

from __future__ import annotations

import socket
from contextlib import contextmanager
from contextvars import ContextVar
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from requests.utils import get_environ_proxies, select_proxy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: Its last 32 bits are an address of IPv4 (RFC 6052).
_NAT64: Final = IPv6Network("64:ff9b::/96")
PUBLIC: Final = "public"

_met: ContextVar[Callable[[str], None] | None] = ContextVar("met", default=None)


def network_of(address: str) -> str:
    """The kind of network of an IP address: `public`, `loopback`, `link-local`, or `private` for all else that is not public."""
    found = ip_address(address)
    if isinstance(found, IPv6Address):
        found = found.ipv4_mapped or found.sixtofour or (_embedded(found) if found in _NAT64 else found)
    if found.is_loopback:
        return "loopback"
    if found.is_link_local:
        return "link-local"
    is_inner = found.is_multicast or (isinstance(found, IPv6Address) and found.is_site_local)
    return PUBLIC if found.is_global and not is_inner else "private"


def _embedded(address: IPv6Address) -> IPv4Address:
    return IPv4Address(address.packed[-4:])


def addresses_of(url: str) -> frozenset[str]:
    """The IP addresses of a URL's host; of a name none where a proxy looks it up, or nobody knows it."""
    parts = urlsplit(url)
    by_proxy = select_proxy(url, get_environ_proxies(url))
    try:
        found = socket.getaddrinfo(
            parts.hostname,
            parts.port,
            type=socket.SOCK_STREAM,
            flags=socket.AI_NUMERICHOST if by_proxy else 0,
        )
    except (OSError, UnicodeError):  # the connection itself says what is wrong
        return frozenset()
    return frozenset(str(place[0]) for *_, place in found)


@contextmanager
def meeting(hear: Callable[[str], None]) -> Iterator[None]:
    """Let `hear` know the address of every host that a connection is opened to in this block; what it raises closes the connection."""
    token = _met.set(hear)
    try:
        yield
    finally:
        _met.reset(token)


def met(connection: socket.socket) -> None:
    """Tell of a connection that was just opened, before anything is sent over it."""
    if (hear := _met.get()) is not None:
        hear(str(connection.getpeername()[0]))
