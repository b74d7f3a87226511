"""Records of the service, as typed values.

Fields that a model does not know are allowed and kept (`model_extra`): the service adds fields without notice, and a
record that was read must not lose any. The service leaves out whatever is empty, so all but the identifier may be
absent. Numbers may arrive with an exponent (`126211.488e0`), dates with nanoseconds (kept to the microsecond here; the
archived list has the exact text).

Source: the service's data dictionary for codes, languages, projects, namespaces, snapshots and batches; `get-user`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Annotated, Any, Final

import pyarrow as pa
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, Strict, create_model

from resources.datasets import Dataset
from resources.formatting import legible
from resources.tables import TIMESTAMP, Column

#: The service has 3,600 files in its longest list; a list of megabytes made of tiny records would be gigabytes here.
LONGEST_LIST = 50_000

_UNITS = {"B": 1, "KB": 1_000, "MB": 1_000_000, "GB": 1_000_000_000}

#: Identifiers become file names, so nothing in them may leave a folder, nor be too long for a name.
Identifier = Annotated[str, Field(pattern=r"\A[A-Za-z0-9_][A-Za-z0-9_.-]*\z", max_length=180)]

#: Database names become parts of folders and names as well.
ProjectName = Annotated[str, Field(pattern=r"\A[A-Za-z0-9_][A-Za-z0-9_.-]*\z", max_length=100)]

#: An MD5: the bytes of an archive are verified with it.
Version = Annotated[str, Field(pattern=r"\A[0-9a-f]{32}\z")]

#: A whole number that every table can hold.
Number = Annotated[int, Field(ge=-(2**31), lt=2**31)]
Count = Annotated[int, Field(ge=0, lt=2**53)]


def in_range(moment: datetime) -> datetime:
    """Return a moment, if sums with it cannot overflow. Raises ValueError otherwise."""
    if not 1970 <= moment.year < 9000:
        raise ValueError("the year is out of range")
    return moment


Moment = Annotated[datetime, AfterValidator(in_range)]


class Record(BaseModel):
    """The base of all records: immutable, unknown fields kept."""

    model_config = ConfigDict(extra="allow", frozen=True)

    def __getitem__(self, name: str) -> Any:
        """A field as the service sent it, for records that have no model of their own."""
        return (self.model_extra or {})[name] if name not in type(self).model_fields else getattr(self, name)


class Entry(Record):
    """An entry of a reference list; its other fields are read by name."""

    identifier: str | Number


class ProjectReference(Record):
    """The project inside another record."""

    identifier: ProjectName


class NamespaceReference(Record):
    """The namespace inside another record; the service never leaves this number out."""

    identifier: Number


class Size(Record):
    """Size of an archive: decimal megabytes rounded to three places, in `unit_text`'s unit."""

    value: float = Field(default=0.0, ge=0, le=1e15, allow_inf_nan=False)
    unit_text: str = "MB"

    @property
    def approximate_bytes(self) -> int:
        """About how many bytes that is (exact to 500 where the unit is MB); an unknown unit counts as bytes."""
        return int(self.value * _UNITS.get(self.unit_text.upper(), 1))

    @property
    def is_understood(self) -> bool:
        return self.unit_text.upper() in _UNITS


class ArchiveRecord(Record):
    """A file of one project and namespace; `version` is the MD5 of the archive and has no order."""

    identifier: Identifier
    version: Version
    date_modified: Moment | None = None
    is_part_of: ProjectReference
    namespace: NamespaceReference
    size: Size | None = None

    @property
    def project_id(self) -> str:
        return self.is_part_of.identifier

    @property
    def namespace_id(self) -> int:
        return self.namespace.identifier

    @property
    def approximate_bytes(self) -> int:
        """About how large the archive is, compressed; 0 where the record does not say."""
        return 0 if self.size is None else self.size.approximate_bytes

    @property
    def stated_bytes(self) -> int | None:
        """The same, None where the record does not say, or in a unit that is unknown."""
        if self.size is None or "value" not in self.size.model_fields_set or not self.size.is_understood:
            return None
        return self.size.approximate_bytes


class Batch(ArchiveRecord):
    """The changes of one hour in one project and namespace."""


