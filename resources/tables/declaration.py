"""What a declaration is made of: Arrow types, columns, tables, macros."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator

TIMESTAMP = pa.timestamp("us", tz="UTC")
TEXT = pa.string()
INT = pa.int64()
BOOL = pa.bool_()
DOUBLE = pa.float64()


@dataclass(frozen=True)
class Column:
    """One column.

    `path` is the dotted place of the value in the service's JSON record. Without one the value comes from `first_of`, or
    from the archive, which knows its hour, project, namespace and snapshot; `extra` is the rest of the record. Where both
    record and archive know a value, a record that contradicts its archive is rejected.
    `first_of` names the columns of which the first that is not null gives the value.
    `default` stands where the record has no value, and `values` are those that it may have (empty: any).
    `wire` is the type to parse the JSON value as where it differs from `type` (the cast must be lossless).
    `required`: a record without the value is rejected; a text must not be empty either where it is a `lookup`.
    `json`: the value, whatever it is, is kept as JSON text, exactly as the record has it.
    `body` marks the large text columns: stored last, without statistics, in the lake only.
    `rising` marks whole numbers that mostly rise from row to row: files hold their differences.
    `lookup` marks the columns by whose values single rows are asked for: lake files can tell without reading where a
    value does not stand.
    """

    name: str
    type: pa.DataType
    description: str
    path: str | None = None
    wire: pa.DataType | None = None
    required: bool = False
    json: bool = False
    body: bool = False
    rising: bool = False
    lookup: bool = False
    first_of: tuple[str, ...] = ()
    default: str | None = None
    values: tuple[str, ...] = ()

    @property
    def field(self) -> pa.Field:
        """The column as an Arrow field, its description in the metadata."""
        return pa.field(self.name, self.type, nullable=not self.required, metadata={"description": self.description})


@dataclass(frozen=True, eq=False)  # each table is declared once, so it equals itself alone, and is hashed at once
class Table:
    """One table: its columns in order, and the columns that identify a row (`key`, empty where rows may repeat)."""

    name: str
    description: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    def __getitem__(self, name: str) -> Column:
        return self._by_name[name]

    @cached_property
    def _by_name(self) -> dict[str, Column]:
        return {column.name: column for column in self.columns}

    @cached_property
    def schema(self) -> pa.Schema:
        """The Arrow schema of all columns."""
        return pa.schema([column.field for column in self.columns])

    @cached_property
    def fingerprint(self) -> str:
        """Digest (hex) of all that decides the rows: everything but the descriptions and how files hold them."""
        columns = [
            {
                f.name: value
                for f in fields(Column)
                if f.name not in {"description", "rising"} and (value := getattr(column, f.name)) != f.default
            }
            for column in self.columns
        ]
        return hashlib.sha256(json.dumps([self.name, self.key, columns], default=str).encode()).hexdigest()

    @cached_property
    def bodies(self) -> frozenset[str]:
        """The names of its body columns."""
        return frozenset(column.name for column in self.columns if column.body)

    @cached_property
    def narrow(self) -> Table:
        """The same table without its bodies: what DuckDB holds natively."""
        return Table(self.name, self.description, tuple(c for c in self.columns if not c.body), self.key)


@dataclass(frozen=True)
class Macro:
    """A query with parameters, used like a table: `FROM articles_at('2026-11-20 09:00:00+00')`."""

    name: str
    parameters: tuple[str, ...]
    description: str
