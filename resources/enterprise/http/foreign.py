"""Failures that are not ours, made ours: what a library raises when a host fails, lies or sends nonsense.

What a hostile answer makes a library raise stands in no documentation: urllib3's errors escape requests, ValueErrors and
OverflowErrors escape both. So they are caught in two places by kind: where requests are sent (`transport`), and at the
client's public methods (`guarded`).
"""

from __future__ import annotations

import functools
import http.client
from typing import TYPE_CHECKING, Any, Final, TypeVar

import requests
import urllib3

from resources import files
from resources.enterprise import errors

if TYPE_CHECKING:
    from collections.abc import Callable

    from resources.enterprise.redaction import Redactor

_C = TypeVar("_C")

#: What libraries raise for what the other side sent.
FOREIGN: Final = (
    requests.RequestException,
    urllib3.exceptions.HTTPError,
    http.client.HTTPException,
    OSError,
    ValueError,
    ArithmeticError,
    RecursionError,
)

_LONGEST_TOLD: Final = 300

_REASONS: Final = {
    "NameResolutionError": "the name of the host cannot be resolved",
    "ConnectTimeoutError": "no connection in time",
    "TooSlowError": "the answer was not complete in time",
    "ReadTimeoutError": "no answer in time",
    "SSLError": "the host could not prove who it is (TLS)",
    "ProxyError": "the proxy refused the connection",
    "ConnectionRefusedError": "the connection was refused",
    "RemoteDisconnected": "the connection was closed without an answer",
    "IncompleteRead": "the answer broke off",
    "DecodeError": "the answer's compression is damaged",
    "InvalidURL": "the address is malformed",
    "LocationParseError": "the address is malformed",
    "LineTooLong": "a header of the answer is too long",
    "HTTPException": "what came is no answer of HTTP",
    "BadStatusLine": "what came is no answer of HTTP",
    "InvalidHeader": "a header of the answer is malformed",
    "InvalidChunkLength": "the answer's chunks are malformed",
}


def behind(error: BaseException) -> list[BaseException]:
    """An exception and those it stems from, outermost first."""
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
    """Whether an exception is one of these kinds, or was caused by one."""
    return any(isinstance(one, kinds) for one in behind(error))


def reason(error: BaseException) -> str:
    """What went wrong on the wire, in words that hold no address."""
    seen = behind(error)
    names = {type(e).__name__ for e in seen}
    for name, words in _REASONS.items():
        if name in names:
            return words
    system = next((e for e in reversed(seen) if isinstance(e, OSError) and e.strerror), None)
    if system is None:
        return "the answer broke off" if "ProtocolError" in names else "the connection failed"
    return f"the connection failed: {system.strerror}"


def guarded(kind: type[_C]) -> type[_C]:
    """Make every public method of a class end in a result or in one of our errors.

    The class has a `redactor`; a failure that was foreseen nowhere is told by its kind and its text without secrets.
    """
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
        except FOREIGN as error:
            failure = _unforeseen(error, method.__name__, self.redactor)
        # Outside the handler, so that the library's exception, whose text may hold an address, is not attached.
        raise failure

    return guard


def _unforeseen(error: BaseException, doing: str, redactor: Redactor) -> errors.EnterpriseError:
    if isinstance(error, OSError) and error.errno is not None:
        what = f"`{doing}` could not read or write on the disk ({error.strerror}). What was there is kept."
        if files.is_full(error):
            return errors.DiskFull(f"{what} Make room and run this again.")
        return errors.StateError(f"{what} Check the data folder and its permissions and run this again.")
    told = redactor.clean(f"{type(error).__name__}: {error}")[:_LONGEST_TOLD]
    return errors.UnexpectedAnswer(
        f"`{doing}` met something that cannot be worked with ({told}). What was fetched before is kept. If the address of "
        "the service is right, its interface has changed and this client needs an update."
    )
