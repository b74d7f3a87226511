"""Listings, single records and downloads of reference lists, hourly batches, snapshots and chunks.

Wikidata and structured contents have the same operations as articles, but under different paths.

Source: the service's documentation of metadata, realtime batches, snapshots, structured contents and downloads.

- All groups can use snapshots. Free accounts get separate, older copies. Each download counts against a quota, and so
  does each range request that reaches the API. A chunk is requested by identifier or by number. Only the part after
  the last `_` is used.
- A GET request for a download returns a 307 redirect to a signed URL, even if the object does not exist. The object
  store evaluates ranges and conditional headers.
- The structured contents listing contains each snapshot twice: the current and the previous day's export. Downloads
  of structured contents do not count against a quota.
- The service's change log of September 2026 mentions Wikidata batches and snapshots and links to the snapshot paths.
  The sandbox assumes that the batch paths and all formats match those of the article endpoints.
"""

from __future__ import annotations

import asyncio
import hashlib
import uuid
from collections.abc import Awaitable, Callable, Iterable, Iterator
from datetime import date, timedelta
from typing import Any

from starlette.responses import Response

from resources.sandbox.api import answers
from resources.sandbox.api.answers import Refusal
from resources.sandbox.api.operations import Call, Operation
from resources.sandbox.api.parameters import Parameters, pick, read_parameters, select, undecided
from resources.sandbox.faults import EXPIRED
from resources.sandbox.settings import EVERY_GROUP, PAID_GROUPS, QuotaKind
from resources.sandbox.store.archived_world import STRUCTURED, WIKIDATA
from resources.sandbox.store.object_index import SIGNED_URL_SECONDS, StoredFile, batch_key, chunk_key, snapshot_key

Record = dict[str, Any]
Handler = Callable[[Call], Awaitable[Response]]

_EXPOSED = (
    "Accept-Ranges, Last-Modified, Content-Length, ETag, Cache-Control, Content-Disposition, Content-Encoding, "
    "Content-Type, Expires"
)
_GET_POST, _GET_HEAD = ("GET", "POST"), ("GET", "HEAD")


def _no_such_key() -> Refusal:
    """Return the object store's 404 error in the form that the API forwards."""
    request_id, host_id = uuid.uuid4().hex[:16].upper(), uuid.uuid4().hex
    return Refusal(
        404,
        "NoSuchKey: The specified key does not exist.\n"
        f"\tstatus code: 404, request id: {request_id}, host id: {host_id}",
    )


def _listing(records: Callable[[Call, Parameters], Iterable[Record] | None]) -> Handler:
    """Create the handler for a listing. `records` returns None if the listing does not exist."""

    async def handle(call: Call) -> Response:
        parameters = await read_parameters(call.request)

        def found() -> list[Record] | None:
            listed = records(call, parameters)
            return None if listed is None else select(listed, parameters)

        chosen = await asyncio.to_thread(found)
        if chosen is None:
            raise _no_such_key()
        return answers.records(call.accept, chosen)

    return handle


def _single(find: Callable[[Call], StoredFile | Record | None]) -> Handler:
    """Create the handler for a single record. `find` returns a record, a file or None."""

    async def handle(call: Call) -> Response:
        parameters = await read_parameters(call.request)
        found = await asyncio.to_thread(find, call)
        if found is None:
            raise _no_such_key()
        record = found if isinstance(found, dict) else found.record
        return answers.record(call.accept, pick(record, parameters.fields))

    return handle


def _download(key: Callable[[Call], str]) -> Handler:
    """Create the handler for a download. GET redirects to a signed URL, and HEAD returns the headers."""

    async def handle(call: Call) -> Response:
        if call.request.method == "HEAD":
            file = await asyncio.to_thread(call.area.find, key(call))
            if file is None:
                raise _no_such_key()
            size = {"Content-Length": str(file.size), "Access-Control-Expose-Headers": _EXPOSED}
            return Response(status_code=200, headers=file.headers("UTC") | size)
        age = timedelta(seconds=SIGNED_URL_SECONDS + 1) if call.request.scope.get(EXPIRED) else timedelta()
        subject = call.user.subject if call.user is not None else ""
        location = call.service.objects_for(call.request) + call.service.signer.sign(key(call), subject, age=age)
        return Response(status_code=307, headers={"Location": location})

    return handle


def _records(files: Iterable[StoredFile] | None) -> list[Record] | None:
    return None if files is None else [file.record for file in files]


def _reference(kind: str) -> tuple[Operation, Operation]:
    def records(call: Call) -> list[Record]:
        found: list[Record] = getattr(call.service.world, kind)()
        return found

    def find(call: Call) -> Record | None:
        identifier = call.part("identifier")
        return next((record for record in records(call) if str(record["identifier"]) == identifier), None)

    return (
        Operation(_GET_POST, f"/v2/{kind}", _listing(lambda call, _: records(call))),
        Operation(_GET_POST, f"/v2/{kind}/{{identifier}}", _single(find)),
    )


