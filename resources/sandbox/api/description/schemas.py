"""The shapes of what is sent, and of every answer that is no article: lists, files, tokens, errors.

Members of records are never required: `fields` leaves out any of them.

Source: the service's interface description; where recorded answers differ from it, the recorded answers.
"""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]


def obj(required: tuple[str, ...] = (), /, **members: Schema) -> Schema:
    """An object with these members; others may come with them."""
    shape: Schema = {"type": "object", "properties": members}
    return {**shape, "required": list(required)} if required else shape


def listed(items: Schema) -> Schema:
    """An array."""
    return {"type": "array", "items": items}


def ref(name: str) -> Schema:
    """A schema by its name."""
    return {"$ref": f"#/components/schemas/{name}"}


def text(*examples: str, **more: Any) -> Schema:
    """A text."""
    return {"type": "string", **({"examples": list(examples)} if examples else {}), **more}


def keyed(values: Schema) -> Schema:
    """An object whose keys are data: languages, properties, sites."""
    return {"type": "object", "additionalProperties": values}


TEXT: Schema = {"type": "string"}
WHOLE: Schema = {"type": "integer"}
NUMBER: Schema = {"type": "number"}
FLAG: Schema = {"type": "boolean"}
#: RFC 3339 in UTC, with up to nine decimals of a second.
MOMENT: Schema = {"type": "string", "format": "date-time"}

_MOST = 255
_FIELDS = {
    **listed({"type": "string", "minLength": 1, "maxLength": _MOST}),
    "maxItems": _MOST,
    "description": "Members of the records to return, as dotted paths. Default: all.",
    "examples": [["identifier", "date_modified"]],
}
_FILTERS = {
    **listed(ref("filter")),
    "maxItems": _MOST,
    "description": "Conditions, all of which a record must meet.",
    "examples": [[{"field": "in_language.identifier", "value": "en"}]],
}
_FILTER_TEXTS = {
    **listed(
        {"type": "string", "format": "filter", "contentMediaType": "application/json", "contentSchema": ref("filter")}
    ),
    "maxItems": _MOST,
    "description": "Conditions, all of which a record must meet; each is one JSON object of its own.",
    "examples": [['{"field": "in_language.identifier", "value": "en"}']],
}
_PARTITION = {"pattern": "^([0-9]|[1-4][0-9])$"}
#: The parameters of the data and realtime areas, as they are in a JSON body.
PARAMETERS: dict[str, Schema] = {
    "fields": _FIELDS,
    "filters": _FILTERS,
    "limit": {**WHOLE, "maximum": 10, "default": 3, "description": "Most articles to return; below 1: the default."},
    "since": {**MOMENT, "description": "Start of all partitions; not with `parts`."},
    "parts": {
        **listed({**WHOLE, "minimum": 0, "maximum": 9}),
        "maxItems": 10,
        "description": "Tenths of the stream: part p is the partitions 5p to 5p+4 of 50.",
        "examples": [[0, 1]],
    },
    "offsets": {
        **keyed({**WHOLE, "minimum": 0}),
        "propertyNames": _PARTITION,
        "maxProperties": 50,
        "description": "First offset of each partition, inclusive. Send `parts` with it: without, it is ignored.",
        "examples": [{"0": 3593806}],
    },
    "since_per_partition": {
        **keyed(MOMENT),
        "propertyNames": _PARTITION,
        "maxProperties": 50,
        "description": "Start of each partition. Send `parts` with it: without, it is ignored.",
        "examples": [{"0": "2026-11-20T05:00:00Z"}],
    },
}
#: What differs in a query or a form: each filter is a text.
AS_TEXT: dict[str, Schema] = {**PARAMETERS, "filters": _FILTER_TEXTS}

