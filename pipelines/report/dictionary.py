"""The data dictionary: the table declarations as Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from resources import datasets

if TYPE_CHECKING:
    from resources.tables import Column, Table

_HEAD = """\
# Data dictionary

Made from the table declarations by `wme dictionary > docs/data-dictionary.md`; the tests fail when the two differ. The
same words are in the DuckDB file: `DESCRIBE`, `duckdb_tables()` and `duckdb_columns()` show them as comments.

*From* is the place of the value in the service's record; where it is empty the pipeline computes the value. Times are
UTC.

A value of another type than its column's makes its line a reject that names the place, the value and what was expected:
a number in quotation marks is text, and a whole number is never cut out of a fraction. These forms are taken, because
nothing is lost by it:

- `timestamp`: a date, or a date and a time to the hour, minute, second or up to six digits of a second, apart by `T` or
  a space; with an offset it becomes UTC, without one it is UTC.
- `double`: whole numbers too.
- *sent as double*: a whole number also as `26124.0` or `2.6124e4`, below 2 to the power of 53.
- *any JSON*: whatever value JSON allows, kept as text byte for byte as it was sent.
- any column that may be null: null, or no such field.
"""


def render() -> str:
    """The whole page (Markdown)."""
    return "\n".join([_HEAD, *(_table(table) for table in datasets.tables())])


def _table(table: Table) -> str:
    key = f"\nA row is identified by {', '.join(f'`{name}`' for name in table.key)}.\n" if table.key else ""
    rows = "\n".join(_row(column) for column in table)
    head = "| column | type | what it is | from |\n|---|---|---|---|"
    return f"## {table.name}\n\n{table.description}\n{key}\n{head}\n{rows}\n"


def _row(column: Column) -> str:
    kind = str(column.type).replace("|", "\\|")
    source = f"`{column.path}`" if column.path else ""
    cast = f", sent as {column.wire}" if column.wire is not None else ", any JSON" if column.json else ""
    null = "" if column.required else ", may be null"
    return f"| `{column.name}` | {kind}{cast}{null} | {column.description} | {source} |"
