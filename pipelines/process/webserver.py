"""Dagster's web server with the report at /report and protection against requests from other websites.

Dagster checks neither `Host` nor `Origin`, and accepts mutations over GET. Without this protection, any web page in the
operator's browser could start runs. The server has no login, so this module does not protect against people and
programs that can reach the port.

The command accepts the options of `dagster-webserver`.
"""

import asyncio
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pipelines.process import dagster_internals
from resources import data_folder, settings
from resources.settings.types import host as host_of

#: Names of this machine, with any port, because a port may be forwarded.
LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
#: Content types that a form or script of another website cannot send without a preflight request, which is refused.
CONTENT_TYPES: Final = frozenset({"application/json", "application/graphql"})
_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
#: Headers that browsers send once. If a header were sent twice, programs could disagree about which value to use.
_ONCE: Final = ("host", "origin", "sec-fetch-site", "sec-fetch-mode", "sec-fetch-dest", "content-type")
#: Prevents clickjacking by pages that embed the UI in a frame. Browsers omit Sec-Fetch-Dest over plain HTTP except on
#: loopback, and old browsers always omit it. Browsers obey this policy in addition to Dagster's own policy.
_FRAMES: Final = "frame-ancestors 'self'"
_SHOWN: Final = 200
#: Links from the report to the UI that serves the report. The links are relative, because a proxy may use any path.
_LINKS: Final = b"""<nav aria-label="Dagster UI">
<a href="./">Dagster UI</a>
<a href="assets/published/warehouse?view=checks">Checks</a>
<a href="assets/warehouse/article_changes?view=partitions">Hours</a>
<a href="runs">Runs</a>
</nav>
"""


def guarded(app: ASGIApp, hosts: Iterable[str]) -> ASGIApp:
    """Refuse requests from other websites. `hosts` contains additional public names for this UI (WME_UI_HOSTS)."""
    public = {host_of(name) for name in hosts}

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        async def unframed(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).append("Content-Security-Policy", _FRAMES)
            await send(message)

        refused = _refusal(scope, public) if scope["type"] in {"http", "websocket"} else None
        if refused is None:
            await app(scope, receive, unframed)
            return
        status, sentence = refused
        answer = PlainTextResponse(
            f"Refused: {sentence} Nothing was done.\n", status, {"X-Content-Type-Options": "nosniff"}
        )
        await answer(scope, receive, send)

    return serve


def _refusal(scope: Scope, public: Collection[tuple[str, int | None] | None]) -> tuple[int, str] | None:
    """Return the status and reason for refusing a request, or None if the request is allowed."""
    headers = Headers(scope=scope)
    for name in _ONCE:
        if len(headers.getlist(name)) > 1:
            return 400, f"the header {name.title()} was sent twice."
    text = headers.get("host", "")
    host = host_of(text)
    if host is None or (host[0] not in LOOPBACK and host not in public):
        return 403, (
            f"the host {text[:_SHOWN]!r} is not a known host name of this UI. If it belongs to this UI, add the "
            "name to WME_UI_HOSTS and restart."
        )
    origin = headers.get("origin")
    if origin is not None:
        scheme, _, rest = origin.partition("://")
        page = host_of(rest) if scheme.lower() in {"http", "https"} else None
        if page is None or (page != host and page not in public):
            return 403, (
                f"the request comes from a page with the origin {origin[:_SHOWN]!r}. If this is the UI's public "
                "address, add its host to WME_UI_HOSTS and restart."
            )
    method = scope["method"] if scope["type"] == "http" else ""
    site = headers.get("sec-fetch-site", "none")
    if site not in {"none", "same-origin"} and not (
        method in {"GET", "HEAD"}
        and (headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")) == ("navigate", "document")
    ):
        return 403, (
            f"a page on another website sent the request (Sec-Fetch-Site: {site[:_SHOWN]!r}). Other websites can "
            "only link to the UI. No setting changes this restriction."
        )
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if method and method not in _READING and kind not in CONTENT_TYPES:
        return 415, (
            f"{method} needs the header Content-Type: application/json, not {kind[:_SHOWN]!r}. No setting changes "
            "this restriction."
        )
    # if a browser opens this URL, Dagster returns a page and runs no query
    is_browser = "text/html" in headers.get("accept", "")
    is_query = scope["path"].rstrip("/").endswith("/graphql") and scope["query_string"]
    if method in _READING and is_query and not is_browser:
        return 405, (
            "GraphQL over GET is refused, because any website can send such a request. Use POST with the header "
            "Content-Type: application/json. No setting changes this restriction."
        )
    return None


def with_report(app: ASGIApp, page: Path) -> ASGIApp:
    """Serve the report with added links to the UI."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        is_reading = scope["type"] == "http" and scope["method"] in {"GET", "HEAD"}
        if not is_reading or scope["path"] != data_folder.REPORT_PATH:
            await app(scope, receive, send)
            return
        headers = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}
        answer: Response
        try:
            content = (await asyncio.to_thread(page.read_bytes)).replace(b"</header>", _LINKS + b"</header>", 1)
            answer = HTMLResponse(content, headers=headers)
        except FileNotFoundError:
            answer = PlainTextResponse(
                "There is no report yet. Materialize published/report in the Dagster UI, or run `wme report`.\n",
                404,
                headers,
            )
        await answer(scope, receive, send)

    return serve


def main() -> None:
    settings.load_env_file()
    chosen = settings.read()
    page = data_folder.report(chosen.data)
    dagster_internals.webserver(lambda app: guarded(with_report(app, page), chosen.ui_hosts))


if __name__ == "__main__":
    main()
