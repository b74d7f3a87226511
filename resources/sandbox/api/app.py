"""A port of the service as an ASGI app: it finds the operation of a request and turns refusals into error bodies.

Source: the service's documentation of its hosts: unknown paths and methods get the same 404 with the usual body.
"""

from __future__ import annotations

import logging
import re
import uuid
from typing import TYPE_CHECKING

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from resources.sandbox.api import answers, authentication, listings, lookups
from resources.sandbox.api.answers import Refusal
from resources.sandbox.api.description import published
from resources.sandbox.api.middleware import CONTROLS
from resources.sandbox.api.operations import perform

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.types import ASGIApp, Receive, Scope, Send

    from resources.sandbox.api.control import Control
    from resources.sandbox.api.operations import Operation, Service

OPERATIONS: tuple[Operation, ...] = (*authentication.OPERATIONS, *listings.OPERATIONS, *lookups.OPERATIONS)

_CORS = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Methods": "GET, POST, OPTIONS, HEAD",
    "Access-Control-Allow-Headers": "*",
}

#: What proxies log for a client that left before it was answered.
_CLIENT_GONE = 499

_logger = logging.getLogger(__name__)


def service_app(service: Service, control: Control, operations: Iterable[Operation] = OPERATIONS) -> ASGIApp:
    """The app of a port of the service's own, with these operations."""
    routes = [(_pattern(operation.path), operation) for operation in operations]

    async def answer(request: Request) -> Response:
        path: str = request.scope["path"]  # decoded; a `?` of a title would end the path of the URL
        if request.method == "OPTIONS" and "access-control-request-method" in request.headers:
            return answers.no_content()
        if path.startswith(CONTROLS):
            return await control.answer(request)
        if request.method == "GET" and (document := await published(service, path, request.headers.get("accept"))):
            return document
        for pattern, operation in routes:
            match = pattern.fullmatch(path)
            if match is not None and request.method in operation.methods:
                request.scope["path_params"] = match.groupdict()
                return await perform(operation, service, request)
        raise Refusal(404)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        accept = request.headers.get("accept")
        try:
            response = await answer(request)
        except Refusal as refusal:
            if refusal.is_bare:
                response = answers.bare(refusal.status, refusal.message)
            else:
                response = answers.error(accept, refusal.status, refusal.message)
            if refusal.reason is not None:
                response.headers["X-Sandbox-Reason"] = refusal.reason
        except ClientDisconnect:
            # it counts all the same: its quota is spent, so it is answered into the void, and is in the log
            response = Response(status_code=_CLIENT_GONE)
        except Exception:
            _logger.exception("The sandbox failed to answer %s %s.", request.method, request.url.path)
            response = answers.error(accept, 500, "Internal Server Error")
        if not scope["path"].startswith(CONTROLS):
            response.headers.update(_CORS)
        if not scope["path"].startswith("/v1/"):
            response.headers["X-Request-Id"] = str(uuid.uuid4())
        await response(scope, receive, send)

    return app


def _pattern(path: str) -> re.Pattern[str]:
    """A path with its pieces named. `{name}` takes all that is left: titles have slashes, also at their end."""
    pieces = re.split(r"\{(\w+)\}", path)
    taken = {piece: ".+" if piece == "name" else "[^/]+" for piece in pieces[1::2]}
    pattern = "".join(f"(?P<{p}>{taken[p]})" if i % 2 else re.escape(p) for i, p in enumerate(pieces))
    # elsewhere a slash at the end makes no difference: generated clients write one
    return re.compile(pattern if "name" in taken else f"{pattern}/?", re.DOTALL)
