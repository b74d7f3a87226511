"""On-demand lookups of articles and structured contents by title, and of Wikidata entities by identifier.

Unlike the other data endpoints, lookups do not query lists in SQL. A lookup reads the stored JSON of one article per
project by path. Dots separate keys, `#` selects every member of an array, and a number selects one member.

Source: the service's documentation of on-demand articles and structured contents. The selection of projects and the
paths follow the service's public source code. Entity lookups follow the service's interface description of 2026. Entity
lookups support only `fields` and return an array.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from starlette.responses import Response

from resources.sandbox.api.answers import Format, Refusal, negotiate
from resources.sandbox.api.operations import Call, Operation
from resources.sandbox.api.parameters import Filter, Missing, Parameters, equal, read_parameters, undecided
from resources.sandbox.store.exports import newest_hour
from resources.sandbox.world import structured
from resources.sandbox.world.wire import encode

Record = dict[str, Any]

_USUAL_LIMIT, _HIGHEST_LIMIT = 3, 10


async def _articles(call: Call) -> Response:
    parameters = await read_parameters(call.request)
    found = await _found(call, parameters)
    return _answer(call.accept, [pick(record, parameters.fields) for record in found])


async def _structured(call: Call) -> Response:
    parameters = await read_parameters(call.request)
    found = await _found(call, parameters)
    return _answer(call.accept, [structured.pick(record, parameters.fields) for record in found])


def _entity(path: str, letters: str) -> Operation:
    """Declare the lookup of entities whose identifiers start with one of `letters`."""

    async def handle(call: Call) -> Response:
        parameters, identifier = await read_parameters(call.request), call.part("identifier")
        contents = call.service.world
        hour = newest_hour(contents, call.service.clock.now())
        record = None
        if identifier.startswith(tuple(letters)):
            record = await asyncio.to_thread(contents.entity, identifier, hour)
        if record is None:
            raise Refusal(404)
        if path == "labels":
            record = record["entity"].get("labels", {})
        return _answer(call.accept, [pick(record, parameters.fields)])

    return Operation(("GET", "POST"), f"/v2/wikidata/{path}/{{identifier}}", handle, quota="ondemand")


async def _found(call: Call, parameters: Parameters) -> list[Record]:
    """Return the complete records of the articles named `{name}` that pass the filters, one record per project.

    Records reflect the end of the newest published hour and therefore agree with the hourly batches.
    """
    limit = parameters.limit if parameters.limit is not None and parameters.limit > 0 else _USUAL_LIMIT
    if limit > _HIGHEST_LIMIT:
        raise Refusal(422, f"limit cannot be greater than {_HIGHEST_LIMIT}")
    found = await asyncio.to_thread(lambda: list(_search(call, parameters, limit)))
    if not found:
        raise Refusal(404)
    return found


def _search(call: Call, parameters: Parameters, limit: int) -> Iterator[Record]:
    contents, name = call.service.world, call.part("name")
    hour = newest_hour(contents, call.service.clock.now())
    known = [one for one in contents.projects() if one["identifier"] in call.service.settings.projects]
    # the project order depends on the name, so clients cannot rely on a fixed order
    for project in sorted(known, key=lambda one: _scattered(name, one["identifier"])):
        outline = {"is_part_of": {"identifier": project["identifier"]}, "in_language": project["in_language"]}
        if not undecided(outline, parameters):
            continue
        record = contents.article(project["identifier"], name, hour)
        if record is not None and all(passes(record, condition) for condition in parameters.filters):
            yield record
            limit -= 1
            if not limit:
                return


def _scattered(*parts: str) -> bytes:
    return hashlib.blake2b("\n".join(parts).encode(errors="replace"), digest_size=8).digest()


def passes(record: Mapping[str, Any], condition: Filter) -> bool:
    """Return whether the record's value has the filter's type and value. A missing value equals only null."""
    if isinstance(condition.value, list | dict):
        raise Refusal(500)
    value = look(record, condition.field.split("."))
    return equal(None if value is Missing else value, condition.value)


def pick(record: Mapping[str, Any], fields: Sequence[str]) -> Record:
    """Return the requested fields of a record as nested objects in arbitrary order.

    An empty list of fields or `*` selects all fields. Unknown names are ignored. The name `#` selects array members and
    becomes a key in the response. Without `#`, an array is returned as `{}`.
    """
    if not fields or "*" in fields:
        return dict(record)
    chosen: Record = {}
    for field in fields:
        _place(record, field.removesuffix(".*").split("."), chosen)
    return {key: chosen[key] for key in sorted(chosen, key=lambda key: _scattered(str(record.get("name")), key))}


def _place(record: Mapping[str, Any], path: list[str], chosen: Record) -> None:
    for depth in range(1, len(path)):
        if look(record, path[:depth]) is Missing:
            return
        chosen = chosen.setdefault(path[depth - 1], {})
        if not isinstance(chosen, dict):  # the request also contains the complete object
            return
    if (value := look(record, path)) is not Missing:
        chosen[path[-1]] = value


def look(value: Any, path: Sequence[str]) -> Any:
    """Return the value at a path, or `Missing`. For a path that ends with `#`, return the array's length."""
    for depth, piece in enumerate(path):
        if isinstance(value, list):
            rest = path[depth + 1 :]
            if piece == "#":
                found = [look(member, rest) for member in value]
                return [one for one in found if one is not Missing] if rest else len(value)
            if not (piece.isascii() and piece.isdigit() and int(piece) < len(value)):
                return Missing
            value = value[int(piece)]
        elif isinstance(value, dict) and piece in value:
            value = value[piece]
        else:
            return Missing
    return value


def _answer(accept: str | None, found: Sequence[Record]) -> Response:
    """Return records as a JSON array or as lines. Numbers and escapes have the same format as in archives."""
    form, texts = negotiate(accept), [encode(record) for record in found]
    content = b"[" + b",".join(texts) + b"]" if form is Format.JSON else b"".join(text + b"\n" for text in texts)
    return Response(content, headers={"Content-Type": form.value})


OPERATIONS = (
    _entity("items", "Q"),
    _entity("properties", "P"),
    _entity("labels", "QP"),
    Operation(("GET", "POST"), "/v2/structured-contents/{name}", _structured, quota="ondemand"),
    Operation(("GET", "POST"), "/v2/articles/{name}", _articles, quota="ondemand"),
)
