"""Rows of the stream's files: what to select them from; whole ones by their places; and the file of provisional rows, which is made of them.

DuckDB handles thousands of rows at once, whatever they have in them, and those of pages with long lists have tens of kilobytes without their bodies. So it
only sees the columns that decide. Whole rows are read here, a row group of a file at a time, which has a bound in bytes.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from resources.errors import clause
from resources.tables import ARTICLE_CHANGES, Table
from resources.warehouse.database.sql import nulls, quoted
from resources.warehouse.errors import LakeFileError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    import duckdb

#: What a row group of the file has at the most, unless one of the stream has more.
_GROUP_ROWS, _GROUP_BYTES = 8192, 8 << 20
#: More than a file has: places of rows in several files are told apart by it.
_ROWS_OF_A_FILE = 1 << 32
_EVENTS = ARTICLE_CHANGES.narrow
#: The file of provisional rows: events, whether a page lives by one and whether it has the bodies of its revision, where it stands in the lake; and pages
#: whose row of before counts no longer.
_SCHEMA = pa.schema(
    [
        *(pa.field(column.name, column.type) for column in _EVENTS),
        ("is_change", pa.bool_()),
        ("is_living", pa.bool_()),
        ("has_body", pa.bool_()),
        ("lake_file", pa.string()),
        ("lake_row", pa.int64()),
        ("is_left", pa.bool_()),
    ]
)


def rows_of(paths: Sequence[str], table: Table = _EVENTS) -> str:
    """What to select all rows of some files from, and their places, with `file_row` for both; columns that a file does not have are null."""
    rows = f"SELECT {nulls(table)}, NULL AS filename, NULL AS file_row_number, NULL AS file_row WHERE false"
    if paths:
        options = "hive_partitioning := false, union_by_name := true, filename := true, file_row_number := true"
        place = f"CAST(file_index AS BIGINT) * {_ROWS_OF_A_FILE} + file_row_number AS file_row"
        listed = ", ".join(map(quoted, paths))
        rows += f" UNION ALL BY NAME SELECT *, {place} FROM read_parquet([{listed}], {options})"  # noqa: S608  our own paths
    return f"({rows})"


def pieces(
    connection: duckdb.DuckDBPyConnection, paths: Sequence[str], table: str
) -> Iterator[tuple[str, pa.Table, pa.Table]]:
    """Whole rows whose places are in the column `file_row` of a table: their file, their rows in the table, and they themselves, a few at a time.

    Raises:
        LakeFileError: A file of the stream is gone or damaged.
    """
    query = (
        f"SELECT *, file_row - $first AS lake_row FROM {table} "  # noqa: S608  a name of this room
        "WHERE file_row >= $first AND file_row < $first + $rows ORDER BY file_row"
    )
    for number, path in enumerate(paths):
        place = {"first": number * _ROWS_OF_A_FILE, "rows": _ROWS_OF_A_FILE}
        wanted = connection.sql(query, params=place).to_arrow_table()
        if len(wanted):
            for some, rows in _found(path, wanted):
                yield path, some, rows


def _found(path: str, wanted: pa.Table) -> Iterator[tuple[pa.Table, pa.Table]]:
    begin = first = 0
    try:
        with pq.ParquetFile(path) as file:
            columns = [column.name for column in _EVENTS if column.name in file.schema_arrow.names]
            for group in range(file.num_row_groups):
                end = begin + file.metadata.row_group(group).num_rows
                last = pc.sum(pc.less(wanted["lake_row"], end)).as_py()
                if first < last:
                    some = wanted.slice(first, last - first)
                    rows = file.read_row_group(group, columns, use_threads=False)
                    yield some, rows if len(some) == len(rows) else rows.take(pc.subtract(some["lake_row"], begin))
                begin, first = end, last
    except (OSError, ValueError) as error:
        raise unreadable(error) from error


class Written(NamedTuple):
    """What was written: events, pages that live by one, pages whose published row, if any, counts no longer; when the newest event was published (None: there is none)."""

    event_count: int
    page_count: int
    left_count: int
    newest_at: datetime | None


def write_rows(
    connection: duckdb.DuckDBPyConnection, paths: Sequence[str], target: Path, said: Mapping[str, Any]
) -> Written:
    """Write the events of `live_events` and the pages of `leaving`; `said` is kept in the file's own metadata, as JSON.

    Raises:
        LakeFileError: A file of the stream is gone or damaged.
        OSError: The disk is full, for example.
    """
    events = pages = left = 0
    newest: list[datetime] = []
    schema = _SCHEMA.with_metadata({name: json.dumps(value) for name, value in said.items()})
    with pq.ParquetWriter(target, schema, compression="zstd") as writer:
        held: list[pa.Table] = []
        rows = size = 0
        for some in _written(connection, paths):
            if held and (rows + len(some) > _GROUP_ROWS or size + some.nbytes > _GROUP_BYTES):
                writer.write_table(pa.concat_tables(held))
                held, rows, size = [], 0, 0
                # else what each group leaves behind adds up
                pa.default_memory_pool().release_unused()
            held.append(some)
            rows, size = rows + len(some), size + some.nbytes
            events += pc.sum(some["is_change"]).as_py()
            pages += pc.sum(some["is_living"]).as_py()
            left += pc.sum(some["is_left"]).as_py()
            if (last := pc.max(some["event_published_at"]).as_py()) is not None:
                newest.append(last)
        if held:
            writer.write_table(pa.concat_tables(held))
    return Written(events, pages, left, max(newest, default=None))


def _written(connection: duckdb.DuckDBPyConnection, paths: Sequence[str]) -> Iterator[pa.Table]:
    for path, some, rows in pieces(connection, paths, "live_events"):
        own = {name: some[name] for name in ("is_living", "has_body", "lake_row")}
        yield filled(rows, _SCHEMA, is_change=True, is_left=False, lake_file=path, **own)
    with connection.sql("SELECT project_id, article_id FROM leaving").to_arrow_reader(_GROUP_ROWS) as left:
        for batch in left:
            pages = pa.Table.from_batches([batch])
            yield filled(pages, _SCHEMA, is_change=False, is_living=False, has_body=False, is_left=True)


def filled(rows: pa.Table, schema: pa.Schema = _EVENTS.schema, **own: Any) -> pa.Table:
    """The rows with all columns of a schema: their own, one value for all of them, or null."""
    columns = {name: rows[name] for name in rows.column_names} | own
    made = []
    for field in schema:
        value = columns.get(field.name)
        if not isinstance(value, pa.ChunkedArray):
            value = pa.repeat(pa.scalar(value, field.type), len(rows))
        made.append(value.cast(field.type))
    return pa.table(made, schema)


def unreadable(error: Exception) -> LakeFileError:
    """What a file of the stream that cannot be read means."""
    return LakeFileError(
        f"A file of the stream cannot be read ({clause(error)}). Analysts see no newer events of it, and nothing was changed. Remove that file: its "
        "events are then missing until the files of their hours are loaded."
    )
