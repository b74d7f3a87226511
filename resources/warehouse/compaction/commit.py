"""Preparation of compactions, and recording of finished compactions in the ledger.

Files are rewritten without a lock, so the commit compares the inputs with the loaded data. If an hour has been reloaded
since the compaction was prepared, the hour keeps its own file, and its rows in the compacted file are masked. A
snapshot version is committed completely or not at all, and its masked rows are dropped permanently.
"""

from __future__ import annotations

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
from resources.warehouse.database.sql import statement, temporary_table, transaction
from resources.warehouse.load.files import retire
from resources.warehouse.read.lake_parts import window
from resources.warehouse.records import LakeFileError

#: Key of a part: the values that are the same for all rows of an archive (`Dataset.given`). The key of an hourly file
#: is its hour, project and namespace. A snapshot's key is its identifier, version, project and namespace.
Part = tuple[Any, ...]

#: Version of the rewriting code. Increase this number when a change to the code alters the output for the same input.
_VERSION = 4
# Lake files of individual hours, with the positions of repeated rows.
_SINGLE_FILES = """
SELECT lake_path, any_value(loads.row_count) AS row_count,
  coalesce(list(hidden.file_row ORDER BY hidden.file_row) FILTER (WHERE hidden.file_row IS NOT NULL), []) AS file_rows
FROM loads
LEFT JOIN (FROM internal.hidden_rows WHERE reason = 'repeated') AS hidden USING (lake_path)
WHERE table_name = $table AND compaction_id IS NULL AND lake_path IN (SELECT unnest(CAST($lone AS VARCHAR[])))
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
_PARTITIONS = """
SELECT batch_hour, project_id, namespace_id, digest, compaction_id, row_count - duplicate_count AS row_count
FROM loads
WHERE table_name = $table
  AND batch_hour IS NOT NULL
  AND ((compaction_id IS NULL AND lake_path IN (SELECT unnest(CAST($lone AS VARCHAR[]))))
    OR compaction_id IN (SELECT unnest(CAST($whole AS VARCHAR[]))))
ORDER BY ALL
"""
# Hours before the window keep their rows and files until these hours are applied to `articles`.
_TAKE = """
UPDATE loads
SET compaction_id = $compaction_id
FROM compacting AS part
WHERE loads.table_name = $table
  AND loads.batch_hour = part.batch_hour
  AND loads.project_id = part.project_id
  AND loads.namespace_id = part.namespace_id
  AND loads.digest = part.digest
  AND loads.compaction_id IS NOT DISTINCT FROM part.compaction_id
  AND (loads.compaction_id IS NOT NULL OR loads.applied_at IS NOT NULL OR loads.batch_hour >= $window)
"""
_TAKE_VERSION = """
UPDATE loads SET compaction_id = $compaction_id
WHERE (table_name, source_at, project_id, namespace_id) IN (
  SELECT (table_name, source_at, project_id, namespace_id) FROM snapshots
  WHERE (table_name, snapshot_id, snapshot_version) = ($table, $snapshot_id, $snapshot_version)
)
"""
# Parts that were reloaded or dropped after the compaction was prepared.
_HIDE_GIVEN_UP = """
INSERT INTO internal.hidden_rows
SELECT new.lake_path, NULL, if(loaded.table_name IS NULL, 'dropped', 'reloaded'),
  part.batch_hour, part.project_id, part.namespace_id
FROM compacting AS part
LEFT JOIN (FROM loads WHERE table_name = $table) AS loaded USING (batch_hour, project_id, namespace_id)
CROSS JOIN (SELECT unnest(CAST($paths AS VARCHAR[])) AS lake_path) AS new
WHERE part.row_count > 0 AND loaded.compaction_id IS DISTINCT FROM $compaction_id
"""
_PART = ("batch_hour", "project_id", "namespace_id", "digest", "compaction_id", "row_count")
_PARTS = pa.schema([LOADS.schema.field(name) for name in _PART])


@dataclass(frozen=True)
class Prepared:
    """A prepared compaction. The hexadecimal `digest` covers all inputs that affect the new rows.

    `parts` maps each part (an hour, project and namespace, or a snapshot version) to its file digest, compaction and
    row count.
    """

    merge: Merge
    digest: str
    inputs: tuple[CompactionSource, ...]
    parts: Mapping[Part, tuple[str, str | None, int]]


@dataclass(frozen=True)
class Committed:
    """Outcome of a commit: the number of parts that switched to the new files, and the number of reloaded parts."""

    part_count: int
    given_up_count: int


def prepare_compaction(build: Build, merge: Merge, dataset: Dataset) -> Prepared:
    """Return a compaction's current files and the rows to omit."""
    find = _of_version if merge.version else _of_hours
    inputs, parts = find(build.connection, dataset, merge)
    made_of = [_VERSION, version_of(COMPACTED[dataset.name]), merge.name]
    digest = hashlib.sha256(
        json.dumps([*made_of, [[i.lake_path, i.dropped_parts] for i in inputs]], default=str).encode()
    )
    return Prepared(merge, digest.hexdigest(), tuple(inputs), parts)


