"""One answer without an end, in the pieces it comes in."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final

from resources.enterprise.http.answers import Answer, read_body
from resources.enterprise.http.foreign import FOREIGN

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from requests.auth import AuthBase

    from resources.enterprise.http.transport import Transport
    from resources.enterprise.http.wire import Leash

#: Bytes that are read at once, if so many are there.
_PIECE_BYTES: Final = 1 << 18


def listen(
    transport: Transport, url: str, body: Mapping[str, Any], accept: str, *, doing: str, auth: AuthBase, leash: Leash
) -> Iterator[bytes]:
    """Ask for a stream. Status and headers come with the first event, so an answer may begin whenever it likes.

    Args:
        transport: Sends the request.
        url: Address of the stream.
        body: Sent as JSON.
        accept: Content type that is asked for.
        doing: What for, to stand behind "Could not" in a message.
        auth: Adds the token.
        leash: Ends the answer.

    Raises:
        BrokenAnswer: No connection, or the answer broke off.
        EnterpriseError: What a refusal means.
    """
    response = transport.open(url, {"Accept": accept}, doing=doing, deadline=leash, body=body, auth=auth)
    transport.clock.heard(response.headers)
    try:
        if response.status_code != 200 or "html" in response.headers.get("Content-Type", "").lower():
            content = read_body(response, transport.limits.refusal_bytes)
            answer = Answer(response.status_code, content, response.headers, 1)
            refusal = transport.html_error(200, doing) if answer.status == 200 else transport.error(answer, doing)
            refusal.retry_after = answer.retry_after
            raise refusal
        with contextlib.closing(response):
            # not `stream`, which waits for a whole piece where the body has a length, or none
            while piece := response.raw.read1(_PIECE_BYTES, decode_content=True):
                yield piece
    except FOREIGN as error:
        failure = transport.broken(error, url, doing)
    else:
        return
    # outside the handler, so that the library's exception, whose text has the whole address, is not attached
    raise failure
