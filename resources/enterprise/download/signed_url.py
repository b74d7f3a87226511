"""Where the bytes of a download are: which version of which record, and the signed address that the service gives for it.

Source: the service's description of downloads (307 to a signed address, which lives for 60 s and costs a unit of quota where the
product has one).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from resources.enterprise import errors

#: Hears how many bytes came since it was called last: each byte of a file once, whatever is fetched again.
Progress = Callable[[int], None]


@dataclass(frozen=True)
class Source:
    """What to download.

    Attributes:
        identifier: The record's identifier.
        version: The record's version: MD5 of the archive.
        size_hint: About how many bytes, None where the record does not say.
        url_path: Path of the download at the service.
        resolve: Asks the service for a signed address; gives it with the number of requests it took.
        read_again: Reads the record again; gives the source it names now with the number of requests it took.
        pinned: Whether another version, which the service has meanwhile, is not worth a request.
    """

    identifier: str
    version: str
    size_hint: int | None
    url_path: str
    resolve: Callable[[], tuple[str, int]]
    read_again: Callable[[], tuple[Source, int]]
    pinned: bool = False


class Address:
    """The signed address of one download, asked for when needed and again when the store refuses it.

    Shared by the threads of the download. `request_count`: requests to the service so far.

    Args:
        source: What is downloaded.
        limit: How often an address may be asked for (each may cost a unit of quota).
        kept: A sentence for messages: what becomes of the bytes that came before a failure.
    """

    def __init__(self, source: Source, limit: int, kept: str = "What was fetched is kept.") -> None:
        self._source = source
        self._kept = kept
        self._limit = limit
        self._lock = threading.Lock()
        self._current: str | None = None
        self._refusals = 0
        self.asked = 0
        self.request_count = 0

    def get(self) -> str:
        """The address to use now.

        Raises:
            ServiceUnavailable: It was asked for too often.
        """
        with self._lock:
            if self._current is None:
                if self.asked >= self._limit:
                    raise errors.ServiceUnavailable(
                        f"{self._source.identifier} needed more than {self._limit} signed URLs, each of which may "
                        f"cost quota. {self._kept} The connection breaks too often: run this again later."
                    )
                self.asked += 1
                self._current, count = self._source.resolve()
                self.request_count += count
            return self._current

    def worked(self) -> None:
        """Bytes came from it: refusals before do not count any more."""
        with self._lock:
            self._refusals = 0

    def refused(self, address: str, status: int) -> None:
        """The store does not take it (any more).

        Raises:
            ServiceUnavailable: It refused the one before too.
        """
        with self._lock:
            if address != self._current:
                return  # another range noticed first
            self._current = None
            self._refusals += 1
            if self._refusals > 1:
                raise errors.ServiceUnavailable(
                    f"The object store refused two fresh addresses of {self._source.identifier} ({status}). "
                    f"{self._kept} The archive may be gone, or a proxy changes requests on the way: run this again "
                    "later.",
                    status=status,
                )
