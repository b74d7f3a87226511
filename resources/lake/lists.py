"""A list of the service becomes Parquet: one JSON array of objects, and all of it or nothing."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from resources.damage import UNREADABLE, read_footer
from resources.lake.decode.records import RecordReader
from resources.lake.decode.strict_json import Bad, read_document, text_of
from resources.lake.errors import ListError
from resources.lake.parquet.writer import ParquetFile, encode
from resources.tables import version_of

if TYPE_CHECKING:
    from pathlib import Path

    from resources.datasets import Dataset
    from resources.lake.layout import Layout
    from resources.tables import Table

#: Raised by one whenever the same list would give other rows.
LISTS_VERSION = 1
_UNTOUCHED = "Nothing of it was landed; fetch the list again."


@dataclass(frozen=True)
class ListConversion:
    """The Parquet file of one list. `converted` is False where it was there already."""

    digest: str
    path: Path
    row_count: int
    lake_bytes: int
    converted: bool


def convert_list(dataset: Dataset, raw: bytes, layout: Layout) -> ListConversion:
    """Convert one list into the lake.

    Args:
        dataset: What the list is of.
        raw: The service's answer: a JSON array of objects.
        layout: Where the lake lies.

    Raises:
        ListError: The answer is not such an array, or a record is not as declared. Nothing was landed.
        LakeError: The file could not be written.
    """
    table, version = dataset.table, version_of(dataset.table)
    digest = hashlib.sha256(raw + _made_by(table).encode()).hexdigest()
    target = layout.list_file(table.name, digest)
    try:
        converted, row_count = False, read_footer(target).num_rows
    except UNREADABLE:
        converted, row_count = True, 0
    if converted:
        lines = b"".join(
            text_of(record).encode("utf-8", "surrogatepass") + b"\n" for record in _records(dataset.name, raw)
        )
        rows = RecordReader(table, {}, table.bodies).read(memoryview(lines), "", 1, 0, lines.count(b"\n"))
        for reject in rows.rejects:
            raise ListError(f"Record {reject.line_number} of the list of {dataset.name}: {reject.reason} {_UNTOUCHED}")
        with ParquetFile(target, table) as file:
            if len(rows.batch):
                file.add(encode(rows.batch, table))
            file.finish({"conversion": json.dumps({"kind": dataset.name, "digest": digest, "schema_version": version})})
        row_count = file.row_count
    return ListConversion(digest, target, row_count, target.stat().st_size, converted)


def list_version(table: Table) -> str:
    """Version of how a list is converted, short: of the declaration of its table, and of the conversion."""
    return hashlib.sha256(_made_by(table).encode()).hexdigest()[:16]


def _made_by(table: Table) -> str:
    return f"{version_of(table)}.{LISTS_VERSION}"


def _records(name: str, raw: bytes) -> list[Any]:
    try:
        records = read_document(raw)
    except Bad as bad:
        raise ListError(f"The list of {name} cannot be read: {bad} {_UNTOUCHED}") from bad
    if not isinstance(records, list):
        raise ListError(f"The list of {name} is not a JSON array. {_UNTOUCHED}")
    return records
