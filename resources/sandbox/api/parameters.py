"""The `fields`, `filters` and `limit` parameters, from the query of a GET request or the body of a POST request.

Invalid parameters get a 422 response with the error message of the service's decoder or validator. As documented,
responses are nested, and filters compare JSON values for equality. The service's public source code of August 2025
behaves differently. That code queries the object store in SQL, flattens dotted names and compares numbers with `>`.

Source: the service's filtering documentation. Error messages follow the service's public source code.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from email import message_from_bytes
from typing import Any
from urllib.parse import parse_qsl

from starlette.requests import Request

from resources.sandbox.api.answers import Refusal

_MOST_ITEMS = 255
_MOST_CHARACTERS = 255
_HIGHEST_LIMIT = 100


@dataclass(frozen=True)
class Filter:
    field: str
    value: Any


@dataclass(frozen=True)
class Parameters:
    fields: tuple[str, ...] = ()
    filters: tuple[Filter, ...] = ()
    limit: int | None = None


async def read_parameters(request: Request) -> Parameters:
    """Parse the parameters of a request.

    A GET request uses only the query, in which `fields` and `filters` can be repeated. Each of the `filters` is a JSON
    object. A POST request uses a JSON body. With any other content type, a POST request uses the query and a urlencoded
    or multipart form.
    """
    if request.method == "GET":
        parameters = from_form(request.query_params.multi_items())
    else:
        body = await request.body()
        if content_type(request) == "application/json":
            parameters = from_json(decode_json(body) if body else None)
        else:
            parameters = from_form([*form_items(request, body), *request.query_params.multi_items()])
    validate(parameters)
    return parameters


def content_type(request: Request) -> str:
    """Return the body's content type in lower case, without parameters."""
    return request.headers.get("content-type", "").split(";")[0].strip().lower()


def form_items(request: Request, body: bytes) -> list[tuple[str, str]]:
    """Return the names and values in a urlencoded or multipart form."""
    if content_type(request) != "multipart/form-data":
        return parse_qsl(body.decode(errors="replace"), keep_blank_values=True)
    head = f"Content-Type: {request.headers['content-type']}\r\n\r\n".encode("latin-1", "replace")
    found = []
    for part in message_from_bytes(head + body).walk():
        name, content = part.get_param("name", header="content-disposition"), part.get_payload(decode=True)
        if isinstance(name, str) and isinstance(content, bytes):
            found.append((name, content.decode(errors="replace")))
    return found


async def body_fields(request: Request) -> dict[str, Any] | None:
    """Return the fields of a JSON or form body, or None for any other body."""
    body = await request.body()
    try:
        is_json = content_type(request) == "application/json"
        content = json.loads(body) if is_json else dict(form_items(request, body))
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def decode_json(text: str | bytes) -> Any:
    """Decode JSON. Invalid JSON raises a 422 error with the same message as the service's decoder."""
    try:
        return json.loads(text)
    except RecursionError:
        raise Refusal(422, "exceeded max depth") from None
    except UnicodeDecodeError:
        raise Refusal(422, "invalid character '\\ufffd' looking for beginning of value") from None
    except json.JSONDecodeError as error:
        if error.pos >= len(error.doc.rstrip()):
            raise Refusal(422, "unexpected EOF" if error.doc.strip() else "EOF") from None
        raise Refusal(422, f"invalid character '{error.doc[error.pos]}' looking for beginning of value") from None
    except ValueError:
        raise Refusal(422, "json: cannot unmarshal number of so many digits") from None


def from_form(items: list[tuple[str, str]]) -> Parameters:
    limits = [value for key, value in items if key == "limit" and value]
    try:
        limit = int(limits[0]) if limits else None
    except ValueError:
        raise Refusal(422, f'strconv.ParseInt: parsing "{limits[0]}": invalid syntax') from None
    return Parameters(
        fields=tuple(value for key, value in items if key == "fields"),
        filters=tuple(_filter(decode_json(value)) for key, value in items if key == "filters"),
        limit=limit,
    )


def from_json(content: Any) -> Parameters:
    """Parse the parameters in a decoded JSON body. None means that the request has no body."""
    if content is None:
        return Parameters()
    if not isinstance(content, dict):
        raise mismatch(content, "value of type handlers.Model")
    fields, filters, limit = (content.get(key) for key in ("fields", "filters", "limit"))
    if fields is not None and not isinstance(fields, list):
        raise mismatch(fields, "struct field Model.fields of type []string")
    for field in fields or ():
        if not isinstance(field, str):
            raise mismatch(field, "struct field Model.fields of type string")
    if filters is not None and not isinstance(filters, list):
        raise mismatch(filters, "struct field Model.filters of type []handlers.Filter")
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int)):
        raise mismatch(limit, "struct field Model.limit of type int")
    return Parameters(tuple(fields or ()), tuple(_filter(item) for item in filters or ()), limit)


def _filter(item: Any) -> Filter:
    if not isinstance(item, dict):
        raise mismatch(item, "value of type handlers.Filter")
    field = item.get("field", "")
    if not isinstance(field, str):
        raise mismatch(field, "struct field Filter.field of type string")
    return Filter(field, item.get("value"))


def mismatch(value: Any, target: str) -> Refusal:
    """Return the error response for a value with the wrong type."""
    # the service quotes the number if a fraction was sent instead of an integer
    fraction = f"number {value}" if target.endswith(" int") else "number"
    names = {bool: "bool", int: "number", float: fraction, str: "string", list: "array", dict: "object"}
    return Refusal(422, f"json: cannot unmarshal {names.get(type(value), 'null')} into Go {target}")


def validate(parameters: Parameters) -> None:
    """Check the service's limits. A violation raises a 422 error."""
    for name, items in (("Fields", parameters.fields), ("Filters", parameters.filters)):
        if len(items) > _MOST_ITEMS:
            raise _invalid(name, "max")
    for index, field in enumerate(parameters.fields):
        if not 1 <= len(field) <= _MOST_CHARACTERS:
            raise _invalid(f"Fields[{index}]", "max" if field else "min")
    if parameters.limit is not None and parameters.limit > _HIGHEST_LIMIT:
        raise _invalid("Limit", "max")


def _invalid(name: str, rule: str) -> Refusal:
    return Refusal(422, f"Key: 'Model.{name}' Error:Field validation for '{name}' failed on the '{rule}' tag")


Record = dict[str, Any]

#: Marker for a field that is missing from a record.
Missing = object()


def select(records: Iterable[Mapping[str, Any]], parameters: Parameters) -> list[Record]:
    """Return the requested fields of all records that pass the filters."""
    return [
        pick(record, parameters.fields)
        for record in records
        if all(_passes(record, condition) for condition in parameters.filters)
    ]


def undecided(outline: Mapping[str, Any], parameters: Parameters) -> bool:
    """Return whether a record could pass the filters, given the fields that are known before its archive is built."""
    return all(
        _passes(outline, condition) for condition in parameters.filters if condition.field.split(".")[0] in outline
    )


def pick(record: Mapping[str, Any], fields: tuple[str, ...]) -> Record:
    """Return the requested fields in record order. An empty list or `*` selects all fields. Ignore unknown names."""
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
    """Compare JSON values. A string never equals a number, true does not equal 1, and 1 equals 1.0."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return bool(left == right)
