"""A block of lines becomes rows.

Belongs here: the fast path (the whole block at once, in native code), the rules a row must keep, and the careful path for
blocks that the fast one refuses: every good line kept, every bad one a reject with its place and reason.
Does not belong here: where lines come from and where rows go.
"""

from __future__ import annotations

import codecs
import struct
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from resources.lake.examine import NOTHING, Bad, beyond, read_record, text_of, unknown_fields
from resources.lake.shape import Shape, shape_of
from resources.tables import ChangeType

if TYPE_CHECKING:
    from collections.abc import Iterator

    from resources.lake.archive import Archive
    from resources.tables import Table

_CHANGE_TYPES = pa.array([str(change) for change in ChangeType])
#: The moment of a change: the first of these that a record gives.
_MOMENTS = ("event_published_at", "event_created_at", "modified_at")
_BLANK = b" \t\r"
_EXAMPLE = 200


@dataclass(frozen=True)
class Reject:
    """A line that could not be converted: its place (line from 1, byte from 0, both in the member), why, and its bytes."""

    member: str
    line_number: int
    byte_offset: int
    reason: str
    raw: bytes


@dataclass(frozen=True)
class Drift:
    """A field that the declaration does not know: its path, in how many places it stood, one of its values as JSON."""

    path: str
    count: int
    example: str


@dataclass
class Rows:
    """What one block gave. `line_count` counts its lines without the blank ones: rows and rejects add up to it."""

    batch: pa.RecordBatch
    line_count: int
    rejects: list[Reject] = field(default_factory=list)
    drift: dict[str, Drift] = field(default_factory=dict)


@dataclass(frozen=True)
class _Line:
    number: int
    offset: int
    raw: bytes
    extra: str | None = None


