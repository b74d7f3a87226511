"""Records of lake files that are gone or damaged, and of the loads whose rows are in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from resources.formatting import counted

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

#: Files that a message names.
_SHOWN = 5


@dataclass(frozen=True)
class FaultyFile:
    """A lake file that is treated like a missing one.

    Attributes:
        lake_path: Relative to the lake.
        why: The fault, as the end of a sentence about the file.
        is_gone: Nothing is at its path.
        parts: Rows of these loads are in it.
    """

    lake_path: str
    why: str
    is_gone: bool
    parts: tuple[Part, ...] = ()

    def __str__(self) -> str:
        """The file and its fault."""
        return f"{self.lake_path} {self.why}"


@dataclass(frozen=True)
class Part:
    """A load whose rows are in a lake file: of an hour, of a version of a snapshot, or of lookups."""

    table_name: str
    batch_hour: datetime | None
    source_at: datetime
    project_id: str
    namespace_id: int
    snapshot_id: str | None = None
    snapshot_version: str | None = None


def named(faulty: Sequence[FaultyFile]) -> str:
    """The first files with their faults, and how many more there are."""
    more = [f"{counted(len(faulty) - _SHOWN, 'more file')}"] if len(faulty) > _SHOWN else []
    return "; ".join([*map(str, faulty[:_SHOWN]), *more])
