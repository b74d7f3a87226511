"""Conversion of a block of lines to rows.

The native decoder converts lines that are plainly as declared, and returns a verdict on certainly bad lines. All others
are examined one by one. If the decoder is not built, pyarrow's parser converts complete blocks or none of a block. The
rows, rejects and unknown fields are the same.
"""

from __future__ import annotations

import codecs
import re
import struct
from array import array
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from resources.lake.decode.drift import DriftCount
from resources.lake.decode.native import Decoded, decoding
from resources.lake.decode.record_schema import RecordSchema, record_schema_of
from resources.lake.decode.rejected import (
    BROKEN,
    MISTYPED,
    NO_OBJECT,
    SHORT,
    UNDECIDED,
    LeftLines,
    Reject,
    Rejects,
    merged,
    reasons_of,
)
from resources.lake.decode.rules import Rules, zeros
from resources.lake.decode.strict import (
    NOTHING,
    beyond,
    declared_text,
    extra_text,
    json_texts,
    nested_fields,
    read_record,
)
from resources.lake.decode.strict_json import Bad, is_crowded

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Iterator, Mapping, Sequence

    from resources.lake_files import Drift
    from resources.tables import Column, Table

#: The reason that many different lines with a verdict share.
_COMMON = {
    SHORT: "It has fewer bytes than any record ({}).",
    NO_OBJECT: "It is not one JSON object in UTF-8 with every key once.",
    MISTYPED: "One of its values is not as declared.",
}
_BLANK = b" \t\r"
#: Different bad lines of a block, of each verdict, that have a reason of their own. The others share one.
_TOLD = 64
_OBJECT = re.compile(rb"[ \t\r\n]*\{")
#: Between two objects that each have a line of their own.
_SEAM = re.compile(rb"\}[ \t\r]*\n[ \t\r]*\{")
#: Sign of a number beyond every double: an exponent of three digits, or many digits.
_GREAT = re.compile(r"[0-9][eE]\+?[0-9]{3}|[0-9]{200}")
#: Sign of a number that is not zero but that no double distinguishes from zero: an exponent of three digits, or many
#: zeros.
_TINY = re.compile(rb"[0-9][eE]-[0-9]{3}|0{200}")


@dataclass
class Rows:
    """The result of one block. `line_count` does not count blank lines: it equals rows plus rejects."""

    batch: pa.RecordBatch
    line_count: int
    rejects: Sequence[Reject] = ()
    drift: list[Drift] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Block:
    """Lines of `member` from byte `offset` and line `first_line` on."""

    view: memoryview
    member: str
    first_line: int
    offset: int

    def rejects(self, lines: LeftLines, reasons: pa.DictionaryArray, raws: pa.DictionaryArray | None = None) -> Rejects:
        """Rejects of these lines of the block; `raws` are their bytes."""
        numbers, places = pc.add(lines.numbers, self.first_line), pc.add(lines.starts, self.offset)
        return Rejects(
            self.member, numbers, places, reasons, lines.texts(self.view).dictionary_encode() if raws is None else raws
        )


@dataclass
class _Examined:
    """Rows (with the number of rows before each), bad lines and rejects of lines that were examined one by one."""

    batch: pa.RecordBatch
    rows: list[int]
    bad: LeftLines
    rejects: list[Rejects]


@dataclass(slots=True)
class _Line:
    """A line that was read and is as declared, with what goes beyond it; `row` is the number of rows before it."""

    number: int
    row: int
    start: int
    end: int
    raw: bytes
    extra: Any
    text: str | None
    declared: bytes | None  # instead of `raw`, where the parser would stumble over what is not for it
    json: dict[tuple[str, ...], str]


