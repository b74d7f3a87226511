"""Where files of the archive and the lake lie below a data folder.

Belongs here: pure arithmetic on paths. Does not belong here: looking at the disk, making or removing anything.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")

#: Hex digits of a version or digest that stand in a file name.
_NAME_DIGITS = 8


@dataclass(frozen=True)
class Layout:
    """The paths below one data folder.

    Names hold the version of the archive or the digest of the conversion, so a file is written once and never
    replaced: whatever is new has a name of its own.
    """

    root: Path

    @property
    def archive(self) -> Path:
        """Folder of what the service sent, byte for byte."""
        return self.root / "archive"

    @property
    def lake(self) -> Path:
        """Folder of the Parquet files."""
        return self.root / "lake"

    def archive_hour(self, hour: datetime) -> Path:
        """Folder of one hour's batch archives."""
        return self.archive / "batches" / _hour_folders(hour)

    def batch_archive(self, hour: datetime, identifier: str, version: str) -> Path:
        """Archive of one batch; a new version upstream is a new file."""
        return self.archive_hour(hour) / f"{_safe(identifier)}.{_short(version)}.tar.gz"

    def batch_list(self, hour: datetime) -> Path:
        """The service's list of the hour as it was fetched."""
        return self.archive_hour(hour) / "batches.json"

    def snapshot_archive(self, identifier: str) -> Path:
        """Folder of a snapshot's archives: of all versions, in both forms."""
        return self.archive / "snapshots" / _safe(identifier)

    def reference_archive(self, kind: str) -> Path:
        """A reference list as it was fetched; `kind` is codes, languages, projects or namespaces."""
        return self.archive / "reference" / f"{_safe(kind)}.json"

    def lake_file(self, table: str, hour: datetime, identifier: str, digest: str) -> Path:
        """Parquet file of one table made from one archive of an hour."""
        return self.lake / _safe(table) / _hour_folders(hour) / f"{_safe(identifier)}.{_short(digest)}.parquet"

    def snapshot_file(self, table: str, snapshot: str, version: str, identifier: str, digest: str) -> Path:
        """Parquet file of one table made from one archive of a snapshot's version."""
        folder = self.lake / _safe(table) / _safe(snapshot) / _short(version)
        return folder / f"{_safe(identifier)}.{_short(digest)}.parquet"

    def reference_file(self, table: str, digest: str) -> Path:
        """Parquet file of a reference table."""
        return self.lake / _safe(table) / f"{_safe(table)}.{_short(digest)}.parquet"

    def relative(self, path: Path) -> str:
        """The path as text relative to the data folder, with `/`; raises ValueError for a path outside of it."""
        return path.relative_to(self.root).as_posix()

    def absolute(self, text: str) -> Path:
        """The path that `relative` turned into `text`."""
        return self.root / text


def _hour_folders(hour: datetime) -> Path:
    if hour.tzinfo is None:
        raise ValueError(f"The hour {hour} has no time zone; hours are aware datetimes.")
    start = hour.astimezone(UTC)
    if (start.minute, start.second, start.microsecond) != (0, 0, 0):
        raise ValueError(f"{hour} is not the start of an hour.")
    return Path(f"date={start:%Y-%m-%d}") / f"hour={start:%H}"


def _safe(name: str) -> str:
    """A name that came from outside and becomes part of a path."""
    if not _SAFE.fullmatch(name):
        raise ValueError(f"{name!r} cannot be part of a file name: letters, digits, '_', '-' and '.' can.")
    return name


def _short(digest: str) -> str:
    if len(digest) < _NAME_DIGITS:
        raise ValueError(f"{digest!r} is too short for a version or digest: at least {_NAME_DIGITS} digits are needed.")
    return _safe(digest[:_NAME_DIGITS])
