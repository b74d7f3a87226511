"""The service's four reference lists become Parquet.

Belongs here: codes, languages, projects and namespaces, as the service lists them (`GET /v2/codes` and so on).
Does not belong here: articles.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from resources.lake.decode.examine import beyond, extra_text
from resources.lake.decode.shape import shape_of
from resources.lake.decode.strict_json import Bad, Number, read_document
from resources.lake.errors import ReferenceListError
from resources.lake.parquet.writer import ParquetFile, encode
from resources.tables import REFERENCE_TABLES, SCHEMA_VERSION

if TYPE_CHECKING:
    from pathlib import Path

    from resources.lake.layout import Layout
    from resources.tables import Table

#: As the converter's own version for articles: raised when the same list would give other rows.
REFERENCE_VERSION = 1
_TABLES = {table.name: table for table in REFERENCE_TABLES}


@dataclass(frozen=True)
class ReferenceConversion:
    """The Parquet file of one list. `converted` is False where it was there already."""

    kind: str
    digest: str
    path: Path
    row_count: int
    lake_bytes: int
    converted: bool


def convert_reference(kind: str, raw: bytes, layout: Layout) -> ReferenceConversion:
    """Convert one reference list into the lake.

    Args:
        kind: codes, languages, projects or namespaces; also the table's name.
        raw: The service's answer: a JSON array of objects.
        layout: Where the lake lies.

    Raises:
        ReferenceListError: The answer is not such an array, or a record lacks its identifier. Nothing was landed.
        LakeError: The file could not be written.
    """
    table = _TABLES.get(kind)
    if table is None:
        raise ReferenceListError(f"There is no reference list named {kind}. There are {', '.join(_TABLES)}.")
    digest = hashlib.sha256(raw + f"{SCHEMA_VERSION}.{REFERENCE_VERSION}".encode()).hexdigest()
    target = layout.reference_file(kind, digest)
    converted = not target.exists()
    if converted:
        rows = [_row(kind, number, record, table) for number, record in enumerate(_records(kind, raw), 1)]
        with ParquetFile(target, table) as file:
            if rows:
                file.write(encode(pa.RecordBatch.from_pylist(rows, schema=table.schema), table))
            file.land({"conversion": json.dumps({"kind": kind, "digest": digest, "schema_version": SCHEMA_VERSION})})
    count = pq.read_metadata(target).num_rows
    return ReferenceConversion(kind, digest, target, count, target.stat().st_size, converted)


def _records(kind: str, raw: bytes) -> list[Any]:
    try:
        records = read_document(raw)
    except Bad as bad:
        raise ReferenceListError(f"The list of {kind} cannot be read: {bad} {_UNTOUCHED}") from bad
    if not isinstance(records, list):
        raise ReferenceListError(f"The list of {kind} is not a JSON array. {_UNTOUCHED}")
    return records


def _row(kind: str, number: int, record: Any, table: Table) -> dict[str, Any]:
    shape = shape_of(table)
    try:
        row: dict[str, Any] = {"extra": extra_text(beyond(record, shape.root))}
    except Bad as bad:
        raise ReferenceListError(f"Record {number} of the list of {kind}: {bad} {_UNTOUCHED}") from bad
    for name, path in shape.paths.items():
        value = record
        for part in path:
            value = (value or {}).get(part)
        if value is None and table[name].required:
            raise ReferenceListError(f"Record {number} of the list of {kind} has no {table[name].path}. {_UNTOUCHED}")
        row[name] = int(value.text) if isinstance(value, Number) else value  # no column of these is a double
    return row


_UNTOUCHED = "Nothing of it was landed; fetch the list again."
