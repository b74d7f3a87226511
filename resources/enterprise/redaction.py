"""Keeps secrets and control characters out of every text that leaves the client."""

from __future__ import annotations

import re

_HIDDEN = "[hidden]"
# Written so that a text made for it takes no longer than another: each begins at one place of a run only.
_JWT = re.compile(r"(?<![\w-])[\w-]{8,}\.[\w-]{8,}\.[\w-]{8,}")
_BEARER = re.compile(r"(?i)\b(bearer\s+)[^\s\"'<>,;]+")
_RUN = re.compile(r"[^\s\"'<>]+")
_ANY_QUERY = re.compile(r"\?[^\s\"'<>)]+")

#: Shorter values are too likely to be part of ordinary words.
_SHORTEST_SECRET = 6


class Redactor:
    """Removes known secrets, and whatever looks like one, from a text."""

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
    """A text whose addresses have no query: that of a signed URL is a key."""
    return _RUN.sub(_without_query, text)


def _without_query(run: re.Match[str]) -> str:
    address, mark, _ = run[0].partition("?")
    return f"{address}?{_HIDDEN}" if mark and "://" in address else run[0]


def without_any_query(text: str) -> str:
    """Return a text without queries, of addresses without a host too, and without tokens."""
    return _JWT.sub(_HIDDEN, _ANY_QUERY.sub(f"?{_HIDDEN}", text))
