"""Building blocks for declarations: Arrow types, columns, tables, macros, and columns shared by several tables."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from typing import Self

import pyarrow as pa

TIMESTAMP = pa.timestamp("us", tz="UTC")
TEXT = pa.string()
INT = pa.int64()
BOOL = pa.bool_()
DOUBLE = pa.float64()


@dataclass(frozen=True)
class Column:
    """A column in a declared table.

    Attributes:
        path: Dotted path of the value in the service's JSON record. Without a path, the value comes from `first_of` or
            from the archive, which determines the hour, project, namespace and snapshot. A record that contradicts its
            archive is rejected. The `extra` column contains all other fields.
        first_of: Columns from which the first non-null value is used.
        default: Default value if the record does not contain the field.
        values: Allowed values. An empty tuple allows any value.
        wire: Type for parsing the JSON value, if different from `type`. The cast must be lossless.
        required: If True, a record without the value, or with an empty `lookup` string, is rejected.
        json: If True, a value of any type is stored as JSON text, exactly as in the record.
        body: If True, the column contains long text, which is stored last, without statistics, and only in the lake.
        rising: If True, integers mostly increase from row to row, so files store the differences.
        lookup: If True, queries select single rows by this column, so lake files can rule out absent values quickly.
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
        """Arrow field for the column, with its description in the metadata."""
        return pa.field(self.name, self.type, nullable=not self.required, metadata={"description": self.description})


#: Declares a column whose value is never null.
required = partial(Column, required=True)


@dataclass(frozen=True, eq=False)  # compares and hashes by identity, because each table is declared only once
class Table:
    """A table with its ordered columns, and a `key` that identifies a row. The key is empty if rows can repeat."""

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
        return pa.schema([column.field for column in self.columns])

    @cached_property
    def fingerprint(self) -> str:
        """Hexadecimal digest of everything that affects rows. Descriptions and file encodings are excluded."""
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
        """Names of the columns with long text (`body`)."""
        return frozenset(column.name for column in self.columns if column.body)

    @cached_property
    def narrow(self) -> Self:
        """The table without its body columns, as stored in DuckDB."""
        return replace(self, columns=tuple(c for c in self.columns if not c.body))


@dataclass(frozen=True)
class Macro:
    """A query with parameters that is used like a table: `FROM articles_at('2026-11-20 09:00:00+00')`."""

    name: str
    parameters: tuple[str, ...]
    description: str


#: Fingerprints of the tables with declaration number 1, from before fingerprints were introduced, and of later tables
#: whose files are loaded in the same way. Existing files of this version therefore remain valid.
_FIRST = frozenset({
    "3c20494b584653cb0f541f06564d4994f173f70ad38dfde791c56ec60971527b",  # article_changes
    "5db9eb0e47139e6efc556deb3213cf1cfc48efa7d045c1251f73ceb977f93d64",  # snapshot_articles
    "f6245de24ce81e1691958d92cb4d5d4a8985c4a175756bcd75792239d6d1a544",  # rejects
    # rejects with a nullable hour, because loads read the hour from the ledger
    "9ceb2cc019c147037d0765271938bd6e50ff4866f45c3dd31cb0e17e1520b91b",
    "e43b89c1820e4c5d305fcb1ca1220dbc460620283f4e3ca56803836dc3a06eda",  # codes
    "1acc9690859a1feed86f4bd425379e9f23385a92475f603e7850cde1108d010d",  # languages
    "7dafed225671158848e285ac73c669e5195fd8d180e9837eaceb5f50bfa16b46",  # projects
    "64b9f2b377e14e3f10dc3f6d7c6e224ad4b97b6737b91e53ae15e6060eec3822",  # namespaces
})  # fmt: skip


def version_of(*tables: Table) -> int | str:
    """Return a version that changes with the tables' declarations but not with their descriptions."""
    found = [table.fingerprint for table in tables]
    return 1 if _FIRST.issuperset(found) else ".".join(found)


BATCH_HOUR = required(
    "batch_hour", TIMESTAMP, "Start (UTC) of the hour that this row's file covers. Count events by event_at."
)
SOURCE_AT = required(
    "source_at",
    TIMESTAMP,
    "Identifier of the file that contained this row: the batch_hour of an hourly batch, the source_at of a snapshot "
    "version in `snapshots`, or the start time of a lookup run. The last two are never a full hour. Count events by "
    "event_at.",
)
BATCH_HOUR_OR_NULL = Column(
    "batch_hour", TIMESTAMP, "Start (UTC) of the hour that this row's file covers, or null for a snapshot."
)
PROJECT_ID = required("project_id", TEXT, "Project (the wiki's database name), for example enwiki.")
NAMESPACE_ID = required(
    "namespace_id", INT, "Namespace, for example 0 (article), 6 (file), 10 (template) or 14 (category)."
)
PROJECT_AND_NAMESPACE = (PROJECT_ID, NAMESPACE_ID)
SNAPSHOT_VERSION = (
    required("snapshot_id", TEXT, "The service's identifier of the snapshot, for example enwiki_namespace_0."),
    required("snapshot_version", TEXT, "Version (MD5) of the complete snapshot. Compare versions with <>, not with <."),
)
