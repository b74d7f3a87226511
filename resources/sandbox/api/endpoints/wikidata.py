"""Wikidata under `/v2/snapshots/wikidata` and `/v2/batches/wikidata`: the same operations as for articles, on other files.

Source: the service's change log of September 2026 names both groups of endpoints. The paths of the snapshots are known from its
links; those of the hourly files, and that both have the form of the articles', are the likeliest choice.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from resources.sandbox.api.endpoints import batches, snapshots
from resources.sandbox.store.entities import AREA

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.responses import Response

    from resources.sandbox.api.operations import Call, Operation

TAG = "Wikidata (Beta)"


def _of_entities(operation: Operation) -> Operation:
    """The operation on the files of entities."""
    kind = operation.path.split("/")[2]
    return replace(
        operation,
        name=f"{AREA}-{operation.name}",
        path=operation.path.replace(f"/v2/{kind}", f"/v2/{kind}/{AREA}", 1),
        summary=f"Wikidata: {operation.summary}",
        handler=_within(operation.handler),
        tag=TAG,
    )


def _within(handler: Callable[[Call], Awaitable[Response]]) -> Callable[[Call], Awaitable[Response]]:
    async def handle(call: Call) -> Response:
        area = call.service.areas[AREA]
        return await handler(
            replace(call, service=replace(call.service, exports=area.exports, object_index=area.object_index))
        )

    return handle


OPERATIONS = tuple(_of_entities(operation) for operation in (*snapshots.OPERATIONS, *batches.OPERATIONS))
