"""Conversion of blocks of lines to rows.

The native decoder converts lines that clearly match the declaration, and marks lines that are clearly bad. Python
examines the other lines individually, or all lines if the decoder is not built. Both paths return the same results.
"""

import datetime as dt
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from resources.lake.decode import strict
from resources.lake.decode.native import Decoded, decoding
from resources.lake.decode.record_schema import RecordSchema, Rules, record_schema_of
from resources.lake.decode.rejected import (
    BROKEN,
    MISTYPED,
    NO_OBJECT,
    SHORT,
    UNDECIDED,
    left_lines,
    merged,
    reasons_of,
    rejected,
    texts,
    with_verdict,
)
from resources.lake.decode.strict import NOTHING, DriftCount
from resources.lake.decode.strict_json import Bad
from resources.lake_files import Drift
from resources.tables import Table

#: Default reasons by verdict, for lines without a separate reason.
_COMMON = {
    SHORT: "It is shorter than any possible record ({} bytes).",
    NO_OBJECT: "It is not a single UTF-8 JSON object without duplicate keys.",
    MISTYPED: "One of its values is not as declared.",
}
_BLANK = b" \t\r"
#: Maximum number of distinct bad lines per block and verdict that get separate reasons. All other lines share a reason.
_TOLD = 64
#: Bytes of a block whose examined lines are converted to rows together. Python values need many times this memory.
_EXAMINED_BYTES = 1 << 20
#: Number, decoder rows before it, start, end and verdict of a line.
_Left = tuple[int, int, int, int, int]


@dataclass
class Rows:
    """Result for one block. `line_count` excludes blank lines, so it equals rows plus rejects (`REJECT_COLUMNS`)."""

    batch: pa.RecordBatch
    line_count: int
    rejects: pa.RecordBatch
    drift: list[Drift] = field(default_factory=list)


