"""The hourly batches under `/v2/batches`: the batch listing of an hour, one record, and its download.

Source: the service's documentation of realtime batches.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from resources.sandbox.api import answers
from resources.sandbox.api.endpoints import downloads
from resources.sandbox.api.endpoints.metadata import no_such_key
from resources.sandbox.api.operations import PAID_GROUPS, Operation
from resources.sandbox.api.parameters import read_parameters
from resources.sandbox.api.selection import pick, select
from resources.sandbox.store.object_index import batch_key

if TYPE_CHECKING:
    from starlette.responses import Response

    from resources.sandbox.api.operations import Call


async def _listing(call: Call) -> Response:
    parameters = await read_parameters(call.request)
    files = await asyncio.to_thread(call.service.object_index.batches, call.part("date"), call.part("hour"))
    if files is None:
        raise no_such_key()
    records = (file.record for file in files)
    return answers.records(call.accept, select(records, parameters, source_2025=call.service.settings.source_2025))


async def _single(call: Call) -> Response:
    parameters = await read_parameters(call.request)
    file = await asyncio.to_thread(call.service.object_index.batch, *_place(call))
    if file is None:
        raise no_such_key()
    chosen = pick(file.record, parameters.fields, source_2025=call.service.settings.source_2025)
    return answers.record(call.accept, chosen)


async def _download(call: Call) -> Response:
    return await downloads.download(call, batch_key(*_place(call), area=call.service.object_index.area))


def _place(call: Call) -> tuple[str, str, str]:
    return call.part("date"), call.part("hour"), call.part("identifier")


_REFUSALS = {
    401: "No valid token",
    403: "Not allowed for this group",
    404: "Not found",
    429: "Too many requests, or the quota is used up",
}
_HOUR = "/v2/batches/{date}/{hour}"
OPERATIONS = (
    Operation(
        "batches",
        "The files of an hour",
        ("GET", "POST"),
        _HOUR,
        _listing,
        "Realtime batches",
        PAID_GROUPS,
        parameters=("fields", "filters"),
        answers={200: "The files", **_REFUSALS, 422: "Invalid parameters"},
    ),
    Operation(
        "batch",
        "One file of an hour",
        ("GET", "POST"),
        f"{_HOUR}/{{identifier}}",
        _single,
        "Realtime batches",
        PAID_GROUPS,
        parameters=("fields",),
        answers={200: "The file", **_REFUSALS, 422: "Invalid parameters"},
    ),
    Operation(
        "batch-download",
        "The archive of a file: GET redirects to a signed URL, HEAD returns its headers",
        ("GET", "HEAD"),
        f"{_HOUR}/{{identifier}}/download",
        _download,
        "Realtime batches",
        PAID_GROUPS,
        quota="batch",
        answers={**downloads.ANSWERS, **_REFUSALS},
    ),
)
