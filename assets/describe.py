"""What Dagster shows of tables and files: column schemas, markdown tables, the standard metadata keys.

Belongs here: metadata derived from the table declarations, from counts and from the first rows of a file.
Does not belong here: reading more than a page of data.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq

from resources.lake import Drift

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from resources.lake import Conversion
    from resources.tables import Table

OWNERS = ("team:data-platform",)

#: Columns of a preview of changes or articles: what one looks at first, in as much width as a page has.
PREVIEW = ("project_id", "name", "version_id", "event_at", "editor_name")
PREVIEW_ROWS = 5


def column_schema(table: Table) -> dg.TableSchema:
    """The declaration as Dagster's column schema: names, types, descriptions, what may not be null."""
    return dg.TableSchema(
        columns=[
            dg.TableColumn(
                column.name,
                _type(column.type),
                description=f"{column.description} {_fields(column.type)}".strip(),
                constraints=dg.TableColumnConstraints(nullable=not column.required),
            )
            for column in table
        ]
    )


def _type(type_: pa.DataType) -> str:
    """A type in a few letters: the page leaves no room for descriptions beside a struct written out."""
    if pa.types.is_list(type_):
        return f"list<{_type(type_.value_type)}>"
    return "struct" if pa.types.is_struct(type_) else str(type_)


def _fields(type_: pa.DataType) -> str:
    if pa.types.is_list(type_):
        return _fields(type_.value_type)
    if not pa.types.is_struct(type_):
        return ""
    return "Fields: " + ", ".join(f"{field.name} ({_type(field.type)})" for field in type_) + "."


def lake_metadata(table: Table) -> dict[str, Any]:
    """Metadata of an asset that is Parquet files: their schema."""
    return {"dagster/column_schema": column_schema(table)}


def table_metadata(table: Table) -> dict[str, Any]:
    """Metadata of an asset that is a DuckDB table: its schema, and its full name in the published file.

    Only these have a table name: Dagster takes assets of one name for the same table.
    """
    return lake_metadata(table) | {"dagster/table_name": f"warehouse.main.{table.name}"}


def preview(paths: Sequence[Path], columns: Sequence[str]) -> dg.MarkdownMetadataValue:
    """The first rows of each Parquet file as a markdown table, few in all and only of the named columns."""
    each = -(-PREVIEW_ROWS // len(paths))
    rows: list[dict[str, Any]] = []
    for path in paths[:PREVIEW_ROWS]:
        with pq.ParquetFile(path) as file:
            first = next(file.iter_batches(batch_size=each, columns=list(columns)), None)
            rows += first.to_pylist() if first is not None else []
    return markdown(rows, columns)


def drift_of(conversions: Iterable[Conversion]) -> list[Drift]:
    """The fields without a column that stand in several conversions, each once, the most frequent first."""
    found: dict[str, Drift] = {}
    for seen in (drift for conversion in conversions for drift in conversion.drift):
        known = found.get(seen.path)
        found[seen.path] = seen if known is None else Drift(seen.path, known.count + seen.count, known.example)
    return sorted(found.values(), key=lambda drift: (-drift.count, drift.path))


def remarks_of(conversions: Iterable[Conversion]) -> str:
    """What else the archives of some conversions hold, in sentences; empty where it is nothing."""
    return "\n".join(f"{made.identifier}: {remark}" for made in conversions for remark in made.remarks)


def markdown(rows: Iterable[Mapping[str, object]], columns: Sequence[str]) -> dg.MarkdownMetadataValue:
    """Rows as a markdown table of the named columns; quantities with thousands separators, identifiers without."""
    lines = ["| " + " | ".join(columns) + " |", "|" + " --- |" * len(columns)]
    lines += ["| " + " | ".join(_cell(column, row.get(column)) for column in columns) + " |" for row in rows]
    return dg.MetadataValue.md("\n".join(lines))


def _cell(column: str, value: object) -> str:
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    if isinstance(value, float):
        return f"{value:,.2f}"
    if isinstance(value, int) and not isinstance(value, bool) and not column.endswith("_id"):
        return f"{value:,}"
    return "" if value is None else str(value).replace("|", "\\|").replace("\n", " ")[:200]