def _of_version(
    connection: duckdb.DuckDBPyConnection, dataset: Dataset, merge: Merge
) -> tuple[list[CompactionSource], dict[Part, tuple[str, str | None, int]]]:
    """Return a version's files that contain rows, or no files if the version was dropped or is already compacted."""
    rows = answer(connection, statement("compaction/version"), _key(dataset, merge))
    if not rows:
        return [], {}
    digest = hashlib.sha256(" ".join(digest for _, _, _, _, digest, *_ in rows).encode()).hexdigest()
    row_count = sum(count - duplicates for _, count, duplicates, *_ in rows)
    part = (*(merge.version or ()), *rows[0][-2:])
    inputs = [CompactionSource(path, count, tuple(passed)) for path, count, _, passed, *_ in rows if count]
    return inputs, {part: (digest, None, row_count)}


def _key(dataset: Dataset, merge: Merge) -> dict[str, str]:
    return {"table": dataset.name} | dict(zip(("snapshot_id", "snapshot_version"), merge.version or (), strict=True))


def _of_hours(
    connection: duckdb.DuckDBPyConnection, dataset: Dataset, merge: Merge
) -> tuple[list[CompactionSource], dict[Part, tuple[str, str | None, int]]]:
    lone = [unit.name for unit in merge.units if unit.span is None]
    whole = [unit.name for unit in merge.units if unit.span is not None]
    asked = {"table": dataset.name, "lone": lone}
    inputs = [
        CompactionSource(path, count, tuple(rows)) for path, count, rows in answer(connection, _SINGLE_FILES, asked)
    ]
    inputs += [
        CompactionSource(path, count, dropped_parts=tuple(tuple(part.values()) for part in parts or ()))
        for path, count, parts in answer(connection, _COMPACTED_FILES, {"whole": whole})
    ]
    loaded = answer(connection, _PARTITIONS, asked | {"whole": whole})
    return inputs, {tuple(part): (digest, compaction, count) for *part, digest, compaction, count in loaded}


def commit_compaction(
    build: Build, prepared: Prepared, files: Sequence[CompactedFile], row_counts: Mapping[Part, int], dataset: Dataset
) -> Committed:
    """Switch loaded rows to their compacted files, in one transaction.

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
        if merge.version:
            taken = _take_version(connection, dataset, merge, prepared)
        else:
            taken = _take_hours(connection, dataset, merge, prepared, [file.lake_path for file in files])
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
    return Committed(taken, len(prepared.parts) - taken)


def _take_version(connection: duckdb.DuckDBPyConnection, dataset: Dataset, merge: Merge, prepared: Prepared) -> int:
    """Switch a version to the new files and return 1. If the version's loaded files have changed, return 0 instead."""
    _, parts = _of_version(connection, dataset, merge)
    if not parts or parts != prepared.parts:
        return 0
    connection.execute(_TAKE_VERSION, _key(dataset, merge) | {"compaction_id": prepared.digest})
    return 1


def _take_hours(
    connection: duckdb.DuckDBPyConnection, dataset: Dataset, merge: Merge, prepared: Prepared, paths: Sequence[str]
) -> int:
    """Switch unchanged hours to the new files, delete rows before the window, and return the number of hours."""
    parts = [dict(zip(_PARTS.names, (*part, *known), strict=True)) for part, known in prepared.parts.items()]
    temporary_table(connection, "compacting", parts, _PARTS)
    values = {"table": dataset.name, "compaction_id": prepared.digest}
    known = window(connection) if dataset.leaves_warehouse else None
    assert merge.first_hour is not None
    assert merge.end_hour is not None
    first_hour = merge.first_hour if known is None else known.first_hour
    [(taken,)] = connection.execute(_TAKE, values | {"window": first_hour}).fetchall()
    connection.execute(_HIDE_GIVEN_UP, values | {"paths": list(paths)})
    if merge.first_hour < first_hour:
        leave(connection, merge.first_hour, min(first_hour, merge.end_hour))
    return int(taken)
