"""Parameters of a request for a stream: the beginning of each partition, fields, filters.

Source: the service's documentation of its realtime streams; rules and messages follow its public source.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from resources.sandbox.api.answers import Refusal
from resources.sandbox.api.parameters import (
    Parameters,
    content_type,
    decode_json,
    form_items,
    from_form,
    from_json,
    mismatch,
    validate,
)
from resources.sandbox.store.batch_store import PARTITIONS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request

_PARTS = 10
_EACH = PARTITIONS // _PARTS
_WHOLE_64 = range(-(1 << 63), 1 << 63)
#: The zero time of Go, which counts as no time.
_ZERO = datetime.min.replace(tzinfo=UTC)
_NESTED = ("offsets", "since_per_partition")


@dataclass(frozen=True)
class Beginning:
    """The partitions to read, and their beginnings: at an offset, else at a moment, else at the end.

    `moments` and `offsets` are by partition; `parts`: how many tenths of the stream are asked for, by which the pace
    is set.
    """

    partitions: tuple[int, ...]
    moments: Mapping[int, datetime]
    offsets: Mapping[int, int]
    parts: int


async def read(request: Request, now: datetime) -> tuple[Parameters, Beginning]:
    """The parameters of a request for a stream. A JSON body is read on GET as well; else the query and a form.

    Raises:
        Refusal: 422, they do not bind or contradict each other.
    """
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
    # what is given for other partitions is dropped; without `parts` all of it is, since there are none yet when it is
    # looked at
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
    # RFC 3339: date, `T`, seconds and zone are all there
    if moment is None or moment.tzinfo is None or len(value) < len("2026-11-20T05:00:00Z") or value[10] not in "Tt":
        shown = json.dumps(value, ensure_ascii=False)
        raise Refusal(422, f'parsing time {shown} as "2006-01-02T15:04:05Z07:00": cannot parse {shown}')
    return moment.astimezone(UTC)


def _as_go_prints(moment: datetime) -> str:
    fraction = f".{moment.microsecond:06d}".rstrip("0") if moment.microsecond else ""
    return f"{moment:%Y-%m-%d %H:%M:%S}{fraction} +0000 UTC"
