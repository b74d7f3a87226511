"""Preparation of compactions, and recording of finished compactions in the ledger.

Files are rewritten without a lock, so the commit compares the inputs with the loaded data. If an hour has been reloaded
since the compaction was prepared, the hour keeps its own file, and its rows in the compacted file are masked. A
snapshot version is committed completely or not at all, and its masked rows are dropped permanently.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa

from resources.datasets import Dataset
from resources.datasets.paths import with_bodies
from resources.lake_files import COMPACTED, CompactedFile, CompactionSource
from resources.storage import LOCAL
from resources.tables import COMPACTED_FILES, LOADS
from resources.tables.declaration import version_of
from resources.warehouse.compaction.plan import Merge
from resources.warehouse.compaction.window import leave
from resources.warehouse.database.connect import Build, answer, raise_revision
from resources.warehouse.database.sql import filled, temporary_table, transaction
from resources.warehouse.load.files import retire
from resources.warehouse.read.lake_parts import window
from resources.warehouse.records import LakeFileError

#: Key of a part: the values that are the same for all rows of an archive (`Dataset.given`). The key of an hourly file
#: is its hour, project and namespace. A snapshot's key is its identifier, version, project and namespace.
Part = tuple[Any, ...]
#: A part's `source_at`, file digests, compaction and row count.
Loaded = tuple[Any, ...]

#: Version of the rewriting code. Increase this number when a change to the code alters the output for the same input.
_VERSION = 4
# Files to compact that still have their rows: of the chosen hours, or of the chosen snapshot version.
_CHOSEN = """
SELECT lake_path, loads.row_count, duplicate_count, digest, compaction_id, source_at, project_id, namespace_id,
  coalesce(snapshot_id, '') AS snapshot_id, coalesce(snapshot_version, '') AS snapshot_version
FROM loads
LEFT JOIN (SELECT * EXCLUDE (row_count, duplicate_count, applied_at, loaded_at) FROM snapshots) AS version
  USING (table_name, source_at, project_id, namespace_id)
WHERE table_name = $table
  AND (compaction_id IN (SELECT unnest(CAST($whole AS VARCHAR[])))
    OR (compaction_id IS NULL AND (lake_path IN (SELECT unnest(CAST($lone AS VARCHAR[])))
      OR (loads.row_count > 0 AND snapshot_id = $snapshot_id AND snapshot_version = $snapshot_version))))
"""
# Lake files that are not compacted, with the positions of repeated rows.
_SINGLE_FILES = """
SELECT lake_path, any_value(row_count) AS row_count,
  coalesce(list(hidden.file_row ORDER BY hidden.file_row) FILTER (WHERE hidden.file_row IS NOT NULL), []) AS file_rows
FROM ({chosen})
LEFT JOIN (FROM internal.hidden_rows WHERE reason = 'repeated') AS hidden USING (lake_path)
WHERE compaction_id IS NULL
GROUP BY lake_path
ORDER BY lake_path
"""
# Compacted files, with their masked parts.
_COMPACTED_FILES = """
SELECT
  file.lake_path,
  any_value(file.row_count) AS row_count,
  list({'batch_hour': part.batch_hour, 'project_id': part.project_id, 'namespace_id': part.namespace_id})
    FILTER (WHERE part.lake_path IS NOT NULL) AS parts
FROM compacted_files AS file
LEFT JOIN (FROM internal.hidden_rows WHERE file_row IS NULL) AS part ON file.lake_path = part.lake_path
WHERE file.compaction_id IN (SELECT unnest(CAST($whole AS VARCHAR[])))
GROUP BY file.lake_path
ORDER BY file.lake_path
"""
_PARTS = """
SELECT snapshot_id, snapshot_version, project_id, namespace_id, source_at,
  string_agg(digest, ' ' ORDER BY lake_path) AS digest, compaction_id,
  CAST(sum(row_count - duplicate_count) AS BIGINT) AS row_count
FROM ({chosen})
GROUP BY ALL
ORDER BY ALL
"""
# Hours before the window keep their rows and files until these hours are applied to `articles`.
_TAKE = """
UPDATE loads
SET compaction_id = $compaction_id
FROM compacting AS part
WHERE part.is_unchanged
  AND loads.table_name = $table
  AND loads.source_at = part.source_at
  AND loads.project_id = part.project_id
  AND loads.namespace_id = part.namespace_id
  AND (loads.compaction_id IS NOT NULL OR loads.applied_at IS NOT NULL OR coalesce(loads.batch_hour >= $window, true))
"""
# Hours that were reloaded or dropped after the compaction was prepared.
_HIDE_GIVEN_UP = """
INSERT INTO internal.hidden_rows
SELECT DISTINCT new.lake_path, NULL, if(loaded.table_name IS NULL, 'dropped', 'reloaded'),
  source_at, part.project_id, part.namespace_id