@dataclass(frozen=True)
class RecordReader:
    """Turns lines of one archive into rows of `table`.

    `bodies` names the body columns to keep; the others stay in the table as nulls.
    """

    table: Table
    archive: Archive
    bodies: frozenset[str]

    @cached_property
    def shape(self) -> Shape:
        """The form of the records."""
        return shape_of(self.table)

    def read(self, view: memoryview, member: str, first_line: int, offset: int, line_count: int) -> Rows:
        """The rows of a block of whole lines that starts at `offset` of `member` with line `first_line`."""
        fast = self._fast(view, line_count)
        return fast if fast is not None else self._careful(bytes(view), member, first_line, offset)

    def _fast(self, view: memoryview, line_count: int) -> Rows | None:
        """All lines at once; None where a single one of them needs a closer look.

        The parser takes any sequence of objects, so lines and rows are counted against each other. Two objects on one
        line and one object on two would balance; then every row still passed all rules, and nothing is lost.
        """
        try:
            _require_utf8(view)
            columns = self._parse(view, "error")
        except pa.ArrowInvalid:
            return None
        if len(columns["name"]) != line_count or self._problems(columns):
            return None
        return Rows(self.assemble(columns, pa.nulls(line_count, pa.string())), line_count)

    def _careful(self, data: bytes, member: str, first_line: int, offset: int) -> Rows:
        """Line by line: what is wrong, and what goes beyond the declaration. Then the good lines as a block again."""
        rejects: list[Reject] = []
        drift: dict[str, Drift] = {}
        good: list[_Line] = []
        for line in _lines(data, first_line, offset):
            try:
                extra = beyond(read_record(line.raw), self.shape.root)
                good.append(_Line(line.number, line.offset, line.raw, text_of(extra)))
            except Bad as bad:
                rejects.append(Reject(member, line.number, line.offset, str(bad), line.raw))
                continue
            if extra is not NOTHING:
                self._note(extra, drift)
        line_count = len(good) + len(rejects)
        batches = []
        for lines, columns in self._parse_good(good, member, rejects):
            problems = self._problems(columns)
            rejects += [
                Reject(member, lines[row].number, lines[row].offset, reason, lines[row].raw)
                for row, reason in problems.items()
            ]
            batch = self.assemble(columns, pa.array([line.extra for line in lines], pa.string()))
            if problems:
                batch = batch.filter(pa.array([row not in problems for row in range(len(lines))]))
            batches.append(batch)
        rejects.sort(key=lambda reject: reject.line_number)
        batch = pa.concat_batches(batches) if batches else _empty(self.table.schema)
        return Rows(batch, line_count, rejects, drift)

    def _parse_good(
        self, lines: list[_Line], member: str, rejects: list[Reject]
    ) -> Iterator[tuple[list[_Line], dict[str, pa.Array]]]:
        """Parse lines that were found good; where the parser knows better, halve until the culprit stands alone."""
        if not lines:
            return
        reason = "The parser does not see one object in this line."
        try:
            columns = self._parse(b"\n".join(line.raw.removeprefix(codecs.BOM_UTF8) for line in lines), "ignore")
            if len(columns["name"]) == len(lines):
                yield lines, columns
                return
        except pa.ArrowInvalid as error:
            reason = f"It cannot be parsed: {str(error).removeprefix('JSON parse error: ')}"
        if len(lines) == 1:
            line = lines[0]
            rejects.append(Reject(member, line.number, line.offset, reason, line.raw))
            return
        middle = len(lines) // 2
        yield from self._parse_good(lines[:middle], member, rejects)
        yield from self._parse_good(lines[middle:], member, rejects)

    def _parse(self, data: memoryview | bytes, unknown: str) -> dict[str, pa.Array]:
        """The columns that stand in the records. Raises pa.ArrowInvalid where anything is not as declared."""
        table = pj.read_json(
            pa.BufferReader(pa.py_buffer(data)),
            read_options=pj.ReadOptions(use_threads=False, block_size=len(data) + 1),
            parse_options=pj.ParseOptions(explicit_schema=self.shape.schema, unexpected_field_behavior=unknown),
        )
        batch = table.combine_chunks().to_batches()[0] if table.num_rows else _empty(table.schema)
        return self.complete(self.shape.columns(batch))

    def complete(self, columns: dict[str, pa.Array]) -> dict[str, pa.Array]:
        """The columns with those that follow from others: the kind of change, and its moment."""
        return columns | {
            "change_type": pc.fill_null(columns["change_type"], str(ChangeType.UPDATE)),
            "event_at": pc.coalesce(*(columns[name] for name in _MOMENTS)),
        }

    def _problems(self, columns: dict[str, pa.Array]) -> dict[int, str]:
        """The rows that break a rule, each with its sentence."""
        found: dict[int, str] = {}

        def mark(bad: pa.BooleanArray, sentence: str) -> None:
            if pc.any(bad).as_py():
                for row in pc.indices_nonzero(bad).to_pylist():
                    found.setdefault(row, sentence)

        for column in self.table:
            if not column.required or column.name not in columns:
                continue
            if columns[column.name].null_count:
                what = column.path or "every time (event.date_published, event.date_created, date_modified)"
                mark(pc.is_null(columns[column.name]), f"{what} is missing, and no row can be without it.")
        mark(pc.equal(columns["name"], ""), "name is empty.")
        for name, expected in (("project_id", self.archive.project_id), ("namespace_id", self.archive.namespace_id)):
            path = self.table[name].path
            mark(pc.not_equal(columns[name], expected), f"{path} is not {expected}, which the archive is of.")
        known = pc.is_in(columns["change_type"], value_set=_CHANGE_TYPES)
        mark(pc.invert(known), f"event.type is none of {', '.join(ChangeType)}.")
        for name, array in columns.items():
            for values in _doubles(array):
                mark(pc.invert(pc.fill_null(pc.is_finite(values), fill_value=True)), f"{name} is not a finite number.")
        return found

    def assemble(self, columns: dict[str, pa.Array], extra: pa.Array) -> pa.RecordBatch:
        """The columns in the table's order, with those that the archive itself decides."""
        rows = len(extra)

        def column(name: str, declared: pa.DataType, *, body: bool) -> pa.Array:
            if body and name not in self.bodies:
                return pa.nulls(rows, declared)
            if name == "batch_hour":
                return pa.repeat(pa.scalar(self.archive.batch_hour, declared), rows)
            return extra if name == "extra" else columns[name]

        arrays = [column(item.name, item.type, body=item.body) for item in self.table]
        return pa.RecordBatch.from_arrays(arrays, schema=self.table.schema)

    def _note(self, extra: dict[str, Any], drift: dict[str, Drift]) -> None:
        for path, value in unknown_fields(extra, self.shape.root):
            known = drift.get(path)
            if known is None:
                text = text_of(value) or ""
                drift[path] = Drift(path, 1, text if len(text) <= _EXAMPLE else f"{text[:_EXAMPLE]}…")
            else:
                drift[path] = Drift(path, known.count + 1, known.example)


def _require_utf8(view: memoryview) -> None:
    """Raise pa.ArrowInvalid unless the bytes are UTF-8, which the JSON parser does not check. Nothing is copied."""
    offsets = pa.py_buffer(struct.pack("=ii", 0, len(view)))
    pa.StringArray.from_buffers(1, offsets, pa.py_buffer(view)).validate(full=True)


def _lines(data: bytes, first_line: int, offset: int) -> Iterator[_Line]:
    """The lines that are not blank."""
    for number, raw in enumerate(data.split(b"\n"), first_line):
        if raw.strip(_BLANK):
            yield _Line(number, offset, raw)
        offset += len(raw) + 1


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema=schema)


def _doubles(array: pa.Array) -> Iterator[pa.Array]:
    """The columns of doubles in an array, inside objects too."""
    if array.null_count == len(array):
        return
    if pa.types.is_floating(array.type):
        yield array
    elif pa.types.is_struct(array.type):
        for inner in array.flatten():
            yield from _doubles(inner)
