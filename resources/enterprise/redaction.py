"""Keeps secrets and control characters out of every text that leaves the client."""

from __future__ import annotations

import logging
import re

_HIDDEN = "[hidden]"
# Written so that a text made for it takes no longer than another: each begins at one place of a run only.
_JWT = re.compile(r"(?<![\w-])[\w-]{8,}\.[\w-]{8,}\.[\w-]{8,}")
_BEARER = re.compile(r"(?i)\b(bearer\s+)[^\s\"'<>,;]+")
_RUN = re.compile(r"[^\s\"'<>]+")
_ANY_QUERY = re.compile(r"\?[^\s\"'<>)]+")

#: Shorter values are too likely to be part of ordinary words.
_SHORTEST_SECRET = 6

#: Of the HTTP library's log.
_LONGEST_LINE = 1_000

#: Loggers of the HTTP library that print the path and query of requests.
_TALKATIVE = (
    "urllib3.connection",
    "urllib3.connectionpool",
    "urllib3.poolmanager",
    "urllib3.response",
    "urllib3.util.retry",
)


class Redactor:
    """Removes the secrets it was told, and whatever looks like one, from a text."""

    def __init__(self) -> None:
        self._known: frozenset[str] = frozenset()

    def learn(self, *secrets: str | None) -> None:
        """Remember values that must never be shown."""
        self._known |= {s for s in secrets if s and len(s) >= _SHORTEST_SECRET}

    def clean(self, text: str) -> str:
        """The text without secrets."""
        for secret in sorted(self._known, key=len, reverse=True):
            text = text.replace(secret, _HIDDEN)
        text = without_queries(text)
        text = _BEARER.sub(rf"\1{_HIDDEN}", text)
        return _JWT.sub(_HIDDEN, text)


def without_queries(text: str) -> str:
    """A text whose addresses have no query: that of a signed address is a key."""
    return _RUN.sub(_without_query, text)


def _without_query(run: re.Match[str]) -> str:
    address, mark, _ = run[0].partition("?")
    return f"{address}?{_HIDDEN}" if mark and "://" in address else run[0]


def printable(text: str, longest: int) -> str:
    """A text as one line that a terminal only shows: whatever it could obey or hide as an escape, cut to a length."""
    text = text[: longest + 1]  # a message of megabytes is not worth the work
    if not text.isprintable():
        text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return text if len(text) <= longest else text[: longest - 3] + "..."


class _QueriesHidden(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        if str(record.msg).startswith("Retrying ("):
            return False  # a line for every attempt; the transport says once what fails
        record.msg = printable(_JWT.sub(_HIDDEN, _ANY_QUERY.sub(f"?{_HIDDEN}", record.getMessage())), _LONGEST_LINE)
        record.args = ()
        record.exc_info = record.exc_text = None  # it repeats the message, and names the address
        return True


_FILTER = _QueriesHidden()


def hide_queries_in_http_log() -> None:
    """Make the HTTP library's log show addresses without their query: the query of a signed address is a key.

    Safe to call often; the filter is attached once per logger and also holds for log levels switched on later.
    """
    for name in _TALKATIVE:
        logging.getLogger(name).addFilter(_FILTER)
