"""Archives: their places on disk, and the content they must have."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from resources.datasets import AHEAD, ARTICLE_CHANGES, LOOKUPS, SNAPSHOT_ARTICLES, Dataset

if TYPE_CHECKING:
    from datetime import datetime

    from resources.lake.layout import Layout
    from resources.tables import Table


@dataclass(frozen=True)
class Archive:
    """One archive on disk, as the service described it.

    `version` is the service's MD5 of the file. `batch_hour`, `project_id` and `namespace_id` name the content that it
    must have, and `dataset` the kind of its records. Only the archive of a snapshot has no hour.
    """

    path: Path
    identifier: str
    version: str
    batch_hour: datetime | None
    project_id: str
    namespace_id: int
    dataset: Dataset = field(default=ARTICLE_CHANGES, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", Path(self.path))  # callers may pass a string

    @property
    def table(self) -> Table:
        """The table that its records are rows of."""
        return self.dataset.table

    @property
    def given(self) -> dict[str, str | int | datetime]:
        """The columns that the archive knows: they have that value in all of its rows."""
        return {name: getattr(self, name) for name in self.dataset.given}

    @property
    def made_at(self) -> datetime | None:
        """The moment that its records are about; None: not known."""
        return self.batch_hour

    @property
    def latest(self) -> datetime | None:
        """The latest moment that an event of its records may have; None: any."""
        return None if self.made_at is None else self.made_at + AHEAD

    def lake_file(self, layout: Layout, table_name: str, digest: str) -> Path:
        """The Parquet file of one table made from it."""
        if self.batch_hour is None:
            raise ValueError(f"{self.identifier} is of no hour.")
        return layout.lake_file(table_name, self.batch_hour, self.identifier, digest)


@dataclass(frozen=True)
class LookupArchive(Archive):
    """The answers about single pages of one project and namespace that one run received.

    `source_at` is the moment at which that run began.
    """

    batch_hour: None = field(default=None, init=False)
    source_at: datetime
    dataset: Dataset = field(default=LOOKUPS, kw_only=True)

    @property
    def made_at(self) -> datetime | None:
        """The moment that its records are about."""
        return self.source_at

    def lake_file(self, layout: Layout, table_name: str, digest: str) -> Path:
        """The Parquet file of one table made from it."""
        hour = self.source_at.replace(minute=0, second=0, microsecond=0)
        return layout.lake_file(table_name, hour, self.identifier, digest)


@dataclass(frozen=True)
class SnapshotArchive(Archive):
    """One archive of a snapshot: the complete snapshot, or one of its chunks.

    `identifier` and `version` are the archive's, `snapshot_id` and `snapshot_version` the snapshot's. `exported_at`:
    time of the export by the service.
    """

    batch_hour: None = field(default=None, init=False)
    snapshot_id: str
    snapshot_version: str
    exported_at: datetime | None = field(default=None, kw_only=True)
    dataset: Dataset = field(default=SNAPSHOT_ARTICLES, kw_only=True)

    @property
    def made_at(self) -> datetime | None:
        """The moment that its records are about; None: not known."""
        return self.exported_at

    def lake_file(self, layout: Layout, table_name: str, digest: str) -> Path:
        """The Parquet file of one table made from it."""
        return layout.snapshot_file(table_name, self.snapshot_id, self.snapshot_version, self.identifier, digest)
