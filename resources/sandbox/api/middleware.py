"""Middleware on all ports that sets the `Date` header, logs requests and injects faults.

Query strings are not logged, because they contain signatures. Control requests (`/sandbox/`) reset the idle timeout but
are not logged. Faults that damage archives or expire signatures only mark the request; the handlers apply these faults.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from email.utils import format_datetime
from http import HTTPStatus
from typing import Any, NamedTuple

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from resources.sandbox.api import answers
from resources.sandbox.clock import Clock
from resources.sandbox.faults import ARCHIVE_KINDS, DAMAGE, EXPIRED, Fault, Faults, Where

CONTROLS = "/sandbox/"
#: Maximum number of log entries. The oldest entries are dropped.
_LONGEST = 200_000
_BALANCER_STATUSES = frozenset({502, 503, 504})
_SLICE_SECONDS = 0.02


class Seen(NamedTuple):
    method: str
    path: str
    status: int


class Journal:
    """Thread-safe request log, which also sets the `Date` header and tracks the time of the last request."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        #: Logged requests on all ports, oldest first.
        self.requests: deque[Seen] = deque(maxlen=_LONGEST)
        self._lock = threading.Lock()
        self._in_flight = 0
        self._last = time.monotonic()

    def idle_seconds(self) -> float:
        """Return the seconds since the last request ended, or 0 during a request."""
        with self._lock:
            return 0.0 if self._in_flight else time.monotonic() - self._last

    def watch(self, app: ASGIApp) -> ASGIApp:
        """Wrap `app` to log its requests and to add the `Date` header to its responses."""

        async def watched(scope: Scope, receive: Receive, send: Send) -> None:
            async def noting(message: Message) -> None:
                if message["type"] == "http.response.start":
                    if not scope["path"].startswith(CONTROLS):
                        self.requests.append(Seen(scope["method"], scope["path"], int(message["status"])))
                    moment = format_datetime(self._clock.now(), usegmt=True).encode()
                    message = {**message, "headers": [*message.get("headers", ()), (b"date", moment)]}
                await send(message)

            self._count(1)
            try:
                await app(scope, receive, noting)
            finally:
                self._count(-1)

        return watched

    def _count(self, change: int) -> None:
        with self._lock:
            self._in_flight += change
            self._last = time.monotonic()


class _ConnectionCutError(Exception):
    """The response was aborted, so the server must close the connection."""


