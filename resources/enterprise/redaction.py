"""Keeps secrets out of every text that leaves the client.

Belongs here: replacing passwords, tokens and the query of signed addresses in messages and in the HTTP library's log.
Does not belong here: deciding what to say.
"""

from __future__ import annotations

import logging
import re

_HIDDEN = "[hidden]"
_JWT = re.compile(r"\b[\w-]{8,}\.[\w-]{8,}\.[\w-]{8,}\b")
_BEARER = re.compile(r"(?i)\b(bearer\s+)[^\s\"'<>,;]+")
_URL_QUERY = re.compile(r"(?i)(\bhttps?://[^\s?\"'<>]*)\?[^\s\"'<>]*")
_ANY_QUERY = re.compile(r"\?[^\s\"'<>)]+")

#: Shorter values are too likely to be part of ordinary words.
_SHORTEST_SECRET = 6

#: Loggers of the HTTP library that print the path and query of requests.
_TALKATIVE = ("urllib3.connectionpool", "urllib3.util.retry", "urllib3.poolmanager", "urllib3.response")


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
        text = _URL_QUERY.sub(rf"\1?{_HIDDEN}", text)
        text = _BEARER.sub(rf"\1{_HIDDEN}", text)
        return _JWT.sub(_HIDDEN, text)


class _QueriesHidden(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        if str(record.msg).startswith("Retrying ("):
            return False  # a line for every attempt; the transport says once what fails
        record.msg = _JWT.sub(_HIDDEN, _ANY_QUERY.sub(f"?{_HIDDEN}", record.getMessage()))
        record.args = ()
        return True


_FILTER = _QueriesHidden()


def hide_queries_in_http_log() -> None:
    """Make the HTTP library's log show addresses without their query: the query of a signed address is a key.

    Safe to call often; the filter is attached once per logger and also holds for log levels switched on later.
    """
    for name in _TALKATIVE:
        logging.getLogger(name).addFilter(_FILTER)
