"""Deterministic random numbers, and JSON in the format of the service's encoder.

The same seed parts produce the same numbers in every process and on every machine. Random numbers do not depend on
Python's salted `hash` or on the clock. As in Go's encoder, `<`, `>`, `&` and line separators are escaped. Parts that
many lines share are encoded once and included as fragments.
"""

from __future__ import annotations

import hashlib
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import orjson

from resources.sandbox.world.pages import Event

_MASK = (1 << 64) - 1
#: Minimum pool size. A smaller pool has too few bits for uniform draws.
_DRY = 1 << 96


def mix(number: int) -> int:
    """Hash an integer to 64 bits. Adjacent integers have unrelated hashes. The hash is cheap enough for every event."""
    number = (number + 0x9E3779B97F4A7C15) & _MASK
    number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) & _MASK
    return number ^ (number >> 31)


def salt(*parts: object) -> int:
    return int.from_bytes(hashlib.blake2b(repr(parts).encode(), digest_size=8).digest(), "little")


class Chance:
    """Random number generator whose seed consists of several parts."""

    __slots__ = ("_parts", "_pool", "_round")

    def __init__(self, *parts: object) -> None:
        self._parts = repr(parts)
        self._round = 0
        self._refill()

    def _refill(self) -> None:
        name = f"{self._round}{self._parts}".encode()
        self._pool = int.from_bytes(hashlib.blake2b(name, digest_size=64).digest(), "little")
        self._round += 1

    def below(self, limit: int) -> int:
        """Draw an integer in [0, limit)."""
        if self._pool < _DRY:
            self._refill()
        self._pool, drawn = divmod(self._pool, limit)
        return drawn

    def unit(self) -> float:
        """Draw a number in [0, 1)."""
        return self.below(1 << 32) / (1 << 32)

    def one_in(self, many: int) -> bool:
        """Draw a boolean that is true with probability 1/`many`."""
        return self.below(many) == 0


SECOND = 1_000_000


def encode(value: Any) -> bytes:
    """Encode a value as JSON. Fragments are included unchanged."""
    line = orjson.dumps(value)
    line = line.replace(b"<", b"\\u003c").replace(b">", b"\\u003e").replace(b"&", b"\\u0026")
    # a test for one byte is much faster, and most lines do not contain this byte
    if b"\xe2" in line and (b"\xe2\x80\xa8" in line or b"\xe2\x80\xa9" in line):
        line = line.replace(b"\xe2\x80\xa8", b"\\u2028").replace(b"\xe2\x80\xa9", b"\\u2029")
    return line


def fragment(value: Any) -> orjson.Fragment:
    """Encode a value once for use in many lines."""
    return orjson.Fragment(encode(value))


def inside(text: str) -> bytes:
    """Encode a string as JSON without the quotation marks."""
    return encode(text)[1:-1]


def joined(parts: Iterable[bytes]) -> orjson.Fragment:
    """Join parts that `inside` encoded into one JSON string."""
    return orjson.Fragment(b'"' + b"".join(parts) + b'"')


def decode(line: bytes) -> dict[str, Any]:
    record: dict[str, Any] = orjson.loads(line)
    return record


def day(microseconds: int) -> str:
    """Format a time for a record as RFC 3339 with seconds."""
    return datetime.fromtimestamp(microseconds // SECOND, UTC).isoformat()[:19] + "Z"


def instant(microseconds: int) -> str:
    """Format a time for an event as RFC 3339 with microseconds and without trailing zeros."""
    seconds, rest = divmod(microseconds, SECOND)
    fraction = f".{rest:06d}".rstrip("0") if rest else ""
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:19] + fraction + "Z"


class MessageWriter(ABC):
    def __init__(self, salt: int) -> None:
        self._salt = salt

    def record(self, event: Event) -> dict[str, Any]:
        return decode(self.line(event))

    def line(self, event: Event) -> bytes:
        """Return an event's record as an archive line without the line end."""
        return encode(self._whole(event) if event.type == "update" else self._slim(event))

    @abstractmethod
    def _whole(self, event: Event) -> dict[str, Any]:
        """Return the complete record for an update."""

    @abstractmethod
    def _slim(self, event: Event) -> dict[str, Any]:
        """Return the short record for any other event."""

    def _event(self, event: Event) -> dict[str, Any]:
        # both events of a move have the same ordinal and therefore the same identifier
        bits = mix(event.ordinal ^ self._salt) << 64 | mix(event.ordinal * 5 + self._salt)
        record = {
            "identifier": str(uuid.UUID(int=bits, version=4)),
            "type": event.type,
            "date_created": instant(event.created),
            "date_published": instant(event.published),
        }
        place = {"partition": event.partition, "offset": event.offset}
        # only stream events have a partition and an offset; unlike other numbers, both are written even if they are 0
        return record | {name: number for name, number in place.items() if number is not None}