def misbehaving(app: ASGIApp, faults: Faults, where: Where, api_path: Callable[[str], str]) -> ASGIApp:
    """Wrap `app` with the faults for its port. `api_path` maps a path on this port to the service's path."""

    async def faulty(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"].startswith(CONTROLS):
            await app(scope, receive, send)
            return
        for fault in faults.take(where, scope["method"], api_path(scope["path"])):
            if fault.kind == "delay":
                await asyncio.sleep(float(fault.details["seconds"]))
            elif fault.kind in ("status", "html"):
                await _instead(fault, Headers(scope=scope).get("accept"))(scope, receive, send)
                return
            elif fault.kind == "expired":
                scope[EXPIRED] = True
            elif fault.kind in ARCHIVE_KINDS:
                scope[DAMAGE] = fault
            else:
                send = _BODY_KINDS[fault.kind](fault.details, send).send
        try:
            await app(scope, receive, send)
        except _ConnectionCutError:
            # an unfinished response makes the server close the connection
            return

    return faulty


def _instead(fault: Fault, accept: str | None) -> Response:
    status = int(fault.details["status"])
    phrase = HTTPStatus(status).phrase
    page = fault.details.get("html")
    if fault.kind == "html" or page or (page is None and status in _BALANCER_STATUSES):
        title = "Maintenance" if status == HTTPStatus.OK else f"{status} {phrase}"
        text = (
            f"<html>\r\n<head><title>{title}</title></head>\r\n"
            f"<body>\r\n<center><h1>{title}</h1></center>\r\n</body>\r\n</html>\r\n"
        )
        answer = Response(text, status_code=status, media_type="text/html")
    else:
        message = fault.details["message"]
        answer = answers.error(accept, status, phrase if message is None else str(message))
    if (wait := fault.details.get("retry_after")) is not None:
        answer.headers["Retry-After"] = str(wait)
    return answer


class _Body:
    """Response filter. `start` can change the headers, and `piece` can change the parts of the body."""

    def __init__(self, details: dict[str, Any], send: Send) -> None:
        self.details = details
        self._send = send
        self.position = 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(raw=message["headers"])
            self.start(headers, int(headers.get("content-length", "0")))
            await self._send(message)
        else:
            await self.piece(message.get("body", b""), more=message.get("more_body", False))

    def start(self, headers: MutableHeaders, length: int) -> None:
        """Read or change the response headers. `length` is the content length."""

    async def piece(self, body: bytes, *, more: bool) -> None:
        await self.forward(body, more=more)

    async def forward(self, body: bytes, *, more: bool) -> None:
        self.position += len(body)
        await self._send({"type": "http.response.body", "body": body, "more_body": more})


class _Cut(_Body):
    def start(self, _: MutableHeaders, length: int) -> None:
        after = self.details["after"]
        self.end = length // 2 if after is None else int(after)

    async def piece(self, body: bytes, *, more: bool) -> None:
        await self.forward(body[: self.end - self.position], more=True)
        if self.position >= self.end or not more:
            raise _ConnectionCutError


class _Length(_Body):
    def start(self, headers: MutableHeaders, length: int) -> None:
        self.end = max(0, length + int(self.details["delta"]))
        headers["content-length"] = str(self.end)

    async def piece(self, body: bytes, *, more: bool) -> None:
        # the server cuts the connection if the body is shorter than its Content-Length
        rest = self.end - self.position
        if rest or not more:
            await self.forward(body[:rest], more=more)


class _Flip(_Body):
    def start(self, headers: MutableHeaders, length: int) -> None:
        # for `bytes 100-199/5000`, positions refer to the complete object, so they also apply to resumed downloads
        first, total = 0, length
        if "content-range" in headers:
            span, _, whole = headers["content-range"].removeprefix("bytes ").partition("/")
            first, total = int(span.split("-")[0]), int(whole)
        at = self.details["at"]
        begin = (total // 2 if at is None else int(at)) - first
        self.flipped = range(begin, begin + int(self.details["bytes"]))

    async def piece(self, body: bytes, *, more: bool) -> None:
        changed = bytearray(body)
        for index in self.flipped:
            if 0 <= index - self.position < len(changed):
                changed[index - self.position] ^= 0xFF
        await self.forward(bytes(changed), more=more)


class _Slow(_Body):
    async def piece(self, body: bytes, *, more: bool) -> None:
        step = max(1, int(float(self.details["bytes_per_second"]) * _SLICE_SECONDS))
        for start in range(0, len(body), step):
            await self.forward(body[start : start + step], more=True)
            await asyncio.sleep(_SLICE_SECONDS)
        if not more:
            await self.forward(b"", more=False)


class _End(_Body):
    """Response filter that ends a stream after some messages. Each part of the body is one message."""

    def start(self, _: MutableHeaders, __: int) -> None:
        self.left = int(self.details["after"])

    async def piece(self, body: bytes, *, more: bool) -> None:
        if not self.left or not more:
            await self.stop()
        self.left -= 1
        await self.forward(body, more=True)

    async def stop(self) -> None:
        await self.forward(b"", more=False)
        raise _ConnectionCutError


class _Stall(_End):
    async def stop(self) -> None:
        # wait until the client disconnects or the sandbox stops
        await asyncio.Event().wait()


_BODY_KINDS = {"cut": _Cut, "length": _Length, "flip": _Flip, "slow": _Slow, "end": _End, "stall": _Stall}
