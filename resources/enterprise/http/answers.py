"""Answers of the service: read within their limits, and what they say of themselves and of the time.

Source: the service's error body `{"status", "message"}`; its `Date` headers (answers of a cache also have an `Age`).
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
#: Characters of a text that is taken for a message, such as `Jwt is expired`.
_LONGEST_TEXT: Final = 100
_NUMBER = re.compile(r"[0-9]{1,18}\Z")
_ETAG = re.compile(r'(W/)?"[\x21\x23-\x7e]{1,1000}"\Z')


class BrokenAnswer(errors.ServiceUnavailable):
    """An answer that was cut, empty or a page of HTML: worth another attempt at once."""


class NoConnection(BrokenAnswer):
    """One attempt to connect to the object store failed."""


class TooLongError(Exception):
    """An answer is longer than any of its kind may be (`limit` bytes)."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.limit = limit


@dataclass(frozen=True)
class Answer:
    """A complete answer of the service: its decompressed body (of a refusal only the beginning) and headers."""

    status: int
    body: bytes = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    request_count: int

    @property
    def message(self) -> str | None:
        """The message of the service's error body as it was sent, or a short text alone; None: neither."""
        try:
            found = json.loads(self.body)
        except (ValueError, RecursionError):
            text = self.body[: _LONGEST_TEXT + 1].decode(errors="replace").strip()
            return text if 0 < len(text) <= _LONGEST_TEXT and text.isprintable() and not self.is_html else None
        message = found.get("message") if isinstance(found, dict) else None
        return message if isinstance(message, str) else None

    @property
    def is_html(self) -> bool:
        """A page was sent instead of data, by a load balancer or a captive network."""
        return "html" in self.headers.get("Content-Type", "").lower() or self.body[:1024].lstrip()[:1] == b"<"

    @property
    def retry_after(self) -> float | None:
        """Seconds to wait, from `Retry-After` (a date is compared with the service's clock); None: it states none."""
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
    """The body of an answer, decompressed in bounded steps; of one that is no success only the beginning.

    Raises:
        TooLongError: It has more than `longest` bytes; the rest was not read.
        urllib3.exceptions.HTTPError: The body broke off, its compression is damaged, or its time was over.
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
        response.close()  # a connection whose answer was read to its end is in the pool already
    return bytes(body)


def limit_of(response: requests.Response, limits: Limits, longest: int) -> int:
    return min(longest, limits.refusal_bytes) if response.status_code >= 300 else longest


def requests_of(response: requests.Response) -> int:
    """Requests behind an answer: urllib3's retries, and a first one that was refused for its token."""
    retries = getattr(response.raw, "retries", None)
    repeated = len(retries.history) if isinstance(retries, Retry) else 0
    return 1 + repeated + sum(requests_of(before) for before in response.history)


def number_in(headers: Mapping[str, str], name: str) -> int | None:
    """A header that is a number of bytes or seconds, None where it is absent or nothing of the kind."""
    text = headers.get(name, "").strip()
    return int(text) if _NUMBER.match(text) else None


def moment_in(headers: Mapping[str, str], name: str) -> datetime | None:
    """A header that is a moment, None where it is absent or none."""
    try:
        return parsedate_to_datetime(headers[name]).astimezone(UTC)
    except (KeyError, ValueError, TypeError, OverflowError):
        return None


def etag_in(headers: Mapping[str, str]) -> str | None:
    """The ETag, with its quotes; None where it is absent, or could not be sent back."""
    text = headers.get("ETag", "")
    return text if _ETAG.match(text) else None


_log = logging.getLogger(__name__)

#: A smaller difference is none: answers take time, and so do clocks.
TOLERANCE: Final = timedelta(minutes=5)
#: Older answers of a cache say nothing about the present.
_OLDEST: Final = 86_400


class ServiceClock:
    """The `local` clock (aware), compared with the `Date` of every answer. Safe for several threads."""

    _logged: Final[set[str]] = set()  # by this process: each command has several clients

    def __init__(self, local: Callable[[], datetime]) -> None:
        self.local = local
        self.ahead = timedelta(0)

    def heard(self, headers: Mapping[str, str]) -> None:
        """Compare with an answer that has just come; a difference of minutes is a warning, once."""
        moment = moment_in(headers, "Date")
        age = number_in(headers, "Age") or 0
        if moment is None or age > _OLDEST:
            return
        ahead = self.local() - moment - timedelta(seconds=age)
        self.ahead = ahead if abs(ahead) >= TOLERANCE else timedelta(0)
        if self.is_wrong and (problem := self.problem) not in self._logged:
            self._logged.add(problem)
            _log.warning(
                "%sHours and the ends of tokens are reckoned from it: set it right (time synchronization).", self.remark
            )

    @property
    def is_wrong(self) -> bool:
        return bool(self.ahead)

    @property
    def problem(self) -> str:
        """The difference in words, without a full stop."""
        way = "ahead of" if self.ahead > timedelta(0) else "behind"
        return f"the clock of this machine is {_spoken(abs(self.ahead))} {way} the service's"

    @property
    def remark(self) -> str:
        """The difference as a sentence to stand before others, with a blank; nothing where there is none."""
        return f"{self.problem[0].upper()}{self.problem[1:]}. " if self.is_wrong else ""

    def now(self) -> datetime:
        """Return the current time of the service, as far as it is known."""
        return self.local() - self.ahead


def _spoken(span: timedelta) -> str:
    """Return a span in its largest unit, so that a difference that drifts is logged once."""
    span += timedelta(seconds=30)  # an answer takes time, and three days less a second are three days
    for unit, length in (("day", timedelta(days=1)), ("hour", timedelta(hours=1)), ("minute", timedelta(minutes=1))):
        number = span // length
        if number:
            return counted(number, unit)
    return "less than a minute"
