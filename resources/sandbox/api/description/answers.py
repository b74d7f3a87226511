"""What comes back: the responses of an operation, its errors with where they are known from, and examples.

Source: the service's interface description for the listed errors; its public source and recorded answers for the others.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from resources.sandbox.api.description.schemas import listed, ref

if TYPE_CHECKING:
    from resources.sandbox.api.description.operations import Described

_JSON, _LINES, _EVENTS = "application/json", "application/x-ndjson", "text/event-stream"
_NOT_SAID = "Internal error, please try again later."
_MESSAGES: dict[int, tuple[str, ...]] = {
    400: ("ParseInvalidPathComponent: Invalid Path component. Please check the path and try again.",),
    401: ("Unauthorized", "Incorrect username or password.", "token is expired by 1h2m3s"),
    403: ("Forbidden",),
    404: ("Not Found", "NoSuchKey: The specified key does not exist."),
    422: (
        _NOT_SAID,
        "json: cannot unmarshal string into Go struct field Model.fields of type []string",
        "Key: 'Model.Limit' Error:Field validation for 'Limit' failed on the 'max' tag",
    ),
    429: ("Too Many Requests", "Refresh tokens limit has been exceeded."),
    500: ("Internal Server Error", _NOT_SAID),
}
_CAUSES = {
    400: "A field path that the store does not take.",
    401: "Refused: the message is the cause.",
    403: "Not allowed for the groups of the account.",
    404: "There is none.",
    422: "The parameters or the body cannot be read.",
    429: "Too many requests, or a quota is used up; the answer does not say which.",
    500: "Failed; try again.",
}
_NOT_LISTED = " Answered, though the service's own description does not list it."
_NOT_SEEN = " Listed by the service's own description; no answer is known."
_EXPOSED = ("Accept-Ranges", "Last-Modified", "Content-Length", "ETag", "Content-Type")


def components() -> dict[str, Any]:
    """The errors, as responses that operations refer to."""
    return {
        _name(status): {
            "description": _CAUSES[status],
            "content": {
                _JSON: {
                    "schema": ref("error"),
                    "examples": {
                        f"answer-{number}": {"value": {"status": status, "message": message}}
                        for number, message in enumerate(messages, 1)
                    },
                },
                _LINES: {"schema": ref("error")},
            },
        }
        for status, messages in _MESSAGES.items()
    }


def responses(operation: Described, method: str, example: Any) -> dict[str, Any]:
    """The responses of one method of an operation, by status code."""
    found = dict(_successes(operation, method, example))
    for status in sorted({*operation.listed, *operation.answered} - {307}):
        mark = "" if status in operation.listed else _NOT_LISTED
        mark = mark if status in operation.answered else _NOT_SEEN
        found[str(status)] = {
            "$ref": f"#/components/responses/{_name(status)}",
            "description": f"{HTTPStatus(status).phrase}. {_CAUSES[status]}{mark}",
        }
    return found


def marks(operation: Described, method: str) -> dict[str, list[int]]:
    """Where the errors are known from, for readers that are machines."""
    answered = set(operation.answered) - ({307} if method == "HEAD" else set())
    return {
        "x-answered-not-listed": sorted(answered - set(operation.listed)),
        "x-listed-not-answered": sorted(set(operation.listed) - answered),
    }


def _successes(operation: Described, method: str, example: Any) -> list[tuple[str, dict[str, Any]]]:
    if operation.answer == "download":
        if method == "HEAD":
            headers = {name: {"schema": {"type": "string"}} for name in _EXPOSED}
            return [("200", {"description": "The headers of the archive, dates ending in `UTC`", "headers": headers})]
        archive = {"application/gzip": {"schema": {"type": "string", "format": "binary"}}}
        location = {"Location": {"required": True, "schema": {"type": "string", "format": "uri"}}}
        return [
            ("200", {"description": "The archive (tar.gz), after the redirect.", "content": archive}),
            ("206", {"description": "A range of it, after the redirect." + _NOT_LISTED, "content": archive}),
            ("307", {"description": "To a signed URL that lives 60 seconds." + _NOT_LISTED, "headers": location}),
        ]
    if operation.answer is None:
        status = "200" if operation.tag == "Service" else "204"
        return [(status, {"description": "Done; no body."})]
    one = _record(operation)
    forms: dict[str, dict[str, Any]]
    if operation.area == "realtime":
        forms = {_EVENTS: {"schema": {"type": "string"}}, _LINES: {"schema": one}}
    elif operation.many:
        forms = {_JSON: {"schema": listed(one)}, _LINES: {"schema": one}}
    elif operation.area == "data" and operation.tag != "Service":
        forms = {_JSON: {"schema": one}, _LINES: {"schema": one}}
    else:
        forms = {_JSON: {"schema": one}}
    if example is not None and _JSON in forms:
        forms[_JSON]["example"] = [example] if operation.many else example
    return [("200", {"description": operation.summary, "content": forms})]


def _record(operation: Described) -> dict[str, Any]:
    if operation.answer == "structured-content":
        return {"anyOf": [ref("structured-content"), ref("article")]}
    assert operation.answer is not None
    return ref(operation.answer)


def _name(status: int) -> str:
    return HTTPStatus(status).phrase.replace(" ", "")
