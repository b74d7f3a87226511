"""Workarounds for requests 2.34 and urllib3 2.8, with the conditions under which each can be deleted.

`tests/unit/enterprise/test_workarounds.py` has a test for each workaround, which fails when the library changes.

| workaround | library's behaviour | delete the workaround when |
|---|---|---|
| `Adapter` and its helper classes | timeouts apply to each read, not to the complete response | urllib3 has deadlines |
| `LIBRARY_ERRORS`, `causes`, `reason` | urllib3 errors and ValueErrors escape requests | errors share a base class |
| `hide_queries_in_http_log` | urllib3 logs query strings, which are keys in signed URLs | urllib3 hides query strings |
| `shut_down` | `SSLSocket.shutdown` discards TLS while another thread reads | Python no longer does this |
"""

from __future__ import annotations

import contextlib
import functools
import http.client
import io
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Any, Final, TypeVar

import requests
import urllib3
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection

from resources import files
from resources.enterprise import errors
from resources.enterprise.errors import Redactor, without_any_query
from resources.enterprise.http.bounds import Deadline, TooSlowError, current_deadline
from resources.formatting import legible


class _Timed(io.RawIOBase):
    """File interface for a socket that enforces a deadline."""

    def __init__(self, raw: socket.SocketIO, timed: socket.socket, deadline: Deadline) -> None:
        self._raw, self._socket, self._deadline = raw, timed, deadline
        self._timeout = timed.gettimeout()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left = self._deadline.left()
        self._socket.settimeout(left if self._timeout is None else min(left, self._timeout))
        try:
            return self._raw.readinto(buffer)
        except TimeoutError:
            self._deadline.left()  # raises an error if the deadline has passed
            raise

    def close(self) -> None:
        if not self.closed:
            self._raw.close()
        super().close()