FROM compacting AS part
LEFT JOIN (FROM loads WHERE table_name = $table) AS loaded USING (source_at, project_id, namespace_id)
CROSS JOIN (SELECT unnest(CAST($paths AS VARCHAR[])) AS lake_path) AS new
WHERE part.row_count > 0 AND loaded.compaction_id IS DISTINCT FROM $compaction_id
"""
_COMPACTING = pa.schema(
    [LOADS.schema.field(name) for name in ("source_at", "project_id", "namespace_id", "row_count")]
    + [("is_unchanged", pa.bool_())]
)


@dataclass(frozen=True)
class Prepared:
    """A prepared compaction. The hexadecimal `digest` covers all inputs that affect the new rows.

    `parts` contains the hours, projects and namespaces, or the snapshot version.
    """

    merge: Merge
    digest: str
    inputs: tuple[CompactionSource, ...]
    parts: Mapping[Part, Loaded]


def prepare_compaction(build: Build, merge: Merge, dataset: Dataset) -> Prepared:
    """Return a compaction's current files and the rows to omit."""
    connection, chosen = build.connection, _chosen(merge, dataset)
    inputs = [
        CompactionSource(path, count, tuple(rows))
        for path, count, rows in answer(connection, filled(_SINGLE_FILES, chosen=_CHOSEN), chosen)
    ]
    inputs += [
        CompactionSource(path, count, dropped_parts=tuple(tuple(part.values()) for part in parts or ()))
        for path, count, parts in answer(connection, _COMPACTED_FILES, {"whole": chosen["whole"]})
    ]
    made_of = [_VERSION, version_of(COMPACTED[dataset.name]), merge.name]
    digest = hashlib.sha256(
        json.dumps([*made_of, [[i.lake_path, i.dropped_parts] for i in inputs]], default=str).encode()
    )
    return Prepared(merge, digest.hexdigest(), tuple(inputs), _parts(connection, chosen))


def _chosen(merge: Merge, dataset: Dataset) -> dict[str, Any]:
    snapshot_id, snapshot_version = merge.version or (None, None)
    return {
        "table": dataset.name,
        "lone": [unit.name for unit in merge.units if unit.span is None],
        "whole": [unit.name for unit in merge.units if unit.span is not None],
        "snapshot_id": snapshot_id,
        "snapshot_version": snapshot_version,
    }


def _parts(connection: duckdb.DuckDBPyConnection, chosen: Mapping[str, Any]) -> dict[Part, Loaded]:
    """Return the chosen parts as they are loaded now. A part's key has the same values as `Dataset.given`."""
    return {
        (*((identifier, version) if identifier else known[:1]), project, namespace): tuple(known)
        for identifier, version, project, namespace, *known in answer(
            connection, filled(_PARTS, chosen=_CHOSEN), chosen
        )
    }


def commit_compaction(
    build: Build, prepared: Prepared, files: Sequence[CompactedFile], row_counts: Mapping[Part, int], dataset: Dataset
) -> int:
    """Switch loaded rows to their compacted files, in one transaction. Return the number of switched parts.

    Parts that were reloaded after `prepare_compaction` keep their own files, and their rows in the new files are
    masked. If a snapshot version was reloaded or dropped, its new files are not recorded. Raises LakeFileError, without
    changing anything, if a new file is missing or the new files do not contain the loaded rows.
    """
    connection, lake_root, now = build
    for path in (path for file in files for path in (file.lake_path, with_bodies(file.lake_path))):
        if not LOCAL.exists(lake_root / path):
            raise LakeFileError(
                f"The compacted file {path} is missing; nothing was changed. The next compaction creates this file "
                "again."
            )
    parts = prepared.parts.items()
    wrong = {part: found for part, (*_, count) in parts if (found := row_counts.get(part, 0)) != count}
    if wrong or row_counts.keys() - prepared.parts.keys():
        part, count = next(iter(wrong.items()), (None, 0))
        told = f"{', '.join(map(str, part))} has {count} rows in the new files" if part else "There are unexpected rows"
        raise LakeFileError(
            f"The compaction of the {prepared.merge.label} does not match the loaded rows: {told}. Nothing was "
            "changed; the original files stay in use. Convert their archives again."
        )
    merge = prepared.merge
    with transaction(connection):
        current = _parts(connection, _chosen(merge, dataset))
        compacting = [
            dict(zip(_COMPACTING.names, (known[0], *part[-2:], known[-1], current.get(part) == known), strict=True))
            for part, known in parts
        ]
        temporary_table(connection, "compacting", compacting, _COMPACTING)
        hot = window(connection) if dataset.leaves_warehouse else None
        first_hour = merge.first_hour if hot is None else hot.first_hour
        values = {"table": dataset.name, "compaction_id": prepared.digest}
        connection.execute(_TAKE, values | {"window": first_hour})
        connection.execute(_HIDE_GIVEN_UP, values | {"paths": [file.lake_path for file in files]})
        if hot and merge.first_hour and merge.end_hour and merge.first_hour < hot.first_hour:
            leave(connection, merge.first_hour, min(hot.first_hour, merge.end_hour))
        # the new files omit repeated rows
        connection.execute(
            "DELETE FROM internal.hidden_rows WHERE reason = 'repeated' "
            "AND lake_path IN (SELECT lake_path FROM loads WHERE compaction_id = ?)",
            [prepared.digest],
        )
        its = {
            "table_name": dataset.name,
            "compaction_id": prepared.digest,
            "span": merge.span,
            "first_hour": merge.first_hour,
            "end_hour": merge.end_hour,
            "compacted_at": now,
        }
        temporary_table(connection, "written", [vars(file) | its for file in files], COMPACTED_FILES.schema)
        connection.execute("INSERT INTO compacted_files BY NAME FROM written")
        retire(connection)
        raise_revision(connection)
        of_parts = "SELECT DISTINCT source_at, project_id, namespace_id FROM loads WHERE compaction_id = ?"
        return len(answer(connection, of_parts, [prepared.digest]))
