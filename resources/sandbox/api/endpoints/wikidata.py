"""Wikidata: its files under `/v2/snapshots/wikidata` and `/v2/batches/wikidata`, its entities under `/v2/wikidata`.

The files have the same operations as those of articles.

Source: the service's change log of September 2026 names both groups of files. The paths of the snapshots are known from its
links; those of the hourly files, and that both have the form of the articles', are the likeliest choice. The lookups are in its
interface description of 2026: only `fields` is read, and the answer is an array.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from resources.sandbox.api import lookups
from resources.sandbox.api.answers import Refusal
from resources.sandbox.api.endpoints import batches, snapshots
from resources.sandbox.api.operations import Operation
from resources.sandbox.api.parameters import read_parameters
from resources.sandbox.store.entities import AREA
from resources.sandbox.store.exports import newest_hour

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.responses import Response

    from resources.sandbox.api.operations import Call


def _of_entities(operation: Operation) -> Operation:
    """The operation on the files of entities."""
    kind = operation.path.split("/")[2]
    return replace(
        operation,
        path=operation.path.replace(f"/v2/{kind}", f"/v2/{kind}/{AREA}", 1),
        handler=_within(operation.handler),
    )


def _within(handler: Callable[[Call], Awaitable[Response]]) -> Callable[[Call], Awaitable[Response]]:
    async def handle(call: Call) -> Response:
        return await handler(call.within(AREA))

    return handle


def _lookup(path: str, letters: str) -> Operation:
    """The lookup of entities whose identifiers begin with one of the letters."""

    async def handle(call: Call) -> Response:
        parameters, identifier = await read_parameters(call.request), call.part("identifier")
        contents = call.service.contents
        hour = newest_hour(contents, call.service.clock.now())
        record = None
        if identifier.startswith(tuple(letters)):
            record = await asyncio.to_thread(contents.entity, identifier, hour)
        if record is None:
            raise Refusal(404)
        if path == "labels":
            record = record["entity"].get("labels", {})
        return lookups.answer(call.accept, [lookups.pick(record, parameters.fields)])

    return Operation(("GET", "POST"), f"/v2/{AREA}/{path}/{{identifier}}", handle, quota="ondemand")


_FILES = tuple(_of_entities(operation) for operation in (*snapshots.OPERATIONS, *batches.OPERATIONS))
_LOOKUPS = (_lookup("items", "Q"), _lookup("properties", "P"), _lookup("labels", "QP"))
OPERATIONS = (*_FILES, *_LOOKUPS)
