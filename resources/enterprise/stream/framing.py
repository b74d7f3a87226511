"""Assembles the records of a stream, one a line, from the pieces that arrive.

Source: the service's reference for realtime streams: an NDJSON line for each event.
"""

from __future__ import annotations

import io
import logging
from typing import Final

from resources.enterprise.errors import UnexpectedAnswer

_log = logging.getLogger(__name__)

#: A line of so many times the longest is taken for one without an end.
_NO_END: Final = 16
NDJSON: Final = "application/x-ndjson"


class EndlessRecord(UnexpectedAnswer):
    """A record does not end. Its connection is opened again; other connections are not affected."""

    retryable = True


class Records:
    """Assembles records, one a line.

    A record longer than `longest` bytes is left out with a warning, and is never in memory as a whole.

    Attributes:
        left_out: Number of records left out.
    """

    def __init__(self, longest: int) -> None:
        self.left_out = 0
        self._longest = longest
        # one buffer: freed pieces of 60 MB stay with the allocator, once for each connection's thread
        self._begun = io.BytesIO()
        self._size = 0

    @property
    def size(self) -> int:
        """Bytes of the record that has begun and not ended.

        Those that are more than the longest record has are not in memory.
        """
        return self._size

    def feed(self, piece: bytes) -> bytes:
        """Return the records that this piece completes, one a line, without blank lines, which keep a connection alive.

        Raises:
            EndlessRecord: A line does not end.
        """
        whole = self._lines(piece)
        if b"\r" in whole or _has_blank(whole):
            # not by `splitlines`: a carriage return between two values is a blank
            return b"".join(line.removesuffix(b"\r") + b"\n" for line in whole.split(b"\n") if line.strip())
        return whole

    def _lines(self, piece: bytes) -> bytes:
        end = piece.rfind(b"\n") + 1
        whole = b""
        if end:
            if self._size > self._longest:
                self.left_out += 1
                _log.warning(
                    "A record of the stream has %s bytes and was left out: the longest that is read has %s "
                    "(WME_MAX_RECORD_MB). The hourly file has it.",
                    *(f"{number:,}" for number in (self._size, self._longest)),
                )
                whole = piece[piece.find(b"\n") + 1 : end]
            elif self._size:
                self._begun.write(memoryview(piece)[:end])
                whole = self._begun.getvalue()
            else:
                whole = piece[:end]
            self._begun, self._size = io.BytesIO(), 0
            piece = piece[end:]
        if piece:
            self._size += len(piece)
            if self._size <= self._longest:
                self._begun.write(piece)
            else:
                self._begun = io.BytesIO()
            if self._size > _NO_END * self._longest:
                raise EndlessRecord(
                    f"A record of the stream has more than {_NO_END * self._longest:,} bytes and no end. What was kept "
                    "before stays. Check the address of the streams, and a proxy on the way."
                )
        return whole


def _has_blank(lines: bytes) -> bool:
    """Return whether a line is empty. A search for two line ends at once takes twenty times as long."""
    begin = 0
    while (end := lines.find(b"\n", begin)) > begin:
        begin = end + 1
    return end == begin
