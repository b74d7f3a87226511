"""Puts the description together for a service at given addresses, as JSON and as YAML."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import yaml

from resources.sandbox.api.description.answers import components, marks, responses
from resources.sandbox.api.description.examples import BODY_EXAMPLES, PARTS, RECORD_EXAMPLES
from resources.sandbox.api.description.operations import OPERATIONS
from resources.sandbox.api.description.records import RECORDS
from resources.sandbox.api.description.schemas import AS_TEXT, BODIES, PARAMETERS, SCHEMAS

if TYPE_CHECKING:
    from resources.sandbox.api.description.operations import Area, Described

VERSION = "2.0.0"
_FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
_TAGS = {
    "Authentication": "Tokens and passwords.",
    "Metadata": "The lists that everything else refers to. They change rarely: keep them.",
    "Snapshots": "Whole projects as archives; in chunks too.",
    "Batches": "What changed in an hour, as archives.",
    "On-demand": "Single articles by their title.",
    "Wikidata": "Items, properties and labels (Beta).",
    "Streams": "Changes as they happen.",
    "Service": "Whether the service is up.",
}
_INTRODUCTION = """\
One interface in three areas: authentication, data, realtime. Every data operation accepts GET and POST with the same
parameters; lists are never divided into pages. Where `fields` is given, nothing in a record is required. Answers are JSON,
or one record a line with `Accept: application/x-ndjson`. An error is one object, `status` and `message`.

Operations marked Beta may change. Tokens live 24 hours, refresh tokens 90 days and 90 uses.
"""


@lru_cache(maxsize=4)
def describe(authentication: str, data: str, realtime: str, served: frozenset[tuple[str, str]] | None = None) -> str:
    """The description as JSON.

    Args:
        authentication: Address of the area.
        data: Address of the area.
        realtime: Address of the area.
        served: Method and path of everything that this server answers; what it does not is marked. None: everything.
    """
    hosts: dict[Area, str] = {"authentication": authentication, "data": data, "realtime": realtime}
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        item = paths.setdefault(operation.path, {})
        if hosts[operation.area] != data:
            item["servers"] = [{"url": hosts[operation.area]}]
        for method in operation.methods:
            item[method.lower()] = _operation(operation, method)
            if served is not None and (method, operation.path) not in served:
                item[method.lower()] |= {"x-not-served": "Not by this server."}
    document = {
        "openapi": "3.1.2",
        "info": {"title": "Enterprise Content Service", "version": VERSION, "description": _INTRODUCTION},
        "servers": [{"url": data}],
        "tags": [{"name": name, "description": text} for name, text in _TAGS.items()],
        "paths": paths,
        "components": {
            "schemas": SCHEMAS | RECORDS,
            "responses": components(),
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}},
        },
    }
    return json.dumps(document, ensure_ascii=False)


@lru_cache(maxsize=4)
def as_yaml(document: str) -> str:
    """A description in JSON as YAML, every value written out where it is."""
    return yaml.dump(json.loads(document), Dumper=_Plain, sort_keys=False, allow_unicode=True, width=120)


class _Plain(yaml.CSafeDumper):
    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True


def _operation(operation: Described, method: str) -> dict[str, Any]:
    words = [operation.text]
    words += ["Needs a paid account."] if operation.paid else []
    words += [f"Counts against the `{operation.quota}` quota."] if operation.quota and method != "HEAD" else []
    described: dict[str, Any] = {
        "operationId": f"{operation.name}-{method.lower()}",
        "summary": operation.summary + (" (Beta)" if operation.beta else ""),
        "description": " ".join(word for word in words if word),
        "tags": [operation.tag],
        "security": [{"bearer": []}] if operation.token else [],
        "parameters": [
            {"name": name, "in": "path", "required": True, **PARTS.get((operation.name, name), PARTS["", name])}
            for name in re.findall(r"\{(\w+)\}", operation.path)
        ],
        "responses": responses(operation, method, RECORD_EXAMPLES.get(operation.answer or "")),
        **{name: value for name, value in marks(operation, method).items() if value},
        **({"x-beta": True} if operation.beta else {}),
    }
    if operation.body is not None:
        described["requestBody"] = _body(BODIES[operation.body], BODY_EXAMPLES[operation.body], required=True)
    elif operation.takes and method == "POST":
        # JSON null is no parameters at all
        whole = {"type": ["object", "null"], "properties": {name: PARAMETERS[name] for name in operation.takes}}
        described["requestBody"] = _body(whole, BODY_EXAMPLES["fields"], required=False)
        form = {"type": "object", "properties": {name: AS_TEXT[name] for name in operation.takes}}
        described["requestBody"]["content"] |= {key: {"schema": form} for key in _FORMS}
    elif operation.takes:
        described["parameters"] += [
            {"name": name, "in": "query", "schema": AS_TEXT[name], **_style(name)} for name in operation.takes
        ]
    return described


def _style(name: str) -> dict[str, Any]:
    nested = name in ("offsets", "since_per_partition")
    return {"style": "deepObject"} if nested else {}


def _body(schema: Any, example: Any, *, required: bool) -> dict[str, Any]:
    content = {"application/json": {"schema": schema, "example": example}}
    if required:
        content |= {key: {"schema": schema, "example": example} for key in _FORMS}
    return {"required": required, "content": content}
