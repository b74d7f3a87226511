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


_HOUR = "/v2/batches/{date}/{hour}"
_FILE = f"{_HOUR}/{{identifier}}"
OPERATIONS = (
    Operation(("GET", "POST"), _HOUR, _listing, PAID_GROUPS),
    Operation(("GET", "POST"), _FILE, _single, PAID_GROUPS),
    Operation(("GET", "HEAD"), f"{_FILE}/download", _download, PAID_GROUPS, "batch"),
)
