"""From the bytes of a stream to whole records, one a line, whatever the pieces they come in.

Source: the service's reference for realtime streams: an NDJSON line for each event, or a server-sent event of two lines and a blank one; the standard of
server-sent events for what else may be in one.
"""

from __future__ import annotations

import logging
from typing import Final

from resources.enterprise.errors import UnexpectedAnswer

_log = logging.getLogger(__name__)

#: A line of so many times the longest is taken for one without an end.
_NO_END: Final = 16
NDJSON: Final = "application/x-ndjson"
EVENTS: Final = "text/event-stream"


class Lines:
    """Puts lines together. One that is longer than `longest` bytes is left out, and told; it is never in memory as a whole.

    Attributes:
        left_out: How many were.
    """

    def __init__(self, longest: int) -> None:
        self.left_out = 0
        self._longest = longest
        self._begun: list[bytes] = []
        self._size = 0

    def feed(self, piece: bytes) -> bytes:
        """The lines that this piece completes, each with its end; empty: none.

        Raises:
            UnexpectedAnswer: A line does not end.
        """
        end = piece.rfind(b"\n") + 1
        whole = b""
        if end:
            if self._size > self._longest:
                self._leave_out()
                whole = piece[piece.find(b"\n") + 1 : end]
            else:
                whole = b"".join((*self._begun, piece[:end]))
            self._begun, self._size = [], 0
            piece = piece[end:]
        if piece:
            self._size += len(piece)
            if self._size <= self._longest:
                self._begun.append(piece)
            else:
                self._begun = []
            if self._size > _NO_END * self._longest:
                raise UnexpectedAnswer(
                    f"A record of the stream has more than {_NO_END * self._longest:,} bytes and no end. What was kept before stays. Check the address "
                    "of the streams, and a proxy on the way."
                )
        return whole

    def _leave_out(self) -> None:
        self.left_out += 1
        _log.warning(
            "A record of the stream has %s bytes and was left out: the longest that is read has %s (WME_MAX_RECORD_MB). The hourly file has it.",
            *(f"{number:,}" for number in (self._size, self._longest)),
        )


class Records(Lines):
    """NDJSON: the lines are the records. Blank ones, which keep a connection alive, are left out."""

    def feed(self, piece: bytes) -> bytes:
        """The records that this piece completes, one a line."""
        whole = super().feed(piece)
        if b"\r" in whole or _has_blank(whole):
            return b"".join(line + b"\n" for line in whole.splitlines() if line.strip())
        return whole


def _has_blank(lines: bytes) -> bool:
    """Whether one of the lines is empty. Line ends are looked for one by one: two at once take twenty times as long in long records."""
    begin = 0
    while (end := lines.find(b"\n", begin)) > begin:
        begin = end + 1
    return end == begin


class EventRecords(Lines):
    """Server-sent events: the data of each event is a record. Comments and other fields are left out."""

    def __init__(self, longest: int) -> None:
        super().__init__(longest)
        self._data: list[bytes] = []

    def feed(self, piece: bytes) -> bytes:
        """The records that this piece completes, one a line."""
        found: list[bytes] = []
        for line in super().feed(piece).split(b"\n")[:-1]:
            if line.startswith(b"data:"):
                self._data.append(line[5:].removeprefix(b" ").removesuffix(b"\r"))
            elif line in (b"", b"\r") and self._data:
                # a record has no line end, so several lines of data are one record
                found += (*self._data, b"\n")
                self._data = []
        return b"".join(found)


def framing(form: str, longest: int) -> Lines:
    """What puts the records of a form together."""
    return EventRecords(longest) if form == EVENTS else Records(longest)
