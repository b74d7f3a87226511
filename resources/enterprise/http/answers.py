"""Responses of the service: read within size limits; their messages, headers and dates.

Source: the service's error body `{"status", "message"}`; its `Date` headers (cached responses also have an `Age`).
"""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Final

import requests
from urllib3.util.retry import Retry

from resources.enterprise import errors
from resources.enterprise.http.bounds import Limits
from resources.formatting import counted

_STEP_BYTES: Final = 1 << 16
#: Maximum length of a plain text that counts as a message, such as `Jwt is expired`.
_LONGEST_TEXT: Final = 100
_NUMBER = re.compile(r"[0-9]{1,18}\Z")
_ETAG = re.compile(r'(W/)?"[\x21\x23-\x7e]{1,1000}"\Z')


class BrokenAnswer(errors.ServiceUnavailable):
    """A response that was cut, empty or a page of HTML: another attempt may succeed at once."""


class NoConnection(BrokenAnswer):
    """One attempt to connect to the object store failed."""


class TooLongError(Exception):
    """A response exceeds the size limit of its kind (`limit` bytes)."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.limit = limit


@dataclass(frozen=True)
class Answer:
    """A complete response of the service: headers and decompressed body (for a refusal, only its beginning)."""

    status: int
    body: bytes = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    request_count: int

    @property
    def message(self) -> str | None:
        """Message of the service's error body as it was sent, or a short plain text; None: neither."""
        try:
            found = json.loads(self.body)
        except (ValueError, RecursionError):
            text = self.body[: _LONGEST_TEXT + 1].decode(errors="replace").strip()
            return text if 0 < len(text) <= _LONGEST_TEXT and text.isprintable() and not self.is_html else None
        message = found.get("message") if isinstance(found, dict) else None
        return message if isinstance(message, str) else None

    @property
    def is_html(self) -> bool:
        """The response is a page instead of data, from a load balancer or a captive network."""
        return "html" in self.headers.get("Content-Type", "").lower() or self.body[:1024].lstrip()[:1] == b"<"

    @property
    def retry_after(self) -> float | None:
        """Seconds to wait, from `Retry-After` (a date is compared with the service's clock); None: not stated."""
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
    """Read and decompress the body of a response in bounded steps; for a refusal, only its beginning.

    Raises:
        TooLongError: The body has more than `longest` bytes; the rest was not read.
        urllib3.exceptions.HTTPError: The body broke off, its compression is damaged, or its deadline has passed.
    """
    refused = response.status_code >= 300
    body = bytearray()
    try:
        while piece := response.raw.read(_STEP_BYTES, decode_content=True):
            body += piece
            if len(body) > longest:
                if refused:
                    return bytes(body[:longest])
                raise TooLongError(longest)
    finally:
        response.close()  # no effect after a complete body: its connection is in the pool already
    return bytes(body)


def limit_of(response: requests.Response, limits: Limits, longest: int) -> int:
    return min(longest, limits.refusal_bytes) if response.status_code >= 300 else longest


def requests_of(response: requests.Response) -> int:
    """Count the requests behind a response: urllib3's retries, and a first request refused because of its token."""
    retries = getattr(response.raw, "retries", None)
    repeated = len(retries.history) if isinstance(retries, Retry) else 0
    return 1 + repeated + sum(requests_of(before) for before in response.history)


def number_in(headers: Mapping[str, str], name: str) -> int | None:
    """Parse a header that is a number of bytes or seconds; None if it is absent or invalid."""
    text = headers.get(name, "").strip()
    return int(text) if _NUMBER.match(text) else None


def moment_in(headers: Mapping[str, str], name: str) -> datetime | None:
    """Parse a header that is a date; None if it is absent or invalid."""
    try:
        return parsedate_to_datetime(headers[name]).astimezone(UTC)
    except (KeyError, ValueError, TypeError, OverflowError):
        return None


def etag_in(headers: Mapping[str, str]) -> str | None:
    """Return the ETag, with its quotes; None if it is absent or could not be sent back."""
    text = headers.get("ETag", "")
    return text if _ETAG.match(text) else None


_log = logging.getLogger(__name__)

#: Smaller differences are ignored: responses take time, and clocks are inexact.
TOLERANCE: Final = timedelta(minutes=5)
#: Older cached responses do not show the current time.
_OLDEST: Final = 86_400


class ServiceClock:
    """The `local` clock (aware), compared with the `Date` of every response. Safe for several threads."""

    _logged: Final[set[str]] = set()  # per process: each command has several clients

    def __init__(self, local: Callable[[], datetime]) -> None:
        self.local = local
        self.ahead = timedelta(0)

    def heard(self, headers: Mapping[str, str]) -> None:
        """Compare the clocks by a new response; a difference of minutes is logged as a warning, once."""
        moment = moment_in(headers, "Date")
        age = number_in(headers, "Age") or 0
        if moment is None or age > _OLDEST:
            return
        ahead = self.local() - moment - timedelta(seconds=age)
        self.ahead = ahead if abs(ahead) >= TOLERANCE else timedelta(0)
        if self.is_wrong and (problem := self.problem) not in self._logged:
            self._logged.add(problem)
            _log.warning(
                "%sIt determines hours and the expiry of tokens: correct it (time synchronization).", self.remark
            )

    @property
    def is_wrong(self) -> bool:
        return bool(self.ahead)

    @property
    def problem(self) -> str:
        """Describe the difference, without a full stop."""
        way = "ahead of" if self.ahead > timedelta(0) else "behind"
        return f"the clock of this machine is {_spoken(abs(self.ahead))} {way} the service's"

    @property
    def remark(self) -> str:
        """The difference as a sentence with a trailing blank, for the start of a message; empty if there is none."""
        return f"{self.problem[0].upper()}{self.problem[1:]}. " if self.is_wrong else ""

    def now(self) -> datetime:
        """Return the current time of the service, as far as it is known."""
        return self.local() - self.ahead


def _spoken(span: timedelta) -> str:
    """Format a duration in its largest unit, so that a drifting difference is logged once."""
    span += timedelta(seconds=30)  # round up: a response takes time, and three days less a second are three days
    for unit, length in (("day", timedelta(days=1)), ("hour", timedelta(hours=1)), ("minute", timedelta(minutes=1))):
        number = span // length
        if number:
            return counted(number, unit)
    return "less than a minute"
