"""SQL that reads rows from the lake, for one part of a dataset or for all changes.

Masked rows (`internal.hidden_rows`) are filtered out. The build file's `article_changes` contains an hour's changes if
the hour is in the window or its lake file is not compacted. All other changes are only in compacted files and the
archive.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb

from resources.datasets import Dataset, Family, datasets
from resources.datasets.paths import BODIES, ROWS, short, with_bodies
from resources.files import within
from resources.formatting import hour_text
from resources.tables import Table
from resources.warehouse.database.connect import answer
from resources.warehouse.database.sql import FORMULAS, column_list, filled, identifier, moment, quoted, statement
from resources.warehouse.read.ledger import faults
from resources.warehouse.records import LakeFileError

#: Maximum depth of expanded parts. Headings have six levels, and the deepest recorded part is at level 5.
_LEVELS = 12
_PAGE = "project_id, namespace_id, article_id, name"
#: SQL for the JSON path of a position. Position [2, 1] is the first subpart of the second part.
_PATH = "concat('$[', array_to_string(list_transform(position, lambda n: n - 1), '].has_parts['), ']')"


def derived(name: str, bodies: str = "structured_bodies", today: str = "") -> str:
    """Return the query for a table derived from page parts in `bodies`, or from the current entities in `today`."""
    return statement(
        f"views/{name}",
        infobox_parts=_parts("coalesce(infoboxes_json, infobox_json)"),
        section_parts=_parts("coalesce(sections_json, article_sections_json)"),
        references=f"({_numbered(_list('references_json'))})",
        tables=f"({_numbered(_list('tables_json'))})",
        path=_PATH,
        page=_PAGE,
        bodies=bodies,
        today=today,
    )


def _list(column: str) -> str:
    """Return SQL for a list's members. The service declares some lists as a single object, but sends lists."""
    return (
        f"CASE WHEN starts_with({column}, '{{') THEN [CAST({column} AS JSON)] ELSE json_extract({column}, '$[*]') END"
    )


def _numbered(parts: str) -> str:
    """Return a query with one row per page part: the page, the part, and its number starting at 1."""
    return (
        "SELECT {page}, unnest(parts) AS part, generate_subscripts(parts, 1) AS n\n"  # noqa: S608  constants
        f"FROM (SELECT {{page}}, {parts} AS parts FROM {{bodies}})"
    )


def _parts(document: str) -> str:
    """Return a query for all parts in `document`, with their pages, their positions and the enclosing parts' names."""
    members = _numbered(f"json_extract({document}, '$[*]')")
    query = (
        "SELECT {page}, [CAST(n AS BIGINT)] AS position, CAST([] AS VARCHAR[]) AS above, part, true AS is_new\n"
        f"FROM ({members})"
    )
    # an expanded part precedes its nested parts
    for _ in range(_LEVELS - 1):
        query = (
            "SELECT {page}, CASE WHEN n = 1 THEN position ELSE list_append(position, n - 1) END AS position,\n"  # noqa: S608
            "CASE WHEN n = 1 THEN above ELSE list_append(above, own) END AS above, part, n > 1 AS is_new\n"
            "FROM (SELECT {page}, position, above, own, unnest(parts) AS part, generate_subscripts(parts, 1) AS n\n"
            "FROM (SELECT {page}, position, above, CASE WHEN has_parts THEN part ->> 'name' END AS own,\n"
            "CASE WHEN has_parts THEN list_prepend(part, json_extract(part, '$.has_parts[*]')) "
            "ELSE [part] END AS parts\n"
            f"FROM (SELECT *, is_new AND contains(part, '\"has_parts\"') AS has_parts FROM ({query}))))"
        )
    return f"({query})"