class _Response(http.client.HTTPResponse):
    """A response whose body is read under the deadline of its block."""

    def __init__(self, sock: socket.socket, *args: Any, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        if (deadline := current_deadline.get()) is not None:
            deadline.attach(functools.partial(shut_down, sock))
            raw: Any = self.fp.detach()  # the buffer is still empty
            self.fp = io.BufferedReader(_Timed(raw, sock, deadline))


class _Connection(HTTPConnection):
    response_class = _Response

    def _new_conn(self) -> socket.socket:
        connection = super()._new_conn()
        deadline = current_deadline.get()
        # with a proxy, the peer is the proxy, which chooses its own connections
        if self.proxy is None and deadline is not None and deadline.meet is not None:
            try:
                deadline.meet(str(connection.getpeername()[0]))
            except BaseException:
                connection.close()
                raise
        return connection


class _SecureConnection(_Connection, HTTPSConnection):
    """A connection over TLS. The peer is checked before the handshake."""


class Adapter(HTTPAdapter):
    """Opens connections whose responses are read under a deadline."""

    def get_connection_with_tls_context(self, *args: Any, **options: Any) -> Any:
        pool: Any = super().get_connection_with_tls_context(*args, **options)
        pool.ConnectionCls = _SecureConnection if pool.scheme == "https" else _Connection
        return pool


_LONGEST_LINE: Final = 1_000


def _hide_queries(record: logging.LogRecord) -> bool:
    record.msg = legible(without_any_query(record.getMessage()), _LONGEST_LINE)
    record.args = ()
    record.exc_info = record.exc_text = None  # the traceback repeats the message with the URL
    return True


def hide_queries_in_http_log() -> None:
    """Remove query strings, which can grant access, from the HTTP library's log. This function is idempotent."""
    for name in ("urllib3.connection", "urllib3.connectionpool"):
        logging.getLogger(name).addFilter(_hide_queries)


_C = TypeVar("_C")

#: Exceptions that libraries raise for malformed or broken responses.
LIBRARY_ERRORS: Final = (
    requests.RequestException,
    urllib3.exceptions.HTTPError,
    http.client.HTTPException,
    OSError,
    ValueError,
    ArithmeticError,
    RecursionError,
)

_LONGEST_SHOWN: Final = 300

#: Exact classes by description, in order of precedence, because a NewConnectionError is also a ConnectTimeoutError.
_REASONS: Final[dict[str, tuple[type[BaseException], ...]]] = {
    "the name of the host cannot be resolved": (urllib3.exceptions.NameResolutionError,),
    "the connection timed out": (urllib3.exceptions.ConnectTimeoutError,),
    "the response did not end in time": (TooSlowError,),
    "no response in time": (urllib3.exceptions.ReadTimeoutError,),
    "the host could not prove who it is (TLS)": (
        requests.exceptions.SSLError,
        urllib3.exceptions.SSLError,
        ssl.SSLError,
    ),
    "the proxy refused the connection": (requests.exceptions.ProxyError, urllib3.exceptions.ProxyError),
    "the connection was refused": (ConnectionRefusedError,),
    "the connection was closed without a response": (http.client.RemoteDisconnected,),
    "the response's chunks are malformed": (urllib3.exceptions.InvalidChunkLength,),
    "the response was cut off": (http.client.IncompleteRead, urllib3.exceptions.IncompleteRead),
    "the compressed response is corrupt": (urllib3.exceptions.DecodeError,),
    "the address is malformed": (
        requests.exceptions.InvalidURL,
        http.client.InvalidURL,
        urllib3.exceptions.LocationParseError,
    ),
    "a header of the response is too long": (http.client.LineTooLong,),
    "the response is not valid HTTP": (http.client.HTTPException, http.client.BadStatusLine),
    "a header of the response is malformed": (requests.exceptions.InvalidHeader, urllib3.exceptions.InvalidHeader),
}


def causes(error: BaseException) -> list[BaseException]:
    """Return an exception and its causes, outermost first."""
    seen: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in seen:
        seen.append(current)
        inner = getattr(current, "reason", None) or next(
            (a for a in current.args if isinstance(a, BaseException)), None
        )
        current = inner if isinstance(inner, BaseException) else current.__cause__ or current.__context__
    return seen


def stems_from(error: BaseException, *kinds: type[BaseException]) -> bool:
    """Return whether an exception or one of its causes is an instance of these classes."""
    return any(isinstance(one, kinds) for one in causes(error))


def reason(error: BaseException) -> str:
    """Describe a network failure without URLs or addresses."""
    seen = causes(error)
    kinds = {type(one) for one in seen}
    for words, described in _REASONS.items():
        if not kinds.isdisjoint(described):
            return words
    system = next((one for one in reversed(seen) if isinstance(one, OSError) and one.strerror), None)
    if system is not None:
        return f"the connection failed: {system.strerror}"
    return "the response was cut off" if urllib3.exceptions.ProtocolError in kinds else "the connection failed"


def guarded(kind: type[_C]) -> type[_C]:
    """Decorate a class so that its public methods raise only client errors. The class needs a `redactor` attribute."""
    for name, member in vars(kind).copy().items():
        if callable(member) and not name.startswith("_"):
            setattr(kind, name, _guard(member))
    return kind


def _guard(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def guard(self: Any, *args: Any, **options: Any) -> Any:
        try:
            return method(self, *args, **options)
        except files.BusyError as error:
            failure: errors.EnterpriseError = errors.StateBusy(str(error))
        except LIBRARY_ERRORS as error:
            failure = _unforeseen(error, method.__name__, self.redactor)
        # Raised outside the handler, so that the library's exception, whose message may contain a URL, is not attached.
        raise failure

    return guard


def _unforeseen(error: BaseException, doing: str, redactor: Redactor) -> errors.EnterpriseError:
    if isinstance(error, OSError) and error.errno is not None:
        what = f"`{doing}` could not read from or write to the disk ({error.strerror}). Existing data is kept."
        if files.is_full(error):
            return errors.DiskFull(f"{what} Free up disk space, and try again.")
        return errors.StateError(f"{what} Check the data folder and its permissions, and try again.")
    shown = redactor.clean(f"{type(error).__name__}: {error}")[:_LONGEST_SHOWN]
    return errors.UnexpectedAnswer(
        f"`{doing}` failed on an unexpected value ({shown}). Earlier downloads are kept. If the configured address is "
        "correct, the service's API has changed, and this client needs an update."
    )


def shut_down(connection: socket.socket) -> None:
    """End a connection from another thread. The connection's reader then reaches the end of the stream."""
    with contextlib.suppress(OSError):
        socket.socket.shutdown(connection, socket.SHUT_RDWR)
