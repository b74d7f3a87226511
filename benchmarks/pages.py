"""Generator of lake files with any number of pages and changes. DuckDB writes the files with realistic values.

All values are functions of the page number and the hour number, so the rows are reproducible.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import duckdb

from resources import datasets
from resources.datasets.paths import short
from resources.tables import ARTICLE_CHANGES, SNAPSHOT_ARTICLES
from resources.warehouse import ConvertedFile, Snapshot
from resources.warehouse.database.sql import identifier, quoted, sql_type

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from resources.tables import Table

FIRST_HOUR = datetime(2026, 11, 1, tzinfo=UTC)
#: Projects and their percentages of all pages.
PROJECTS = {"enwiki": 50, "dewiki": 20, "frwiki": 15, "eswiki": 10, "simplewiki": 5}
_ROWS_PER_FILE = 500_000

#: Columns as functions of the page number `i` and the revision number `r`. All other columns are null.
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
    "categories": "[{'name': concat('Category:', hash(i) % 1000), 'url': NULL}, "
    "{'name': concat('Category:', hash(i + 1) % 1000), 'url': NULL}]",
    "templates": "[{'name': concat('Template:', hash(i) % 100), 'url': NULL}]",
    "redirects": "CASE WHEN i % 5 = 0 THEN [{'name': concat('Also ', i), 'url': NULL}] END",
}
_NAME = "concat('Page ', hash(i) % 1000000007, ' of ', i)"
#: Page text, which consists of the revision and of incompressible words that all revisions of a page share.
_TEXT = (
    "CASE WHEN change_type <> 'delete' THEN concat('<!-- ', 1000000000 + r, ' --> ', "
    "array_to_string(list_transform(range(75), lambda x: md5(concat(i, x))), ' ')) END"
)
_FILE = "FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 20480"


@dataclass(frozen=True)
class Pages:
    """Generator of `count` pages from several projects in a data folder.

    Attributes:
        projects: Projects and their percentages of all pages.
        first_hour: Start of hour number 0.
        has_text: True if each change has 5 kB of page text.
        has_creations: True if some changes create pages. False if changes only edit existing pages.
    """

    data: Path
    count: int
    projects: Mapping[str, float] = field(default_factory=lambda: PROJECTS)
    first_hour: datetime = FIRST_HOUR
    has_text: bool = False
    has_creations: bool = True

    def bounds(self) -> Iterator[tuple[str, int, int]]:
        """Yield each project with its first page number and the number after its last page number."""
        share, start = 0.0, 0
        for name, more in self.projects.items():
            share += more
            end = round(self.count * share / 100)
            yield name, start, end
            start = end

    def snapshots(self) -> list[Snapshot]:
        """Write a snapshot of each project. The newest event is an hour before the first hour."""
        return [self._snapshot(*bounds) for bounds in self.bounds()]

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
                f"SELECT {quoted(name)} AS snapshot_id, {quoted(version)} AS snapshot_version, "
                f"{quoted(project)} AS project_id, i, CAST(hash(i) % 1000000 AS BIGINT) AS r, {_NAME} AS name, "
                "'update' AS change_type, TIMESTAMPTZ '2026-10-01 00:00:00+00' + "
                "to_milliseconds(CAST(hash(i) % 2600000000 AS BIGINT)) AS event_at "
                f"FROM range({first}, {last}) numbers(i)"
            )
            with _connected() as connection:
                connection.execute(f"COPY ({self._values(rows, SNAPSHOT_ARTICLES)}) TO {quoted(str(path))} ({_FILE})")
            identity = path.name.split(".")[0]
            files.append(ConvertedFile(path=path, identifier=identity, **_counts(path, last - first, 0)))
        return Snapshot(name, version, project, 0, tuple(files), len(files), None, datasets.SNAPSHOT_ARTICLES)

    def hour(self, number: int, changes: int) -> list[ConvertedFile]:
        """Write an hour's files.

        Of the rows, 88% are edits, 5% are creations, 3% are deletions, and 4% belong to moves.
        """
        hour = self.first_hour + timedelta(hours=number)
        folder = self.data / "lake" / ARTICLE_CHANGES.name / f"date={hour:%Y-%m-%d}" / f"hour={hour:%H}"
        folder.mkdir(parents=True)
        cases = " ".join(f"WHEN i < {end} THEN {quoted(name)}" for name, _, end in self.bounds())
        other = quoted(next(iter(self.projects)))
        created = "k % 100 IN (88, 89, 90, 91, 92)" if self.has_creations else "false"
        rows = f"""
          SELECT TIMESTAMPTZ {quoted(str(hour))} AS batch_hour, CASE {cases} ELSE {other} END AS project_id, i,
            2000000 + {number * changes} + k AS r, change_type,
            CASE WHEN k % 100 IN (96, 97) AND change_type = 'update' THEN concat('Moved ', {number}, ' ', k)
              ELSE {_NAME} END AS name,
            TIMESTAMPTZ {quoted(str(hour))} + to_milliseconds(k) AS event_at
          FROM (
            SELECT k,
              unnest(CASE WHEN k % 100 IN (93, 94, 95) THEN ['delete']
                WHEN k % 100 IN (96, 97) THEN ['update', 'delete'] ELSE ['update'] END) AS change_type,
              CASE WHEN {created} THEN {self.count + number * changes} + k
                ELSE CAST(hash(k + {number * changes}) % {self.count} AS BIGINT) END AS i
            FROM range({changes * 98 // 100}) numbers(k)
          )
          ORDER BY k
        """
        with _connected() as connection:
            connection.execute(f"CREATE TABLE rows AS {self._values(rows, ARTICLE_CHANGES)}")
            connection.execute(
                f"COPY rows TO {quoted(str(folder))} ({_FILE}, PARTITION_BY (project_id), WRITE_PARTITION_COLUMNS)"
            )
            kinds = connection.execute(
                "SELECT project_id, count(*) FILTER (change_type = 'update'), count(*) FILTER (change_type = 'delete') "
                "FROM rows GROUP BY ALL ORDER BY ALL"
            ).fetchall()
        return [self._hour_file(hour, folder, f"{number:08x}", *one) for one in kinds]

    def _hour_file(
        self, hour: datetime, folder: Path, digest: str, project: str, updates: int, deletes: int
    ) -> ConvertedFile:
        identity = f"{project}_namespace_0"
        (written,) = (folder / f"project_id={project}").iterdir()
        path = written.rename(folder / f"{identity}.{digest}.parquet")
        written.parent.rmdir()
        counts = _counts(path, updates, deletes)
        return ConvertedFile(
            path=path, identifier=identity, batch_hour=hour, project_id=project, namespace_id=0, **counts
        )

    def _values(self, rows: str, table: Table) -> str:
        """Return a query for the declared columns, which come from `rows` or are computed."""
        named = {"snapshot_id", "snapshot_version", "batch_hour", "project_id", "name", "change_type", "event_at"}
        values = _VALUES | (dict.fromkeys(table.bodies, _TEXT) if self.has_text else {})
        columns = (
            f"CAST({column.name if column.name in named else values.get(column.name, 'NULL')} "
            f"AS {sql_type(column.type)}) AS {identifier(column.name)}"
            for column in table
        )
        return f"SELECT {', '.join(columns)} FROM ({rows})"


def _counts(path: Path, updates: int, deletes: int) -> dict[str, Any]:
    digest = hashlib.sha256(str(path).encode()).hexdigest()
    zeros = ("reject_count", "visibility_change_count", "archive_bytes", "ndjson_bytes")
    return dict.fromkeys(zeros, 0) | {
        "rejects_path": None,
        "version": digest[:32],
        "digest": digest,
        "row_count": updates + deletes,
        "update_count": updates,
        "delete_count": deletes,
        "lake_bytes": path.stat().st_size,
    }


def _connected() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"threads": 1})  # a single thread writes the rows in order
    connection.execute("SET TimeZone = 'UTC'")
    return connection
