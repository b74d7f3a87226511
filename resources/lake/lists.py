"""Conversion of a reference list (a JSON array of objects) to Parquet.

Records that do not match the declaration are omitted and reported.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from resources.datasets import Dataset
from resources.datasets.paths import PARQUET, name_of
from resources.formatting import legible
from resources.lake.archives import Layout
from resources.lake.decode.records import RecordReader, Rows
from resources.lake.decode.strict_json import Bad, read_document, text_of
from resources.lake.errors import ListError
from resources.lake.parquet.writer import ParquetFile, encode
from resources.storage import UNREADABLE, read_footer, verify
from resources.tables import Table, version_of

#: Version of the list conversion. Increment this number when the same list would produce different rows.
LISTS_VERSION = 1
#: Maximum number of omitted records to report, and maximum number of characters of each reason.
_SHOWN, _LONGEST = 10, 300
_UNTOUCHED = "Nothing was written to the lake. Fetch the list again."


@dataclass(frozen=True)
class ListConversion:
    """Parquet file of a reference list. `converted` is False if the file existed; `odd` lists the omitted records."""

    digest: str
    path: Path
    row_count: int
    converted: bool
    odd: tuple[str, ...] = ()


def convert_list(dataset: Dataset, raw: bytes, layout: Layout) -> ListConversion:
    """Convert a reference list (the service's response `raw`) to a Parquet file in the lake.

    Raises ListError, without writing a file, if `raw` is not a JSON array of objects or no object matches the
    declaration. Raises LakeError if the file could not be written.
    """
    table, version = dataset.table, version_of(dataset.table)
    digest = hashlib.sha256(raw + _made_by(table).encode()).hexdigest()
    target = layout.lake / table.name / name_of(table.name, digest, PARQUET)
    converted = False
    try:
        verify(target, storage=layout.storage)
    except UNREADABLE:
        converted = True
    if converted:
        try:
            records = read_document(raw)
        except Bad as bad:
            raise ListError(f"The list of {dataset.name} cannot be read: {bad} {_UNTOUCHED}") from bad
        if not isinstance(records, list):
            raise ListError(f"The list of {dataset.name} is not a JSON array. {_UNTOUCHED}")
        lines = b"".join(text_of(record).encode("utf-8", "surrogatepass") + b"\n" for record in records)
        rows = RecordReader(table, {}, table.bodies).read(memoryview(lines))
        batch, odd = _once(rows, table)
        if odd and not len(batch):
            number, reason = odd[0]
            raise ListError(f"Record {number} of the list of {dataset.name}: {reason} {_UNTOUCHED}")
        facts: dict[str, Any] = {"kind": dataset.name, "digest": digest, "schema_version": version}
        facts["odd"] = [f"record {number:,}: {legible(reason, _LONGEST)}" for number, reason in odd[:_SHOWN]]
        with ParquetFile(target, table, layout.storage) as file:
            if len(batch):
                file.add(encode(batch, table))
            file.finish({"conversion": json.dumps(facts)})
    made = read_footer(target, layout.storage)
    odd_records = json.loads(made.metadata[b"conversion"]).get("odd", ())
    return ListConversion(digest, target, made.num_rows, converted, tuple(odd_records))


def _once(rows: Rows, table: Table) -> tuple[pa.RecordBatch, list[tuple[int, str]]]:
    """Return the first record with each key, and the number and reason for every omitted record."""
    odd = {one["line_number"] + 1: one["reason"] for one in rows.rejects.select(["line_number", "reason"]).to_pylist()}
    numbers = (number for number in range(1, rows.line_count + 1) if number not in odd)
    (key,) = table.key
    kept: dict[object, int] = {}
    repeated = {}
    for row, (number, value) in enumerate(zip(numbers, rows.batch.column(key).to_pylist(), strict=True)):
        if kept.setdefault(value, row) != row:
            repeated[number] = f"The identifier {value} appears more than once."
    return rows.batch.take(pa.array(kept.values(), pa.int64())), sorted((odd | repeated).items())


def list_version(table: Table) -> str:
    """Return a short hash of a list table's declaration and the conversion's version."""
    return hashlib.sha256(_made_by(table).encode()).hexdigest()[:16]


def _made_by(table: Table) -> str:
    return f"{version_of(table)}.{LISTS_VERSION}"