class Snapshot(ArchiveRecord):
    """All pages of one project and namespace; `chunks` names its pieces, in no order, where it has any."""

    chunks: Annotated[tuple[Identifier, ...], Field(max_length=LONGEST_LIST, fail_fast=True)] = ()


class Chunk(ArchiveRecord):
    """A piece of a snapshot that can be downloaded by itself."""


@dataclass(frozen=True)
class Quota:
    """Units of one product: used so far, and allowed (None: no limit is stated)."""

    used: int
    limit: int | None

    @property
    def left(self) -> int | None:
        """Units that can still be used; None: no limit is stated."""
        return None if self.limit is None else max(0, self.limit - self.used)

    @property
    def exhausted(self) -> bool:
        return self.limit is not None and self.used >= self.limit


#: Shown in a terminal.
Shown = Annotated[str, AfterValidator(lambda text: legible(text, 200))]


class User(Record):
    """The account as the service sees it (`POST /v1/get-user`)."""

    username: Shown | None = None
    groups: Annotated[tuple[Shown, ...], Field(fail_fast=True)] | None = None
    ondemand_requests_count: Count | None = None
    ondemand_limit: Count | None = None
    snapshot_requests_count: Count | None = None
    snapshot_limit: Count | None = None
    chunk_requests_count: Count | None = None
    chunk_limit: Count | None = None

    @property
    def quotas(self) -> dict[str, Quota]:
        """Counters by product: `ondemand`, `snapshot`, `chunk`, and any other the service reports in that form."""
        fields = self.model_dump()
        found: dict[str, Quota] = {}
        for name, used in fields.items():
            product = name.removesuffix("_requests_count")
            if product == name:
                continue
            limit = fields.get(f"{product}_limit")
            if (isinstance(used, int) or isinstance(limit, int)) and product.isidentifier():
                found[product] = Quota(_count(used) or 0, _count(limit))
        return found


def _count(found: object) -> int | None:
    return found if isinstance(found, int) and 0 <= found < 2**53 else None


def _is_text(value: object) -> object:
    if not isinstance(value, str | datetime):
        raise ValueError("a moment is a text")  # noqa: TRY004  pydantic reports ValueErrors
    return value


def _in_utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


#: As strict as the conversion to the lake: a number in quotation marks is a text.
_SCALARS: Final[dict[pa.DataType, Any]] = {
    pa.string(): str,
    pa.int64(): Annotated[int, Strict()],
    pa.bool_(): Annotated[bool, Strict()],
    pa.float64(): Annotated[float, Strict()],
    TIMESTAMP: Annotated[datetime, BeforeValidator(_is_text), AfterValidator(_in_utc)],
}


@cache
def record_model(dataset: Dataset) -> Any:
    """The model of a dataset's records: a subclass of `Record` with a field for each declared value, made on first use.

    `ARTICLE_CHANGES` is for articles of all kinds: hourly files, snapshots, lookups and the stream.
    """
    tree: dict[str, Any] = {}
    for column in dataset.table:
        if column.path is not None:
            *above, last = column.path.split(".")
            place = tree
            for part in above:
                place = place.setdefault(part, {})
            place[last] = _type_of(f"{dataset.name}_{column.name}", column)
    return _model(dataset.name, tree)


def _model(name: str, tree: dict[str, Any]) -> Any:
    """Return a model whose fields are types or further models."""
    fields: dict[str, Any] = {
        field: ((_model(f"{name}_{field}", kind) if isinstance(kind, dict) else kind) | None, None)
        for field, kind in tree.items()
    }
    return create_model(name, __base__=Record, __module__=__name__, **fields)


def _type_of(name: str, column: Column) -> Any:
    if column.json:
        return Any
    # a whole number that is sent as 26124.0
    return int if column.wire is not None else _python_type(name, column.type)


def _python_type(name: str, kind: pa.DataType) -> Any:
    if isinstance(kind, pa.ListType):
        # a member may be null
        member: Any = _python_type(name, kind.value_type) | None
        return tuple[member, ...]
    if isinstance(kind, pa.StructType):
        return _model(name, {one.name: _python_type(f"{name}_{one.name}", one.type) for one in kind})
    return _SCALARS[kind]