def _hour(call: Call) -> tuple[str, str]:
    return call.part("date"), call.part("hour")


def _batches(area: str = "") -> tuple[Operation, ...]:
    hour = f"/v2/batches{area and f'/{area}'}/{{date}}/{{hour}}"
    one = f"{hour}/{{identifier}}"
    listing = _listing(lambda call, _: _records(call.area.batches(*_hour(call))))
    batch = _single(lambda call: call.area.batch(*_hour(call), call.part("identifier")))
    download = _download(lambda call: batch_key(*_hour(call), call.part("identifier"), area=area))
    return (
        Operation(_GET_POST, hour, listing, PAID_GROUPS, area=area),
        Operation(_GET_POST, one, batch, PAID_GROUPS, area=area),
        Operation(_GET_HEAD, f"{one}/download", download, PAID_GROUPS, "batch", area=area),
    )


def _snapshot_records(call: Call, parameters: Parameters) -> Iterator[Record]:
    index = call.area
    # do not build snapshots that the filters exclude by identifier, project or namespace
    wanted = [outline["identifier"] for outline in index.snapshot_outlines() if undecided(outline, parameters)]
    call.area.exports.beforehand(wanted, free=call.is_free)
    for identifier in wanted:
        file = index.snapshot(identifier, free=call.is_free)
        if file is not None and file.record["size"]["value"] > 0:
            yield file.record


def _structured_records(call: Call, _: Parameters) -> list[Record]:
    identifiers = call.area.exports.identifiers()
    call.area.exports.beforehand(identifiers, free=call.is_free)
    files = (call.area.snapshot(identifier, free=call.is_free) for identifier in identifiers)
    current = [file.record for file in files if file is not None]
    return [*current, *map(_day_before, current)]


def _day_before(record: Record) -> Record:
    """Return the previous day's export record. The record's download path returns the current archive."""
    moment = record["date_modified"]
    day = (date.fromisoformat(moment[:10]) - timedelta(days=1)).isoformat()
    version = hashlib.md5(f"{record['identifier']} {day}".encode(), usedforsecurity=False).hexdigest()
    size = {**record["size"], "value": round(record["size"]["value"] * 0.99, 3)}
    return {**record, "version": version, "date_modified": day + moment[10:], "size": size}


def _chunk_number(call: Call) -> str:
    return call.part("chunk_identifier").rpartition("_")[2]


def _chunk(call: Call) -> StoredFile | None:
    return call.area.chunk(call.part("snapshot_identifier"), _chunk_number(call), free=call.is_free)


def _chunk_key(call: Call) -> str:
    snapshot, area = call.part("snapshot_identifier"), call.operation.area
    return chunk_key(snapshot, _chunk_number(call), free=call.is_free, area=area)


def _snapshots(area: str = "") -> tuple[Operation, ...]:
    home = f"/v2/snapshots{area and f'/{area}'}"
    one = f"{home}/{{identifier}}"
    listing = _listing(_structured_records if area == STRUCTURED else _snapshot_records)
    download = _download(lambda call: snapshot_key(call.part("identifier"), free=call.is_free, area=area))
    snapshot = _single(lambda call: call.area.snapshot(call.part("identifier"), free=call.is_free))
    quota: QuotaKind | None = None if area == STRUCTURED else "snapshot"
    return (
        Operation(_GET_POST, home, listing, area=area),
        Operation(_GET_POST, one, snapshot, area=area),
        Operation(_GET_HEAD, f"{one}/download", download, EVERY_GROUP, quota, area=area),
    )


def _chunks(area: str = "") -> tuple[Operation, ...]:
    home = f"/v2/snapshots{area and f'/{area}'}/{{snapshot_identifier}}/chunks"
    one = f"{home}/{{chunk_identifier}}"
    listing = _listing(lambda call, _: _records(call.area.chunks(call.part("snapshot_identifier"), free=call.is_free)))
    return (
        Operation(_GET_POST, home, listing, area=area),
        Operation(_GET_POST, one, _single(_chunk), area=area),
        Operation(_GET_HEAD, f"{one}/download", _download(_chunk_key), EVERY_GROUP, "chunk", area=area),
    )


OPERATIONS = (
    *(operation for kind in ("codes", "languages", "projects", "namespaces") for operation in _reference(kind)),
    # list other areas before articles, because their names would match as article snapshot identifiers
    *(*_snapshots(WIKIDATA), *_chunks(WIKIDATA), *_batches(WIKIDATA)),
    *_snapshots(STRUCTURED),
    *(*_snapshots(), *_chunks(), *_batches()),
)
