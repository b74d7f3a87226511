"""Deterministic chance, and records on the wire: JSON as the service's encoder writes it.

The same parts always draw the same numbers, in every process and on every machine: nothing depends on the order of a
dictionary, on Python's salted `hash` or on the clock. `<`, `>`, `&` and the line separators are escaped, as Go's
encoder does. A part that many lines share is encoded once and put into each line as a fragment.
"""

from __future__ import annotations

import hashlib
import uuid
from abc import ABC, abstractmethod
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterable

    from resources.sandbox.world.pages import Event


_MASK = (1 << 64) - 1
#: Below this a pool has too few bits left to draw evenly from.
_DRY = 1 << 96


def mix(number: int) -> int:
    """Scatter an integer over 64 bits: near numbers give unrelated ones. Cheap enough for every event."""
    number = (number + 0x9E3779B97F4A7C15) & _MASK
    number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) & _MASK
    return number ^ (number >> 31)


def salt(*parts: object) -> int:
    """64 bits that identify the parts."""
    return int.from_bytes(hashlib.blake2b(repr(parts).encode(), digest_size=8).digest(), "little")


class Chance:
    """A source of draws that belongs to its parts. Draws must be made in a fixed order."""

    __slots__ = ("_parts", "_pool", "_round")

    def __init__(self, *parts: object) -> None:
        """Begin the draws of `parts` (integers and text)."""
        self._parts = repr(parts)
        self._round = 0
        self._refill()

    def _refill(self) -> None:
        name = f"{self._round}{self._parts}".encode()
        self._pool = int.from_bytes(hashlib.blake2b(name, digest_size=64).digest(), "little")
        self._round += 1

    def below(self, limit: int) -> int:
        """An integer in [0, limit)."""
        if self._pool < _DRY:
            self._refill()
        self._pool, drawn = divmod(self._pool, limit)
        return drawn

    def unit(self) -> float:
        """A number in [0, 1)."""
        return self.below(1 << 32) / (1 << 32)

    def one_in(self, many: int) -> bool:
        """True once in `many` draws."""
        return self.below(many) == 0


SECOND = 1_000_000


def encode(value: Any) -> bytes:
    """Return the value as JSON; fragments in it are included unchanged."""
    line = orjson.dumps(value)
    line = line.replace(b"<", b"\\u003c").replace(b">", b"\\u003e").replace(b"&", b"\\u0026")
    # most lines have no such byte at all, which is found out much faster
    if b"\xe2" in line and (b"\xe2\x80\xa8" in line or b"\xe2\x80\xa9" in line):
        line = line.replace(b"\xe2\x80\xa8", b"\\u2028").replace(b"\xe2\x80\xa9", b"\\u2029")
    return line


def fragment(value: Any) -> orjson.Fragment:
    """The value, encoded once for all the lines that it is a part of."""
    return orjson.Fragment(encode(value))


def inside(text: str) -> bytes:
    """Return a text as it appears inside the quotation marks of a JSON string."""
    return encode(text)[1:-1]


def joined(parts: Iterable[bytes]) -> orjson.Fragment:
    """The string made of parts that `inside` encoded."""
    return orjson.Fragment(b'"' + b"".join(parts) + b'"')


def decode(line: bytes) -> dict[str, Any]:
    """The record that a line holds."""
    record: dict[str, Any] = orjson.loads(line)
    return record


def day(microseconds: int) -> str:
    """A moment as records write dates: RFC 3339 with seconds."""
    return datetime.fromtimestamp(microseconds // SECOND, UTC).isoformat()[:19] + "Z"


def instant(microseconds: int) -> str:
    """A moment as events write it: RFC 3339 with microseconds, trailing zeros dropped."""
    seconds, rest = divmod(microseconds, SECOND)
    fraction = f".{rest:06d}".rstrip("0") if rest else ""
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:19] + fraction + "Z"


class MessageWriter(ABC):
    """Writes the record of each event."""

    def __init__(self, salt: int) -> None:
        """Write records whose free choices follow from `salt`."""
        self._salt = salt

    def record(self, event: Event) -> dict[str, Any]:
        """The record that the event's message holds."""
        return decode(self.line(event))

    def line(self, event: Event) -> bytes:
        """The record as a line of an archive, without the line end."""
        return encode(self._whole(event) if event.type == "update" else self._slim(event))

    @abstractmethod
    def _whole(self, event: Event) -> dict[str, Any]:
        """The record of an update."""

    @abstractmethod
    def _slim(self, event: Event) -> dict[str, Any]:
        """The record of any other event."""

    def _event(self, event: Event) -> dict[str, Any]:
        # both halves of a move share the ordinal, and so the identifier
        bits = mix(event.ordinal ^ self._salt) << 64 | mix(event.ordinal * 5 + self._salt)
        record = {
            "identifier": str(uuid.UUID(int=bits, version=4)),
            "type": event.type,
            "date_created": instant(event.created),
            "date_published": instant(event.published),
        }
        place = {"partition": event.partition, "offset": event.offset}
        # written also where they are 0, unlike other numbers: in an event of the stream alone
        return record | {name: number for name, number in place.items() if number is not None}
