"""What an archive is: its place on disk, and what it must hold.

Belongs here: the descriptions that a conversion starts from. Does not belong here: reading one (`tar`, `blocks`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from resources.tables import ARTICLE_CHANGES, SNAPSHOT_ARTICLES

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from resources.lake.layout import Layout
    from resources.tables import Table


@dataclass(frozen=True)
class Archive:
    """One archive of an hour's changes on disk, as the service described it.

    `version` is the service's MD5 of the file; `batch_hour`, `project_id` and `namespace_id` say what it must hold.
    """

    path: Path
    identifier: str
    version: str
    batch_hour: datetime
    project_id: str
    namespace_id: int

    @property
    def table(self) -> Table:
        """The table that its records are rows of."""
        return ARTICLE_CHANGES

    @property
    def given(self) -> dict[str, Any]:
        """The columns that the archive decides for all of its rows."""
        return {"batch_hour": self.batch_hour}

    def lake_file(self, layout: Layout, table_name: str, digest: str) -> Path:
        """The Parquet file of one table made from it."""
        return layout.lake_file(table_name, self.batch_hour, self.identifier, digest)


@dataclass(frozen=True)
class SnapshotArchive(Archive):
    """One archive of a snapshot: the whole, or one of its chunks.

    `identifier` and `version` are its own, `snapshot_id` and `snapshot_version` those of the whole; `batch_hour` is the
    moment at which the service made the snapshot.
    """

    snapshot_id: str
    snapshot_version: str

    @property
    def table(self) -> Table:
        """The table that its records are rows of."""
        return SNAPSHOT_ARTICLES

    @property
    def given(self) -> dict[str, Any]:
        """The columns that the archive decides for all of its rows."""
        return {"snapshot_id": self.snapshot_id, "snapshot_version": self.snapshot_version}

    def lake_file(self, layout: Layout, table_name: str, digest: str) -> Path:
        """The Parquet file of one table made from it."""
        return layout.snapshot_file(table_name, self.snapshot_id, self.snapshot_version, self.identifier, digest)
