"""Lines of a block in columns, and those of them that could not be converted: there may be a million of two bytes each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, overload

import pyarrow as pa
import pyarrow.compute as pc

from resources.formatting import legible

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: Characters of a reason; some name a key of the line.
REASON_MAX = 500


@dataclass(frozen=True)
class ShortLines:
    """Lines of a block that are too short for a record, in order, in columns.

    Attributes:
        numbers: Of the lines, from 0.
        starts: Where in the block they begin.
        bounds: Start and end of each (int32).
    """

    numbers: pa.Int64Array
    starts: pa.Int64Array
    bounds: pa.Int32Array

    def __len__(self) -> int:
        return len(self.numbers)

    def texts(self, view: memoryview) -> pa.BinaryArray:
        """A copy of the lines' bytes."""
        # of an array of lines and of what is between them, every other one
        count = max(0, len(self.bounds) - 1)
        every = pa.Array.from_buffers(pa.binary(), count, [None, self.bounds.buffers()[1], pa.py_buffer(view)])
        return every.take(pc.cumulative_sum(pa.repeat(pa.scalar(2, pa.int32()), len(self)), start=-2))


def reasons_of(reasons: Iterable[str]) -> pa.DictionaryArray:
    """Reasons as a column; what they show of a line becomes legible."""
    return pa.array([legible(reason, REASON_MAX) for reason in reasons], pa.string()).dictionary_encode()


@dataclass(frozen=True)
class Reject:
    """A line that could not be converted: its place (line from 1, byte from 0, both in the member), why, and its bytes."""

    member: str
    line_number: int
    byte_offset: int
    reason: str
    raw: bytes


@dataclass(frozen=True, eq=False)
class Rejects(Sequence[Reject]):
    """Lines that could not be converted, in order, in columns: what `Reject` says of each."""

    member: str
    line_numbers: pa.Int64Array
    byte_offsets: pa.Int64Array
    reasons: pa.DictionaryArray
    raws: pa.DictionaryArray

    @classmethod
    def of(cls, rejects: Iterable[Reject], member: str = "") -> Rejects:
        """The same in columns."""
        if isinstance(rejects, Rejects):
            return rejects
        each = list(rejects)
        return cls(
            each[0].member if each else member,
            pa.array([one.line_number for one in each], pa.int64()),
            pa.array([one.byte_offset for one in each], pa.int64()),
            reasons_of(one.reason for one in each),
            pa.array([one.raw for one in each], pa.binary()).dictionary_encode(),
        )

    def merged(self, other: Rejects) -> Rejects:
        """These and the others, in the order of the lines."""
        if not len(self) or not len(other):
            return self if len(self) else other
        order = pc.sort_indices(pa.concat_arrays([self.line_numbers, other.line_numbers]))
        columns = (pa.concat_arrays(both).take(order) for both in zip(self._columns, other._columns, strict=True))
        return Rejects(self.member, *columns)

    def lines(self) -> bytes:
        """All lines, each with a line feed."""
        return _joined(self.raws.dictionary_decode())

    def reason_lines(self) -> bytes:
        """The reason of each line, each with a line feed."""
        return _joined(self.reasons.dictionary_decode().cast(pa.binary()))

    @cached_property
    def _columns(self) -> tuple[pa.Array, ...]:
        return self.line_numbers, self.byte_offsets, self.reasons, self.raws

    def __len__(self) -> int:
        return len(self.line_numbers)

    def __iter__(self) -> Iterator[Reject]:
        return (
            Reject(self.member, *values)
            for values in zip(*(column.to_pylist() for column in self._columns), strict=True)
        )

    @overload
    def __getitem__(self, index: int) -> Reject: ...
    @overload
    def __getitem__(self, index: slice) -> list[Reject]: ...
    def __getitem__(self, index: int | slice) -> Reject | list[Reject]:
        return [*self][index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and [*self] == [*other]

    __hash__ = None  # type: ignore[assignment]


def _joined(texts: pa.BinaryArray) -> bytes:
    joined = pc.binary_join(pa.ListArray.from_arrays([0, len(texts)], texts), b"\n")
    return bytes(joined[0].as_buffer()) + b"\n"
