"""The page `/docs`: Swagger UI, whose files come with an installed package, so that it needs no network."""

from __future__ import annotations

from importlib import resources

_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Enterprise Content Service (local sandbox)</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/docs/swagger-ui.css">
</head>
<body><div id="page"></div><script src="/docs/swagger-ui.js"></script><script src="/docs/start.js"></script></body>
</html>
"""
_START = """\
SwaggerUIBundle({
  url: "/spec", dom_id: "#page", deepLinking: true, docExpansion: "list", filter: true,
  tryItOutEnabled: true, persistAuthorization: true, validatorUrl: null,
});
"""
_FILES = {"swagger-ui.css": "swagger_style.css", "swagger-ui.js": "swagger_bundle.js"}
_TYPES = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8"}


def page(path: str) -> tuple[bytes, str] | None:
    """The page or one of its files, and the content type; None: there is none of that path."""
    name = path.removeprefix("/docs").strip("/")
    if not name:
        return _PAGE.encode(), "text/html; charset=utf-8"
    kind = _TYPES.get(name.rpartition(".")[2], "")
    if name == "start.js":
        return _START.encode(), kind
    if name not in _FILES:
        return None
    return (resources.files("offapi") / _FILES[name]).read_bytes(), kind


def policy(*hosts: str) -> str:
    """What the page may load: its own files, and answers of the service; nothing from elsewhere."""
    return (
        f"default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
        f"connect-src 'self' {' '.join(hosts)}"
    )