@dataclass(frozen=True)
class RecordReader:
    """Converter that turns an archive's lines into rows of `table`.

    `given` maps columns to values that the archive determines for all rows. A record with a different value is
    rejected, as is a record with an event after `latest`. `bodies` contains the body columns to store; other body
    columns are null.
    """

    table: Table
    given: Mapping[str, str | int | dt.datetime]
    bodies: frozenset[str]
    latest: dt.datetime | None = None

    @cached_property
    def record_schema(self) -> RecordSchema:
        return record_schema_of(self.table)

    @cached_property
    def _json(self) -> dict[tuple[str, ...], str]:
        """Columns stored as JSON, by path in the record."""
        return {way: column for column, way in self.record_schema.json.items()}

    @cached_property
    def _no_rows(self) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist([], schema=self.table.schema)

    @cached_property
    def _rules(self) -> Rules:
        return Rules(self.table, self.given, self.latest)

    def read(self, view: memoryview) -> Rows:
        """Convert a block of complete lines. Thread-safe."""
        with decoding(self.table, self.bodies) as decoder:
            if decoder is not None:
                return self._join(decoder.decode(view, self._rules.expected, self._rules.most), view)
        left = left_lines(self._unread(bytes(view).split(b"\n")))
        return self._join(Decoded(self._no_rows, len(left), left, iter(())), view)

    def _unread(self, lines: list[bytes]) -> Iterator[_Left]:
        """Yield all lines except blank lines as lines to examine."""
        start, least = 0, self.record_schema.least_bytes
        for number, line in enumerate(lines):
            end = start + len(line)
            if line.strip(_BLANK):
                yield number, 0, start, end, SHORT if len(line) < least else UNDECIDED
            start = end + 1

    def _filled(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Fill in missing values that the archive determines."""
        for place, column in enumerate(self.table):
            if column.name in self.given and (column.path is None or batch.column(place).null_count):
                value = pa.repeat(pa.scalar(self.given[column.name], column.type), len(batch))
                batch = batch.set_column(place, batch.schema.field(place), value)
        return batch

    def _join(self, decoded: Decoded, view: memoryview) -> Rows:
        """Combine the decoder's rows with the rows from individually examined lines."""
        batch, drift, left = decoded.batch, DriftCount(), decoded.left
        rejects: list[pa.RecordBatch] = []
        broken, unread = with_verdict(left, BROKEN), with_verdict(left, UNDECIDED)
        removed = broken["row"]
        if len(broken):
            rows = batch.take(removed)
            problems = self._rules.problems(dict(zip(rows.schema.names, rows.columns, strict=True)), len(rows))
            rejects.append(rejected(broken, problems, texts(broken, view)))
        extras: dict[int, str | None] = {}
        again: list[_Left] = []
        for of, fields in decoded.unknown:
            line, row, *_ = of
            try:
                extra = strict.nested_fields(fields)
                extras[row] = strict.extra_text(extra)
            except Bad:
                again.append((*of, UNDECIDED))
            else:
                drift.add(extra, self.record_schema.root, line)
        place = batch.schema.get_field_index("extra")
        if extras and place >= 0:
            column = pa.array([extras.get(row) for row in range(len(batch))], pa.string())
            batch = batch.set_column(place, batch.schema.field(place), column)
        if again:
            found = left_lines(again)
            removed = pa.concat_arrays([removed, found["row"]])
            unread = pa.concat_batches([unread, found]).sort_by("number")
        other, before = self._no_rows, list[int]()
        if len(unread):
            other, before, bad = self._examine(unread, view, drift, rejects)
            left = pa.concat_batches([left, bad]).sort_by("number")
        if len(removed) or len(other):
            batch = _placed(batch, removed, other, pa.array(before, pa.int64()))
        chosen = ((verdict, with_verdict(left, verdict)) for verdict in _COMMON)
        rejects += [self._rejects(lines, verdict, view) for verdict, lines in chosen if len(lines)]
        return Rows(self._filled(batch), decoded.line_count, merged(rejects), drift.result())

    def _rejects(self, lines: pa.RecordBatch, verdict: int, view: memoryview) -> pa.RecordBatch:
        """Return rejects for lines with a verdict. Only the first few distinct lines get separate reasons."""
        each = texts(lines, view)
        common = _COMMON[verdict].format(self.record_schema.least_bytes)
        told = [self._fault(raw) for raw in each.dictionary[:_TOLD].to_pylist()]
        reasons = reasons_of([*told, common])
        return rejected(lines, reasons.take(pc.min_element_wise(each.indices, len(told))), each)

    def _fault(self, raw: bytes) -> str:
        """Return the reason why a line is not a valid record."""
        try:
            record = strict.read_record(raw)
            strict.extra_text(strict.declared(record, self.record_schema.root)[1])
            strict.json_texts(raw, record, self._json)
        except Bad as bad:
            return str(bad)
        return self._rules.lacking_in(record)

    def _examine(
        self, unread: pa.RecordBatch, view: memoryview, drift: DriftCount, rejects: list[pa.RecordBatch]
    ) -> tuple[pa.RecordBatch, list[int], pa.RecordBatch]:
        """Examine each line for faults and undeclared fields, and convert the good lines to rows.

        Return the rows, the number of decoder rows before each row, and the bad lines. `rejects` gets the lines that
        break a rule.
        """
        batches, before, bad = [self._no_rows], list[int](), list[_Left]()
        verdicts: dict[bytes, int] = {}  # verdicts on bad lines, cached because many lines can be equal
        bounds = unread["bounds"].flatten().to_pylist()
        places = zip(unread["number"].to_pylist(), unread["row"].to_pylist(), bounds[::2], bounds[1::2], strict=True)
        for _, some in groupby(places, lambda place: place[2] // _EXAMINED_BYTES):
            lines = []
            for place in some:
                raw = bytes(view[place[2] : place[3]])
                found = verdicts.get(raw) or self._examined(raw)
                if isinstance(found, int):
                    verdicts[raw] = found
                    bad.append((*place, found))
                else:
                    lines.append((place, *found))
            if lines:
                batches.append(self._rows_of(lines, view, drift, before, rejects))
        return pa.concat_batches(batches), before, left_lines(bad)

    def _examined(self, raw: bytes) -> tuple[dict[str, Any], Any, str | None, dict[tuple[str, ...], str]] | int:
        """Return a line's declared values, undeclared fields (also as JSON) and JSON columns, or the verdict if bad."""
        verdict = NO_OBJECT
        try:
            record = strict.read_record(raw)
            verdict = MISTYPED
            values, extra = strict.declared(record, self.record_schema.root)
            return values, extra, strict.extra_text(extra), strict.json_texts(raw, record, self._json)
        except Bad:
            return verdict

    def _rows_of(
        self,
        lines: list[tuple[Any, ...]],
        view: memoryview,
        drift: DriftCount,
        before: list[int],
        rejects: list[pa.RecordBatch],
    ) -> pa.RecordBatch:
        """Convert lines that match the declaration to rows, and lines that break a rule to rejects.

        Each line is a place, followed by the result of `_examined`.
        """
        places, values, extras, extra_texts, json = zip(*lines, strict=True)
        columns = self._rules.complete(self.record_schema.columns([*values]))
        problems = self._rules.problems(columns, len(lines))
        columns |= {
            column: pa.array([found.get(way) for found in json], pa.string()) for way, column in self._json.items()
        }
        columns["extra"] = pa.array(extra_texts, pa.string())
        left_out = self.table.bodies - self.bodies
        arrays = [
            columns[column.name]
            if column.name in columns and column.name not in left_out
            else pa.nulls(len(lines), column.type)
            for column in self.table
        ]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self.table.schema)
        if problems.null_count < len(lines):
            is_good = pc.is_null(problems)
            rows = pc.indices_nonzero(pc.invert(is_good)).to_pylist()
            broken = left_lines((*places[row], BROKEN) for row in rows)
            rejects.append(rejected(broken, problems.drop_null(), texts(broken, view)))
            batch = batch.filter(is_good)
        for (number, row, *_), extra, problem in zip(places, extras, problems.indices.to_pylist(), strict=True):
            if problem is None:
                before.append(row)
                if extra is not NOTHING:
                    drift.add(extra, self.record_schema.root, number)
        return batch


def _placed(batch: pa.RecordBatch, removed: pa.Array, other: pa.RecordBatch, before: pa.Array) -> pa.RecordBatch:
    """Remove rows from a batch, and insert rows of `other`. `before` counts the batch rows that precede each row."""
    own, two = pa.arange(0, len(batch)), pa.scalar(2)
    order = pc.sort_indices(pa.concat_arrays([pc.add(pc.multiply(own, two), 1), pc.multiply(before, two)]))
    order = order.filter(pc.invert(pc.is_in(order, value_set=pc.cast(removed, order.type))))
    return pa.concat_batches([batch, other]).take(order)
