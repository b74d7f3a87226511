"""Building blocks of declarations: Arrow types, columns, tables and macros."""

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

    Attributes:
        path: Dotted place of the value in the service's JSON record. Without a path the value comes from `first_of` or
            from the archive, which knows its hour, project, namespace and snapshot; `extra` is the rest of the record.
            A record that contradicts its archive is rejected.
        first_of: Columns of which the first that is not null gives the value.
        default: Value if the record has none.
        values: Allowed values (empty: any).
        wire: Type to parse the JSON value as, where it differs from `type`; the cast must be lossless.
        required: A record without the value is rejected. The text of a `lookup` must not be empty either.
        json: The value is stored as JSON text, exactly as in the record, whatever it is.
        body: A large text column: stored last, without statistics, in the lake only.
        rising: Whole numbers that mostly rise from row to row: files store their differences.
        lookup: Single rows are queried by this column: lake files rule out absent values without reading the column.
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
        """The same table without its bodies, as DuckDB stores it."""
        return Table(self.name, self.description, tuple(c for c in self.columns if not c.body), self.key)


@dataclass(frozen=True)
class Macro:
    """A query with parameters, used like a table: `FROM articles_at('2026-11-20 09:00:00+00')`."""

    name: str
    parameters: tuple[str, ...]
    description: str
