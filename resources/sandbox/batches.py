"""The hourly batches under `/v2/batches`: the list of an hour, one record, and its download.

Belongs here: these operations. Does not belong here: which hours there are at this moment (`shelf`), and the bytes
(`objects`).

Source: the service's documentation of realtime batches and of downloads: a GET is answered with a 307 to a signed URL
whether the object exists or not, a HEAD by the API itself.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

from starlette.responses import Response

from resources.sandbox import answers
from resources.sandbox.metadata import no_such_key
from resources.sandbox.operations import PAID_GROUPS, Operation
from resources.sandbox.parameters import read_parameters
from resources.sandbox.selection import pick, select
from resources.sandbox.shelf import SIGNED_URL_SECONDS

if TYPE_CHECKING:
    from resources.sandbox.operations import Call

#: Set on the request by the `expired` fault: the signed URL handed out is past its life.
EXPIRED = "sandbox.expired"

_EXPOSED = (
    "Accept-Ranges, Last-Modified, Content-Length, ETag, Cache-Control, Content-Disposition, Content-Encoding, "
    "Content-Type, Expires"
)


async def _listing(call: Call) -> Response:
    parameters = await read_parameters(call.request)
    files = await asyncio.to_thread(call.service.shelf.batches, call.part("date"), call.part("hour"))
    if files is None:
        raise no_such_key()
    records = (file.record for file in files)
    return answers.records(call.accept, select(records, parameters, source_2025=call.service.settings.source_2025))


async def _single(call: Call) -> Response:
    parameters = await read_parameters(call.request)
    file = await asyncio.to_thread(call.service.shelf.batch, *_place(call))
    if file is None:
        raise no_such_key()
    chosen = pick(file.record, parameters.fields, source_2025=call.service.settings.source_2025)
    return answers.record(call.accept, chosen)


async def _download(call: Call) -> Response:
    date, hour, identifier = _place(call)
    if call.request.method == "HEAD":
        file = await asyncio.to_thread(call.service.shelf.batch, date, hour, identifier)
        if file is None:
            raise no_such_key()
        told = {**file.headers("UTC"), "Content-Length": str(file.size), "Access-Control-Expose-Headers": _EXPOSED}
        return Response(status_code=200, headers=told)
    age = timedelta(seconds=SIGNED_URL_SECONDS + 1) if call.request.scope.get(EXPIRED) else timedelta()
    subject = call.user.subject if call.user is not None else ""
    key = f"aggregations/batches/{date}/{hour}/{identifier}.tar.gz"
    location = call.service.object_url + call.service.signer.sign(key, subject, age=age)
    return Response(status_code=307, headers={"Location": location})


def _place(call: Call) -> tuple[str, str, str]:
    return call.part("date"), call.part("hour"), call.part("identifier")


_TOLD = {401: "No or no valid token", 403: "Not for this group", 404: "There is none", 429: "Too many"}
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
        answers={200: "The files", **_TOLD, 422: "The parameters do not bind"},
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
        answers={200: "The file", **_TOLD, 422: "The parameters do not bind"},
    ),
    Operation(
        "batch-download",
        "The archive of a file: GET is redirected to a signed URL, HEAD tells its headers",
        ("GET", "HEAD"),
        f"{_HOUR}/{{identifier}}/download",
        _download,
        "Realtime batches",
        PAID_GROUPS,
        quota="batch",
        answers={200: "Headers (HEAD)", 307: "To a URL that lives 60 seconds", **_TOLD},
    ),
)
