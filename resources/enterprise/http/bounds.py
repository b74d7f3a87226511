"""Bounds of every request: the size of an answer, its duration, the retries, and the networks it may lead to.

A redirect leads nowhere inside the operator's network. A host is looked up before anything is sent, and the address of
each new connection is checked once more: a name may have changed its address in between.
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
    """The largest sizes and the longest durations of answers.

    The service's largest lists (all snapshots, the files of an hour, the chunks of enwiki) are of 1 to 5 MB; they may
    grow threefold before a limit is met.

    Attributes:
        list_bytes: Bytes of a list, decoded.
        record_bytes: Bytes of any other answer, decoded: a record, tokens, the account.
        lookup_bytes: Bytes of a lookup, decoded: up to ten articles, whole.
        refusal_bytes: Bytes that are read of an answer that refuses; the rest is left.
        answer_seconds: Seconds from a request to the end of its answer, with the retries of a failing connection.
        slow_bytes: A connection to the object store that brings less than this ...
        slow_seconds: ... in so many seconds is given up and another is opened.
        margin_bytes: An archive may be larger than its record says by so much ...
        margin_share: ... and by this share: the record's megabytes are rounded, and small ones are 0.
        unstated_bytes: An archive may have so many bytes where its record does not say how many.
        keep_free_bytes: Disk space that a download leaves untouched.
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
        """Bytes that an archive may have of which the record says that it has `size`, or does not say."""
        if size is None:
            return self.unstated_bytes
        return size + int(size * self.margin_share) + self.margin_bytes


@dataclass(frozen=True)
class RetryPolicy:
    """Timeouts, retries and waits.

    Attributes:
        retries: Further attempts after the first, for each cause.
        first_wait: Seconds before the second of them; doubled each time.
        longest_wait: Bound of a single wait in seconds, for `Retry-After` too.
        connect_timeout: Seconds to get a connection.
        read_timeout: Seconds without a byte.
        requests_per_second: Requests that are sent to the data host, by all threads of a client together; None: as many
            as it admits, which its refusals teach.
    """

    retries: int = 5
    first_wait: float = 0.5
    longest_wait: float = 30.0
    connect_timeout: float = 10.0
    read_timeout: float = 60.0
    requests_per_second: float | None = None

    def wait(self, attempt: int, asked: float | None = None) -> float:
        """Seconds to wait before attempt number `attempt` + 1 (from 1), as the service asked or with jitter."""
        if asked is not None:
            return max(0.0, min(asked, self.longest_wait))
        longest = min(self.first_wait * 2 ** (attempt - 1), self.longest_wait)
        return random.uniform(longest / 2, longest)

    @property
    def timeouts(self) -> tuple[float, float]:
        return self.connect_timeout, self.read_timeout


class TooSlowError(TimeoutError):
    """An answer was not complete in time."""


class Deadline:
    """The moment until which bytes are waited for; it may be moved.

    `meet` is called with the address of every host that a connection is opened to, before anything is sent over it; an
    exception closes the connection.
    """

    def __init__(self, seconds: float) -> None:
        self.meet: Callable[[str], None] | None = None
        self._seconds = seconds
        self.restart()

    def restart(self) -> None:
        """Wait from now on for as long as at the beginning."""
        self._at = time.monotonic() + self._seconds

    def extend(self, seconds: float) -> None:
        self._at += seconds

    def left(self) -> float:
        """Seconds that are left. Raises TooSlowError if none are."""
        left = self._at - time.monotonic()
        if left <= 0:
            raise TooSlowError("The answer was not complete in time.")
        return left


class CancellableDeadline(Deadline):
    """A deadline by which another thread ends the answer."""

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
        """End the answer: its reader finds the end of the body."""
        with self._lock:
            self._is_cancelled = True
            if self._end is not None:
                self._end()


_deadline: ContextVar[Deadline | None] = ContextVar("deadline", default=None)


@contextlib.contextmanager
def until(deadline: Deadline) -> Iterator[None]:
    """Let the deadline hold for every answer that begins in this block, to its last byte."""
    token = _deadline.set(deadline)
    try:
        yield
    finally:
        _deadline.reset(token)


def current_deadline() -> Deadline | None:
    """Return the deadline of the block under way, None outside of one."""
    return _deadline.get()


def restart() -> None:
    """Restart the time limit of the current answer: earlier waiting was for another answer, or a lock."""
    if (deadline := _deadline.get()) is not None:
        deadline.restart()


#: Its last 32 bits are an address of IPv4 (RFC 6052).
_NAT64: Final = IPv6Network("64:ff9b::/96")
PUBLIC: Final = "public"


def network_of(address: str) -> str:
    """The kind of network of an IP address: `public`, `loopback`, `link-local`, or `private` for all others."""
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