# Hourly files. Folder names contain the hour, so a filter on the hour avoids opening other files. Page text is never
# sorted or grouped.
_HOURS = """(
  SELECT * EXCLUDE ("date", "hour", batch_hour, file_row_number),
    CAST(concat("date", ' ', "hour", ':00:00+00') AS TIMESTAMPTZ) AS batch_hour, file_row_number AS file_row
  FROM read_parquet(
    {files}, hive_partitioning = true, hive_types = {'date': VARCHAR, 'hour': VARCHAR}, file_row_number = true
  )
) AS file"""
# Sorted compacted files. Each file stores all rows of a page or revision in one row group, and filters and joins can
# use the row group statistics.
_COMPACTED_HOURS = "read_parquet({files}, hive_partitioning = false, filename = true) AS file"
_VERSION = "read_parquet({files}, filename = true, file_row_number = true, hive_partitioning = false) AS file"
# Masked rows by hour, and by row number in the original file. Compacted files preserve this number.
_BY_PLACE = """
ANTI JOIN (
  FROM internal.hidden_rows WHERE file_row IS NOT NULL AND starts_with(lake_path, {folder})
) AS hidden ON
  file.batch_hour = hidden.batch_hour
  AND file.project_id = hidden.project_id
  AND file.namespace_id = hidden.namespace_id
  AND file.file_row = hidden.file_row"""
# Masked hours, projects and namespaces in compacted files. The mask names the file without page text, but also applies
# to the file with page text.
_BY_PARTITION = """
ANTI JOIN (FROM internal.hidden_rows WHERE file_row IS NULL) AS old ON
  file.filename = concat({root}, replace(old.lake_path, {rows}, {texts}))
  AND file.batch_hour = old.batch_hour
  AND file.project_id = old.project_id
  AND file.namespace_id = old.namespace_id"""
_BY_FILE = """
ANTI JOIN (
  FROM internal.hidden_rows WHERE file_row IS NOT NULL AND starts_with(lake_path, {folder})
) AS hidden ON file.filename = concat({root}, hidden.lake_path) AND file.file_row_number = hidden.file_row"""


@dataclass(frozen=True)
class LakePart:
    """A dataset partition, or all hours of a dataset, with the lake files that contain the rows.

    `root` is the lake's folder with a trailing slash; `paths` are absolute. `source_at` is the value shared by the
    snapshot version's rows, or None for hours. `is_compacted` means that each file contains rows of several partitions.
    """

    dataset: Dataset
    root: str
    paths: tuple[str, ...]
    project_id: str = ""
    namespace_id: int = 0
    snapshot_id: str = ""
    snapshot_version: str = ""
    source_at: datetime | None = None
    is_compacted: bool = False

    def rows(self, *, texts: bool = True) -> str:
        """Return the SQL for a FROM clause that reads the part's rows with all file columns.

        If `texts` is True, rows whose page text is also in another row of the hour are filtered out.
        """
        if self.source_at is not None:
            query, folder = _VERSION + _BY_FILE, f"{self.snapshot_id}/{short(self.snapshot_version)}/"
        else:
            query, folder = (_COMPACTED_HOURS + _BY_PARTITION if self.is_compacted else _HOURS), ""
            query += _BY_PLACE if texts else ""
        return filled(
            f"(SELECT file.* FROM {query})",  # noqa: S608  our own words
            files=f"[{', '.join(map(quoted, self.paths))}]",
            folder=quoted(f"{self.dataset.name}/{folder}"),
            root=quoted(self.root),
            rows=quoted(f".{ROWS}"),
            texts=quoted(f".{BODIES if texts else ROWS}"),
        )

    def select(self, table: Table, **own: str) -> str:
        """Return a query for a table's columns, some of which are replaced by the SQL in `own`.

        Values shared by all rows of a version are constants, so a query for other values opens none of its files.
        """
        own |= self._constants() if self.source_at is not None else {"source_at": "batch_hour"}
        columns = ", ".join(f"{own.get(c.name, identifier(c.name))} AS {identifier(c.name)}" for c in table)
        return f"SELECT {columns} FROM {self.rows()} AS page"  # noqa: S608  declared names

    def bodies(self) -> str:
        """Return the query for the page text view, limited to updates unless each revision has a single row."""
        assert self.dataset.bodies is not None
        filtered = "" if self.source_at is not None or self.dataset.body_of else "\nWHERE change_type = 'update'"
        own = {} if self.source_at is None else {"batch_hour": "CAST(NULL AS TIMESTAMPTZ)"}
        return self.select(self.dataset.bodies, **own) + filtered

    def states(self) -> str:
        """Return a query that represents a snapshot's pages as states. These states compete for titles and pages.

        A page in a snapshot is treated as existing unless its last event was a delete.
        """
        return filled(
            "SELECT {project_id} AS project_id, title, article_id, event_at, version_id, "
            "change_type <> 'delete' AS is_update, {event_key_of_snapshot} AS event_key, {source_at} AS source_at, "
            "{namespace_id} AS namespace_id\n"
            "FROM (SELECT *, replace(name, '_', ' ') AS title FROM {rows} AS row) AS page",
            rows=self.rows(),
            **self._constants(),
        )

    def insert_deciding(self, table: Table) -> str:
        """Return the statement that inserts the snapshot rows listed in the `deciding` table into the current state."""
        return filled(
            "INSERT INTO {table} BY NAME\n"
            "SELECT {columns}, {source_at} AS source_at, {title_key} AS title_key, "
            "{event_key_of_snapshot} AS event_key\n"
            "FROM (SELECT *, replace(name, '_', ' ') AS title FROM {rows} AS row) AS page\n"
            # DuckDB estimates separate conditions better than one on a tuple. After a wrong estimate it would collect
            # the pages with all their columns in memory instead of these keys.
            "SEMI JOIN (\n"
            "  FROM deciding\n"
            "  WHERE source_at = {source_at} AND project_id = {project_id} AND namespace_id = {namespace_id}\n"
            ") AS deciding USING (article_id, version_id)",
            table=identifier(table.name),
            rows=self.rows(),
            columns=", ".join(identifier(column.name) for column in table if column.name != "source_at"),
            **self._constants(),
        )

    def _constants(self) -> dict[str, str]:
        """Return a version's shared values as SQL literals, because views do not accept parameters."""
        assert self.source_at is not None
        return {
            "snapshot_id": quoted(self.snapshot_id),
            "snapshot_version": quoted(self.snapshot_version),
            "project_id": quoted(self.project_id),
            "namespace_id": f"CAST({self.namespace_id} AS BIGINT)",
            "source_at": moment(self.source_at),
        }


