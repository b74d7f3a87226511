"""What a dataset is made of."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from resources.tables import Table


#: How long the service keeps the files of an hour.
RETENTION: Final = timedelta(hours=48)


class Family(enum.StrEnum):
    """The kinds of endpoints that a dataset can come from, each with its own partitions."""

    LIST = "list"  # one JSON array, replaced as a whole; no partitions
    HOURLY = "hourly"  # an archive per project and namespace, listed hour by hour; partitioned by hour
    SNAPSHOT = "snapshot"  # an archive, or chunks, per project and namespace; partitioned by the snapshot's identifier


@dataclass(frozen=True, eq=False)  # each dataset is declared once, so it equals itself alone
class Dataset:
    """One dataset of the service.

    Attributes:
        table: What its records become, in the lake and in the warehouse; the dataset has the table's name.
        family: Kind of its endpoints.
        endpoint: Path of its endpoints below `/v2/`, for example `batches`.
        archive: Folder below `archive/`, and the last part of the key of its archive asset. Lists share `reference`.
        description: What the archive asset holds, for people.
        is_chunked: Snapshots only: the service offers them in chunks as well.
        quota: Counter of `get-user` that a file draws on; None: files are free.
        chunk_quota: The same for a chunk.
    """

    table: Table
    family: Family
    endpoint: str
    archive: str
    description: str
    is_chunked: bool = False
    quota: str | None = None
    chunk_quota: str | None = None

    @property
    def name(self) -> str:
        """The name of the dataset: its table's."""
        return self.table.name
