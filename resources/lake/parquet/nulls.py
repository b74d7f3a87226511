"""Parquet columns without a single value, built without a Parquet writer.

Half of the columns of an archive are empty, and the writer takes as long for one of them as for a column of thirty
values. Only the number of rows matters: a data page of levels that are all 0, and a null count.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from resources.lake.parquet.thrift import binary, varint, zigzag

if TYPE_CHECKING:
    import pyarrow.parquet as pq

#: parquet.thrift's numbers of the physical types, by their names.
_TYPES = ("BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
#: Beginning of the footer's entry for a column: ColumnChunk's file_offset, which is 0, and the type in its meta_data.
CHUNK_HEAD = b"\x26\x00\x1c\x15"


@dataclass(frozen=True)
class Leaf:
    """A Parquet column.

    `path` is its dotted path in the schema. `marker` is the path as encoded in the footer's column chunk, with the
    header of the codec after it, and occurs once. `head` is the beginning of the chunk up to the codec, for a column
    without a value. `repeated` is True inside a list.
    """

    path: str
    marker: bytes
    head: bytes
    repeated: bool

    @classmethod
    def of(cls, column: pq.ColumnSchema) -> Leaf:
        """The leaf of a column of a Parquet schema, whose names must be without dots."""
        path = column.path.split(".")
        marker = b"".join((b"\x19", bytes([len(path) << 4 | 8]), *(binary(part.encode()) for part in path), b"\x15"))
        encodings = b"\x19\x25\x00\x06"  # PLAIN, and RLE for the levels
        head = CHUNK_HEAD + zigzag(_TYPES.index(column.physical_type)) + encodings + marker + b"\x00"
        return cls(column.path, marker, head, bool(column.max_repetition_level))


class Nulls:
    """Data pages (`page`) and column chunks (`chunk`) of columns without a value, for a number of rows."""

    def __init__(self, row_count: int) -> None:
        self._pages = tuple(_page(row_count, level_count) for level_count in (1, 2))
        count, sizes = zigzag(row_count), [zigzag(len(page)) for page in self._pages]
        # number of values, sizes before and after compression (both with the page's header), data_page_offset
        self._before = tuple(b"\x16" + count + b"\x16" + size + b"\x16" + size + b"\x26" for size in sizes)
        self._after = b"\x3c\x36" + count + b"\x00\x00\x00"  # statistics: null_count

    def page(self, leaf: Leaf) -> bytes:
        """The page of this column."""
        return self._pages[leaf.repeated]

    def chunk(self, leaf: Leaf, offset: int) -> bytes:
        """Return the column chunk of this column, whose data page is at `offset` of the file."""
        return leaf.head + self._before[leaf.repeated] + zigzag(offset) + self._after


def _page(row_count: int, level_count: int) -> bytes:
    """Return a data page of `row_count` rows: definition levels, preceded by repetition levels if there are two."""
    run = varint(row_count << 1) + b"\x00"  # so many zeros
    levels = (len(run).to_bytes(4, "little") + run) * level_count
    checksum = zlib.crc32(levels)
    return b"".join((
        b"\x15\x00",  # PageHeader: a data page
        b"\x15" + zigzag(len(levels)),  # size before compression
        b"\x15" + zigzag(len(levels)),  # size after it
        b"\x15" + zigzag(checksum - (checksum >> 31 << 32)),  # as a number with a sign
        b"\x1c",  # data_page_header
        b"\x15" + zigzag(row_count),
        b"\x15\x00\x15\x06\x15\x06",  # encodings: PLAIN for values, RLE for both levels
        b"\x00\x00",
        levels,
    ))  # fmt: skip
