"""What `fields` and `filters` do to the records of lists and to single records.

The service is known to do it in two ways. Documented (the default): nested output, filters by equality of JSON values.
In the public source of August 2025 (`source_2025`) it queries its object store in SQL: dotted names come back
flattened, and numbers are compared by `>`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from resources.sandbox.api.answers import Refusal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from resources.sandbox.api.parameters import Filter, Parameters

Record = dict[str, Any]

#: Stands for the value of a field that a record does not have.
Missing = object()
#: A piece of a path that the object store's SQL can take.
_PIECE = re.compile(r"[^\s\[\]'\"()]+")


def select(records: Iterable[Mapping[str, Any]], parameters: Parameters, *, source_2025: bool) -> list[Record]:
    """The records that pass all filters, each with the fields asked for.

    Raises:
        Refusal: 400 or 500 with the store's text, in the 2025 behaviour only.
    """
    if source_2025:
        _check_query(parameters)
    passes = _passes_2025 if source_2025 else _passes
    return [
        pick(record, parameters.fields, source_2025=source_2025)
        for record in records
        if all(passes(record, condition) for condition in parameters.filters)
    ]


def undecided(outline: Mapping[str, Any], parameters: Parameters, *, source_2025: bool) -> bool:
    """Whether a record may pass the filters, by those of its fields that are known before it is made."""
    passes = _passes_2025 if source_2025 else _passes
    return all(
        passes(outline, condition) for condition in parameters.filters if condition.field.split(".")[0] in outline
    )


def pick(record: Mapping[str, Any], fields: tuple[str, ...], *, source_2025: bool) -> Record:
    """The fields of one record; none asked, or `*`, means all. Unknown names are left out."""
    if not fields or "*" in fields:
        return dict(record)
    if source_2025:
        found = {field.replace(".", "__"): _value(record, field.split(".")) for field in fields}
        # `a.*` looks for a key named `*`: the object comes back without it.
        found |= {f.removesuffix(".*"): {} for f in fields if f.endswith(".*") and f.removesuffix(".*") in record}
        return {key: value for key, value in found.items() if value is not Missing}
    return _nested(record, [field.removesuffix(".*").split(".") for field in fields])


def _nested(record: Mapping[str, Any], paths: list[list[str]]) -> Record:
    """The asked paths, nested, in the record's own order."""
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
    value = _value(record, condition.field.split("."))
    return equal(None if value is Missing else value, condition.value)


def equal(left: Any, right: Any) -> bool:
    """Equality of JSON values: a text is no number and true is not 1, but 1 is 1.0."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return bool(left == right)


def _passes_2025(record: Mapping[str, Any], condition: Filter) -> bool:
    wanted = condition.value
    if isinstance(wanted, bool) or not isinstance(wanted, (str, int, float)):
        return True
    value = _value(record, condition.field.split("."))
    if isinstance(wanted, str):
        return bool(value == wanted)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return value == int(wanted) if "namespace.identifier" in condition.field else value > wanted


def _check_query(parameters: Parameters) -> None:
    for path in (*parameters.fields, *(condition.field for condition in parameters.filters)):
        if not all(_PIECE.fullmatch(piece) for piece in path.split(".")):
            raise Refusal(
                400, "ParseInvalidPathComponent: Invalid Path component. Please check the path and try again."
            )
    for condition in parameters.filters:
        if isinstance(condition.value, str) and "'" in condition.value:
            raise Refusal(500, "ParseUnexpectedToken: The SQL expression contains an unexpected token.")


def _value(record: Mapping[str, Any], path: list[str]) -> Any:
    value: Any = record
    for piece in path:
        if not isinstance(value, dict) or piece not in value:
            return Missing
        value = value[piece]
    return value
