"""Comparison of the realtime stream with hourly files, by event and column.

Only events that both sources should contain are compared: events from the stream's projects and namespaces that were
published while the stream was running. Visibility changes appear only in the stream. `keep_visibility_changes` stores
these changes in a separate table for loaded hours, because a reload replaces an hour's rows.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from resources import files
from resources.datasets import RETENTION
from resources.datasets.live import EVENTS, LIVE_CHANGES, files_of, step_of
from resources.errors import clause
from resources.formatting import counted, hour_text
from resources.tables import TIMESTAMP
from resources.warehouse.database import sql
from resources.warehouse.database.connect import Build, answer, raise_revision
from resources.warehouse.database.sql import transaction
from resources.warehouse.database.workarounds import is_exhausted
from resources.warehouse.records import LakeFileError

_HOUR = timedelta(hours=1)
#: Maximum number of example differences per hour, project and namespace.
_EXAMPLES = 5
#: Columns to ignore, because they exist in only one source or contain a row's position.
_OWN = ("batch_hour", "event_partition", "event_offset")
_COMPARED = [column for column in EVENTS if column.name not in _OWN]
# one row per event and title, with a hash per column, because an hour of page text would not fit into memory
_SIDE = """
  SELECT
    project_id, namespace_id, replace(name, '_', ' ') AS title,
    coalesce(event_id, concat(article_id, ' ', version_id, ' ', change_type, ' ', event_at)) AS mark,
    {{'event_at': event_at, 'name': name, 'event_id': event_id}} AS event,
    [{hashes}] AS content
  FROM {rows}
  SEMI JOIN compared USING (project_id, namespace_id)
  WHERE batch_hour = {hour} AND change_type <> 'visibility-change'
  QUALIFY row_number() OVER (
    PARTITION BY project_id, namespace_id, title, mark
    ORDER BY event_at DESC, version_id DESC, change_type = 'update' DESC, content DESC
  ) = 1
