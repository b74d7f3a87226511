"""What the other side may send and how long it may take, whatever it says of itself.

The HTTP library's timeout only counts the time between two bytes, and it offers no place for a deadline in a request.
Its response, though, reads from a file over the socket: that file is ours, and before every read it shortens the
socket's timeout to what is left.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import socket
import threading
import time
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

from resources.enterprise.http.networks import met

if TYPE_CHECKING:
    from collections.abc import Iterator

    from _typeshed import WriteableBuffer
    from urllib3 import PoolManager, ProxyManager


@dataclass(frozen=True)
class Limits:
    """How much of an answer is taken, and for how long.

    The service's largest lists (all snapshots, the files of an hour, the chunks of enwiki) are of 1 to 5 MB; they may grow
    threefold before a limit is met.

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


class TooSlowError(TimeoutError):
    """An answer was not complete in time."""


class Deadline:
    """The moment until which bytes are waited for; it may be moved."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.restart()

    def restart(self) -> None:
        """Wait from now on for as long as at the beginning."""
        self._at = time.monotonic() + self._seconds

    def extend(self, seconds: float) -> None:
        """Wait for so much longer."""
        self._at += seconds

    def left(self) -> float:
        """Seconds that are left.

        Raises:
            TooSlowError: None.
        """
        left = self._at - time.monotonic()
        if left <= 0:
            raise TooSlowError("The answer was not complete in time.")
        return left


class Leash(Deadline):
    """A deadline that is moved with every piece that comes, and by which another thread ends the answer."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._is_cut = False

    def attach(self, over: socket.socket) -> None:
        """Know the connection that the answer comes over."""
        with self._lock:
            self._socket = over
            if self._is_cut:
                self._shut()

    def cut(self) -> None:
        """End the answer: whoever waits for more of it finds its end."""
        with self._lock:
            self._is_cut = True
            self._shut()

    def _shut(self) -> None:
        if self._socket is not None:
            with contextlib.suppress(OSError):
                # not that of TLS, which another thread may be reading through
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


_deadline: ContextVar[Deadline | None] = ContextVar("deadline", default=None)


@contextlib.contextmanager
def until(deadline: Deadline) -> Iterator[None]:
    """Let the deadline hold for every answer that begins in this block, to its last byte."""
    token = _deadline.set(deadline)
    try:
        yield
    finally:
        _deadline.reset(token)


def restart() -> None:
    """Begin the time of the answer under way anew: what was waited for until now was another one, or a lock."""
    if (deadline := _deadline.get()) is not None:
        deadline.restart()


class _Timed(io.RawIOBase):
    """A file over a socket that knows when its time is over."""

    def __init__(self, raw: socket.SocketIO, timed: socket.socket, deadline: Deadline) -> None:
        self._raw, self._socket, self._deadline = raw, timed, deadline
        self._timeout = timed.gettimeout()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int | None:
        left = self._deadline.left()
        self._socket.settimeout(left if self._timeout is None else min(left, self._timeout))
        try:
            return self._raw.readinto(buffer)
        except TimeoutError:
            self._deadline.left()  # says so where it was the deadline
            raise

    def close(self) -> None:
        if not self.closed:
            self._raw.close()
        super().close()


class _Response(http.client.HTTPResponse):
    """An answer that is read under the deadline of the block it began in."""

    def __init__(self, sock: socket.socket, *args: Any, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        if (deadline := _deadline.get()) is not None:
            if isinstance(deadline, Leash):
                deadline.attach(sock)
            raw: Any = self.fp.detach()  # the buffer is still empty
            self.fp = io.BufferedReader(_Timed(raw, sock, deadline))


def _meet(connection: HTTPConnection) -> None:
    if connection.proxy is not None:  # the peer is the proxy, which decides itself where it connects to
        return
    try:
        met(connection.sock)
    except BaseException:
        connection.close()
        raise


class _Connection(HTTPConnection):
    response_class = _Response

    def connect(self) -> None:
        super().connect()
        _meet(self)


class _SecureConnection(HTTPSConnection):
    response_class = _Response

    def connect(self) -> None:
        super().connect()
        _meet(self)


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _SecurePool(HTTPSConnectionPool):
    ConnectionCls = _SecureConnection


class Adapter(HTTPAdapter):
    """Opens connections whose answers are read under a deadline."""

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        super().init_poolmanager(*args, **options)
        _use(self.poolmanager)

    def proxy_manager_for(self, *args: Any, **options: Any) -> ProxyManager:
        manager: ProxyManager = super().proxy_manager_for(*args, **options)
        _use(manager)
        return manager


def _use(manager: PoolManager) -> None:
    manager.pool_classes_by_scheme = {"http": _Pool, "https": _SecurePool}
