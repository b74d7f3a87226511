"""The interface description (`data/interface.yaml`) at `/spec`, as JSON or YAML, and `/docs`, a page to try it.

The page is Swagger UI, whose files come with an installed package, so that it needs no network.

Source: the service serves its description at `/spec/spec.yaml` and a page at `/docs/`; both need no token.
"""

from __future__ import annotations

import asyncio
import json
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any

import yaml
from starlette.responses import Response

from resources.sandbox.files import DATA, read_yaml

if TYPE_CHECKING:
    from resources.sandbox.api.operations import Service

_JSON, _YAML = "application/json", "application/yaml"
#: The form by path; `/spec` alone follows `Accept`.
_FORMS = {"/spec.json": _JSON, "/spec.yaml": _YAML, "/spec/spec.yaml": _YAML}
_YAML_NAMES = (_YAML, "application/x-yaml", "text/yaml", "text/x-yaml", "application/vnd.oai.openapi")
#: The page: what is asked for, the file, its content type.
_PAGE = {
    "": ("docs.html", "text/html; charset=utf-8"),
    "start.js": ("docs.js", "text/javascript; charset=utf-8"),
    "swagger-ui.css": ("swagger_style.css", "text/css; charset=utf-8"),
    "swagger-ui.js": ("swagger_bundle.js", "text/javascript; charset=utf-8"),
}


@lru_cache(maxsize=4)
def describe(authentication: str, data: str, realtime: str) -> str:
    """Return the description as JSON, for areas at these addresses."""
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
    """Return a description in JSON as YAML, every value written out where it is."""
    return yaml.dump(json.loads(document), Dumper=_Plain, sort_keys=False, allow_unicode=True, width=120)


class _Plain(yaml.CSafeDumper):
    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True


async def published(service: Service, path: str, accept: str | None) -> Response | None:
    """Return the description or the page at this path; None: it is none of theirs."""
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
    """JSON unless `Accept` names YAML first."""
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
    # the page may load its own files and answers of the service, nothing from elsewhere
    policy = (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
        f"connect-src 'self' {service.url} {service.object_url}"
    )
    return Response(content, headers={"Content-Type": kind, "Content-Security-Policy": policy})
