"""Parameters of a stream request: the start of each partition, `fields` and `filters`.

`fields` and `filters` are checked against the message schema. A few names in the schema differ from the names in
records. For example, `version.sizes` is sent as `version.size`. The schema omits a message's partition and offset.

Source: the service's documentation of realtime streams and filtering. Names, rules, error messages and quirks follow
the service's public source code.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any

from starlette.requests import Request

from resources.sandbox.api.answers import Refusal
from resources.sandbox.api.parameters import (
    Filter,
    Parameters,
    content_type,
    decode_json,
    form_items,
    from_form,
    from_json,
    mismatch,
    validate,
)
from resources.sandbox.files import read_yaml
from resources.sandbox.store.archives import PARTITIONS

Record = dict[str, Any]
Schema = dict[str, Any]

_PARTS = 10
_EACH = PARTITIONS // _PARTS
_WHOLE_64 = range(-(1 << 63), 1 << 63)
#: Go's zero time, which means that no time was set.
_ZERO = datetime.min.replace(tzinfo=UTC)
_NESTED = ("offsets", "since_per_partition")


@dataclass(frozen=True)
class Beginning:
    """Partitions to read. Each partition starts at an offset, at a time, or by default at the end.

    `moments` and `offsets` map partitions to their starts. `parts` is the number of requested tenths of the stream,
    which determines the rate.
    """

    partitions: tuple[int, ...]
    moments: Mapping[int, datetime]
    offsets: Mapping[int, int]
    parts: int


async def read(request: Request, now: datetime) -> tuple[Parameters, Beginning]:
    """Parse the parameters of a stream request from a JSON body (even in a GET request), or from the query and form."""
    body = await request.body()
    content: Any
    if body and (request.method == "GET" or content_type(request) == "application/json"):
        content = decode_json(body)
        common = from_json(content)
        content = content or {}
    else:
        form = [*request.query_params.multi_items()]
        if request.method == "POST":
            form = [*form_items(request, body), *form]
        common = from_form(form)
        content = _from_form(form)
    validate(common)
    return common, _beginning(content, now)


def _from_form(items: list[tuple[str, str]]) -> dict[str, Any]:
    content: dict[str, Any] = {}
    for key, value in items:
        if key == "parts":
            content.setdefault("parts", []).append(_number(value))
        elif key == "since":
            content.setdefault("since", value or None)
        elif key in _NESTED:
            content.setdefault(key, decode_json(value))
    return content


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise Refusal(422, f'strconv.ParseInt: parsing "{text}": invalid syntax') from None


def _beginning(content: Mapping[str, Any], now: datetime) -> Beginning:
    since = content.get("since")
    moment = None if since is None else _moment(since)
    if moment == _ZERO:
        moment = None
    parts = _parts(content.get("parts"))
    partitions = tuple(sorted({_EACH * part + number for part in parts for number in range(_EACH)}))
    # drop entries for other partitions; without `parts`, drop all entries, because no partition is selected yet
    offsets, moments = (
        {number: each for number, each in _by_partition(name, content.get(name), read).items() if number in partitions}
        for name, read in (("offsets", _offset), ("since_per_partition", _moment))
    )
    if moment is not None and moment > now:
        raise Refusal(422, f"since time {_as_go_prints(moment)} cannot be in the future")
    for number, each in moments.items():
        if each > now:
            raise Refusal(422, f"since_per_partition for partition {number} has future time {_as_go_prints(each)}")
    if parts and moment is not None:
        raise Refusal(
            422, "for parallel consumption, specify either offsets or time-offsets (since_per_partition) parameter"
        )
    if offsets.keys() & moments.keys():
        raise Refusal(
            422, "for a specific partion, specify either offset or time-offset (since_per_partition), not both"
        )
    if not parts:
        everything = tuple(range(PARTITIONS))
        return Beginning(everything, {} if moment is None else dict.fromkeys(everything, moment), {}, _PARTS)
    return Beginning(partitions, moments, offsets, len(set(parts)))


def _parts(value: Any) -> list[int]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise mismatch(value, "struct field Model.parts of type []int")
    for part in value:
        if isinstance(part, bool) or not isinstance(part, int):
            raise mismatch(part, "struct field Model.parts of type int")
    if len(value) > _PARTS:
        raise Refusal(422, f"the query param parts has length {len(value)}, max allowed length {_PARTS}")
    for part in value:
        if not 0 <= part < _PARTS:
            raise Refusal(422, f"the part value is {part}, allowed value should be in the range [0,9]")
    return value


def _by_partition(name: str, value: Any, read: Any) -> dict[int, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise mismatch(value, f"struct field Model.{name} of type map[int]")
    if len(value) > PARTITIONS:
        raise Refusal(422, f"the query param {name} has length {len(value)}, max allowed length {PARTITIONS}")
    return {_number(key): read(each) for key, each in value.items()}


def _offset(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value not in _WHOLE_64:
        raise mismatch(value, "struct field Model.offsets of type int64")
    return value


def _moment(value: Any) -> datetime:
    try:
        moment = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        moment = None
    # RFC 3339 requires date, `T`, seconds and zone
    if moment is None or moment.tzinfo is None or len(value) < len("2026-11-20T05:00:00Z") or value[10] not in "Tt":
        shown = json.dumps(value, ensure_ascii=False)
        raise Refusal(422, f'parsing time {shown} as "2006-01-02T15:04:05Z07:00": cannot parse {shown}')
    return moment.astimezone(UTC)


def _as_go_prints(moment: datetime) -> str:
    fraction = f".{moment.microsecond:06d}".rstrip("0") if moment.microsecond else ""
    return f"{moment:%Y-%m-%d %H:%M:%S}{fraction} +0000 UTC"


#: Record members whose names in the schema differ, by object.
_NAMES = {
    "version": {"size": "sizes"},
    "image": {"content_url": "contentUrl"},
    "probability": {"false": "falsy", "true": "truthy"},
}
#: Event members that are missing from the schema.
_ADDED = ("partition", "offset")
#: Filters on integers of at least this value never match, because the service formats such integers differently.
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
    key: str  # name in the record
    kind: str  # JSON type, or the element type of an array
    many: bool  # true for an array
    dated: bool  # true for a date
    members: Mapping[str, Field]  # members of an object, by name in the schema


def selector(record: str, parameters: Parameters) -> Callable[[Record], Record | None]:
    """Return a function that maps a message to its selected fields, or to None if the filters drop the message."""
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
    """Return the fields along the path `name`, or None if the path does not exist."""
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
    # records omit zero and empty values, so a missing value equals zero or an empty value
    nothing = {"string": "", "boolean": False}.get(last.kind, 0)

    def equals(value: Any) -> bool:
        if isinstance(wanted, (int, float)) and not isinstance(wanted, bool):
            # the service compares strings, whose formats differ for fractions and for numbers of at least a million
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
