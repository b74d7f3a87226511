"""Typed models for the service's records.

Unknown fields are retained in `model_extra`, because the service adds fields without notice. The service omits empty
fields, so every field except the identifier may be absent. Numbers may have an exponent (`126211.488e0`). Dates may
include nanoseconds, which are truncated to microseconds. The archived list retains the original digits. Dates without
a zone are in UTC.

Source: the service's data dictionary for codes, languages, projects, namespaces, snapshots and batches, and `get-user`.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Annotated, Any, Final, Self

import pyarrow as pa
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Strict,
    create_model,
    model_validator,
)

from resources.datasets import Dataset
from resources.formatting import legible
from resources.tables import TIMESTAMP

#: Maximum number of records in a list. The service's longest list has 3,600 records. Without a maximum, a few megabytes
#: of tiny records could need gigabytes of memory.
LONGEST_LIST = 50_000

_UNITS = {"B": 1, "KB": 1_000, "MB": 1_000_000, "GB": 1_000_000_000}

#: Format of the service's identifiers, which contain the project and the namespace.
IDENTIFIER = re.compile(r"(?P<project>.+)_namespace_(?P<namespace>\d{1,9})(_chunk_\d+)?", re.DOTALL | re.ASCII)

#: Identifiers become file names, so they must not contain path separators or exceed the maximum length of a file name.
Identifier = Annotated[str, Field(pattern=r"\A[A-Za-z0-9_][A-Za-z0-9_.-]*\z", max_length=180)]

#: Database names also become parts of folder names and file names.
ProjectName = Annotated[str, Field(pattern=r"\A[A-Za-z0-9_][A-Za-z0-9_.-]*\z", max_length=100)]

#: An MD5, used to verify an archive's bytes.
Version = Annotated[str, Field(pattern=r"\A[0-9a-f]{32}\z")]

#: An integer that fits into the integer columns of all tables.
Number = Annotated[int, Field(ge=-(2**31), lt=2**31)]
Count = Annotated[int, Field(ge=0, lt=2**53)]


def in_range(moment: datetime) -> datetime:
    """Return the time, or raise ValueError if date arithmetic with the time could overflow."""
    if not 1970 <= moment.year < 9000:
        raise ValueError("the year is out of range")
    return moment


def _in_utc(moment: datetime) -> datetime:
    """Return the time in UTC. A time without a zone is already in UTC, and could not be compared with other times."""
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


Moment = Annotated[datetime, AfterValidator(in_range), AfterValidator(_in_utc)]


class Record(BaseModel):
    """Base class of all records. Records are immutable and retain unknown fields."""

    model_config = ConfigDict(extra="allow", frozen=True)

    def __getitem__(self, name: str) -> Any:
        """Return a field's original value, for records without a model."""
        return (self.model_extra or {})[name] if name not in type(self).model_fields else getattr(self, name)


class Entry(Record):
    """An entry in a reference list. Fields without an attribute can be read by name."""

    identifier: str | Number


class ProjectReference(Record):
    """A project reference inside another record. No generic class: its instances could not be pickled."""

    identifier: ProjectName


class NamespaceReference(Record):
    """A namespace reference inside another record. The number is always present."""

    identifier: Number


class Size(Record):
    """Size of an archive in the unit named by `unit_text`, usually decimal megabytes rounded to three places."""

    value: float | None = Field(default=None, ge=0, le=1e15, allow_inf_nan=False)
    unit_text: str = "MB"


class ArchiveRecord(Record):
    """A file for one project and namespace. `version` is the archive's MD5, so versions have no order."""

    identifier: Identifier
    version: Version
    date_modified: Moment | None = None
    is_part_of: ProjectReference
    namespace: NamespaceReference
    size: Size | None = None

    @model_validator(mode="after")
    def _agree(self) -> Self:
        found = IDENTIFIER.fullmatch(self.identifier)
        if found is not None and (found["project"], int(found["namespace"])) != (self.project_id, self.namespace_id):
            raise ValueError(f"its record specifies project {self.project_id} and namespace {self.namespace_id}")
        return self

    @property
    def project_id(self) -> str:
        return self.is_part_of.identifier

    @property
    def namespace_id(self) -> int:
        return self.namespace.identifier

    @property
    def stated_bytes(self) -> int | None:
        """Approximate size of the archive in bytes, or None if the record does not state a size in a known unit.

        Megabytes are accurate to within 500 bytes.
        """
        size = self.size
        if size is None or size.value is None or size.unit_text.upper() not in _UNITS:
            return None
        return int(size.value * _UNITS[size.unit_text.upper()])

    @property
    def approximate_bytes(self) -> int:
        """Approximate compressed size of the archive in bytes, or 0 if the record does not state a size."""
        return self.stated_bytes or 0


