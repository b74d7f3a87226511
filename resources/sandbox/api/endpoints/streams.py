"""The streams on a host of their own: `/v2/articles` and `/v2/wikidata`.

Source: the service's documentation of its realtime streams; the path of Wikidata's is not public.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from resources.sandbox.api.operations import EVERY_GROUP, Operation
from resources.sandbox.api.stream import parameters
from resources.sandbox.api.stream.answer import Streaming
from resources.sandbox.api.stream.selection import selector
from resources.sandbox.store.topics import Reader
from resources.sandbox.world.world import micros

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.responses import Response

    from resources.sandbox.api.operations import Call
    from resources.sandbox.api.stream.parameters import Beginning
    from resources.sandbox.store.topics import Topic

_PARTS = 10


def _stream(record: str) -> Callable[[Call], Awaitable[Response]]:
    async def handle(call: Call) -> Response:
        service = call.service
        now = service.clock.now()
        common, beginning = await parameters.read(call.request, now)
        topic = service.topics[record]
        return Streaming(
            call.accept,
            topic,
            lambda: Reader(topic, _positions(topic, beginning, micros(now))),
            selector(record, common),
            service.clock,
            service.settings.stream_rate * beginning.parts / _PARTS,
            service.ending.is_set,
        )

    return handle


def _positions(topic: Topic, beginning: Beginning, now: int) -> dict[int, int]:
    """Where each partition begins."""
    live = topic.offsets_at(now)
    found = {}
    moments = {at: topic.offsets_at(micros(at)) for at in set(beginning.moments.values())}
    for number in beginning.partitions:
        if number in beginning.offsets:
            # behind the end there is nothing to read, and the reader begins at the end
            found[number] = min(beginning.offsets[number], live[number])
        elif number in beginning.moments:
            found[number] = moments[beginning.moments[number]][number]
        else:
            found[number] = live[number]
    return found


def _operation(path: str, record: str) -> Operation:
    return Operation(("GET", "POST"), path, _stream(record), EVERY_GROUP[-1:])


OPERATIONS = (_operation("/v2/articles", "article"), _operation("/v2/wikidata", "wikidata-article"))
