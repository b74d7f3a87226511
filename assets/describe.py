"""What Dagster shows of tables and files: column schemas, markdown tables, the standard metadata keys.

Belongs here: metadata derived from the table declarations and from counts. Does not belong here: reading data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dagster as dg

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from resources.tables import Table

OWNERS = ("team:data-platform",)


def column_schema(table: Table) -> dg.TableSchema:
    """The declaration as Dagster's column schema: names, types, descriptions, what may not be null."""
    return dg.TableSchema(
        columns=[
            dg.TableColumn(
                column.name,
                str(column.type),
                description=column.description,
                constraints=dg.TableColumnConstraints(nullable=not column.required),
            )
            for column in table
        ]
    )


def table_metadata(table: Table, uri: str | None = None) -> dict[str, Any]:
    """Metadata of an asset that is a table: its schema, its name, where it lies."""
    metadata: dict[str, Any] = {"dagster/column_schema": column_schema(table), "dagster/table_name": table.name}
    return metadata | ({"dagster/uri": uri} if uri else {})


def markdown(rows: Iterable[Mapping[str, object]], columns: Sequence[str]) -> dg.MarkdownMetadataValue:
    """Rows as a markdown table of the named columns; numbers with thousands separators."""
    lines = ["| " + " | ".join(columns) + " |", "|" + " --- |" * len(columns)]
    lines += ["| " + " | ".join(_cell(row.get(column)) for column in columns) + " |" for row in rows]
    return dg.MetadataValue.md("\n".join(lines))


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.2f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return "" if value is None else str(value).replace("|", "\\|").replace("\n", " ")[:200]
