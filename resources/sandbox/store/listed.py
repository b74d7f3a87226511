"""What the service lists: records, each with the file that it hands out for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@dataclass(frozen=True)
class Piece:
    """A file that the service hands out: of an hour, a snapshot or a chunk.

    Attributes:
        record: The record that the service lists.
        version: The MD5 of the archive.
        size: Its bytes.
    """

    record: dict[str, Any]
    version: str
    size: int
    _place: Path
    _make_again: Callable[[], object]

    @property
    def path(self) -> Path:
        """The archive. It is made again, byte for byte, if it was removed since."""
        if not self._place.exists():
            self._make_again()
        return self._place


@dataclass(frozen=True)
class Snapshot(Piece):
    """An export of a project's namespace: the whole archive, and the same lines in chunks."""

    chunks: tuple[Piece, ...]