_REFERENCE = obj(identifier=TEXT)
_TOKENS: dict[str, Schema] = {
    "id_token": TEXT,
    "access_token": {**TEXT, "description": "For the header `Authorization: Bearer ...`; 24 hours"},
    "refresh_token": {**TEXT, "description": "Buys access tokens: 90 days, 90 times"},
    "expires_in": {**WHOLE, "description": "Seconds that the access token lives", "examples": [86_400]},
}


def _file(example: str, **more: Schema) -> Schema:
    return obj(
        identifier=text(example),
        version={**TEXT, "description": "MD5 of the archive, lower-case hexadecimal"},
        date_modified={**MOMENT, "description": "End of the export"},
        is_part_of=_REFERENCE,
        in_language=_REFERENCE,
        namespace=obj(identifier=WHOLE),
        size=obj(
            value={**NUMBER, "description": "Decimal megabytes of the archive: three decimals, of a chunk six"},
            unit_text=text("MB"),
        ),
        **more,
    )


_NAME = {"minLength": 1, "maxLength": 255}
_PASSWORD = {"minLength": 6, "maxLength": 256, "format": "password"}
SCHEMAS: dict[str, Schema] = {
    "error": obj(("status", "message"), status=WHOLE, message=TEXT),
    "filter": obj(
        field=text("in_language.identifier"),
        value={"type": ["string", "number", "boolean", "null"], "description": "Compared by equality of JSON values"},
    ),
    "code": obj(identifier=TEXT, name=TEXT, description=TEXT),
    "language": obj(identifier=TEXT, name=TEXT, alternate_name=TEXT, direction=text("ltr", "rtl")),
    "project": obj(name=TEXT, identifier=TEXT, url=TEXT, code=TEXT, in_language=_REFERENCE),
    "namespace": obj(name=TEXT, identifier=WHOLE, description=TEXT),
    "snapshot": _file(
        "enwiki_namespace_0", chunks={**listed(TEXT), "description": "Identifiers of the chunks, in no order"}
    ),
    "chunk": _file("enwiki_namespace_0_chunk_2"),
    "batch": _file("enwiki_namespace_0"),
    "tokens": obj(**{name: shape for name, shape in _TOKENS.items() if name != "refresh_token"}),
    "login": obj(**_TOKENS, challenge_name=text("NEW_PASSWORD_REQUIRED"), session=TEXT),
    "new-password-required": obj(**_TOKENS, session=TEXT),
    "user": obj(
        groups=listed(TEXT),
        ondemand_requests_count=WHOLE,
        ondemand_limit=WHOLE,
        snapshot_requests_count=WHOLE,
        snapshot_limit=WHOLE,
        chunk_requests_count=WHOLE,
        chunk_limit=WHOLE,
        username=TEXT,
        apis=listed(obj(path=TEXT, method=TEXT)),
    ),
    "health": obj(status=TEXT),
    "key-set": obj(keys=listed({"type": "object"})),
}
#: Bodies of the authentication operations, by operation.
BODIES: dict[str, Schema] = {
    "login": obj(("username", "password"), username=text(**_NAME), password=text(**_NAME, format="password")),
    "token-refresh": obj(("username", "refresh_token"), username=text(**_NAME), refresh_token=text(minLength=1)),
    "token-revoke": obj(("refresh_token",), refresh_token=text(minLength=1)),
    "forgot-password": obj(
        ("username",), username=text(**_NAME, description="Name of the account, or its e-mail address")
    ),
    "forgot-password-confirm": obj(
        ("username", "password", "confirmation_code"),
        username=text(**_NAME),
        password=text(**_NAME, format="password"),
        confirmation_code=text(minLength=1, maxLength=2048),
    ),
    "change-password": obj(
        ("access_token", "previous_password", "proposed_password"),
        access_token=text(minLength=1),
        previous_password=text(**_PASSWORD),
        proposed_password=text(**_PASSWORD),
    ),
    "new-password-required": obj(
        ("username", "session", "new_password"),
        username=text(**_NAME),
        session=text(minLength=1),
        new_password=text(**_PASSWORD | {"maxLength": 255}),
    ),
}
