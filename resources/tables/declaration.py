"""Building blocks of declarations: Arrow types, columns, tables, macros, and columns shared by several tables."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property

import pyarrow as pa

TIMESTAMP = pa.timestamp("us", tz="UTC")
TEXT = pa.string()
INT = pa.int64()
BOOL = pa.bool_()
DOUBLE = pa.float64()


@dataclass(frozen=True)
class Column:
    """A column of a declared table.

    Attributes:
        path: Dotted path of the value in the service's JSON record. Without a path, the value comes from `first_of` or
            from the archive, which determines hour, project, namespace and snapshot; `extra` is the rest of the record.
            A record that contradicts its archive is rejected.
        first_of: Columns whose first non-null value is used.
        default: Value if the record has none.
        values: Allowed values (empty: any).
        wire: Type for parsing the JSON value, if it differs from `type`; the cast must be lossless.
        required: A record without the value is rejected. The text of a `lookup` must not be empty either.
        json: The value is stored as JSON text, exactly as in the record, whatever its type.
        body: A large text column: stored last, without statistics, only in the lake.
        rising: Integers that mostly increase from row to row: files store the differences.
        lookup: Single rows are queried by this column: lake files exclude absent values without reading the column.
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
        """The column as an Arrow field, with its description in the metadata."""
        return pa.field(self.name, self.type, nullable=not self.required, metadata={"description": self.description})


@dataclass(frozen=True, eq=False)  # compared and hashed by identity, because each table is declared only once
class Table:
    """A table: its columns in order, and the columns that identify a row (`key`, empty if rows may repeat)."""

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
        """Arrow schema of all columns."""
        return pa.schema([column.field for column in self.columns])

    @cached_property
    def fingerprint(self) -> str:
        """Digest (hex) of everything that determines the rows: all but the descriptions and the encoding of files."""
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
        """Names of the body columns."""
        return frozenset(column.name for column in self.columns if column.body)

    @cached_property
    def narrow(self) -> Table:
        """The table without its bodies, as stored in DuckDB."""
        return Table(self.name, self.description, tuple(c for c in self.columns if not c.body), self.key)


@dataclass(frozen=True)
class Macro:
    """A query with parameters that is used like a table: `FROM articles_at('2026-11-20 09:00:00+00')`."""

    name: str
    parameters: tuple[str, ...]
    description: str


#: Fingerprints of tables from the time when declarations were numbered (number 1), and of later ones whose files load
#: in the same way. So existing files of that version stay valid.
_FIRST = frozenset({
    "3c20494b584653cb0f541f06564d4994f173f70ad38dfde791c56ec60971527b",  # article_changes
    "5db9eb0e47139e6efc556deb3213cf1cfc48efa7d045c1251f73ceb977f93d64",  # snapshot_articles
    "f6245de24ce81e1691958d92cb4d5d4a8985c4a175756bcd75792239d6d1a544",  # rejects
    # rejects with a nullable hour: loads take it from the ledger
    "9ceb2cc019c147037d0765271938bd6e50ff4866f45c3dd31cb0e17e1520b91b",
    "e43b89c1820e4c5d305fcb1ca1220dbc460620283f4e3ca56803836dc3a06eda",  # codes
    "1acc9690859a1feed86f4bd425379e9f23385a92475f603e7850cde1108d010d",  # languages
    "7dafed225671158848e285ac73c669e5195fd8d180e9837eaceb5f50bfa16b46",  # projects
    "64b9f2b377e14e3f10dc3f6d7c6e224ad4b97b6737b91e53ae15e6060eec3822",  # namespaces
})  # fmt: skip


def version_of(*tables: Table) -> int | str:
    """Return a version of these tables that changes with their declarations, but not with descriptions."""
    found = [table.fingerprint for table in tables]
    return 1 if _FIRST.issuperset(found) else ".".join(found)


BATCH_HOUR = Column(
    "batch_hour", TIMESTAMP, "Start (UTC) of the hour of this row's file. Count by event_at.", required=True
)
SOURCE_AT = Column(
    "source_at",
    TIMESTAMP,
    "Identifies the file of this row: the batch_hour of an hourly batch, the source_at of a snapshot version in "
    "`snapshots`, or the start of a run of lookups. The latter two are never a full hour. Count by event_at.",
    required=True,
)
BATCH_HOUR_OR_NULL = Column("batch_hour", TIMESTAMP, "Start (UTC) of the hour of this row's file; null for a snapshot.")
PROJECT_ID = Column("project_id", TEXT, "Project (database name of the wiki), for example enwiki.", required=True)
NAMESPACE_ID = Column("namespace_id", INT, "Namespace: 0 article, 6 file, 10 template, 14 category.", required=True)
PROJECT_AND_NAMESPACE = (PROJECT_ID, NAMESPACE_ID)
SNAPSHOT_VERSION = (
    Column(
        "snapshot_id", TEXT, "The service's identifier of the snapshot, for example enwiki_namespace_0.", required=True
    ),
    Column(
        "snapshot_version", TEXT, "Version of the complete snapshot (MD5); compare with <>, not with <.", required=True
    ),
)