@dataclass(frozen=True)
class RecordReader:
    """Turns lines of one archive into rows of `table`.

    `given` are the columns that the archive knows: they have that value in all rows, and a record that says another one
    is rejected. `bodies` names the body columns to keep; the others stay in the table as nulls. `latest`: a record
    whose event is later is rejected.
    """

    table: Table
    given: Mapping[str, str | int | dt.datetime]
    bodies: frozenset[str]
    latest: dt.datetime | None = None

    @cached_property
    def record_schema(self) -> RecordSchema:
        """The form of the records."""
        return record_schema_of(self.table)

    @cached_property
    def _json(self) -> dict[tuple[str, ...], str]:
        """The columns that are kept as JSON, by their way through the record."""
        return {way: column for column, way in self.record_schema.json.items()}

    @cached_property
    def _no_rows(self) -> pa.RecordBatch:
        return _empty(self.table.schema)

    @cached_property
    def _rules(self) -> Rules:
        return Rules(self.table, self.given, self.latest)

    def read(self, view: memoryview, member: str, first_line: int, offset: int, line_count: int | None = None) -> Rows:
        """The rows of a block of whole lines that starts at `offset` of `member` with line `first_line`.

        `line_count`: its lines, where they were counted already; the decoder counts them itself. May be called from
        several threads at once.
        """
        block = _Block(view, member, first_line, offset)
        with decoding(self.table, self.bodies) as decoder:
            if decoder is not None:
                return self._join(decoder.decode(view, self._rules.expected, self._rules.most), block)
        lines = bytes(view).split(b"\n")
        left, has_short = self._left(lines)
        # a parser that takes empty records would make rows of all columns, and none of them would stay
        fast = None if has_short else self._fast(view, lines, len(lines) - 1 if line_count is None else line_count)
        return fast or self._join(Decoded(self._no_rows, len(left), left, iter(())), block)

    def _left(self, lines: list[bytes]) -> tuple[LeftLines, bool]:
        """All lines but the blank ones, and whether one is too short for a record."""
        numbers, bounds, verdicts = array("q"), array("i"), bytearray()
        add_number, add_bound, add_verdict = numbers.append, bounds.append, verdicts.append
        place, least = 0, self.record_schema.least_bytes
        for number, line in enumerate(lines):
            end = place + len(line)
            if line.strip(_BLANK):
                add_number(number)
                add_bound(place)
                add_bound(end)
                add_verdict(SHORT if len(line) < least else UNDECIDED)
            place = end + 1
        return LeftLines.of_columns(numbers, bounds, verdicts), SHORT in verdicts

    def _filled(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows with what the archive knows and they do not say."""
        for place, column in enumerate(self.table):
            if column.name in self.given and (column.path is None or batch.column(place).null_count):
                value = pa.repeat(pa.scalar(self.given[column.name], column.type), len(batch))
                batch = batch.set_column(place, batch.schema.field(place), value)
        return batch

    def _join(self, decoded: Decoded, block: _Block) -> Rows:
        """Combine the decoder's rows with those of the lines that were examined one by one."""
        batch, drift, left = self._filled(decoded.batch), DriftCount(), decoded.left.by_verdict()
        rejects: list[Rejects] = []
        removed = pa.array([], pa.int64())
        if (broken := left.pop(BROKEN, None)) is not None:
            rows, removed = decoded.batch.take(broken.rows), broken.rows
            rejects.append(block.rejects(broken, self._rules.problems(self._rules.judged(rows), len(rows))))
        texts: dict[int, str | None] = {}
        again: list[tuple[int, int, int, int, int]] = []
        for fields in decoded.unknown:
            try:
                extra = nested_fields(fields.fields)
                texts[fields.row] = extra_text(extra)
            except Bad:
                again.append((fields.line, fields.row, fields.start, fields.end, UNDECIDED))
            else:
                drift.add(extra, self.record_schema.root, block.first_line + fields.line)
        place = batch.schema.get_field_index("extra")
        if texts and place >= 0:
            extras = pa.array([texts.get(row) for row in range(len(batch))], pa.string())
            batch = batch.set_column(place, batch.schema.field(place), extras)
        unread = left.pop(UNDECIDED, None)
        if again:
            found = LeftLines.of(again)
            removed = pa.concat_arrays([removed, found.rows])
            unread = found if unread is None else unread.merged(found)
        other, before = self._no_rows, pa.array([], pa.int64())
        if unread is not None:
            examined = self._examine(unread, block, drift)
            other, before = examined.batch, pa.array(examined.rows, pa.int64())
            rejects += examined.rejects
            for verdict, lines in examined.bad.by_verdict().items():
                left[verdict] = lines if verdict not in left else left[verdict].merged(lines)
        if len(removed) or len(other):
            batch = _placed(batch, removed, other, before)
        rejects += (self._told(lines, verdict, block) for verdict, lines in left.items())
        return Rows(batch, decoded.line_count, merged(rejects), drift.result())

    def _told(self, lines: LeftLines, verdict: int, block: _Block) -> Rejects:
        """Rejects of lines with a verdict: equal ones are read once, and only the first of many different ones."""
        each = lines.texts(block.view).dictionary_encode()
        common = _COMMON[verdict].format(self.record_schema.least_bytes)
        told = [self._fault(raw) for raw in each.dictionary[:_TOLD].to_pylist()]
        reasons = reasons_of([*told, common])
        return block.rejects(lines, reasons.take(pc.min_element_wise(each.indices, len(told))), each)

    def _fault(self, raw: bytes) -> str:
        """Return the fault of a line that is no record."""
        try:
            record = read_record(raw)
            extra_text(beyond(record, self.record_schema.root))
            json_texts(raw, record, self._json)
        except Bad as bad:
            return str(bad)
        return self._rules.lacking_in(record)

    def _fast(self, view: memoryview, lines: list[bytes], line_count: int) -> Rows | None:
        """Parse all lines at once; None if a single line must be examined.

        The parser accepts any sequence of objects. There are as many objects as lines, and a line feed between any two
        objects. So there is no other line feed, and each object has a separate line.
        """
        if self.record_schema.json:  # which the parser cannot keep as it is written
            return None
        if not _OBJECT.match(view):  # where the first value is null, pyarrow's parser takes the process with it
            return None
        try:
            _require_utf8(view)
            count, columns = self._parse(view, self.record_schema.plain, "error")
        except pa.ArrowInvalid:
            return None
        if count != line_count or sum(1 for _ in _SEAM.finditer(view)) != line_count - 1:
            return None
        if self._rules.problems(columns, count).null_count < count or (zeros(columns) and _TINY.search(view)):
            return None
        if any(map(is_crowded, lines)):
            return None
        return Rows(self.assemble(columns, pa.nulls(line_count, pa.string())), line_count)

    def _examine(self, lines: LeftLines, block: _Block, drift: DriftCount) -> _Examined:
        """Examine line by line for faults and undeclared fields, and return the good lines as a block again."""
        good: list[_Line] = []
        bad: list[tuple[int, int, int, int, int]] = []
        verdicts: dict[bytes, int] = {}  # on bad lines: they may all be equal
        for number, row, start, end in lines:
            raw = bytes(block.view[start:end])
            if raw in verdicts:
                bad.append((number, row, start, end, verdicts[raw]))
                continue
            verdict = NO_OBJECT
            try:
                record = read_record(raw)
                verdict = MISTYPED
                extra = beyond(record, self.record_schema.root)
                text = extra_text(extra)
                json = json_texts(raw, record, self._json)
            except Bad:
                verdicts[raw] = verdict
                bad.append((number, row, start, end, verdict))
                continue
            great = text is not None and _GREAT.search(text)
            declared = declared_text(record, self.record_schema.root).encode() if great or json else None
            good.append(_Line(number, row, start, end, raw, extra, text, declared, json))
        found = _Examined(self._no_rows, [], LeftLines.of(bad), [])
        batches = []
        for some, columns in self._parse_good(good, found, block):
            problems = self._rules.problems(columns, len(some))
            columns |= {
                column: pa.array([line.json.get(way) for line in some], pa.string())
                for way, column in self._json.items()
            }
            batch = self.assemble(columns, pa.array([line.text for line in some], pa.string()))
            if problems.null_count < len(some):
                is_good = pc.is_null(problems)
                broken = LeftLines.of([_place(some[row]) for row in pc.indices_nonzero(pc.invert(is_good)).to_pylist()])
                found.rejects.append(block.rejects(broken, problems.drop_null()))
                batch = batch.filter(is_good)
            batches.append(batch)
            for line in (
                line for line, problem in zip(some, problems.indices.to_pylist(), strict=True) if problem is None
            ):
                found.rows.append(line.row)
                if line.extra is not NOTHING:
                    drift.add(line.extra, self.record_schema.root, block.first_line + line.number)
        if batches:
            found.batch = pa.concat_batches(batches)
        return found

    def _parse_good(
        self, lines: list[_Line], found: _Examined, block: _Block
    ) -> Iterator[tuple[list[_Line], dict[str, pa.Array]]]:
        """Parse lines that were found good. If the parser refuses them, halve until the faulty line is alone."""
        if not lines:
            return
        reason = "The parser does not see one object in this line."
        try:
            data = b"\n".join(line.declared or line.raw.removeprefix(codecs.BOM_UTF8) for line in lines)
            count, columns = self._parse(data, self.record_schema.schema, "ignore")
            if count == len(lines):
                yield lines, columns
                return
        except pa.ArrowInvalid as error:
            reason = f"It cannot be parsed: {str(error).removeprefix('JSON parse error: ')}"
        if len(lines) == 1:
            found.rejects.append(block.rejects(LeftLines.of([_place(lines[0])]), reasons_of([reason])))
            return
        middle = len(lines) // 2
        yield from self._parse_good(lines[:middle], found, block)
        yield from self._parse_good(lines[middle:], found, block)

    def _parse(self, data: memoryview | bytes, schema: pa.Schema, unknown: str) -> tuple[int, dict[str, pa.Array]]:
        """Number of records, and the columns that stand in them or follow from those that do.

        Raises:
            pa.ArrowInvalid: Anything is not as declared.
        """
        table = pj.read_json(
            pa.BufferReader(pa.py_buffer(data)),
            read_options=pj.ReadOptions(use_threads=False, block_size=len(data) + 1),
            parse_options=pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior=unknown),
        )
        batch = table.combine_chunks().to_batches()[0] if table.num_rows else _empty(table.schema)
        return len(batch), self._rules.complete(self.record_schema.columns(batch))

    def assemble(self, columns: dict[str, pa.Array], extra: pa.Array) -> pa.RecordBatch:
        """The columns in the table's order, with those that the archive itself decides."""
        rows = len(extra)

        def array(column: Column) -> pa.Array:
            if column.body and column.name not in self.bodies:
                return pa.nulls(rows, column.type)
            if column.name in self.given:
                return pa.repeat(pa.scalar(self.given[column.name], column.type), rows)
            if column.name == "extra":
                return extra
            return columns[column.name] if column.name in columns else pa.nulls(rows, column.type)

        return pa.RecordBatch.from_arrays([array(column) for column in self.table], schema=self.table.schema)


def _require_utf8(view: memoryview) -> None:
    """Raise pa.ArrowInvalid unless the bytes are UTF-8, which the JSON parser does not check. Nothing is copied."""
    offsets = pa.py_buffer(struct.pack("=ii", 0, len(view)))
    pa.StringArray.from_buffers(1, offsets, pa.py_buffer(view)).validate(full=True)


def _place(line: _Line) -> tuple[int, int, int, int, int]:
    return line.number, line.row, line.start, line.end, BROKEN


def _placed(batch: pa.RecordBatch, removed: pa.Array, other: pa.RecordBatch, before: pa.Array) -> pa.RecordBatch:
    """The rows of a batch without some of them, and with others between them: `before` counts the rows before each."""
    own, two = pa.arange(0, len(batch)), pa.scalar(2)
    order = pc.sort_indices(pa.concat_arrays([pc.add(pc.multiply(own, two), 1), pc.multiply(before, two)]))
    order = order.filter(pc.invert(pc.is_in(order, value_set=pc.cast(removed, order.type))))
    rows = pa.Table.from_batches([batch, other]).take(order).combine_chunks()
    return rows.to_batches()[0] if len(rows) else _empty(rows.schema)


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema=schema)
