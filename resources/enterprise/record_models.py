"""Typed records: the model of a dataset's records, made from the declaration of its table.

A record may lack any field, because the service leaves out what is empty and what was not requested: that is None. Fields without
a column are kept (`model_extra`).
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Final

import pyarrow as pa
from pydantic import AfterValidator, BeforeValidator, Strict, create_model

from resources.enterprise.models import Record
from resources.tables import TIMESTAMP

if TYPE_CHECKING:
    from resources.datasets import Dataset
    from resources.tables import Column


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
    """The model of a dataset's records: a subclass of `models.Record` with a field for each declared place of a value.

    `ARTICLE_CHANGES` is for articles of all kinds: hourly files, snapshots, lookups and the stream. It is made on the first call.
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
    """A model of fields that are types, or models of their own."""
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
