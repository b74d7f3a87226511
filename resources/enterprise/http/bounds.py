"""Limits of every request: size and duration of a response, retries, and the networks that a redirect may reach.

A redirect must not reach the operator's network. A host is resolved before a request is sent, and the address of each
new connection is checked again, because a name may have changed its address in between.
"""

from __future__ import annotations

import contextlib
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Final
from urllib.parse import urlsplit

from requests.utils import get_environ_proxies, select_proxy


@dataclass(frozen=True)
class Limits:
    """Maximum sizes and durations of responses.

    The service's largest lists (all snapshots, the files of an hour, the chunks of enwiki) have 1 to 5 MB; the limits
    allow three times that size.

    Attributes:
        list_bytes: Bytes of a list, decoded.
        record_bytes: Bytes of any other response, decoded: a record, tokens, the account.
        lookup_bytes: Bytes of a lookup, decoded: up to ten complete articles.
        refusal_bytes: Bytes that are read of a refusal; the rest is ignored.
        answer_seconds: Seconds from a request to the end of its response, including retries of a failing connection.
        slow_bytes: A connection to the object store that transfers fewer bytes than this ...
        slow_seconds: ... in this many seconds is closed, and another is opened.
        margin_bytes: An archive may exceed the size in its record by this many bytes ...
        margin_share: ... plus this fraction: the megabytes in a record are rounded, and small sizes are 0.
        unstated_bytes: Size limit of an archive whose record states no size.
        keep_free_bytes: Disk space that a download leaves free.
    """

    list_bytes: int = 16 << 20
    record_bytes: int = 4 << 20
    lookup_bytes: int = 256 << 20
    refusal_bytes: int = 64 << 10
    answer_seconds: float = 300.0
    slow_bytes: int = 256 << 10
    slow_seconds: float = 300.0
    margin_bytes: int = 16 << 20
    margin_share: float = 0.1
    unstated_bytes: int = 1 << 30
    keep_free_bytes: int = 0

    def largest(self, size: int | None) -> int:
        """Return the size limit of an archive whose record states `size` bytes (None: no size)."""
        if size is None:
            return self.unstated_bytes
        return size + int(size * self.margin_share) + self.margin_bytes


@dataclass(frozen=True)
class RetryPolicy:
    """Timeouts, retries and waits.

    Attributes:
        retries: Further attempts after the first, for each cause.
        first_wait: Seconds before the second further attempt; doubled each time.
        longest_wait: Limit of a single wait in seconds, also for `Retry-After`.
        connect_timeout: Seconds to open a connection.
        read_timeout: Seconds without a byte.
        requests_per_second: Requests to the data host, by all threads of a client together; None: as many as it admits,
            adjusted after refusals.
    """

    retries: int = 5
    first_wait: float = 0.5
    longest_wait: float = 30.0
    connect_timeout: float = 10.0
    read_timeout: float = 60.0
    requests_per_second: float | None = None

    def wait(self, attempt: int, asked: float | None = None) -> float:
        """Seconds to wait before attempt number `attempt` + 1 (from 1), as the service requested or with jitter."""
        if asked is not None:
            return max(0.0, min(asked, self.longest_wait))
        longest = min(self.first_wait * 2 ** (attempt - 1), self.longest_wait)
        return random.uniform(longest / 2, longest)

    @property
    def timeouts(self) -> tuple[float, float]:
        return self.connect_timeout, self.read_timeout


class TooSlowError(TimeoutError):
    """A response was not complete in time."""


class Deadline:
    """A movable time limit for receiving bytes.

    `meet` is called with the address of every host to which a connection is opened, before a request is sent over it;
    an exception closes the connection.
    """

    def __init__(self, seconds: float) -> None:
        self.meet: Callable[[str], None] | None = None
        self._seconds = seconds
        self.restart()

    def restart(self) -> None:
        """Restart with the initial duration."""
        self._at = time.monotonic() + self._seconds

    def extend(self, seconds: float) -> None:
        self._at += seconds

    def left(self) -> float:
        """Return the remaining seconds. Raises TooSlowError if none are left."""
        left = self._at - time.monotonic()
        if left <= 0:
            raise TooSlowError("The answer was not complete in time.")
        return left


class CancellableDeadline(Deadline):
    """A deadline that another thread can cancel, which ends the response."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self._lock = threading.Lock()
        self._end: Callable[[], None] | None = None
        self._is_cancelled = False

    def attach(self, end: Callable[[], None]) -> None:
        with self._lock:
            self._end = end
            if self._is_cancelled:
                end()

    def cancel(self) -> None:
        """End the response: its reader finds the end of the body."""
        with self._lock:
            self._is_cancelled = True
            if self._end is not None:
                self._end()


_deadline: ContextVar[Deadline | None] = ContextVar("deadline", default=None)


@contextlib.contextmanager
def until(deadline: Deadline) -> Iterator[None]:
    """Apply the deadline to every response that begins in this block, up to its last byte."""
    token = _deadline.set(deadline)
    try:
        yield
    finally:
        _deadline.reset(token)


def current_deadline() -> Deadline | None:
    """Return the deadline of the current block; None outside of a block."""
    return _deadline.get()


def restart() -> None:
    """Restart the time limit of the current response: earlier time was spent on another response, or on a lock."""
    if (deadline := _deadline.get()) is not None:
        deadline.restart()


#: The last 32 bits contain an IPv4 address (RFC 6052).
_NAT64: Final = IPv6Network("64:ff9b::/96")
PUBLIC: Final = "public"


def network_of(address: str) -> str:
    """Classify the network of an IP address: `public`, `loopback`, `link-local`, or `private` for all others."""
    found = ip_address(address)
    if isinstance(found, IPv6Address):
        found = found.ipv4_mapped or found.sixtofour or (IPv4Address(found.packed[-4:]) if found in _NAT64 else found)
    if found.is_loopback:
        return "loopback"
    if found.is_link_local:
        return "link-local"
    is_inner = found.is_multicast or (isinstance(found, IPv6Address) and found.is_site_local)
    return PUBLIC if found.is_global and not is_inner else "private"


def addresses_of(url: str) -> frozenset[str]:
    """Resolve a URL's host to its IP addresses; none if the name is unknown or a proxy resolves it."""
    parts = urlsplit(url)
    by_proxy = select_proxy(url, get_environ_proxies(url))
    try:
        found = socket.getaddrinfo(
            parts.hostname,
            parts.port,
            type=socket.SOCK_STREAM,
            flags=socket.AI_NUMERICHOST if by_proxy else 0,
        )
    except (OSError, UnicodeError):  # the connection itself will report the error
        return frozenset()
    return frozenset(str(place[0]) for *_, place in found)
