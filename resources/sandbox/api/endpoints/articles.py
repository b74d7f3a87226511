"""Articles on demand under `/v2/articles/{name}`: those of that name, in whichever projects have one.

Source: the service's documentation of on-demand articles.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from resources.sandbox.api import lookups
from resources.sandbox.api.operations import Operation
from resources.sandbox.api.parameters import read_parameters

if TYPE_CHECKING:
    from starlette.responses import Response

    from resources.sandbox.api.operations import Call


async def _articles(call: Call) -> Response:
    parameters = await read_parameters(call.request)
    found = await lookups.articles(call, parameters)
    return lookups.answer(call.accept, [lookups.pick(record, parameters.fields) for record in found])


OPERATIONS = (Operation(("GET", "POST"), "/v2/articles/{name}", _articles, quota="ondemand"),)
