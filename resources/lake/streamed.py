"""The events in what a stream brings: lines become rows, and lines that are no events of a stream become rejects."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from resources.datasets.live import OFFSET_MAX, PARTITIONS, PAST
from resources.lake.decode.rejected import Reject, Rejects, merged

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from datetime import datetime

    from resources.lake.decode.records import RecordReader

_PIECE_BYTES = 1 << 20
#: Characters of an identifier; a UUID has 36.
_IDENTIFIER_MAX = 255


def events_in(
    piece: memoryview, reader: RecordReader, earliest: datetime, latest: datetime
) -> tuple[pa.RecordBatch, Sequence[Reject]]:
    """The events in some lines, which were published between two moments, and the lines that are none."""
    rows = reader.read(piece, "stream", 1, 0)
    batch, rejects = rows.batch, rows.rejects
    if wrong := _faults(batch, earliest, latest):
        some = Rejects.of(rejects, "stream")
        lines = _lines_of_rows(bytes(piece), {*some.line_numbers.to_pylist()})
        more = [Reject("stream", lines[row][0], 0, reason, lines[row][1]) for row, reason in sorted(wrong.items())]
        rejects = merged([some, Rejects.of(more, "stream")])
        batch = batch.filter(pa.array([row not in wrong for row in range(len(batch))], pa.bool_()))
    return _with_places(batch), rejects


def _with_places(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Add the hour in which each event was published, and the zeros of places, which the service leaves out."""
    filled = {
        "batch_hour": pc.floor_temporal(batch.column("event_published_at"), unit="hour"),
        "event_partition": pc.fill_null(batch.column("event_partition"), 0),
        "event_offset": pc.fill_null(batch.column("event_offset"), 0),
    }
    for name, column in filled.items():
        place = batch.schema.get_field_index(name)
        batch = batch.set_column(place, batch.schema.field(place), column)
    return batch


def _faults(batch: pa.RecordBatch, earliest: datetime, latest: datetime) -> dict[int, str]:
    """The rows that are no events of a stream, each with its reason."""
    found: dict[int, str] = {}

    def mark(bad: pa.BooleanArray, reason: str) -> None:
        for row in pc.indices_nonzero(pc.fill_null(bad, False)).to_pylist():
            found.setdefault(row, reason)

    identifier, published = batch.column("event_id"), batch.column("event_published_at")
    partition, offset = batch.column("event_partition"), batch.column("event_offset")
    mark(pc.is_null(identifier), "event.identifier is missing, and no event can be recognized without it.")
    mark(pc.equal(identifier, ""), "event.identifier is empty.")
    mark(
        pc.greater(pc.utf8_length(identifier), _IDENTIFIER_MAX),
        f"event.identifier has more than {_IDENTIFIER_MAX} characters.",
    )
    mark(_outside(partition, 0, PARTITIONS - 1), f"event.partition is not one of 0 to {PARTITIONS - 1}.")
    mark(_outside(offset, 0, OFFSET_MAX), f"event.offset is not from 0 to {OFFSET_MAX}.")
    mark(pc.is_null(published), "event.date_published is missing, so the event is of no hour.")
    early, late = (pa.scalar(moment, published.type) for moment in (earliest, latest))
    mark(pc.less(published, early), f"event.date_published is more than {PAST.days} days ago.")
    mark(pc.greater(published, late), "event.date_published is more than a day ahead.")
    return found


def _outside(numbers: pa.Array, least: int, most: int) -> pa.BooleanArray:
    return pc.or_(pc.less(numbers, least), pc.greater(numbers, most))


def pieces(blocks: Iterable[bytes]) -> Iterator[memoryview]:
    """Whole lines, about a MiB at a time: what becomes of more takes much memory, if they are small.

    Connections bring an event or two at a time, and the rows of each would have buffers of their own for every column.
    Large blocks are not copied.
    """
    held, size = list[bytes](), 0
    for block in blocks:
        held.append(block)
        size += len(block)
        if size >= _PIECE_BYTES:
            yield from _cut(held.pop() if len(held) == 1 else b"".join(held))
            held, size = [], 0
    if held:
        yield memoryview(b"".join(held))


def _cut(lines: bytes) -> Iterator[memoryview]:
    begin = 0
    while begin < len(lines):
        limit = begin + _PIECE_BYTES
        end = (
            len(lines)
            if limit >= len(lines)
            else lines.rfind(b"\n", begin, limit) + 1 or lines.find(b"\n", limit) + 1 or len(lines)
        )
        yield memoryview(lines)[begin:end]
        begin = end


def _lines_of_rows(piece: bytes, rejected: Collection[int]) -> list[tuple[int, bytes]]:
    """The lines that became rows, with their numbers: all but those that were rejected, and blank ones."""
    lines = enumerate(piece.split(b"\n"), 1)
    return [(number, line) for number, line in lines if number not in rejected and line.strip(b" \t\r")]
