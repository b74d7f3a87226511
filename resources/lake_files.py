"""Records of files of the lake, which conversions return and the warehouse loads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path


@dataclass(frozen=True)
class Drift:
    """A field without a column: its path, the number of its occurrences, and one of its values as JSON."""

    path: str
    count: int
    example: str


@dataclass(frozen=True, kw_only=True)
class ConvertedFile:
    """A Parquet file of the lake with the rows of one archive.

    Paths are absolute. Equal digests mean equal rows: they cover the archive's version and the converter's.

    Attributes:
        path: Parquet file of the rows.
        rejects_path: Parquet file of the rejected records; None if there are none.
        identifier: Identifier of the archive.
        version: Version of the archive, its MD5.
        batch_hour: Hour of an hourly batch; None for other archives.
        source_at: Start of the run that looked pages up; None for other archives.
        update_count: Rows of this change type; 0 where the table has no change types, as are the next two.
        remarks: Sentences about members of the archive that hold no records.
        drift: Fields that were stored in `extra`.
        seconds: Duration of the conversion; 0 if the file existed.
        converted: Whether this conversion wrote the file.
    """

    path: Path
    rejects_path: Path | None
    identifier: str
    version: str
    digest: str
    row_count: int
    reject_count: int
    update_count: int
    delete_count: int
    visibility_change_count: int
    archive_bytes: int
    ndjson_bytes: int
    lake_bytes: int
    project_id: str = ""
    namespace_id: int = 0
    batch_hour: datetime | None = None
    source_at: datetime | None = None
    drift: tuple[Drift, ...] = ()
    remarks: tuple[str, ...] = ()
    seconds: float = 0.0
    converted: bool = False
