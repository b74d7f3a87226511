"""Limits for all requests: response size and duration, retries, and the networks to which a redirect may lead.

A redirect must not lead into the operator's network. The address of each new connection is therefore checked before
anything is sent.
"""

import random
import threading
import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Final


@dataclass(frozen=True)
class Limits:
    """Maximum sizes and durations of responses and downloads.

    The service's largest lists (all snapshots, an hour's files, the chunks of enwiki) are 1 to 5 MB in size. The limits
    allow three times that size.

    Attributes:
        list_bytes: Maximum decompressed size of a list.
        record_bytes: Maximum decompressed size of any other response, for example a record or tokens.
        lookup_bytes: Maximum decompressed size of a lookup's response, which contains up to ten complete articles.
        refusal_bytes: Number of bytes that are read from a refusal. Further bytes are ignored.
        answer_seconds: Maximum time in seconds from a request to the end of its response, including connection retries.
        slow_bytes: Minimum number of bytes that a connection to the object store must transfer in `slow_seconds`.
        slow_seconds: Seconds after which a connection that has transferred fewer than `slow_bytes` is replaced.
        margin_bytes: Bytes by which an archive may exceed the size in its record, in addition to `margin_share`.
        margin_share: Fraction by which an archive may exceed the size in its record, because records contain rounded
            sizes.
        unstated_bytes: Maximum size of an archive whose record does not state a size.
        keep_free_bytes: Bytes of disk space that a download leaves free.
        signed_urls: Maximum number of signed URLs per download. Each URL may cost a unit of quota.
        range_count: Number of ranges of a large file that are fetched in parallel.
        ranged_bytes: Minimum size of a file that is divided into ranges, according to its record.
        range_bytes: Minimum size of a range.
        wait_seconds: Maximum seconds to wait for another process that is downloading the same file.
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
    signed_urls: int = 8
    range_count: int = 4
    ranged_bytes: int = 64 << 20
    range_bytes: int = 16 << 20
    wait_seconds: float = 3_600.0

    def largest(self, size: int | None) -> int:
        """Return the maximum size of an archive. `size` is the size in bytes from its record, or None if unknown."""
        if size is None:
            return self.unstated_bytes
        return size + int(size * self.margin_share) + self.margin_bytes


@dataclass(frozen=True)
class RetryPolicy:
    """Timeouts and retry settings.

    Attributes:
        retries: Maximum number of retries for each cause.
        first_wait: Maximum time in seconds before the first retry. The maximum doubles with each further retry.
        longest_wait: Maximum duration of a single wait in seconds, even if `Retry-After` requests more.
        connect_timeout: Maximum time in seconds for opening a connection.
        read_timeout: Maximum time in seconds without receiving data.
        requests_per_second: Maximum rate of requests to the data host, for all of a client's threads combined. If None,
            the rate adapts to the service's refusals.
    """

    retries: int = 5
    first_wait: float = 0.5
    longest_wait: float = 30.0
    connect_timeout: float = 10.0
    read_timeout: float = 60.0
    requests_per_second: float | None = None

    def wait(self, attempt: int, asked: float | None = None) -> float:
        """Return the seconds to wait after attempt number `attempt` (starting at 1).

        The wait is the time that the service `asked` for, up to the maximum, or an exponential backoff with jitter.
        """
        if asked is not None:
            return max(0.0, min(asked, self.longest_wait))
        longest = min(self.first_wait * 2 ** (attempt - 1), self.longest_wait)
        return random.uniform(longest / 2, longest)


class TooSlowError(TimeoutError):
    """The response did not end in time."""


class Deadline:
    """An adjustable time limit for receiving data, which another thread can cancel.

    `meet` receives the address of every host to which a connection is opened, before anything is sent. If `meet`
    raises an exception, the connection is closed.
    """

    def __init__(self, seconds: float, meet: Callable[[str], None] | None = None) -> None:
        self.meet = meet
        self._seconds = seconds
        self._lock = threading.Lock()
        self._end: Callable[[], None] | None = None
        self._is_cancelled = False
        self.restart()

    def restart(self) -> None:
        self._at = time.monotonic() + self._seconds

    def extend(self, seconds: float) -> None:
        self._at += seconds

    def left(self) -> float:
        """Return the remaining seconds. Raises TooSlowError if the time limit has passed."""
        left = self._at - time.monotonic()
        if left <= 0:
            raise TooSlowError("The response did not end in time.")
        return left

    def attach(self, end: Callable[[], None]) -> None:
        with self._lock:
            self._end = end
            if self._is_cancelled:
                end()

    def cancel(self) -> None:
        """End the response. The response's reader then reaches the end of the body."""
        with self._lock:
            self._is_cancelled = True
            if self._end is not None:
                self._end()


#: Deadline of every response that begins in this context, until the response is complete.
current_deadline: ContextVar[Deadline | None] = ContextVar("deadline", default=None)


#: NAT64 prefix, whose addresses contain an IPv4 address in the last 32 bits (RFC 6052).
_NAT64: Final = IPv6Network("64:ff9b::/96")


def network_of(address: str) -> str:
    """Classify the network of an IP address as `public`, `loopback`, `link-local`, or otherwise `private`."""
    found = ip_address(address)
    if isinstance(found, IPv6Address):
        found = found.ipv4_mapped or found.sixtofour or (IPv4Address(found.packed[-4:]) if found in _NAT64 else found)
    if found.is_loopback:
        return "loopback"
    if found.is_link_local:
        return "link-local"
    is_inner = found.is_multicast or (isinstance(found, IPv6Address) and found.is_site_local)
    return "public" if found.is_global and not is_inner else "private"