class Batch(ArchiveRecord):
    """One hour's changes in one project and namespace."""


class Snapshot(ArchiveRecord):
    """All pages in one project and namespace. `chunks` contains the chunks' identifiers, in no particular order."""

    chunks: Annotated[tuple[Identifier, ...], Field(max_length=LONGEST_LIST, fail_fast=True)] = ()


class Chunk(ArchiveRecord):
    """A separately downloadable part of a snapshot."""


@dataclass(frozen=True)
class Quota:
    """Used and allowed units for one product. `limit` is None if the service does not report a limit."""

    used: int
    limit: int | None

    @property
    def left(self) -> int | None:
        """Remaining units, or None if the service does not report a limit."""
        return None if self.limit is None else max(0, self.limit - self.used)


#: A string that is safe to display in a terminal.
Shown = Annotated[str, AfterValidator(lambda text: legible(text, 200))]


#: Each counter is judged by itself: an unusable counter is retained, but is no reason to ignore the other counters.
_Counter = Annotated[Count | Any, Field(union_mode="left_to_right")]


class User(Record):
    """The account as reported by the service (`POST /v1/get-user`). `quotas` contains the usable counters."""

    username: Shown | None = None
    groups: Annotated[tuple[Shown, ...], Field(fail_fast=True)] | None = None
    ondemand_requests_count: _Counter = None
    ondemand_limit: _Counter = None
    snapshot_requests_count: _Counter = None
    snapshot_limit: _Counter = None
    chunk_requests_count: _Counter = None
    chunk_limit: _Counter = None

    @property
    def quotas(self) -> dict[str, Quota]:
        """Counters by product: `ondemand`, `snapshot`, `chunk`, and any other counter of the same form."""
        fields = self.model_dump()
        counts = {name: value for name, value in fields.items() if isinstance(value, int) and 0 <= value < 2**53}
        found: dict[str, Quota] = {}
        for product in (name.removesuffix("_requests_count") for name in fields if name.endswith("_requests_count")):
            used, limit = counts.get(f"{product}_requests_count"), counts.get(f"{product}_limit")
            if used is None and fields[f"{product}_requests_count"] is not None:
                continue  # an unknown number of units has been used, so the remaining units are unknown
            if product.isidentifier() and (used, limit) != (None, None):
                found[product] = Quota(used or 0, limit)
        return found


def _is_text(value: object) -> object:
    if not isinstance(value, str | datetime):
        raise ValueError("a timestamp must be a string")  # noqa: TRY004  pydantic reports ValueErrors
    return value


#: Validates as strictly as the conversion to the lake, which treats a quoted number as a string.
_SCALARS: Final[dict[pa.DataType, Any]] = {
    pa.string(): str,
    pa.int64(): Annotated[int, Strict()],
    pa.bool_(): Annotated[bool, Strict()],
    pa.float64(): Annotated[float, Strict()],
    TIMESTAMP: Annotated[datetime, BeforeValidator(_is_text), AfterValidator(_in_utc)],
}


@cache
def record_model(dataset: Dataset) -> Any:
    """Return a dataset's record model: a subclass of `Record` with a field for each declared value.

    `ARTICLE_CHANGES` covers all article records: hourly files, snapshots, lookups and the stream.
    """
    tree: dict[str, Any] = {}
    for column in dataset.table:
        if column.path is not None:
            *above, last = column.path.split(".")
            place = tree
            for part in above:
                place = place.setdefault(part, {})
            if column.json:
                place[last] = Any
            else:  # an integer may arrive as 26124.0
                name = f"{dataset.name}_{column.name}"
                place[last] = int if column.wire is not None else _python_type(name, column.type)
    return _model(dataset.name, tree)


def _model(name: str, tree: dict[str, Any]) -> Any:
    fields: dict[str, Any] = {
        field: ((_model(f"{name}_{field}", kind) if isinstance(kind, dict) else kind) | None, None)
        for field, kind in tree.items()
    }
    return create_model(name, __base__=Record, __module__=__name__, **fields)


def _python_type(name: str, kind: pa.DataType) -> Any:
    if isinstance(kind, pa.ListType):
        # an array member may be null
        member: Any = _python_type(name, kind.value_type) | None
        return tuple[member, ...]
    if isinstance(kind, pa.StructType):
        return _model(name, {one.name: _python_type(f"{name}_{one.name}", one.type) for one in kind})
    return _SCALARS[kind]
