"""Snapshots and their chunks under `/v2/snapshots`: lists, single records, downloads.

Source: the service's documentation of snapshots. All groups may use them; free accounts get older copies of their own.
Downloads count against a quota, and a range request that reaches the API counts as one download. A chunk is named by
its identifier or by its number: only what follows the last `_` is read.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from resources.sandbox.api import answers
from resources.sandbox.api.endpoints import downloads
from resources.sandbox.api.endpoints.metadata import no_such_key
from resources.sandbox.api.operations import FREE_GROUP, Operation
from resources.sandbox.api.parameters import read_parameters
from resources.sandbox.api.selection import pick, select, undecided
from resources.sandbox.store.object_index import chunk_key, snapshot_key

if TYPE_CHECKING:
    from starlette.responses import Response

    from resources.sandbox.api.operations import Call


async def _listing(call: Call) -> Response:
    parameters = await read_parameters(call.request)
    source_2025 = call.service.settings.source_2025

    def found() -> list[dict[str, object]]:
        # what the filters exclude by identifier, project or namespace need not be made
        wanted = [
            outline["identifier"]
            for outline in call.service.object_index.snapshot_outlines()
            if undecided(outline, parameters, source_2025=source_2025)
        ]
        call.service.exports.beforehand(wanted, free=_free(call))
        files = (call.service.object_index.snapshot(identifier, free=_free(call)) for identifier in wanted)
        records = (file.record for file in files if file is not None and file.record["size"]["value"] > 0)
        return select(records, parameters, source_2025=source_2025)

    return answers.records(call.accept, await asyncio.to_thread(found))


async def _single(call: Call) -> Response:
    parameters = await read_parameters(call.request)
    file = await asyncio.to_thread(call.service.object_index.snapshot, call.part("identifier"), free=_free(call))
    if file is None:
        raise no_such_key()
    chosen = pick(file.record, parameters.fields, source_2025=call.service.settings.source_2025)
    return answers.record(call.accept, chosen)


async def _download(call: Call) -> Response:
    key = snapshot_key(call.part("identifier"), free=_free(call), area=call.service.object_index.area)
    return await downloads.download(call, key)


async def _chunks(call: Call) -> Response:
    parameters = await read_parameters(call.request)
    files = await asyncio.to_thread(
        call.service.object_index.chunks, call.part("snapshot_identifier"), free=_free(call)
    )
    if files is None:
        raise no_such_key()
    records = (file.record for file in files)
    return answers.records(call.accept, select(records, parameters, source_2025=call.service.settings.source_2025))


async def _chunk(call: Call) -> Response:
    parameters = await read_parameters(call.request)
    snapshot, number = call.part("snapshot_identifier"), _number(call)
    file = await asyncio.to_thread(call.service.object_index.chunk, snapshot, number, free=_free(call))
    if file is None:
        raise no_such_key()
    chosen = pick(file.record, parameters.fields, source_2025=call.service.settings.source_2025)
    return answers.record(call.accept, chosen)


async def _chunk_download(call: Call) -> Response:
    snapshot, area = call.part("snapshot_identifier"), call.service.object_index.area
    return await downloads.download(call, chunk_key(snapshot, _number(call), free=_free(call), area=area))


def _number(call: Call) -> str:
    return call.part("chunk_identifier").rpartition("_")[2]


def _free(call: Call) -> bool:
    """Whether the caller sees the copies of free accounts."""
    return call.user is not None and call.user.group == FREE_GROUP


_SNAPSHOT = "/v2/snapshots/{identifier}"
_CHUNKS = "/v2/snapshots/{snapshot_identifier}/chunks"
_CHUNK = f"{_CHUNKS}/{{chunk_identifier}}"
OPERATIONS = (
    Operation(("GET", "POST"), "/v2/snapshots", _listing),
    Operation(("GET", "POST"), _SNAPSHOT, _single),
    Operation(("GET", "HEAD"), f"{_SNAPSHOT}/download", _download, quota="snapshot"),
    Operation(("GET", "POST"), _CHUNKS, _chunks),
    Operation(("GET", "POST"), _CHUNK, _chunk),
    Operation(("GET", "HEAD"), f"{_CHUNK}/download", _chunk_download, quota="chunk"),
)
