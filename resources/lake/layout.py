"""Paths of the archive and the lake below a data folder. They are computed; the disk is not read."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from resources import data_folder
from resources.datasets.paths import PARQUET, hour_folder, name_of, safe, short
from resources.storage import LOCAL

if TYPE_CHECKING:
    from datetime import datetime

    from resources.datasets import Dataset
    from resources.storage import Storage


@dataclass(frozen=True)
class Layout:
    """The paths below one data folder, and the storage of its lake.

    `resources.datasets.paths` builds and parses the file names.
    """

    root: Path
    storage: Storage = field(default=LOCAL, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "root", Path(self.root))  # callers may pass a string

    @property
    def archive(self) -> Path:
        """Folder of what the service sent, byte for byte."""
        return self.root / "archive"

    @property
    def lake(self) -> Path:
        """Folder of the Parquet files."""
        return self.root / "lake"

    @property
    def report(self) -> Path:
        """The page about the mirror."""
        return data_folder.report(self.root)

    def archive_hour(self, dataset: Dataset, hour: datetime) -> Path:
        """Folder of one hour's archives."""
        return self.archive / dataset.archive / hour_folder(hour)

    def batch_archive(self, dataset: Dataset, hour: datetime, identifier: str, version: str) -> Path:
        """One archive of an hour; a new version upstream is a new file."""
        return self.archive_hour(dataset, hour) / name_of(identifier, version)

    def batch_list(self, dataset: Dataset, hour: datetime) -> Path:
        """The service's batch listing as it was fetched."""
        return self.archive_hour(dataset, hour) / f"{dataset.archive}.json"

    def snapshot_archive(self, dataset: Dataset, identifier: str) -> Path:
        """Folder of a snapshot's archives: of all versions, in both forms."""
        return self.archive / dataset.archive / safe(identifier)

    def list_archive(self, dataset: Dataset) -> Path:
        """A list as it was fetched."""
        return self.archive / dataset.archive / f"{dataset.name}.json"

    def lake_file(self, table: str, hour: datetime, identifier: str, digest: str) -> Path:
        """Parquet file of one table made from one archive of an hour."""
        return self.lake / safe(table) / hour_folder(hour) / name_of(identifier, digest, PARQUET)

    def compacted_folder(self, table: str) -> Path:
        """Folder of the compacted files of a table."""
        return self.lake / "compacted" / safe(table)

    def snapshot_folder(self, table: str, snapshot: str, version: str) -> Path:
        """Folder of the Parquet files of one table made from one version of a snapshot."""
        return self.lake / safe(table) / safe(snapshot) / short(version)

    def snapshot_file(self, table: str, snapshot: str, version: str, identifier: str, digest: str) -> Path:
        """Parquet file of one table made from one archive of a snapshot's version."""
        return self.snapshot_folder(table, snapshot, version) / name_of(identifier, digest, PARQUET)

    def list_file(self, table: str, digest: str) -> Path:
        """Parquet file of a table that a list became."""
        return self.lake / safe(table) / name_of(table, digest, PARQUET)

    def relative(self, path: Path) -> str:
        """The path as text relative to the data folder, with `/`; raises ValueError for a path outside of it."""
        return path.relative_to(self.root).as_posix()

    def absolute(self, text: str) -> Path:
        """The path that `relative` turned into `text`."""
        return self.root / text
