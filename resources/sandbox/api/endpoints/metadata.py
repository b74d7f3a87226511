"""The reference lists under `/v2`: codes, languages, projects, namespaces, and their single records.

Source: the service's documentation of metadata.
"""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING, Any, Literal

from resources.sandbox.api import answers
from resources.sandbox.api.answers import Refusal
from resources.sandbox.api.operations import Operation
from resources.sandbox.api.parameters import read_parameters
from resources.sandbox.api.selection import pick, select

if TYPE_CHECKING:
    from starlette.responses import Response

    from resources.sandbox.api.operations import Call

Kind = Literal["codes", "languages", "projects", "namespaces"]


def no_such_key() -> Refusal:
    """The 404 of the object store as the API passes it on."""
    request_id, host_id = uuid.uuid4().hex[:16].upper(), uuid.uuid4().hex
    return Refusal(
        404,
        "NoSuchKey: The specified key does not exist.\n"
        f"\tstatus code: 404, request id: {request_id}, host id: {host_id}",
    )


async def _records(call: Call, kind: Kind) -> list[dict[str, Any]]:
    contents = call.service.contents
    lists = {
        "codes": contents.codes,
        "languages": contents.languages,
        "projects": contents.projects,
        "namespaces": contents.namespaces,
    }
    return await asyncio.to_thread(lists[kind])


def _operations(kind: Kind) -> tuple[Operation, Operation]:
    async def listing(call: Call) -> Response:
        parameters = await read_parameters(call.request)
        found = await _records(call, kind)
        return answers.records(call.accept, select(found, parameters, source_2025=call.service.settings.source_2025))

    async def single(call: Call) -> Response:
        parameters = await read_parameters(call.request)
        identifier = call.part("identifier")
        for record in await _records(call, kind):
            if str(record["identifier"]) == identifier:
                chosen = pick(record, parameters.fields, source_2025=call.service.settings.source_2025)
                return answers.record(call.accept, chosen)
        raise no_such_key()

    methods = ("GET", "POST")
    return (
        Operation(methods, f"/v2/{kind}", listing),
        Operation(methods, f"/v2/{kind}/{{identifier}}", single),
    )


OPERATIONS = (
    *_operations("codes"),
    *_operations("languages"),
    *_operations("projects"),
    *_operations("namespaces"),
)
