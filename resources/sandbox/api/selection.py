"""Effects of `fields` and `filters` on the records of lists and on single records.

Output is nested, and filters compare by equality of JSON values, as documented. (In the service's public source of
August 2025, which queries its object store in SQL, dotted names come back flattened and numbers are compared by `>`.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from resources.sandbox.api.parameters import Filter, Parameters

Record = dict[str, Any]

#: Stands for the value of a field that a record does not have.
Missing = object()


def select(records: Iterable[Mapping[str, Any]], parameters: Parameters) -> list[Record]:
    """Return the records that pass all filters, each with the requested fields."""
    return [
        pick(record, parameters.fields)
        for record in records
        if all(_passes(record, condition) for condition in parameters.filters)
    ]


def undecided(outline: Mapping[str, Any], parameters: Parameters) -> bool:
    """Return whether a record may pass the filters, by those of its fields that are known before it is made."""
    return all(
        _passes(outline, condition) for condition in parameters.filters if condition.field.split(".")[0] in outline
    )


def pick(record: Mapping[str, Any], fields: tuple[str, ...]) -> Record:
    """Return the fields of one record, in its own order; none asked, or `*`, means all. Unknown names are left out."""
    if not fields or "*" in fields:
        return dict(record)
    return _nested(record, [field.removesuffix(".*").split(".") for field in fields])


def _nested(record: Mapping[str, Any], paths: list[list[str]]) -> Record:
    chosen: Record = {}
    for key, value in record.items():
        below = [path[1:] for path in paths if path[0] == key]
        if not below:
            continue
        if any(not rest for rest in below):
            chosen[key] = value
        elif isinstance(value, dict):
            if part := _nested(value, below):
                chosen[key] = part
        elif isinstance(value, list):
            chosen[key] = [_nested(item, below) for item in value if isinstance(item, dict)]
    return chosen


def _passes(record: Mapping[str, Any], condition: Filter) -> bool:
    value: Any = record
    for piece in condition.field.split("."):
        value = value.get(piece) if isinstance(value, dict) else None
    return equal(value, condition.value)


def equal(left: Any, right: Any) -> bool:
    """Return the equality of JSON values: a text is no number and true is not 1, but 1 is 1.0."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return bool(left == right)
