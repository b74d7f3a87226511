"""What the sandbox publishes about its interface: `/spec` as JSON or YAML, and `/docs`, a page to read and try.

Source: the service serves its description at `/spec/spec.yaml` and a page at `/docs/`; both need no token.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from starlette.responses import Response

from resources.sandbox.api.description import viewer
from resources.sandbox.api.description.document import as_yaml, describe

if TYPE_CHECKING:
    from resources.sandbox.api.operations import Service

_JSON, _YAML = "application/json", "application/yaml"
#: The form by path; `/spec` alone follows `Accept`.
_FORMS = {"/spec.json": _JSON, "/spec.yaml": _YAML, "/spec/spec.yaml": _YAML}
_YAML_NAMES = (_YAML, "application/x-yaml", "text/yaml", "text/x-yaml", "application/vnd.oai.openapi")


async def published(service: Service, path: str, accept: str | None) -> Response | None:
    """The description or the page at this path; None: it is none of theirs."""
    path = path.removesuffix("/")
    if path == "/docs" or path.startswith("/docs/"):
        found = viewer.page(path)
        if found is None:
            return None
        policy = viewer.policy(service.url, service.object_url)
        return Response(found[0], headers={"Content-Type": found[1], "Content-Security-Policy": policy})
    form = _accepted(accept) if path == "/spec" else _FORMS.get(path)
    if form is None:
        return None
    served = frozenset((method, one.path) for one in service.operations for method in one.methods)
    content = document = describe(service.url, service.url, service.realtime_url, served)
    if form == _YAML:
        content = await asyncio.to_thread(as_yaml, document)
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
