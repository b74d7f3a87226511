"""Downloads of batches, snapshots and chunks: a GET is redirected to a signed URL, a HEAD is answered by the API.

Source: the service's documentation of downloads: a GET is answered with a 307 to a signed URL whether the object
exists or not; ranges and conditions are for the object store to answer.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

from starlette.responses import Response

from resources.sandbox.api.endpoints.metadata import no_such_key
from resources.sandbox.faults.faults import EXPIRED
from resources.sandbox.store.object_index import SIGNED_URL_SECONDS

if TYPE_CHECKING:
    from resources.sandbox.api.operations import Call

_EXPOSED = (
    "Accept-Ranges, Last-Modified, Content-Length, ETag, Cache-Control, Content-Disposition, Content-Encoding, "
    "Content-Type, Expires"
)


async def download(call: Call, key: str) -> Response:
    """Answer a download of the object with this `key`.

    Raises:
        Refusal: 404 for a HEAD of what is not there.
    """
    if call.request.method == "HEAD":
        file = await asyncio.to_thread(call.service.object_index.find, key)
        if file is None:
            raise no_such_key()
        headers = {**file.headers("UTC"), "Content-Length": str(file.size), "Access-Control-Expose-Headers": _EXPOSED}
        return Response(status_code=200, headers=headers)
    age = timedelta(seconds=SIGNED_URL_SECONDS + 1) if call.request.scope.get(EXPIRED) else timedelta()
    subject = call.user.subject if call.user is not None else ""
    location = call.service.objects_for(call.request) + call.service.signer.sign(key, subject, age=age)
    return Response(status_code=307, headers={"Location": location})