_VERSIONS = """
SELECT version.project_id, version.namespace_id, snapshot_id, snapshot_version, version.source_at,
  coalesce(list(DISTINCT {path} ORDER BY {path}) FILTER (loads.row_count > 0), [])
FROM {versions} AS version
LEFT JOIN loads USING (table_name, project_id, namespace_id, source_at)
LEFT JOIN compacted_files AS file USING (table_name, compaction_id)
WHERE table_name = $table
GROUP BY ALL
ORDER BY any_value(boundary_at), snapshot_id, snapshot_version
"""
_BASES = "(SELECT *, $table AS table_name FROM internal.bases)"
_FILES_OF_HOURS = """
SELECT lake_path, batch_hour, false AS is_compacted FROM loads
WHERE table_name = $table AND row_count > 0 AND compaction_id IS NULL
UNION ALL
SELECT lake_path, first_hour, true FROM compacted_files WHERE table_name = $table
ORDER BY 2, 1
"""


def lake_parts(
    connection: duckdb.DuckDBPyConnection,
    lake_root: Path,
    dataset: Dataset,
    *,
    bases_only: bool = False,
    checked: bool = False,
) -> list[LakePart]:
    """Return a dataset's parts: its retained snapshots, or its uncompacted hourly files and its compacted files.

    `bases_only` selects the base versions of the current state. `checked` rejects paths outside the lake. Callers pass
    False if they filter out invalid names with `ledger.faults` before opening any file. Raises UnusableFileError if the
    ledger contains a path outside the lake.
    """
    root = lake_root.resolve()
    values: dict[str, Any] = {"table": dataset.name}
    if dataset.family is not Family.SNAPSHOT:
        found = answer(connection, _FILES_OF_HOURS, values)
        single = tuple(str(root / path) for path, _, is_compacted in found if not is_compacted)
        compacted = tuple(str(root / with_bodies(path)) for path, _, is_compacted in found if is_compacted)
        return [LakePart(dataset, f"{root}/", single), LakePart(dataset, f"{root}/", compacted, is_compacted=True)]
    versions = _BASES if bases_only else "snapshots"
    query = filled(_VERSIONS, versions=versions, path="coalesce(file.lake_path, loads.lake_path)")
    return [
        LakePart(dataset, f"{root}/", tuple(str(within(root, path) if checked else root / path) for path in paths), *of)
        for *of, paths in answer(connection, query, values)
    ]


