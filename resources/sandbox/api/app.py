"""ASGI app that serves operations, error responses, `/spec` and `/docs` on one port.

The interface description (`data/interface.yaml`) is served as JSON or YAML. `/docs` is Swagger UI from an installed
package, so the page works without network access.

Source: the service's documentation of its hosts. Unknown paths and unsupported methods get the same 404 response with
the usual body. Without a token, the service provides its description at `/spec/spec.yaml` and a page at `/docs/`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import uuid
from collections.abc import Iterable
from functools import lru_cache
from importlib import resources
from typing import Any

import yaml
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from resources.sandbox.api import answers, authentication, listings, lookups
from resources.sandbox.api.answers import Refusal
from resources.sandbox.api.control import Control
from resources.sandbox.api.middleware import CONTROLS
from resources.sandbox.api.operations import Operation, Service, perform
from resources.sandbox.files import DATA, read_yaml

_JSON, _YAML = "application/json", "application/yaml"
#: Description format by path. For `/spec`, the `Accept` header selects the format.
_FORMS = {"/spec.json": _JSON, "/spec.yaml": _YAML, "/spec/spec.yaml": _YAML}
_YAML_NAMES = (_YAML, "application/x-yaml", "text/yaml", "text/x-yaml", "application/vnd.oai.openapi")
#: Source file and content type of each path under `/docs`.
_PAGE = {
    "": ("docs.html", "text/html; charset=utf-8"),
    "start.js": ("docs.js", "text/javascript; charset=utf-8"),
    "swagger-ui.css": ("swagger_style.css", "text/css; charset=utf-8"),
    "swagger-ui.js": ("swagger_bundle.js", "text/javascript; charset=utf-8"),
}


@lru_cache(maxsize=4)
def describe(authentication: str, data: str, realtime: str) -> str:
    """Return the interface description as JSON with the given server URLs."""
    hosts = {"{authentication}": authentication, "{data}": data, "{realtime}": realtime}
    document: dict[str, Any] = read_yaml("interface.yaml")
    for item in (document, *document["paths"].values()):
        for server in item.get("servers", ()):
            server["url"] = hosts[server["url"]]
    for item in document["paths"].values():
        if item.get("servers") == document["servers"]:
            del item["servers"]
    return json.dumps(document, ensure_ascii=False)


@lru_cache(maxsize=4)
def as_yaml(document: str) -> str:
    """Convert the interface description from JSON to YAML without aliases."""
    return yaml.dump(json.loads(document), Dumper=_Plain, sort_keys=False, allow_unicode=True, width=120)


class _Plain(yaml.CSafeDumper):
    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True


async def published(service: Service, path: str, accept: str | None) -> Response | None:
    """Return the interface description or documentation page at `path`, or None for other paths."""
    path = path.removesuffix("/")
    if path == "/docs" or path.startswith("/docs/"):
        return _page(path.removeprefix("/docs").strip("/"), service)
    form = _accepted(accept) if path == "/spec" else _FORMS.get(path)
    if form is None:
        return None
    content = describe(service.url, service.url, service.realtime_url)
    if form == _YAML:
        content = await asyncio.to_thread(as_yaml, content)
    return Response(content, headers={"Content-Type": f"{form}; charset=utf-8", "Vary": "Accept"})


def _accepted(accept: str | None) -> str:
    """Return YAML if `Accept` lists YAML first, and otherwise JSON."""
    for entry in (accept or "").split(","):
        name = entry.split(";")[0].strip().lower()
        if name in _YAML_NAMES:
            return _YAML
        if name in (_JSON, "*/*", "application/*"):
            break
    return _JSON


def _page(name: str, service: Service) -> Response | None:
    if name not in _PAGE:
        return None
    file, kind = _PAGE[name]
    content = ((resources.files("offapi") if file.startswith("swagger") else DATA) / file).read_bytes()
    # the page can load only its own files and the service's responses
    policy = (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
        f"connect-src 'self' {service.url} {service.object_url}"
    )
    return Response(content, headers={"Content-Type": kind, "Content-Security-Policy": policy})


OPERATIONS: tuple[Operation, ...] = (*authentication.OPERATIONS, *listings.OPERATIONS, *lookups.OPERATIONS)

_CORS = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Methods": "GET, POST, OPTIONS, HEAD",
    "Access-Control-Allow-Headers": "*",
}

#: Status that proxies log when a client disconnects before the response.
_CLIENT_GONE = 499

_logger = logging.getLogger(__name__)


def service_app(service: Service, control: Control, operations: Iterable[Operation] = OPERATIONS) -> ASGIApp:
    """Create the ASGI app that serves the given operations on one port."""
    routes = [(_pattern(operation.path), operation) for operation in operations]

    async def answer(request: Request) -> Response:
        path: str = request.scope["path"]  # use the decoded path, because `request.url.path` ends at a `?` in a title
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
            # the request is logged and counts against the quota, although no client receives the response
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
    """Compile a path with named parts. `{name}` matches the rest of the path, because titles can contain slashes."""
    pieces = re.split(r"\{(\w+)\}", path)
    taken = {piece: ".+" if piece == "name" else "[^/]+" for piece in pieces[1::2]}
    pattern = "".join(f"(?P<{p}>{taken[p]})" if i % 2 else re.escape(p) for i, p in enumerate(pieces))
    # other paths accept a trailing slash, because generated clients send one
    return re.compile(pattern if "name" in taken else f"{pattern}/?", re.DOTALL)
