"""Archive and lake paths in a data folder, and descriptions of the archives and their content."""

from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from pathlib import Path

from resources.datasets import AHEAD, ARTICLE_CHANGES, Dataset
from resources.datasets.paths import PARQUET, hour_folder, name_of, safe, short
from resources.storage import LOCAL, Storage
from resources.tables import Table


@dataclass(frozen=True)
class Layout:
    """Paths in a data folder, and the storage of its lake. `resources.datasets.paths` defines the file names."""

    root: Path
    storage: Storage = field(default=LOCAL, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "root", Path(self.root))  # callers may pass a string

    @property
    def archive(self) -> Path:
        """Folder with the service's unmodified files."""
        return self.root / "archive"

    @property
    def lake(self) -> Path:
        """Folder with the Parquet files."""
        return self.root / "lake"

    def archive_hour(self, dataset: Dataset, hour: datetime) -> Path:
        """Folder with an hour's archives."""
        return self.archive / dataset.archive / hour_folder(hour)

    def batch_archive(self, dataset: Dataset, hour: datetime, identifier: str, version: str) -> Path:
        """Path of an hourly archive. Each version from the service is a separate file."""
        return self.archive_hour(dataset, hour) / name_of(identifier, version)

    def batch_list(self, dataset: Dataset, hour: datetime) -> Path:
        """Path of an hour's unmodified batch listing."""
        return self.archive_hour(dataset, hour) / f"{dataset.archive}.json"

    def snapshot_archive(self, dataset: Dataset, identifier: str) -> Path:
        """Folder with a snapshot's archives, for all versions and chunks."""
        return self.archive / dataset.archive / safe(identifier)

    def list_archive(self, dataset: Dataset) -> Path:
        """Path of an unmodified reference list."""
        return self.archive / dataset.archive / f"{dataset.name}.json"

    def compacted_folder(self, table: str) -> Path:
        """Folder with a table's compacted files."""
        return self.lake / "compacted" / safe(table)

    def relative(self, path: Path) -> str:
        """Return the path relative to the data folder, with `/` separators. Raises ValueError for other paths."""
        return path.relative_to(self.root).as_posix()

    def absolute(self, text: str) -> Path:
        """Convert a string from `relative` back to a path."""
        return self.root / text


@dataclass(frozen=True)
class Archive:
    """An archive on disk, with the service's description of its content.

    `version` is the MD5 reported by the service. All records must have the archive's `project_id` and `namespace_id`.
    `dataset` determines the record type. Only hourly archives have a `batch_hour`. Only archives of page lookups have a
    `source_at`, which is the start of the run that received the responses. An archive of a complete snapshot or a chunk
    has the snapshot's identifier and version, and the export time if known.
    """

    path: Path
    identifier: str
    version: str
    batch_hour: datetime | None
    project_id: str
    namespace_id: int
    _: KW_ONLY
    dataset: Dataset = ARTICLE_CHANGES
    source_at: datetime | None = None
    snapshot_id: str = ""
    snapshot_version: str = ""
    exported_at: datetime | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", Path(self.path))  # callers may pass a string

    @property
    def table(self) -> Table:
        return self.dataset.table

    @property
    def given(self) -> dict[str, str | int | datetime]:
        """Values that the archive determines for all its rows, by column."""
        return {name: getattr(self, name) for name in self.dataset.given}

    @property
    def latest(self) -> datetime | None:
        """Latest allowed event time of the records, or None if any time is allowed."""
        made_at = self.batch_hour or self.source_at or self.exported_at
        return None if made_at is None else made_at + AHEAD

    def lake_file(self, layout: Layout, table_name: str, digest: str) -> Path:
        """Path of a table's Parquet file for this archive. Raises ValueError without an hour, run and snapshot."""
        if self.snapshot_id:
            folder = f"{safe(self.snapshot_id)}/{short(self.snapshot_version)}"
        elif self.source_at is not None:
            folder = hour_folder(self.source_at.replace(minute=0, second=0, microsecond=0))
        elif self.batch_hour is not None:
            folder = hour_folder(self.batch_hour)
        else:
            raise ValueError(f"{self.identifier} has no hour.")
        return layout.lake / safe(table_name) / folder / name_of(self.identifier, digest, PARQUET)
