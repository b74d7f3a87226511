"""Versions of snapshots as units of compaction: all files of one become few, whole or not at all.

Rows that are masked in a version depend only on its files. So the compaction leaves them out for good, and deletes the
notes of their positions.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from resources.datasets.paths import short
from resources.warehouse.compaction.spans import is_worth
from resources.warehouse.database.connect import answer
from resources.warehouse.database.sql import statement

if TYPE_CHECKING:
    from datetime import datetime

    import duckdb

    from resources.datasets import Dataset
# The versions of snapshots whose rows are in the files of their archives, the one loaded last first.
_VERSIONS = """
SELECT snapshot_id, snapshot_version, count(*) AS file_count, CAST(sum(lake_bytes) AS BIGINT) AS lake_bytes
FROM (SELECT * EXCLUDE (row_count, duplicate_count, applied_at) FROM snapshots) AS version
JOIN (SELECT * EXCLUDE (loaded_at) FROM loads WHERE row_count > 0 AND compaction_id IS NULL) AS file
  USING (table_name, source_at, project_id, namespace_id)
WHERE table_name = $table
GROUP BY ALL
ORDER BY any_value(loaded_at) DESC, snapshot_id, snapshot_version
"""


@dataclass(frozen=True)
class VersionMerge:
    """The files of a version, to be compacted together.

    Attributes:
        file_count: Files to read.
        lake_bytes: Bytes to read.
    """

    snapshot_id: str
    snapshot_version: str
    file_count: int
    lake_bytes: int

    #: In `compacted_files`.
    span = "snapshot"
    first_hour = None
    end_hour = None

    @property
    def name(self) -> str:
        """Prefix of the names of its files."""
        return self.snapshot_id

    @property
    def label(self) -> str:
        """Name for messages."""
        return f"version {short(self.snapshot_version)} of {self.snapshot_id}"


@dataclass(frozen=True)
class VersionFiles:
    """Current files of a version, unless it was dropped or compacted meanwhile.

    Attributes:
        files: Path, rows and places of the rows that are passed over, of each file that has rows.
        digest: Digest over the digests of all its files.
        source_at: Of its rows.
        row_count: Rows that are not passed over.
    """

    files: tuple[tuple[str, int, tuple[int, ...]], ...]
    digest: str
    source_at: datetime
    project_id: str
    namespace_id: int
    row_count: int


def planned(connection: duckdb.DuckDBPyConnection, dataset: Dataset, file_bytes: int) -> list[VersionMerge]:
    """The kept versions that are worth it, the one loaded last first."""
    found = (VersionMerge(*row) for row in answer(connection, _VERSIONS, {"table": dataset.name}))
    return [merge for merge in found if is_worth(merge.file_count, merge.lake_bytes, file_bytes)]


def loaded(connection: duckdb.DuckDBPyConnection, dataset: Dataset, merge: VersionMerge) -> VersionFiles | None:
    """Return the files of the version; None if it was dropped or is compacted."""
    rows = answer(connection, statement("compaction/version"), _key(dataset, merge))
    if not rows:
        return None
    _, _, _, _, _, source_at, project, namespace = rows[0]
    return VersionFiles(
        files=tuple((path, count, tuple(passed)) for path, count, _, passed, *_ in rows if count),
        digest=hashlib.sha256(" ".join(digest for _, _, _, _, digest, *_ in rows).encode()).hexdigest(),
        source_at=source_at,
        project_id=project,
        namespace_id=namespace,
        row_count=sum(count - duplicates for _, count, duplicates, *_ in rows),
    )


def take(
    connection: duckdb.DuckDBPyConnection, dataset: Dataset, merge: VersionMerge, digest: str, compaction_id: str
) -> bool:
    """Switch the version to the files of a compaction, inside a transaction.

    Return False, and change nothing, if the version is no longer loaded from the files of this digest.
    """
    now = loaded(connection, dataset, merge)
    if now is None or now.digest != digest:
        return False
    connection.execute(
        "UPDATE loads SET compaction_id = ? WHERE (table_name, source_at, project_id, namespace_id) = (?, ?, ?, ?)",
        [compaction_id, dataset.name, now.source_at, now.project_id, now.namespace_id],
    )
    show_left_out(connection, compaction_id)
    return True


def show_left_out(connection: duckdb.DuckDBPyConnection, compaction_id: str) -> None:
    """Delete the notes of repeated rows in the original files of a compaction, inside a transaction.

    The new files do not contain these rows.
    """
    connection.execute(
        "DELETE FROM internal.hidden_rows WHERE reason = 'repeated' "
        "AND lake_path IN (SELECT lake_path FROM loads WHERE compaction_id = ?)",
        [compaction_id],
    )


def _key(dataset: Dataset, merge: VersionMerge) -> dict[str, Any]:
    return {
        "table": dataset.name,
        "snapshot_id": merge.snapshot_id,
        "snapshot_version": merge.snapshot_version,
    }
