"""A block's lines and rejects, stored as Arrow columns because a block can contain a million two-byte lines."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from resources.formatting import legible

#: Maximum number of characters in a reason. Some reasons quote a key from the line.
REASON_MAX = 500


#: Verdicts on a line without a valid row, as in decode.c. UNDECIDED means that Python must examine the line. SHORT
#: means that the line has fewer bytes than any record. NO_OBJECT means that `read_record` rejects the line. MISTYPED
#: means that a value does not have the declared type. BROKEN means that the types match, but a rule is broken.
UNDECIDED, SHORT, NO_OBJECT, MISTYPED, BROKEN = range(5)


@dataclass(frozen=True)
class LeftLines:
    """Lines of a block that did not become valid rows, stored as columns in line order.

    The columns contain each line's number (starting at 0), the number of batch rows before the line, the line's start
    in the block, the line's bounds (start, end), and a verdict.
    """

    numbers: pa.Int64Array
    rows: pa.Int64Array
    starts: pa.Int64Array
    bounds: pa.Int32Array
    verdicts: pa.Int8Array

    @classmethod
    def of(cls, lines: Iterable[tuple[int, int, int, int, int]]) -> LeftLines:
        """Build the columns from one (number, row, start, end, verdict) tuple per line."""
        numbers, rows, starts, ends, verdicts = zip(*lines, strict=True) if lines else ((),) * 5
        bounds = array("i", (place for both in zip(starts, ends, strict=True) for place in both))
        found = cls.of_columns(array("q", numbers), bounds, bytes(verdicts))
        return replace(found, rows=pa.array(rows, pa.int64()))

    @classmethod
    def of_columns(cls, numbers: array[int], bounds: array[int], verdicts: bytes | bytearray) -> LeftLines:
        """Build the columns from buffers of 64-bit numbers and 32-bit bounds. All row counts are 0."""
        count = len(numbers)

        def column(kind: pa.DataType, data: array[int] | bytes | bytearray, length: int = count) -> pa.Array:
            return pa.Array.from_buffers(kind, length, [None, pa.py_buffer(data)])

        places = column(pa.int32(), bounds, 2 * count)
        starts = pc.cast(pc.list_element(pa.FixedSizeListArray.from_arrays(places, 2), 0), pa.int64())
        rows = column(pa.int64(), bytes(8 * count))
        return cls(column(pa.int64(), numbers), rows, starts, places, column(pa.int8(), verdicts))

    def __len__(self) -> int:
        return len(self.numbers)

    def __iter__(self) -> Iterator[tuple[int, int, int, int]]:
        """Yield each line's number, row, start and end."""
        bounds = self.bounds.to_pylist()
        return zip(self.numbers.to_pylist(), self.rows.to_pylist(), bounds[::2], bounds[1::2], strict=True)

    def by_verdict(self) -> dict[int, LeftLines]:
        verdicts = self.verdicts.unique().to_pylist()
        if len(verdicts) < 2:
            return dict.fromkeys(verdicts, self)
        return {one: self._take(pc.indices_nonzero(pc.equal(self.verdicts, one))) for one in verdicts}

    def merged(self, other: LeftLines) -> LeftLines:
        """Return these lines merged with other lines, in line order."""
        if not len(self) or not len(other):
            return self if len(self) else other
        pairs = ((getattr(self, name.name), getattr(other, name.name)) for name in fields(self))
        both = LeftLines(*map(pa.concat_arrays, pairs))
        return both._take(pc.sort_indices(both.numbers))

    def rejects(self, reasons: pa.DictionaryArray, raws: pa.DictionaryArray) -> Rejects:
        """Return these lines as rejects. `raws` is the result of `texts`."""
        # adding copies the columns, because the decoder reuses their memory
        return Rejects(pc.add(self.numbers, 0), pc.add(self.starts, 0), reasons, raws)

    def texts(self, view: memoryview) -> pa.DictionaryArray:
        """Return a copy of each line's bytes."""
        # `bounds` are the offsets of an array of lines and gaps, whose even items are the lines
        count = max(0, len(self.bounds) - 1)
        every = pa.Array.from_buffers(pa.binary(), count, [None, self.bounds.buffers()[1], pa.py_buffer(view)])
        return every.take(pa.arange(0, 2 * len(self), 2)).dictionary_encode()

    def _take(self, which: pa.Array) -> LeftLines:
        bounds = pa.FixedSizeListArray.from_arrays(self.bounds, 2).take(which).flatten()
        numbers, rows, starts = (column.take(which) for column in (self.numbers, self.rows, self.starts))
        return LeftLines(numbers, rows, starts, bounds, self.verdicts.take(which))


def reasons_of(reasons: Iterable[str]) -> pa.DictionaryArray:
    """Return reasons as a column, shortened and with unprintable characters replaced."""
    return pa.array([legible(reason, REASON_MAX) for reason in reasons], pa.string()).dictionary_encode()


@dataclass(frozen=True)
class Reject:
    """A line that could not be converted, with its number and offset in the block (both start at 0) and its bytes."""

    line_number: int
    byte_offset: int
    reason: str
    raw: bytes


@dataclass(frozen=True, eq=False)
class Rejects:
    """Lines that could not be converted, stored as columns in line order; see `Reject`."""

    line_numbers: pa.Int64Array
    byte_offsets: pa.Int64Array
    reasons: pa.DictionaryArray
    raws: pa.DictionaryArray

    @classmethod
    def of(cls, rejects: Iterable[Reject]) -> Rejects:
        each = list(rejects)
        return cls(
            pa.array([one.line_number for one in each], pa.int64()),
            pa.array([one.byte_offset for one in each], pa.int64()),
            reasons_of(one.reason for one in each),
            pa.array([one.raw for one in each], pa.binary()).dictionary_encode(),
        )

    def lines(self) -> bytes:
        """Return the bytes of all lines, each followed by a line feed."""
        return _joined(self.raws.dictionary_decode())

    def reason_lines(self) -> bytes:
        """Return the reasons for all lines, each followed by a line feed."""
        return _joined(self.reasons.dictionary_decode().cast(pa.binary()))

    @cached_property
    def columns(self) -> tuple[pa.Array, ...]:
        return self.line_numbers, self.byte_offsets, self.reasons, self.raws

    def __len__(self) -> int:
        return len(self.line_numbers)

    def __iter__(self) -> Iterator[Reject]:
        return (Reject(*values) for values in zip(*(column.to_pylist() for column in self.columns), strict=True))


def merged(parts: Sequence[Rejects]) -> Rejects:
    """Combine rejects of one block, in line order."""
    if len(parts) < 2:
        return parts[0] if parts else Rejects.of(())
    columns = [pa.concat_arrays(each) for each in zip(*(part.columns for part in parts), strict=True)]
    order = pc.sort_indices(columns[0])
    return Rejects(*(column.take(order) for column in columns))


def _joined(texts: pa.BinaryArray) -> bytes:
    joined = pc.binary_join(pa.ListArray.from_arrays([0, len(texts)], texts), b"\n")
    return bytes(joined[0].as_buffer()) + b"\n"
