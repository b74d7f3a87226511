"""A block of lines becomes rows.

The native decoder takes what is plainly as declared and leaves single lines to the careful path. Where it is not built,
pyarrow's parser takes whole blocks, or leaves them whole. The rows, rejects and unknown fields are the same.
"""

from __future__ import annotations

import codecs
import re
import struct
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from resources.lake.decode.drift import Drift, DriftCount
from resources.lake.decode.examine import NOTHING, beyond, declared_text, extra_text, json_texts, read_record
from resources.lake.decode.native import Refused, Unknown, decoding
from resources.lake.decode.rejected import Reject, Rejects, ShortLines, reasons_of
from resources.lake.decode.rules import Rules, zeros
from resources.lake.decode.shape import Shape, shape_of
from resources.lake.decode.strict_json import Bad, is_crowded, read_value, shown

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from resources.lake.decode.native import Decoded
    from resources.tables import Column, Table

_BLANK = b" \t\r"
#: Different lines of a block, too short for a record, of which it is said what is wrong with each.
_TOLD = 64
_OBJECT = re.compile(rb"[ \t\r\n]*\{")
#: Between two objects that each have a line of their own.
_SEAM = re.compile(rb"\}[ \t\r]*\n[ \t\r]*\{")
#: What a number has that is beyond every double: an exponent of three digits, or many digits.
_GREAT = re.compile(r"[0-9][eE]\+?[0-9]{3}|[0-9]{200}")
#: What a number has that is not zero and that no double can tell from it: an exponent of three digits, or many zeros.
_TINY = re.compile(rb"[0-9][eE]-[0-9]{3}|0{200}")


@dataclass
class Rows:
    """What one block gave. `line_count` counts its lines without the blank ones: rows and rejects add up to it."""

    batch: pa.RecordBatch
    line_count: int
    rejects: Sequence[Reject] = ()
    drift: list[Drift] = field(default_factory=list)


@dataclass(frozen=True)
class _Line:
    number: int
    offset: int
    raw: bytes
    extra: str | None = None
    declared: bytes | None = None  # instead of `raw`, where the parser would stumble over what is not for it
    json: dict[tuple[str, ...], str] = field(default_factory=dict)


@dataclass
class _Examined:
    """What the careful path made of lines: `numbers` are those of the rows' lines."""

    batch: pa.RecordBatch
    numbers: list[int]
    line_count: int
    rejects: list[Reject]


