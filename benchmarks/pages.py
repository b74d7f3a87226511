"""Pages and changes of any number, made by DuckDB: what the benchmark of the warehouse loads.

Belongs here: rows that look like the service's narrow columns, written as lake files. Does not belong here: measuring.
Everything follows from the page's number and the hour's, so the same numbers give the same rows.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow.parquet as pq

from resources.datasets.paths import short
from resources.tables import ARTICLE_CHANGES, SNAPSHOT_ARTICLES
from resources.warehouse import LakeFile, Snapshot, SnapshotFile
from resources.warehouse.database.sql import identifier, quoted, sql_type

if TYPE_CHECKING:
    from pathlib import Path

    from resources.tables import Table

FIRST_HOUR = datetime(2026, 11, 1, tzinfo=UTC)
#: Projects and their share of the pages, in hundredths.
PROJECTS = {"enwiki": 50, "dewiki": 20, "frwiki": 15, "eswiki": 10, "simplewiki": 5}
_ROWS_PER_FILE = 500_000

_PROJECT = "CASE {cases} END"
#: Columns of a page by its number `i` and the number of the revision `r`; all others are null.
_VALUES = {
    "namespace_id": "0",
    "article_id": "i * 7 + 1",
    "version_id": "1000000000 + r",
    "event_id": "CAST(md5(concat(i, ' ', r)) AS VARCHAR)",
    "event_created_at": "event_at",
    "event_published_at": "event_at",
    "modified_at": "event_at",
    "created_at": "TIMESTAMPTZ '2020-01-01 00:00:00+00' + to_seconds(CAST(hash(i) % 100000000 AS BIGINT))",
    "url": "concat('https://', project_id, '.example.org/wiki/', replace(name, ' ', '_'))",
    "abstract": "concat('Page ', i, ' is about ', hash(i), ' and ', hash(r), ', as told in ', hash(i + 3))",
    "language_id": "left(project_id, 2)",
    "version_comment": "concat('edit ', hash(r) % 5000)",
    "version_tags": "[concat('tag', hash(r) % 20)]",
    "is_minor_edit": "hash(r) % 4 = 0",
    "revertrisk_prediction": "hash(r) % 50 = 0",
    "revertrisk_probability": "CAST(hash(r) % 1000 AS DOUBLE) / 1000",
    "editor_id": "CAST(hash(r) % 100000 AS BIGINT)",
    "editor_name": "concat('Editor ', hash(r) % 100000)",
    "editor_edit_count": "CAST(hash(r) % 5000 AS BIGINT)",
    "size_bytes": "CAST(hash(i + r) % 50000 AS BIGINT)",
    "main_entity_id": "concat('Q', i)",
    "categories": "[{'name': concat('Category:', hash(i) % 1000), 'url': NULL}, {'name': concat('Category:', hash(i + 1) % 1000), 'url': NULL}]",
    "templates": "[{'name': concat('Template:', hash(i) % 100), 'url': NULL}]",
    "redirects": "CASE WHEN i % 5 = 0 THEN [{'name': concat('Also ', i), 'url': NULL}] END",
}
_NAME = "concat('Page ', hash(i) % 1000000007, ' of ', i)"


@dataclass(frozen=True)
class Pages:
    """`count` pages of several projects below a data folder."""

    data: Path
    count: int

    def project(self) -> str:
        """The project of page `i`, as SQL."""
        bound, cases = 0, []
        for name, share in PROJECTS.items():
            bound += share
            cases.append(f"WHEN i < {self.count * bound // 100} THEN {quoted(name)}")
        return f"CASE {' '.join(cases)} ELSE 'enwiki' END"

    def snapshots(self) -> list[Snapshot]:
        """A snapshot of each project, written to the lake; its newest event is an hour older than the first hour."""
        made, start = [], 0
        for name, share in PROJECTS.items():
            end = start + self.count * share // 100
            made.append(self._snapshot(name, start, end))
            start = end
        return made

    def _snapshot(self, project: str, start: int, end: int) -> Snapshot:
        name = f"{project}_namespace_0"
        version = hashlib.md5(f"{project} {start} {end}".encode(), usedforsecurity=False).hexdigest()
        folder = self.data / "lake" / SNAPSHOT_ARTICLES.name / name / short(version)
        folder.mkdir(parents=True)
        files = []
        for number, first in enumerate(range(start, end, _ROWS_PER_FILE)):
            last = min(end, first + _ROWS_PER_FILE)
            path = folder / f"{name}_chunk_{number}.{number:08x}.parquet"
            rows = (
                f"SELECT {quoted(name)} AS snapshot_id, {quoted(version)} AS snapshot_version, {quoted(project)} AS project_id, "
                f"i, CAST(hash(i) % 1000000 AS BIGINT) AS r, {_NAME} AS name, 'update' AS change_type, "
                "TIMESTAMPTZ '2026-10-01 00:00:00+00' + to_milliseconds(CAST(hash(i) % 2600000000 AS BIGINT)) AS event_at "
                f"FROM range({first}, {last}) numbers(i)"
            )
            _write(rows, SNAPSHOT_ARTICLES, path)
            files.append(SnapshotFile(path=path, identifier=path.name.split(".")[0], **_counts(path, last - first, 0)))
        return Snapshot(name, version, project, 0, tuple(files), len(files))

    def hour(self, number: int, changes: int) -> list[LakeFile]:
        """The files of an hour: of a hundred changes 88 edits, 5 creations, 3 deletions and 2 moves, which are 4 rows."""
        hour = FIRST_HOUR + timedelta(hours=number)
        folder = self.data / "lake" / ARTICLE_CHANGES.name / f"date={hour:%Y-%m-%d}" / f"hour={hour:%H}"
        folder.mkdir(parents=True)
        files = []
        for project in PROJECTS:
            path = folder / f"{project}_namespace_0.{number:08x}.parquet"
            rows = f"""
              SELECT TIMESTAMPTZ {quoted(str(hour))} AS batch_hour, project_id, i, 2000000 + {number * changes} + k AS r, change_type,
                CASE WHEN k % 100 IN (96, 97) AND change_type = 'update' THEN concat('Moved ', {number}, ' ', k) ELSE {_NAME} END AS name,
                TIMESTAMPTZ {quoted(str(hour))} + to_milliseconds(k) AS event_at
              FROM (
                SELECT k, i, {self.project()} AS project_id,
                  unnest(CASE WHEN k % 100 IN (93, 94, 95) THEN ['delete'] WHEN k % 100 IN (96, 97) THEN ['update', 'delete']
                    ELSE ['update'] END) AS change_type
                FROM (
                  SELECT k, CASE WHEN k % 100 IN (88, 89, 90, 91, 92) THEN {self.count + number * changes} + k
                    ELSE CAST(hash(k + {number * changes}) % {self.count} AS BIGINT) END AS i
                  FROM range({changes * 98 // 100}) numbers(k)
                )
              )
              WHERE project_id = {quoted(project)} ORDER BY k
            """
            _write(rows, ARTICLE_CHANGES, path)
            kinds = pq.read_table(path, columns=["change_type"], partitioning=None)["change_type"].to_pylist()
            files.append(
                LakeFile(
                    path=path,
                    identifier=f"{project}_namespace_0",
                    batch_hour=hour,
                    project_id=project,
                    namespace_id=0,
                    **_counts(path, kinds.count("update"), kinds.count("delete")),
                )
            )
        return files


def _counts(path: Path, updates: int, deletes: int) -> dict[str, Any]:
    digest = hashlib.sha256(str(path).encode()).hexdigest()
    return {
        "rejects_path": None,
        "version": digest[:32],
        "digest": digest,
        "row_count": updates + deletes,
        "reject_count": 0,
        "update_count": updates,
        "delete_count": deletes,
        "visibility_change_count": 0,
        "archive_bytes": 0,
        "ndjson_bytes": 0,
        "lake_bytes": path.stat().st_size,
    }


def _write(rows: str, table: Table, path: Path) -> None:
    """Write what `rows` names and `_VALUES` computes as a file of the declared columns."""
    named = {"snapshot_id", "snapshot_version", "batch_hour", "project_id", "name", "change_type", "event_at"}
    columns = ", ".join(
        f"CAST({column.name if column.name in named else _VALUES.get(column.name, 'NULL')} AS {sql_type(column.type)}) "
        f"AS {identifier(column.name)}"
        for column in table
    )
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(
            f"COPY (SELECT {columns} FROM ({rows})) TO {quoted(str(path))} "
            "(FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 20480)"
        )
