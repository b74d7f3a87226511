"""From the bytes of a stream to whole records, one a line, whatever the pieces they come in.

Source: the service's reference for realtime streams: an NDJSON line for each event, or a server-sent event of two lines
and a blank one; the standard of server-sent events for what else may be in one.
"""

from __future__ import annotations

import codecs
import io
import logging
from typing import Final

from resources.enterprise.errors import UnexpectedAnswer

_log = logging.getLogger(__name__)

#: A line of so many times the longest is taken for one without an end.
_NO_END: Final = 16
NDJSON: Final = "application/x-ndjson"
EVENTS: Final = "text/event-stream"


class EndlessRecord(UnexpectedAnswer):
    """A record does not end. The connection is opened again; other connections go on."""

    retryable = True


class Lines:
    """Assembles lines. One longer than `longest` bytes is left out with a warning, and is never in memory as a whole.

    Attributes:
        left_out: How many were.
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
        """The lines that this piece completes, each with its end; empty: none.

        Raises:
            EndlessRecord: A line does not end.
        """
        end = piece.rfind(b"\n") + 1
        whole = b""
        if end:
            if self._size > self._longest:
                self._leave_out(self._size)
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
            self._require_end(self._size)
        return whole

    def _require_end(self, size: int) -> None:
        if size > _NO_END * self._longest:
            raise EndlessRecord(
                f"A record of the stream has more than {_NO_END * self._longest:,} bytes and no end. What was kept "
                "before stays. Check the address "
                "of the streams, and a proxy on the way."
            )

    def _leave_out(self, size: int) -> None:
        self.left_out += 1
        _log.warning(
            "A record of the stream has %s bytes and was left out: the longest that is read has %s "
            "(WME_MAX_RECORD_MB). The hourly file has it.",
            *(f"{number:,}" for number in (size, self._longest)),
        )


class Records(Lines):
    """NDJSON: the lines are the records. Blank ones, which keep a connection alive, are left out."""

    def feed(self, piece: bytes) -> bytes:
        """The records that this piece completes, one a line."""
        whole = super().feed(piece)
        if b"\r" in whole or _has_blank(whole):
            # not by `splitlines`: a carriage return between two values is a blank
            return b"".join(line.removesuffix(b"\r") + b"\n" for line in whole.split(b"\n") if line.strip())
        return whole


def _has_blank(lines: bytes) -> bool:
    """Return whether a line is empty. A search for two line ends at once takes twenty times as long."""
    begin = 0
    while (end := lines.find(b"\n", begin)) > begin:
        begin = end + 1
    return end == begin


class EventRecords(Lines):
    """Server-sent events: the data of each event is a record. Comments and other fields are left out.

    An event whose data grow beyond the longest record is left out up to the blank line that ends it.
    """

    def __init__(self, longest: int) -> None:
        super().__init__(longest)
        self._data: list[bytes] = []
        self._data_size = 0
        self._is_first = True
        self._is_too_long = False

    @property
    def size(self) -> int:
        """Bytes of the event that has begun and not ended."""
        return self._size + self._data_size

    def feed(self, piece: bytes) -> bytes:
        """The records that this piece completes, one a line."""
        found: list[bytes] = []
        for each in super().feed(piece).split(b"\n")[:-1]:
            line = each.removeprefix(codecs.BOM_UTF8) if self._is_first else each
            self._is_first = False
            if line.startswith(b"data:"):
                data = line[5:].removeprefix(b" ").removesuffix(b"\r")
                self._data_size += len(data)
                if not self._is_too_long:
                    self._data.append(data)
            elif line in (b"", b"\r"):
                if self._is_too_long:
                    super()._leave_out(self._data_size)
                elif self._data:
                    # a record has no line end, so several lines of data are one record
                    found += (*self._data, b"\n")
                self._data, self._data_size, self._is_too_long = [], 0, False
        if self._data_size > self._longest:
            self._data, self._is_too_long = [], True
            self._require_end(self._data_size)
        return b"".join(found)

    def _leave_out(self, size: int) -> None:
        """Leave out the event of a line that is too long; the warning comes at the event's end."""
        self._data, self._is_too_long = [], True
        self._data_size += size


def framing(form: str, longest: int) -> Lines:
    """Return the framing of a content type."""
    return EventRecords(longest) if form == EVENTS else Records(longest)