#: The dataset whose older rows are only in the lake.
(LEAVING,) = (dataset for dataset in datasets(Family.HOURLY) if dataset.leaves_warehouse)
#: SQL for a change's internal columns, computed from a compacted file's row.
_KEYS = f"{FORMULAS['event_key']} AS event_key, file_row"


@dataclass(frozen=True)
class Window:
    """Range of changes in the build file, from `first_hour` on. Older changes have no events after `events_until`."""

    first_hour: datetime
    events_until: datetime

    def cold(self, root: Path, paths: Sequence[str], more: str = "") -> list[str]:
        """Return queries for older changes in compacted files, with the columns of `article_changes` and `more`.

        Comparisons with constants allow queries for newer hours or events to skip all these files.
        """
        if not paths:
            return []
        rows = LakePart(LEAVING, f"{root}/", tuple(paths), is_compacted=True).rows(texts=False)
        columns = column_list(LEAVING.table.narrow) + more
        where = f"file.batch_hour < {moment(self.first_hour)} AND file.event_at <= {moment(self.events_until)}"
        return [f"SELECT {columns} FROM {rows} AS file WHERE {where}"]  # noqa: S608  declared names


def window(connection: duckdb.DuckDBPyConnection) -> Window | None:
    """Return the window of a build or published file, or None if the file itself contains all changes."""
    found = answer(connection, "SELECT first_hour, events_until FROM internal.hot_window")
    return Window(*found[0]) if found else None


_COLD_FILES = """
SELECT lake_path, file.first_hour, end_hour
FROM compacted_files AS file
JOIN internal.hot_window AS hot ON file.first_hour < hot.first_hour
WHERE table_name = $table
  AND ($projects IS NULL
    OR len(list_filter($projects, lambda one: one BETWEEN first_project_id AND last_project_id)) > 0)
ORDER BY file.first_hour, lake_path
"""


def cold_files(
    connection: duckdb.DuckDBPyConnection, projects: Collection[str] | None = None
) -> list[tuple[str, datetime, datetime]]:
    """Return the compacted files with older changes, each with its path, first hour and end."""
    values = {"table": LEAVING.name, "projects": None if projects is None else sorted(projects)}
    return answer(connection, _COLD_FILES, values)


def make_all_changes(
    connection: duckdb.DuckDBPyConnection,
    lake_root: Path,
    projects: Collection[str] | None = None,
    *,
    partly: bool = False,
) -> None:
    """Create a build file's temporary `all_changes` view, which adds changes from older hours to `article_changes`.

    `projects` contains the projects to query, or is None for all projects. Changes in other projects might be missing.
    If `partly` is True, changes in missing or damaged files are omitted. Otherwise, raises LakeFileError if a compacted
    file is missing or damaged.
    """
    parts = [f"SELECT {column_list(LEAVING.table.narrow)}, event_key, file_row FROM article_changes"]  # noqa: S608
    if (known := window(connection)) is not None:
        root = lake_root.resolve()
        files = {root / path: hours for path, *hours in cold_files(connection, projects)}
        lost = faults(connection, lake_root, files)
        if lost and not partly:
            path, file = next(iter(lost.items()))
            first, end = files[path]
            more = f" ({len(lost)} such files)" if len(lost) > 1 else ""
            raise LakeFileError(
                f"The compacted file {file}{more}. No other lake file contains the changes from {hour_text(first)} to "
                f"{hour_text(end)} UTC, so results that need all changes cannot be computed. Nothing was changed. "
                "Restore the file, or materialize lake/article_changes and warehouse/article_changes again for these "
                "hours, which needs only the archive."
            )
        parts += known.cold(root, [str(path) for path in files if path not in lost], filled(f", {_KEYS}"))
    connection.execute("CREATE OR REPLACE TEMP VIEW all_changes AS\n" + "\nUNION ALL\n".join(parts))
