"""Effects of `fields` and `filters` on a stream, which checks them against the schema of its messages.

The schema's names differ from those in the records in a few places (`version.sizes` is sent as `version.size`), and
where a message is on its topic is no part of it.

Source: the service's documentation of filtering; names, refusals and quirks follow its public source.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from resources.sandbox.api.answers import Refusal
from resources.sandbox.files import read_yaml

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from resources.sandbox.api.parameters import Filter, Parameters

    Record = dict[str, Any]
    Schema = dict[str, Any]

#: Members that the schema calls otherwise, by their object.
_NAMES = {
    "version": {"size": "sizes"},
    "image": {"content_url": "contentUrl"},
    "probability": {"false": "falsy", "true": "truthy"},
}
#: Members of an event that only its record has.
_ADDED = ("partition", "offset")
#: Whole numbers from here on are compared in a form that no record has.
_LARGE = 1_000_000
_KINDS = {str: "string", bool: "bool", int: "float64", float: "float64", list: "slice", dict: "map", type(None): "nil"}
_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int, float),
    "number": (int, float),
    "boolean": (bool,),
}


@dataclass(frozen=True)
class Field:
    """A field of the schema.

    Attributes:
        key: Its name in the record.
        kind: JSON's type; of an array that of its elements.
        many: True for an array.
        dated: True for a date.
        members: Of an object, by the schema's names.
    """

    key: str
    kind: str
    many: bool
    dated: bool
    members: Mapping[str, Field]


def selector(record: str, parameters: Parameters) -> Callable[[Record], Record | None]:
    """Return a function that selects what is sent of a message; None: the filters drop it.

    Args:
        record: Schema of the messages.
        parameters: `fields` and `filters`.

    Raises:
        Refusal: 422, there is no such field, or it cannot be asked for so.
    """
    schema = _schema(record)
    conditions = [_condition(schema, condition) for condition in parameters.filters]
    chosen: dict[str, Any] = {}
    for name in parameters.fields:
        _choose(schema, name, chosen)

    def select(message: Record) -> Record | None:
        if not all(condition(message) for condition in conditions):
            return None
        if not parameters.fields:
            return message
        found = _chosen(message, chosen)
        if isinstance(found.get("event"), dict):
            found["event"] |= {name: message["event"][name] for name in _ADDED if name in message["event"]}
        return found

    return select


@cache
def _schema(record: str) -> Field:
    return _field(record, {"$ref": f"#/components/schemas/{record}"})


@cache
def _schemas() -> dict[str, Schema]:
    found: dict[str, Schema] = read_yaml("interface.yaml")["components"]["schemas"]
    return found


def _field(key: str, shape: Schema) -> Field:
    if "$ref" in shape:
        shape = _schemas()[shape["$ref"].rpartition("/")[2]]
    if shape.get("type") == "array":
        element = _field(key, shape["items"])
        return Field(key, element.kind, many=True, dated=element.dated, members=element.members)
    others = _NAMES.get(key, {})
    members = {
        others.get(name, name): _field(name, below)
        for name, below in shape.get("properties", {}).items()
        if key != "event" or name not in _ADDED
    }
    return Field(
        key, shape.get("type", "object"), many=False, dated=shape.get("format") == "date-time", members=members
    )


def _find(schema: Field, name: str) -> list[Field] | None:
    """The fields on the way to one; None: there is no such field."""
    way, at = [], schema
    for piece in name.split("."):
        if piece not in at.members:
            return None
        at = at.members[piece]
        way.append(at)
    return way


def _choose(schema: Field, name: str, chosen: dict[str, Any]) -> None:
    whole = name.endswith(".*")
    way = _find(schema, name.removesuffix(".*"))
    if way is None or (whole and not way[-1].members):
        raise Refusal(422, f"field with name '{name}' not found")
    if way[-1].members and not whole:
        raise Refusal(422, f"use wildcard '{name}.*' to select all fields from the object")  # noqa: S608 - no SQL
    for field in way[:-1]:
        if chosen.get(field.key, {}) is True:
            return
        chosen = chosen.setdefault(field.key, {})
    chosen[way[-1].key] = True


def _chosen(value: Mapping[str, Any], chosen: Mapping[str, Any]) -> Record:
    found: Record = {}
    for key, member in value.items():
        below = chosen.get(key)
        if below is True:
            found[key] = member
        elif below is not None and isinstance(member, list):
            found[key] = [_chosen(one, below) for one in member]
        elif below is not None:
            found[key] = _chosen(member, below)
    return found


def _condition(schema: Field, condition: Filter) -> Callable[[Record], bool]:
    way = _find(schema, condition.field)
    if way is None:
        raise Refusal(422, f"there is no such field '{condition.field}' to filter")
    last, wanted = way[-1], condition.value
    if last.members or last.dated or last.many or last.kind not in _TYPES:
        raise Refusal(422, f"can't filter on a '{condition.field}' object")
    if not isinstance(wanted, _TYPES[last.kind]) or (isinstance(wanted, bool) and last.kind != "boolean"):
        raise Refusal(422, f"the filter '{condition.field}' should not be of type '{_KINDS[type(wanted)]}'")
    keys = [field.key for field in way]
    # what is zero or empty is left out of records, and equals what is not there
    nothing = {"string": "", "boolean": False}.get(last.kind, 0)

    def equals(value: Any) -> bool:
        if isinstance(wanted, (int, float)) and not isinstance(wanted, bool):
            # both are compared as texts, whose forms differ from a million on and for fractions
            return bool(value == wanted) and abs(wanted) < _LARGE and float(wanted).is_integer()
        return bool(value == wanted)

    def holds(value: Any, left: list[str]) -> bool:
        if not left:
            return equals(nothing if value is None else value)
        if isinstance(value, list):
            return all(holds(one, left) for one in value)
        if not isinstance(value, dict):
            return False
        below = value.get(left[0])
        return holds(below, left[1:]) if below is not None or len(left) == 1 else False

    return lambda message: holds(message, keys)
