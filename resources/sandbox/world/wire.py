"""JSON as the service's encoder writes it: whole lines, and the parts that lines are put together from.

`<`, `>`, `&` and the line separators are escaped, as Go's encoder does. A part that many lines share is encoded once
and put into each line as a fragment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterable


def encode(value: Any) -> bytes:
    """The value as JSON; fragments in it are taken over as they are."""
    line = orjson.dumps(value)
    line = line.replace(b"<", b"\\u003c").replace(b">", b"\\u003e").replace(b"&", b"\\u0026")
    # most lines have no such byte at all, which is found out much faster
    if b"\xe2" in line and (b"\xe2\x80\xa8" in line or b"\xe2\x80\xa9" in line):
        line = line.replace(b"\xe2\x80\xa8", b"\\u2028").replace(b"\xe2\x80\xa9", b"\\u2029")
    return line


def fragment(value: Any) -> orjson.Fragment:
    """The value, encoded once for all the lines that it is a part of."""
    return orjson.Fragment(encode(value))


def inside(text: str) -> bytes:
    """A text as it is inside the quotation marks of a JSON string."""
    return encode(text)[1:-1]


def joined(parts: Iterable[bytes]) -> orjson.Fragment:
    """The string made of parts that `inside` encoded."""
    return orjson.Fragment(b'"' + b"".join(parts) + b'"')


def decode(line: bytes) -> dict[str, Any]:
    """The record that a line holds."""
    record: dict[str, Any] = orjson.loads(line)
    return record
