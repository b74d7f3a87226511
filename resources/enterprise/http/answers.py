"""Service responses: size-limited reading, error messages, headers and dates.

Source: the service's error body `{"status", "message"}`, and its `Date` and (if cached) `Age` headers.
"""

import json
import logging
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Final

import requests

from resources.enterprise import errors
from resources.formatting import counted

_STEP_BYTES: Final = 1 << 16
#: Maximum length of a plain-text body that is treated as a message, for example `Jwt is expired`.
_LONGEST_TEXT: Final = 100
_NUMBER = re.compile(r"[0-9]{1,18}\Z")
_ETAG = re.compile(r'(W/)?"[\x21\x23-\x7e]{1,1000}"\Z')


class BrokenAnswer(errors.ServiceUnavailable):
    """The response is truncated, empty or an HTML page, or its status is temporary. An immediate retry may succeed."""

    def final(self, message: str | None = None) -> errors.ServiceUnavailable:
        """Return the error for callers after all retries have failed."""
        kind = errors.UnreachableError if isinstance(self, NoConnection) else errors.ServiceUnavailable
        return kind(message or self.message, status=self.status)


class NoConnection(BrokenAnswer):
    """A connection attempt failed."""


@dataclass(frozen=True)
class Answer:
    """A complete response with headers and decompressed body. Only the first bytes of a refusal's body are included."""

    status: int
    body: bytes = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    request_count: int

    @property
    def message(self) -> str | None:
        """Message from the service's error body or from a short plain-text body, or None if there is no message."""
        try:
            found = json.loads(self.body)
        except (ValueError, RecursionError):
            text = self.body[: _LONGEST_TEXT + 1].decode(errors="replace").strip()
            return text if 0 < len(text) <= _LONGEST_TEXT and text.isprintable() and not self.is_html else None
        message = found.get("message") if isinstance(found, dict) else None
        return message if isinstance(message, str) else None

    @property
    def is_html(self) -> bool:
        """True if the response is an HTML page, for example from a load balancer or a captive portal."""
        return "html" in self.headers.get("Content-Type", "").lower() or self.body[:1024].lstrip()[:1] == b"<"

    @property
    def retry_after(self) -> float | None:
        """Seconds to wait according to `Retry-After`, or None. Dates are compared with the service's clock."""
        try:
            asked = float(self.headers["Retry-After"])
        except KeyError:
            return None
        except ValueError:
            moment = moment_in(self.headers, "Retry-After")
            now = moment_in(self.headers, "Date") or datetime.now(UTC)
            return None if moment is None else (moment - now).total_seconds()
        return asked if math.isfinite(asked) else None


def read_body(response: requests.Response, longest: int) -> bytes:
    """Read and decompress a response body, in bounded steps, until it ends or has more than `longest` bytes."""
    body = bytearray()
    try:
        while len(body) <= longest and (piece := response.raw.read(_STEP_BYTES, decode_content=True)):
            body += piece
    finally:
        response.close()  # no effect after a complete body, whose connection is already in the pool
    return bytes(body)


def number_in(headers: Mapping[str, str], name: str) -> int | None:
    """Parse a header that contains a number of bytes or seconds. Return None if the header is absent or invalid."""
    text = headers.get(name, "").strip()
    return int(text) if _NUMBER.match(text) else None


def moment_in(headers: Mapping[str, str], name: str) -> datetime | None:
    """Parse a header that contains a date. Return None if the header is absent or invalid."""
    try:
        return parsedate_to_datetime(headers[name]).astimezone(UTC)
    except (KeyError, ValueError, TypeError, OverflowError):
        return None


def etag_in(headers: Mapping[str, str]) -> str | None:
    """Return the ETag including its quotes, or None if the ETag is absent or cannot be sent in a request header."""
    text = headers.get("ETag", "")
    return text if _ETAG.match(text) else None


_log = logging.getLogger(__name__)

#: Minimum difference that is reported. Smaller differences are normal, because responses take time.
TOLERANCE: Final = timedelta(minutes=5)
#: Maximum age of a cached response whose time is used.
_OLDEST: Final = 86_400


class ServiceClock:
    """Estimate of the service's time from the `local` clock and the `Date` headers of responses. Thread-safe."""

    _logged: Final[set[str]] = set()  # per process, because each command has several clients

    def __init__(self, local: Callable[[], datetime] | None) -> None:
        self.local = local or partial(datetime.now, UTC)
        self.ahead = timedelta(0)

    def heard(self, headers: Mapping[str, str]) -> None:
        """Compare the local clock with the service's clock. A difference of minutes is logged once as a warning."""
        moment = moment_in(headers, "Date")
        age = number_in(headers, "Age") or 0
        if moment is None or age > _OLDEST:
            return
        ahead = self.local() - moment - timedelta(seconds=age)
        self.ahead = ahead if abs(ahead) >= TOLERANCE else timedelta(0)
        if self.ahead and (problem := self.problem) not in self._logged:
            self._logged.add(problem)
            _log.warning(
                "%sHours and token lifetimes depend on the clock: correct it (time synchronization).", self.remark
            )

    @property
    def problem(self) -> str:
        """Clock difference as a clause without a full stop."""
        way = "ahead of" if self.ahead > timedelta(0) else "behind"
        return f"this machine's clock is {_spoken(abs(self.ahead))} {way} the service's"

    @property
    def remark(self) -> str:
        """Clock difference as a sentence with a trailing space, for the start of a message, or "" if there is none."""
        return f"{self.problem[0].upper()}{self.problem[1:]}. " if self.ahead else ""

    def now(self) -> datetime:
        """Return the service's current time, as far as the client can determine it."""
        return self.local() - self.ahead


def _spoken(span: timedelta) -> str:
    """Format a duration in its largest unit. The coarse unit prevents repeated warnings about a drifting clock."""
    span += timedelta(seconds=30)  # round up, because a response takes time
    for unit, length in (("day", timedelta(days=1)), ("hour", timedelta(hours=1)), ("minute", timedelta(minutes=1))):
        if number := span // length:
            return counted(number, unit)
    return "less than a minute"