"""
_LOADED = f"""
SELECT batch_hour, project_id, namespace_id, lake_path
FROM hours
LEFT JOIN loads USING (table_name, batch_hour, project_id, namespace_id)
WHERE table_name = 'article_changes' AND state IN ({sql.FORMULAS["covered"]}) AND list_contains($hours, batch_hour)
ORDER BY ALL
"""  # noqa: S608  constant words


@dataclass(frozen=True)
class Comparison:
    """Comparison result for one hour, project and namespace. `examples` lists the first differences."""

    batch_hour: datetime
    project_id: str
    namespace_id: int
    compared_from: datetime
    compared_until: datetime
    stream_count: int
    file_count: int
    only_in_stream_count: int
    only_in_file_count: int
    different_count: int
    examples: tuple[str, ...]

    @property
    def difference_count(self) -> int:
        """Number of events that differ or that only one source contains."""
        return self.only_in_stream_count + self.only_in_file_count + self.different_count

    @property
    def is_partial(self) -> bool:
        """Return True if the stream covers only part of the hour."""
        return self.compared_until - self.compared_from < _HOUR

    def __str__(self) -> str:
        place = f"{self.project_id} namespace {self.namespace_id}, {hour_text(self.batch_hour)} UTC"
        if self.is_partial:
            span = (f"{when.astimezone(UTC):%H:%M:%S}" for when in (self.compared_from, self.compared_until))
            place += f" (the stream covers {' to '.join(span)})"
        if not self.difference_count:
            return f"{place}: the stream and the file agree on {counted(self.stream_count, 'event')}"
        counts = (
            (self.only_in_stream_count, "only in the stream"),
            (self.only_in_file_count, "only in the file"),
            (self.different_count, "different"),
        )
        listed = ", ".join(f"{count:,} {kind}" for count, kind in counts if count)
        return (
            f"{place}: {counted(self.difference_count, 'event')} in the stream and the file differ ({listed}), for "
            f"example {self.examples[0]}"
        )


def compare_stream(build: Build, hours: Collection[datetime]) -> list[Comparison]:
    """Compare the stored stream with the files of loaded hours. Return no results if no stream is stored.

    Hours that the stream does not cover are omitted. Hours whose stream files were compacted, or that are past the
    service's retention, are also omitted, because their stream files are incomplete. Raises LakeFileError if a stream
    file or hourly file cannot be read.
    """
    connection, lake_root, now = build
    folder = lake_root.resolve() / LIVE_CHANGES
    if not (found := files_of(folder)):
        return []
    with _reading(f"The file {found[-1].path} of the stream"):
        step = step_of(found[-1].last, found[-1].path)
    scopes: dict[datetime, list[dict[str, Any]]] = defaultdict(list)
    filed: dict[datetime, list[Path]] = defaultdict(list)
    recent = [hour for hour in hours if hour >= now - RETENTION]
    for hour, project, namespace, lake_path in answer(connection, _LOADED, {"hours": recent}):
        since = step.kept_since.get((project, namespace), None if step.kept_since else step.since)
        begin, end = max(hour, since or hour + _HOUR), min(hour + _HOUR, step.kept_until)
        path = None if lake_path is None else files.within(lake_root.resolve(), lake_path)
        if begin < end and (path is None or path.exists()):
            filed[hour] += [] if path is None else [path]
            scope = {"project_id": project, "namespace_id": namespace}
            scopes[hour].append(scope | {"compared_from": begin, "compared_until": end})
    compared: list[Comparison] = []
    for hour, places in scopes.items():
        # a clock that is behind might have put events into the previous hour's folder
        streamed = [file.path for file in files_of(folder, hour - _HOUR)]
        with _reading(f"A file of the stream or of {hour_text(hour)} UTC"):
            compared += _compare(connection, hour, places, streamed, filed[hour])
    return compared


def _compare(
    connection: duckdb.DuckDBPyConnection,
    hour: datetime,
    scope: Sequence[Mapping[str, Any]],
    streamed: Sequence[Path],
    filed: Sequence[Path],
) -> list[Comparison]:
    types = [("project_id", pa.string()), ("namespace_id", pa.int64())]
    schema = pa.schema([*types, ("compared_from", TIMESTAMP), ("compared_until", TIMESTAMP)])
    sql.temporary_table(connection, "compared", scope, schema)
    hashes = ", ".join(
        f"CASE WHEN {sql.identifier(one.name)} IS NOT NULL THEN hash({sql.identifier(one.name)}) END"
        if one.body
        else f"hash({sql.identifier(one.name)})"
        for one in _COMPARED
    )
    differing = ", ".join(
        f"CASE WHEN streamed.content[{number}] <> filed.content[{number}] THEN {sql.quoted(column.name)} END"
        for number, column in enumerate(_COMPARED, 1)
    )
    sides = {
        side: _SIDE.format(rows=_rows(paths), hashes=hashes, hour=sql.moment(hour))
        for side, paths in (("streamed", streamed), ("filed", filed))
    }
    query = sql.statement("read/comparison", differing=f"[{differing}]", **sides)
    compared = []
    for *counts, differences in connection.execute(query).fetchall():
        examples = []
        for one in (differences or ())[:_EXAMPLES]:
            where = f" ({', '.join(one['columns'])})" if one["difference"] == "different" else ""
            examples.append(f"{one['name']!r}, event {one['event_id']}: {one['difference']}{where}")
        compared.append(Comparison(*[hour, *counts, tuple(examples)]))
    return compared


def keep_visibility_changes(build: Build) -> int:
    """Store visibility changes from the stream for loaded hours, and return the number of new changes.

    Hourly files usually omit visibility changes. If an hourly file contains such a change, the stored row is removed.
    Raises LakeFileError, without changing anything, if a stream file cannot be read.
    """
    connection, lake_root, now = build
    paths = [file.path for file in files_of(lake_root.resolve() / LIVE_CHANGES, now - RETENTION - _HOUR)]
    key = ("batch_hour", "project_id", "namespace_id", "event_id", "name")
    same = " AND ".join(f"kept.{name} = filed.{name}" for name in key)
    kept = f"""
      INSERT INTO visibility_changes BY NAME
      SELECT {sql.column_list(EVENTS.narrow)}
      FROM {_rows(paths)} AS event
      SEMI JOIN (
        FROM hours WHERE table_name = 'article_changes' AND state IN ({sql.FORMULAS["covered"]})
      ) AS covered USING (batch_hour, project_id, namespace_id)
      ANTI JOIN visibility_changes AS known USING ({", ".join(key)})
      WHERE change_type = 'visibility-change'
      QUALIFY row_number() OVER (PARTITION BY {", ".join(key)} ORDER BY event_offset) = 1
    """  # noqa: S608  declared names
    moved = (
        "DELETE FROM visibility_changes AS kept USING article_changes AS filed WHERE "  # noqa: S608  declared names
        f"filed.change_type = 'visibility-change' AND filed.batch_hour >= {sql.moment(now - RETENTION)} AND {same}"
    )
    with _reading("A file of the stream"), transaction(connection):
        [(new,)] = connection.execute(kept).fetchall()
        [(gone,)] = connection.execute(moved).fetchall()
        if new or gone:
            raise_revision(connection)
    return int(new)


def _rows(paths: Sequence[Path]) -> str:
    """Return the files' rows with all columns of changes. A column that a file does not contain is null."""
    nothing = f"SELECT {sql.nulls(EVENTS)} WHERE false"
    if not paths:
        return f"({nothing})"
    listed = ", ".join(sql.quoted(str(path)) for path in paths)
    options = "hive_partitioning := false, union_by_name := true"
    return f"({nothing} UNION ALL BY NAME SELECT * FROM read_parquet([{listed}], {options}))"  # noqa: S608  our own paths


@contextmanager
def _reading(what: str) -> Iterator[None]:
    """Convert errors from reading a file in the context to a LakeFileError, unless disk space or memory ran out."""
    try:
        yield
    except (OSError, ValueError, duckdb.Error) as error:
        if isinstance(error, duckdb.Error) and is_exhausted(error):
            raise
        raise LakeFileError(
            f"{what} cannot be read ({clause(error)}), so the stream was not compared with the hourly files. Nothing "
            "was changed. If the file is a stream file, delete it; its events will be missing from the stream. If the "
            "file is an hourly file, convert its archive again."
        ) from error
