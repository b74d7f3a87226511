"""A block's lines and rejects, stored as Arrow columns because a block can contain a million two-byte lines."""

from collections.abc import Iterable, Sequence
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from resources.formatting import legible

#: Maximum number of characters in a reason. Some reasons quote a key from the line.
REASON_MAX = 500


#: Verdicts on a line without a valid row, as in decode.c. UNDECIDED means that Python must examine the line. SHORT
#: means that the line has fewer bytes than any record. NO_OBJECT means that `read_record` rejects the line. MISTYPED
#: means that a value does not have the declared type. BROKEN means that the types match, but a rule is broken.
UNDECIDED, SHORT, NO_OBJECT, MISTYPED, BROKEN = range(5)

#: Columns of the lines that did not become valid rows, in line order: the line's number (starting at 0), the number of
#: batch rows before the line, the line's start and its bounds (start and end) in the block, and the verdict.
LEFT = pa.schema(
    [
        ("number", pa.int64()),
        ("row", pa.int64()),
        ("start", pa.int64()),
        ("bounds", pa.list_(pa.int32(), 2)),
        ("verdict", pa.int8()),
    ]
)
#: Columns of the lines that could not be converted, in line order. The line's number and offset are relative to the
#: block and start at 0.
REJECT_COLUMNS = ("line_number", "byte_offset", "reason", "raw")


def left_lines(lines: Iterable[tuple[int, int, int, int, int]]) -> pa.RecordBatch:
    """Return `LEFT` columns, built from one (number, row, start, end, verdict) tuple per line."""
    numbers, rows, starts, ends, verdicts = tuple(zip(*lines, strict=True)) or ((),) * 5
    bounds = pa.array(chain.from_iterable(zip(starts, ends, strict=True)), pa.int32())
    columns = [numbers, rows, starts, pa.FixedSizeListArray.from_arrays(bounds, 2), verdicts]
    return pa.record_batch(columns, schema=LEFT)


def with_verdict(left: pa.RecordBatch, verdict: int) -> pa.RecordBatch:
    return left.filter(pc.equal(left["verdict"], verdict))


def texts(left: pa.RecordBatch, view: memoryview) -> pa.DictionaryArray:
    """Return a copy of each line's bytes."""
    # `bounds` are the offsets of an array of lines and gaps, whose even items are the lines
    bounds = left["bounds"].flatten()
    count = max(0, len(bounds) - 1)
    every = pa.Array.from_buffers(pa.binary(), count, [None, bounds.buffers()[1], pa.py_buffer(view)])
    return every.take(pa.arange(0, 2 * len(left), 2)).dictionary_encode()


def rejected(left: pa.RecordBatch, reasons: pa.DictionaryArray, raws: pa.DictionaryArray) -> pa.RecordBatch:
    """Return lines as rejects. `raws` is the result of `texts`."""
    return pa.record_batch([left["number"], left["start"], reasons, raws], names=REJECT_COLUMNS)


def rejects_of(rejects: Iterable[tuple[int, int, str, bytes]]) -> pa.RecordBatch:
    """Return rejects, built from one tuple of `REJECT_COLUMNS` per line."""
    numbers, offsets, reasons, raws = tuple(zip(*rejects, strict=True)) or ((),) * 4
    columns = [pa.array(numbers, pa.int64()), pa.array(offsets, pa.int64()), reasons_of(reasons)]
    return pa.record_batch([*columns, pa.array(raws, pa.binary()).dictionary_encode()], names=REJECT_COLUMNS)


def reasons_of(reasons: Iterable[str]) -> pa.DictionaryArray:
    """Return reasons as a column, shortened and with unprintable characters replaced."""
    return pa.array([legible(reason, REASON_MAX) for reason in reasons], pa.string()).dictionary_encode()


def merged(parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Combine rejects of one block, in line order."""
    return pa.concat_batches([rejects_of(()), *parts]).sort_by("line_number")
