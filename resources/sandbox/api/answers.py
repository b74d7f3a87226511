"""The service's response formats. `Accept` selects JSON or NDJSON, and all errors have the same format.

Source: the service's format documentation. The number format (`1.5e0`) and the empty content type follow recorded
responses and the service's public source code.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from starlette.responses import Response


class Refusal(Exception):  # noqa: N818 - an answer of the service, not a defect of the sandbox
    """Response with an error status. `message` defaults to the status phrase.

    `reason` is a cause that the real service does not reveal. The sandbox sends `reason` in the `X-Sandbox-Reason`
    header. If `is_bare` is true, the body is plain text, as in responses from the service's gateway.
    """

    def __init__(
        self, status: int, message: str | None = None, *, reason: str | None = None, is_bare: bool = False
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.is_bare = is_bare
        self.message = message if message is not None else HTTPStatus(status).phrase


class Format(enum.Enum):
    """Response format. Each value is a content type."""

    JSON = "application/json; charset=utf-8"
    NDJSON = "application/x-ndjson; charset=utf-8"
    UNKNOWN = ""


def negotiate(accept: str | None) -> Format:
    """Return the format of the first supported entry in an `Accept` header."""
    if not accept:
        return Format.JSON
    for entry in accept.split(","):
        match entry.split(";")[0].strip():
            case "*/*" | "application/*" | "application/json":
                return Format.JSON
            case "application/x-ndjson":
                return Format.NDJSON
    return Format.UNKNOWN


def encode(value: Any) -> str:
    """Encode a value as compact JSON in the store's format. Fractions have an exponent (`126211.488e0`)."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(k, ensure_ascii=False)}:{encode(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(encode, value)) + "]"
    if isinstance(value, float):
        text = repr(value)
        return text if "e" in text else f"{text}e0"
    return json.dumps(value, ensure_ascii=False)


def records(accept: str | None, found: Sequence[Mapping[str, Any]]) -> Response:
    """Return a listing as a JSON array if the client accepts JSON, and otherwise as lines."""
    form = negotiate(accept)
    texts = [encode(record) for record in found]
    content = f"[{','.join(texts)}]" if form is Format.JSON else "".join(f"{text}\n" for text in texts)
    return _response(200, content, form)


def record(accept: str | None, found: Mapping[str, Any]) -> Response:
    form = negotiate(accept)
    return _response(200, encode(found) + ("\n" if form is Format.NDJSON else ""), form)


def document(content: Any, status: int = 200) -> Response:
    """Return a JSON document that is not a record, for example tokens or an account."""
    return _response(status, json.dumps(content, ensure_ascii=False, separators=(",", ":")), Format.JSON)


def no_content() -> Response:
    return Response(status_code=204)


def bare(status: int, message: str) -> Response:
    return Response(message.encode(), status_code=status, headers={"Content-Type": "text/plain"})


def error(accept: str | None, status: int, message: str) -> Response:
    """Return an error as a JSON object followed by a newline. `Accept` changes only the content type."""
    form = Format.NDJSON if negotiate(accept) is Format.NDJSON else Format.JSON
    content = json.dumps({"status": status, "message": message}, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&":
        content = content.replace(character, f"\\u{ord(character):04x}")
    return _response(status, content + "\n", form)


def _response(status: int, content: str, form: Format) -> Response:
    return Response(content.encode(), status_code=status, headers={"Content-Type": form.value})
