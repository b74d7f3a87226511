"""The `/v2/articles` and `/v2/wikidata` streams, which send endless server-sent events or lines at a limited rate.

Source: the service's documentation of realtime streams. The path of the Wikidata stream is not public. The status and
headers are sent with the first message. Streams have no heartbeat. Only the end of the body shows that the server's
readers have stopped.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from starlette.responses import Response, StreamingResponse
from starlette.types import Send

from resources.sandbox.api import stream_parameters
from resources.sandbox.api.answers import Format, negotiate
from resources.sandbox.api.operations import Call, Operation
from resources.sandbox.api.stream_parameters import Beginning, selector
from resources.sandbox.settings import TOP_GROUP
from resources.sandbox.store.topics import Reader, Topic
from resources.sandbox.world.wire import decode, encode
from resources.sandbox.world.world import micros

_EVENTS = "text/event-stream"
#: Maximum seconds between clock checks while no message is due. A test might change the clock.
_LOOK_SECONDS = 0.05
_SECOND = 1_000_000
_PARTS = 10


def form(accept: str | None) -> tuple[str, bool]:
    """Return a stream's content type for an `Accept` header, and whether messages are sent as events."""
    for entry in (accept or "*/*").split(","):
        if entry.split(";")[0].strip() in ("*/*", "text/*", _EVENTS):
            return f"{_EVENTS}; charset=utf-8", True
        if negotiate(entry) is Format.NDJSON:
            return Format.NDJSON.value, False
    return "; charset=utf-8", False


class Streaming(StreamingResponse):
    """Response that sends a topic reader's messages.

    `per_second` is the maximum number of messages per second of the sandbox's clock, or 0 for no limit. The body ends
    when the sandbox stops.
    """

    def __init__(
        self,
        call: Call,
        make_reader: Callable[[], Reader],
        select: Callable[[dict[str, Any]], dict[str, Any] | None],
        per_second: float,
    ) -> None:
        content_type, self._as_events = form(call.accept)
        headers = {"Content-Type": content_type, "Cache-Control": "no-cache", "Connection": "keep-alive"}
        super().__init__(self._messages(), headers=headers)
        self._make_reader, self._select, self._per_second = make_reader, select, per_second
        service = call.service
        self._line, self._clock, self._ending = service.world.line, service.clock, service.ending.is_set

    async def stream_response(self, send: Send) -> None:
        """Send the status and headers with the first message, and end the body when the sandbox stops."""
        start = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        is_started = False
        async for message in self.body_iterator:
            if not is_started:
                await send(start)
                is_started = True
            await send({"type": "http.response.body", "body": message, "more_body": True})
            # let the server detect a disconnected client
            await asyncio.sleep(0)
        if not is_started:
            await send(start)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _messages(self) -> AsyncIterator[bytes]:
        reader = await asyncio.to_thread(self._make_reader)
        free_at = time.monotonic()
        while not self._ending():
            messages = await asyncio.to_thread(self._due, reader)
            if messages is None:
                await asyncio.sleep(await asyncio.to_thread(self._pause, reader))
                continue
            for message in messages:
                if self._per_second:
                    # a late message does not make later messages faster
                    free_at = max(free_at, time.monotonic()) + 1 / (self._per_second * self._clock.speed)
                    await asyncio.sleep(free_at - time.monotonic())
                if self._ending():
                    return
                yield message

    def _due(self, reader: Reader) -> list[bytes] | None:
        """Return the next messages that pass the filters, or None if no event is due."""
        events = list(reader.due(micros(self._clock.now())))
        if not events:
            return None
        found = []
        for event in events:
            line = self._line(event)
            record = decode(line)
            chosen = self._select(record)
            if chosen is None:
                continue
            line = line if chosen is record else encode(chosen)
            found.append(b"event: message\ndata: " + line + b"\n\n" if self._as_events else line + b"\n")
        return found

    def _pause(self, reader: Reader) -> float:
        """Return the number of seconds to wait before the next check."""
        if self._clock.frozen:
            return _LOOK_SECONDS
        coming = (reader.next_at() - micros(self._clock.now())) / _SECOND / self._clock.speed
        return min(max(coming, 0.001), _LOOK_SECONDS)


def _stream(record: str) -> Callable[[Call], Awaitable[Response]]:
    async def handle(call: Call) -> Response:
        service = call.service
        now = service.clock.now()
        common, beginning = await stream_parameters.read(call.request, now)
        topic = service.topics[record]
        return Streaming(
            call,
            lambda: Reader(topic, _positions(topic, beginning, micros(now))),
            selector(record, common),
            service.settings.stream_rate * beginning.parts / _PARTS,
        )

    return handle


def _positions(topic: Topic, beginning: Beginning, now: int) -> dict[int, int]:
    live = topic.offsets_at(now)
    found = {}
    moments = {at: topic.offsets_at(micros(at)) for at in set(beginning.moments.values())}
    for number in beginning.partitions:
        if number in beginning.offsets:
            # if the offset is past the end, start at the end
            found[number] = min(beginning.offsets[number], live[number])
        elif number in beginning.moments:
            found[number] = moments[beginning.moments[number]][number]
        else:
            found[number] = live[number]
    return found


OPERATIONS = tuple(
    Operation(("GET", "POST"), path, _stream(record), (TOP_GROUP,))
    for path, record in (("/v2/articles", "article"), ("/v2/wikidata", "wikidata-article"))
)