@dataclass(frozen=True)
class RecordReader:
    """Turns lines of one archive into rows of `table`.

    `given` are the columns that the archive knows: they have that value in all rows, and a record that says another one is
    rejected. `bodies` names the body columns to keep; the others stay in the table as nulls. `latest`: a record whose event
    is later is rejected.
    """

    table: Table
    given: Mapping[str, str | int | dt.datetime]
    bodies: frozenset[str]
    latest: dt.datetime | None = None

    @cached_property
    def shape(self) -> Shape:
        """The form of the records."""
        return shape_of(self.table)

    @cached_property
    def _json(self) -> dict[tuple[str, ...], str]:
        """The columns that are kept as JSON, by their way through the record."""
        return {way: column for column, way in self.shape.json.items()}

    @cached_property
    def _rules(self) -> Rules:
        return Rules(self.table, self.given, self.latest)

    def read(self, view: memoryview, member: str, first_line: int, offset: int, line_count: int | None = None) -> Rows:
        """The rows of a block of whole lines that starts at `offset` of `member` with line `first_line`.

        `line_count`: its lines, where they were counted already; the decoder counts them itself. May be called from several threads at once.
        """
        with decoding(self.table, self.bodies) as decoder:
            if decoder is not None:
                decoded = decoder.decode(view, self._rules.expected, self._rules.most)
                return self._join(self._filled(decoded), view, member, first_line, offset)
        lines = bytes(view).split(b"\n")
        short, long = self._sorted(lines)
        # a parser that takes empty records would make rows of all columns, and none of them would stay
        fast = None if len(short) else self._fast(view, lines, len(lines) - 1 if line_count is None else line_count)
        if fast is not None:
            return fast
        drift = DriftCount()
        some = [_Line(first_line + line.line, offset + line.start, lines[line.line]) for line in long]
        examined = self._examine(some, member, drift)
        rejects = self._too_short(short, view, member, first_line, offset).merged(Rejects.of(examined.rejects, member))
        return Rows(examined.batch, len(short) + len(some), rejects, drift.result())

    def _sorted(self, lines: list[bytes]) -> tuple[ShortLines, list[Refused]]:
        """The lines that are too short for a record, and the others; without the blank ones."""
        numbers: list[int] = []
        bounds: list[int] = []
        long: list[Refused] = []
        place, least = 0, self.shape.least_bytes
        for number, line in enumerate(lines):
            end = place + len(line)
            if line.strip(_BLANK):
                if len(line) < least:
                    numbers.append(number)
                    bounds += (place, end)
                else:
                    long.append(Refused(number, place, end, 0))
            place = end + 1
        columns = (numbers, pa.int64()), (bounds[::2], pa.int64()), (bounds, pa.int32())
        return ShortLines(*(pa.array(values, kind) for values, kind in columns)), long

    def _filled(self, decoded: Decoded) -> Decoded:
        """The decoded rows with what the archive knows and they do not say."""
        batch = decoded.batch
        for place, column in enumerate(self.table):
            if column.name in self.given and (column.path is None or batch.column(place).null_count):
                value = pa.repeat(pa.scalar(self.given[column.name], column.type), len(batch))
                batch = batch.set_column(place, batch.schema.field(place), value)
        return replace(decoded, batch=batch)

    def _join(self, decoded: Decoded, view: memoryview, member: str, first_line: int, offset: int) -> Rows:
        """What the decoder took, and between it what the careful path makes of the rest."""
        batch = decoded.batch
        rejects = self._too_short(decoded.short, view, member, first_line, offset)
        refused: list[Refused | Unknown] = [*decoded.refused]
        drift = DriftCount()
        texts: dict[int, str | None] = {}
        for fields in decoded.unknown:
            try:
                extra = _extra(fields)
                texts[fields.row] = extra_text(extra)
            except Bad:
                refused.append(fields)
            else:
                drift.add(extra, self.shape.root, first_line + fields.line)
        place = batch.schema.get_field_index("extra")
        if texts and place >= 0:
            extras = pa.array([texts.get(row) for row in range(len(batch))], pa.string())
            batch = batch.set_column(place, batch.schema.field(place), extras)
        if not refused:
            return Rows(batch, decoded.line_count, rejects, drift.result())
        refused.sort(key=lambda line: line.line)
        lines = [
            _Line(first_line + line.line, offset + line.start, bytes(view[line.start : line.end])) for line in refused
        ]
        examined = self._examine(lines, member, drift)
        order: list[int] = []  # rows of both batches, one behind the other
        done, is_other = 0, False
        rows = dict(zip(examined.numbers, range(len(batch), len(batch) + len(examined.numbers)), strict=True))
        for line in refused:
            also = isinstance(line, Unknown)  # such a row is in the batch, and must not be
            row = rows.get(first_line + line.line)
            if not also and row is None:
                continue
            is_other = True
            order += range(done, line.row)
            done = line.row + also
            if row is not None:
                order.append(row)
        if is_other:
            order += range(done, len(batch))
            batch = _rows_in_order([batch, examined.batch], order)
        rejects = rejects.merged(Rejects.of(examined.rejects, member))
        return Rows(batch, decoded.line_count, rejects, drift.result())

    def _too_short(self, lines: ShortLines, view: memoryview, member: str, first_line: int, offset: int) -> Rejects:
        """Rejects of lines that are too short for a record: equal ones are looked at once, and only the first of many different ones."""
        if not len(lines):
            return Rejects.of((), member)
        each = lines.texts(view).dictionary_encode()
        told = [self._fault(raw) for raw in each.dictionary[:_TOLD].to_pylist()]
        reasons = reasons_of([*told, f"It has fewer bytes than any record ({self.shape.least_bytes})."])
        return Rejects(
            member,
            pc.add(lines.numbers, first_line),
            pc.add(lines.starts, offset),
            reasons.take(pc.min_element_wise(each.indices, len(told))),
            each,
        )

    def _fault(self, raw: bytes) -> str:
        """Return the fault of a line that is too short for a record."""
        try:
            record = read_record(raw)
            extra_text(beyond(record, self.shape.root))
            json_texts(raw, record, self._json)
        except Bad as bad:
            return str(bad)
        return self._rules.lacking_in(record)

    def _fast(self, view: memoryview, lines: list[bytes], line_count: int) -> Rows | None:
        """All lines at once; None where a single one of them needs a closer look.

        The parser takes any sequence of objects. There are as many as lines, and a line feed between any two of them:
        so there is no other line feed, and each has a line of its own.
        """
        if self.shape.json:  # which the parser cannot keep as it is written
            return None
        if not _OBJECT.match(view):  # where the first value is null, pyarrow's parser takes the process with it
            return None
        try:
            _require_utf8(view)
            count, columns = self._parse(view, self.shape.plain, "error")
        except pa.ArrowInvalid:
            return None
        if count != line_count or sum(1 for _ in _SEAM.finditer(view)) != line_count - 1:
            return None
        if self._rules.problems(columns) or (zeros(columns) and _TINY.search(view)):
            return None
        if any(map(is_crowded, lines)):
            return None
        return Rows(self.assemble(columns, pa.nulls(line_count, pa.string())), line_count)

    def _examine(self, lines: Iterable[_Line], member: str, drift: DriftCount) -> _Examined:
        """Line by line: what is wrong, and what goes beyond the declaration. Then the good lines as a block again."""
        rejects: list[Reject] = []
        good: list[_Line] = []
        for line in lines:
            try:
                record = read_record(line.raw)
                extra = beyond(record, self.shape.root)
                text = extra_text(extra)
                json = json_texts(line.raw, record, self._json)
                great = text is not None and _GREAT.search(text)
                declared = declared_text(record, self.shape.root).encode() if great or json else None
                good.append(replace(line, extra=text, declared=declared, json=json))
            except Bad as bad:
                rejects.append(Reject(member, line.number, line.offset, str(bad), line.raw))
                continue
            if extra is not NOTHING:
                drift.add(extra, self.shape.root, line.number)
        line_count = len(good) + len(rejects)
        batches, numbers = [], []
        for some, columns in self._parse_good(good, member, rejects):
            problems = self._rules.problems(columns)
            rejects += [
                Reject(member, some[row].number, some[row].offset, reason, some[row].raw)
                for row, reason in problems.items()
            ]
            columns |= {
                column: pa.array([line.json.get(way) for line in some], pa.string())
                for way, column in self._json.items()
            }
            batch = self.assemble(columns, pa.array([line.extra for line in some], pa.string()))
            if problems:
                batch = batch.filter(pa.array([row not in problems for row in range(len(some))]))
            batches.append(batch)
            numbers += [line.number for row, line in enumerate(some) if row not in problems]
        rejects.sort(key=lambda reject: reject.line_number)
        batch = pa.concat_batches(batches) if batches else _empty(self.table.schema)
        return _Examined(batch, numbers, line_count, rejects)

    def _parse_good(
        self, lines: list[_Line], member: str, rejects: list[Reject]
    ) -> Iterator[tuple[list[_Line], dict[str, pa.Array]]]:
        """Parse lines that were found good; where the parser knows better, halve until the culprit stands alone."""
        if not lines:
            return
        reason = "The parser does not see one object in this line."
        try:
            data = b"\n".join(line.declared or line.raw.removeprefix(codecs.BOM_UTF8) for line in lines)
            count, columns = self._parse(data, self.shape.schema, "ignore")
            if count == len(lines):
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
        return len(batch), self._rules.complete(self.shape.columns(batch))

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


def _extra(unknown: Unknown) -> dict[str, Any]:
    """The unknown fields of a row, each under its own way. Raises Bad where they are not plainly JSON."""
    extra: dict[str, Any] = {}
    for way, name, value in unknown.fields:
        place = extra
        for part in way:
            place = place.setdefault(part, {})
        try:
            key = name.decode()
        except UnicodeDecodeError as error:
            raise Bad("Not valid UTF-8.") from error
        if key in place:
            raise Bad(f"The key {shown(key)} appears twice in one object.")
        place[key] = read_value(value)
    return extra


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


def _rows_in_order(batches: list[pa.RecordBatch], order: list[int]) -> pa.RecordBatch:
    """The rows of batches, by their numbers in all of them."""
    rows = pa.Table.from_batches(batches).take(pa.array(order, pa.int64())).combine_chunks()
    return rows.to_batches()[0] if len(rows) else _empty(rows.schema)


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema=schema)
