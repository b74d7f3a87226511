"""Object store port, which serves archives to any client with a signed URL.

Source: the service's download documentation. Error responses are those of the service's object store. A request with
an additional `Authorization` header is refused, because the store accepts only one authentication method.
"""

from __future__ import annotations

import asyncio
import os
import re
import uuid
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from urllib.parse import parse_qsl, quote
from xml.sax.saxutils import escape

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from resources.sandbox.faults import DAMAGE
from resources.sandbox.store.object_index import BUCKET, ObjectIndex, Signer, StoredFile, area_of, download_path

_RANGE = re.compile(r"bytes=(\d*)-(\d*)")
_CHUNK_BYTES = 1 << 20


def api_path(path: str) -> str:
    """Return the service's download path for a path on the object store's port."""
    return download_path(_key(path)) or path


def object_store(areas: Mapping[str, ObjectIndex], signer: Signer) -> ASGIApp:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        refusal = _refusal(scope, headers, signer)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        key = _key(scope["path"])
        object_index = areas.get(area_of(key))
        file = None if object_index is None else await asyncio.to_thread(object_index.find, key)
        if object_index is None or file is None:
            await _error(404, "NoSuchKey", "The specified key does not exist.")(scope, receive, send)
            return
        damage = scope.get(DAMAGE)
        if damage is not None:
            file = await asyncio.to_thread(object_index.damaged, file, damage)
        answer = _condition(file, headers)
        if answer is not None:
            await answer(scope, receive, send)
            return
        span = _range(file, headers)
        await _serve(file, span, scope, receive, send)
        if span is None or (span and span.stop == file.size):
            object_index.sent(file)

    return app


def _key(path: str) -> str:
    return path.removeprefix(f"/{BUCKET}/")


def _refusal(scope: Scope, headers: Headers, signer: Signer) -> Response | None:
    if "authorization" in headers:
        return _error(
            400,
            "InvalidArgument",
            "Only one auth mechanism allowed; only the X-Amz-Algorithm query parameter, Signature query string "
            "parameter or the Authorization header should be specified",
        )
    query = dict(parse_qsl(scope["query_string"].decode()))
    problem = signer.problem(quote(scope["path"]), query)
    if problem is None and scope["method"] != "GET":
        # the signature is valid only for GET requests
        problem = ("SignatureDoesNotMatch", "The request signature we calculated does not match.")
    return _error(403, *problem) if problem is not None else None


def _condition(file: StoredFile, headers: Headers) -> Response | None:
    """Evaluate the conditional headers, and return a 412 response, a 304 response or None."""
    tag = f'"{file.etag}"'
    whole_second = file.modified_at.replace(microsecond=0)
    if wanted := headers.get("if-match"):
        if not _names(wanted, tag):
            return _error(412, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold")
    elif (moment := _date(headers.get("if-unmodified-since"))) and whole_second > moment:
        return _error(412, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold")
    if known := headers.get("if-none-match"):
        unchanged = _names(known, tag)
    else:
        moment = _date(headers.get("if-modified-since"))
        unchanged = moment is not None and whole_second <= moment
    if not unchanged:
        return None
    kept = {key: value for key, value in file.headers("GMT").items() if key != "Content-Type"}
    return Response(status_code=304, headers=kept)


def _range(file: StoredFile, headers: Headers) -> range | None:
    """Return the requested byte range, None for the complete file, or an empty range for an unsatisfiable request."""
    match = _RANGE.fullmatch(headers.get("range", ""))
    if match is None or match.groups() == ("", ""):
        # for several ranges or an invalid range, the store sends the complete object
        return None
    if condition := headers.get("if-range"):
        moment = _date(condition)
        if condition != f'"{file.etag}"' and moment != file.modified_at.replace(microsecond=0):
            return None
    first, last = match.groups()
    if not first:
        return range(max(0, file.size - int(last)), file.size)
    if last and int(last) < int(first):
        return None
    return range(int(first), min(int(last) + 1, file.size) if last else file.size)


async def _serve(file: StoredFile, span: range | None, scope: Scope, receive: Receive, send: Send) -> None:
    headers = file.headers("GMT")
    status = 200
    if span is None:
        span = range(file.size)
    elif not span:
        answer = _error(416, "InvalidRange", "The requested range is not satisfiable")
        answer.headers["Content-Range"] = f"bytes */{file.size}"
        await answer(scope, receive, send)
        return
    else:
        status = 206
        headers["Content-Range"] = f"bytes {span.start}-{span.stop - 1}/{file.size}"
    headers["Content-Length"] = str(len(span))
    headers["x-amz-request-id"] = uuid.uuid4().hex[:16].upper()
    raw = [(key.lower().encode(), value.encode()) for key, value in headers.items()]
    descriptor = os.open(file.path, os.O_RDONLY)
    try:
        await send({"type": "http.response.start", "status": status, "headers": raw})
        position = span.start
        while position < span.stop:
            length = min(_CHUNK_BYTES, span.stop - position)
            # the archive is in the page cache, so a direct read is faster than a read in a thread
            chunk = os.pread(descriptor, length, position)
            position += len(chunk)
            await send({"type": "http.response.body", "body": chunk, "more_body": position < span.stop})
        if not span:
            await send({"type": "http.response.body", "body": b"", "more_body": False})
    finally:
        os.close(descriptor)


def _names(header: str, tag: str) -> bool:
    tags = [entry.strip().removeprefix("W/") for entry in header.split(",")]
    return "*" in tags or tag in tags or tag.strip('"') in tags


def _date(text: str | None) -> datetime | None:
    with suppress(ValueError):
        return parsedate_to_datetime(text).astimezone(UTC) if text else None
    return None


def _error(status: int, code: str, message: str) -> Response:
    request_id = uuid.uuid4().hex[:16].upper()
    text = (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{code}</Code><Message>{escape(message)}</Message>'
        f"<RequestId>{request_id}</RequestId><HostId>{uuid.uuid4().hex}</HostId></Error>"
    )
    answer = Response(text, status_code=HTTPStatus(status), media_type="application/xml")
    answer.headers["x-amz-request-id"] = request_id
    return answer
