"""Structured contents: snapshots under `/v2/snapshots/structured-contents`, lookups under `/v2/structured-contents/{name}`.

Source: the service's documentation of structured contents, and recorded lists. All groups may use them, and the files are
not counted against a quota. The list holds each snapshot twice: as it is, and as it was a day before.
"""

from __future__ import annotations

import asyncio
import hashlib
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

from resources.sandbox.api import answers, lookups
from resources.sandbox.api.endpoints import downloads
from resources.sandbox.api.endpoints.metadata import no_such_key
from resources.sandbox.api.operations import FREE_GROUP, Operation
from resources.sandbox.api.parameters import read_parameters
from resources.sandbox.api.selection import pick, select
from resources.sandbox.store.object_index import snapshot_key
from resources.sandbox.store.structured import AREA
from resources.sandbox.world import structured

if TYPE_CHECKING:
    from starlette.responses import Response

    from resources.sandbox.api.operations import Call
    from resources.sandbox.store.object_index import StoredFile


async def _listing(call: Call) -> Response:
    parameters = await read_parameters(call.request)
    area = call.service.areas[AREA]

    def listed() -> list[dict[str, Any]]:
        identifiers = area.exports.identifiers()
        area.exports.beforehand(identifiers, free=_free(call))
        files = (area.object_index.snapshot(identifier, free=_free(call)) for identifier in identifiers)
        current = [_record(file) for file in files if file is not None]
        return [*current, *map(_day_before, current)]

    found = await asyncio.to_thread(listed)
    return answers.records(call.accept, select(found, parameters, source_2025=call.service.settings.source_2025))


async def _single(call: Call) -> Response:
    parameters = await read_parameters(call.request)
    index = call.service.areas[AREA].object_index
    file = await asyncio.to_thread(index.snapshot, call.part("identifier"), free=_free(call))
    if file is None:
        raise no_such_key()
    chosen = pick(_record(file), parameters.fields, source_2025=call.service.settings.source_2025)
    return answers.record(call.accept, chosen)


async def _download(call: Call) -> Response:
    return await downloads.download(
        call.within(AREA), snapshot_key(call.part("identifier"), free=_free(call), area=AREA)
    )


async def _lookup(call: Call) -> Response:
    parameters = await read_parameters(call.request)
    found = await lookups.articles(call, parameters)
    return lookups.answer(call.accept, [structured.pick(record, parameters.fields) for record in found])


def _record(file: StoredFile) -> dict[str, Any]:
    """The record of a snapshot: there are no chunks."""
    return {key: value for key, value in file.record.items() if key != "chunks"}


def _day_before(record: dict[str, Any]) -> dict[str, Any]:
    """The record of the export before this one. Of that there is no archive any more: a download has the current one."""
    moment = record["date_modified"]
    day = (date.fromisoformat(moment[:10]) - timedelta(days=1)).isoformat()
    version = hashlib.md5(f"{record['identifier']} {day}".encode(), usedforsecurity=False).hexdigest()
    size = {**record["size"], "value": round(record["size"]["value"] * 0.99, 3)}
    return {**record, "version": version, "date_modified": day + moment[10:], "size": size}


def _free(call: Call) -> bool:
    """Whether the caller sees the copies of free accounts."""
    return call.user is not None and call.user.group == FREE_GROUP


_SNAPSHOTS = "/v2/snapshots/structured-contents"
OPERATIONS = (
    Operation(("GET", "POST"), _SNAPSHOTS, _listing),
    Operation(("GET", "POST"), f"{_SNAPSHOTS}/{{identifier}}", _single),
    Operation(("GET", "HEAD"), f"{_SNAPSHOTS}/{{identifier}}/download", _download),
    Operation(("GET", "POST"), "/v2/structured-contents/{name}", _lookup, quota="ondemand"),
)
