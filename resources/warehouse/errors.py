"""Errors of the warehouse, each as a sentence (what happened, what was kept, what to do), and faulty lake files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from resources.errors import DiskFullError, MirrorError
from resources.formatting import counted

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime


class WarehouseError(MirrorError):
    """Something the warehouse could not do."""


class WarehouseBusyError(WarehouseError):
    """Another process held the warehouse for longer than this one was willing to wait."""

    retryable = True
    ends_run = True
    unavailable = "warehouse"


class WarehouseFullError(WarehouseError, DiskFullError):
    """The disk or the memory was not enough; the transaction was rolled back."""


class WarehouseDamagedError(WarehouseError):
    """DuckDB cannot read the build file."""

    ends_run = True
    unavailable = "warehouse"


class WarehouseVersionError(WarehouseError):
    """The build file was made for other tables than the ones declared now."""

    ends_run = True
    unavailable = "warehouse"


class LakeFileError(WarehouseError):
    """A lake file is absent, or holds something else than what was said about it."""


class QueryError(WarehouseError):
    """DuckDB could not answer a query on the published file, or not open the file."""


class NotPublishedError(WarehouseError):
    """There is no published file to read yet."""

    retryable = True


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
