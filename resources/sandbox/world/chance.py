"""Deterministic chance: the same parts always draw the same numbers, in every process and on every machine.

Nothing here depends on the order of a dictionary, on Python's salted `hash` or on the clock.
"""

from __future__ import annotations

import hashlib

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
