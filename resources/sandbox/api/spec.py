"""The interface description (OpenAPI 3.1, JSON) that the sandbox publishes at `/spec`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from resources.sandbox.api.operations import Operation, Service


def _object(required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    shape: dict[str, Any] = {"type": "object", "properties": properties}
    return {**shape, "required": list(required)} if required else shape


_TEXT = {"type": "string"}
_COUNT = {"type": "integer"}
#: Members of records are never required: `fields` leaves any of them out.
_REFERENCE = _object(identifier=_TEXT)
_TOKENS = _object(
    id_token=_TEXT, access_token=_TEXT, refresh_token=_TEXT, expires_in=_COUNT, challenge_name=_TEXT, session=_TEXT
)
_CHUNK_NAMES = {"type": "array", "items": _TEXT, "description": "Identifiers of the chunks, in no order"}


def _file(example: str) -> dict[str, Any]:
    return _object(
        identifier={**_TEXT, "examples": [example]},
        version={**_TEXT, "description": "MD5 of the archive, lower-case hexadecimal"},
        date_modified={"type": "string", "format": "date-time", "description": "End of the export"},
        is_part_of=_REFERENCE,
        in_language=_REFERENCE,
        namespace=_object(identifier=_COUNT),
        size=_object(
            value={"type": "number", "description": "Decimal megabytes of the archive: three decimals, of a chunk six"},
            unit_text={"type": "string", "const": "MB"},
        ),
    )


_SCHEMAS: dict[str, Any] = {
    "error": _object(("status", "message"), status=_COUNT, message=_TEXT),
    "code": _object(identifier=_TEXT, name=_TEXT, description=_TEXT),
    "language": _object(
        identifier=_TEXT,
        name=_TEXT,
        alternate_name=_TEXT,
        direction={"type": "string", "enum": ["ltr", "rtl"]},
    ),
    "project": _object(name=_TEXT, identifier=_TEXT, url=_TEXT, code=_TEXT, in_language=_REFERENCE),
    "namespace": _object(name=_TEXT, identifier=_COUNT, description=_TEXT),
    "snapshot": {**_file("enwiki_namespace_0"), "properties": {**_file("")["properties"], "chunks": _CHUNK_NAMES}},
    "chunk": _file("enwiki_namespace_0_chunk_2"),
    "batch": _file("enwiki_namespace_0"),
    "article": _object(name=_TEXT, identifier=_COUNT, is_part_of=_REFERENCE, in_language=_REFERENCE),
    "login": _TOKENS,
    "token-refresh": _object(id_token=_TEXT, access_token=_TEXT, expires_in=_COUNT),
    "new-password-required": _TOKENS,
    "get-user": _object(
        groups={"type": "array", "items": _TEXT},
        ondemand_requests_count=_COUNT,
        ondemand_limit=_COUNT,
        snapshot_requests_count=_COUNT,
        snapshot_limit=_COUNT,
        chunk_requests_count=_COUNT,
        chunk_limit=_COUNT,
        username=_TEXT,
        apis={"type": "array", "items": _object(path=_TEXT, method=_TEXT)},
    ),
    "filter": _object(("field", "value"), field=_TEXT, value={"type": ["string", "number", "boolean", "null"]}),
}
#: Lists by the operation that answers them, and the schema of their records.
_LISTS = {
    "codes": "code",
    "languages": "language",
    "projects": "project",
    "namespaces": "namespace",
    "snapshots": "snapshot",
    "chunks": "chunk",
    "batches": "batch",
    "articles": "article",
}
_PARAMETERS: dict[str, dict[str, Any]] = {
    "fields": {"type": "array", "items": {"type": "string", "minLength": 1, "maxLength": 255}, "maxItems": 255},
    "filters": {"type": "array", "items": {"$ref": "#/components/schemas/filter"}, "maxItems": 255},
    "limit": {"type": "integer", "maximum": 100},
}


def describe(service: Service) -> dict[str, Any]:
    """The description of everything that the sandbox serves under `/v1` and `/v2`."""
    paths: dict[str, dict[str, Any]] = {}
    for operation in service.operations:
        for method in operation.methods:
            paths.setdefault(operation.path, {})[method.lower()] = _operation(operation, method)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Enterprise Content Service (local sandbox)",
            "version": "2.0.0",
            "description": "Synthetic data. Tokens live 24 hours, refresh tokens 90 days and 90 uses.",
        },
        "servers": [{"url": service.url}],
        "paths": paths,
        "components": {
            "schemas": _SCHEMAS,
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}},
        },
    }


def _operation(operation: Operation, method: str) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": f"{operation.name}-{method.lower()}",
        "summary": operation.summary,
        "tags": [operation.tag],
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": _TEXT}
            for name in re.findall(r"\{(\w+)\}", operation.path)
        ],
        "responses": {str(status): _answer(operation, status, text) for status, text in _answers(operation, method)},
    }
    if operation.groups is not None:
        described["security"] = [{"bearer": []}]
    if operation.body:
        fields = {name: {**_TEXT, "minLength": low, "maxLength": high} for name, (low, high) in operation.body.items()}
        described["requestBody"] = _content(_object(tuple(fields), **fields), required=True)
    elif operation.parameters and method == "POST":
        fields = {name: _PARAMETERS[name] for name in operation.parameters}
        described["requestBody"] = _content({"type": "object", "properties": fields}, required=False)
    elif method == "GET":
        described["parameters"] += [
            # A filter is one JSON object per repetition.
            {"name": name, "in": "query", "schema": _PARAMETERS[name] if name != "filters" else _FILTER_TEXTS}
            for name in operation.parameters
        ]
    return described


_FILTER_TEXTS = {"type": "array", "items": {**_TEXT, "contentMediaType": "application/json"}}


def _answers(operation: Operation, method: str) -> list[tuple[int, str]]:
    statuses = operation.answers or {200: operation.summary}
    # A download answers a GET with a redirect and a HEAD itself.
    skipped = {200: "GET", 307: "HEAD"} if 307 in statuses else {}
    return [(status, text) for status, text in statuses.items() if skipped.get(status) != method]


def _answer(operation: Operation, status: int, text: str) -> dict[str, Any]:
    if status >= 400:
        return {"description": text, **_content({"$ref": "#/components/schemas/error"})}
    if status == 200 and operation.name in _LISTS:
        items = {"$ref": f"#/components/schemas/{_LISTS[operation.name]}"}
        return {"description": text, **_content({"type": "array", "items": items}, lines=items)}
    if status == 200 and operation.name in _SCHEMAS:
        return {"description": text, **_content({"$ref": f"#/components/schemas/{operation.name}"})}
    if status == 307:
        return {"description": text, "headers": {"Location": {"schema": {"type": "string", "format": "uri"}}}}
    return {"description": text}


def _content(schema: Any, *, required: bool | None = None, lines: Any = None) -> dict[str, Any]:
    content = {"application/json": {"schema": schema}}
    if lines is not None:
        content["application/x-ndjson"] = {"schema": lines}
    described: dict[str, Any] = {"content": content}
    if required is not None:
        described["required"] = required
    return described
