"""Footers of Parquet files: joining row groups that were encoded separately.

pyarrow encodes a row group only as part of a file, and a file only in one thread. So each row group is encoded as a
separate file in memory, in parallel with others, and its data pages are appended to those of the row group before. Only
the distance from the start of the file changes, which the footer records for every column.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

from resources.lake.parquet import thrift
from resources.lake.parquet.nulls import CHUNK_HEAD, Nulls

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from resources.lake.parquet.nulls import Leaf

MAGIC = b"PAR1"
#: A file ends with its footer, the length of it, and the magic number.
_TRAILER_BYTES = 8

# Field numbers of parquet.thrift's FileMetaData and RowGroup.
_FILE_ROWS, _FILE_GROUPS = 3, 4
_COLUMNS, _UNPACKED_SIZE, _PACKED_SIZE = 1, 2, 6
_Wanted: TypeAlias = "dict[int, _Wanted]"
#: The fields of a RowGroup that hold distances from the start of the file. Page indexes, which hold places themselves,
#: and the ordinal are missing here: nothing in this package writes them.
_PLACES: _Wanted = {
    1: {  # columns
        2: {},  # file_offset
        3: {9: {}, 10: {}, 11: {}, 14: {}},  # meta_data: data page, index page, dictionary page, Bloom filter
    },
    5: {},  # file_offset
}


@dataclass(frozen=True)
class Group:
    """One encoded row group: its pages, its rows, and the footer's words about it, as if it stood first in a file."""

    pages: tuple[memoryview | bytes, ...]
    row_count: int
    words: bytes

    @classmethod
    def of(cls, file: memoryview, row_count: int, leaves: Sequence[tuple[Leaf, bool]]) -> Group:
        """Return the only row group of a Parquet file in memory, with further columns that hold no value.

        Args:
            file: The file.
            row_count: Its rows.
            leaves: The Parquet columns in their order, and whether they are in the file. The first one must be.
        """
        pages, words = split(file)
        places = _chunks(words, [leaf for leaf, is_written in leaves if is_written])
        end = places[-1]
        nulls, null_pages, size = Nulls(row_count), [], len(MAGIC) + len(pages)
        columns, following = [], pairwise(places)
        for leaf, is_written in leaves:
            if is_written:
                columns.append(words[slice(*next(following))])
            else:
                columns.append(nulls.chunk(leaf, size))
                null_pages.append(nulls.page(leaf))
                size += len(null_pages[-1])
        added = b"".join(null_pages)
        pieces = [b"\x19", thrift.list_of_structs(columns)]
        for number, _, start, stop in thrift.fields(words, end):
            # the columns were field 1, which those behind it count from
            value = words[start:stop]
            if number + _COLUMNS in (_UNPACKED_SIZE, _PACKED_SIZE):
                value = thrift.zigzag(thrift.unzigzag(value, 0) + len(added))
            pieces += [words[end:start], value]
            end = stop
        return cls((pages, added), row_count, b"".join((*pieces, b"\x00")))


@dataclass(frozen=True)
class Frame:
    """The common parts of the footers of one schema: before the number of rows, and after the row groups."""

    head: bytes
    tail: bytes

    @classmethod
    def of(cls, footer: bytes) -> Frame:
        """The frame of a file without row groups."""
        spans = {field: (start, end) for field, _, start, end in thrift.fields(footer, 0)}
        before, after = spans[_FILE_ROWS][0], spans[_FILE_GROUPS][1]
        # the header of a field is one byte while fields follow one another closely, as they do in a footer
        return cls(footer[: before - 1], footer[after:])

    def footer(self, groups: Iterable[bytes], row_count: int, metadata: Mapping[str, str]) -> bytes:
        """The footer of a file of these row groups (see `moved`), with `metadata` as its key-value pairs."""
        groups = list(groups)
        pairs = [
            b"\x18" + thrift.binary(key.encode()) + b"\x18" + thrift.binary(value.encode()) + b"\x00"
            for key, value in metadata.items()
        ]
        return b"".join((
            self.head,
            bytes([0x16]), thrift.zigzag(row_count),
            bytes([0x19]), thrift.list_of_structs(groups),
            bytes([0x19]), thrift.list_of_structs(pairs),
            # created_by follows field 5 now, where pyarrow wrote no pairs it followed field 4
            bytes([self.tail[0] - 0x10]), self.tail[1:],
        ))  # fmt: skip


def split(file: memoryview) -> tuple[memoryview, bytes]:
    """The pages and the footer of a Parquet file in memory."""
    (length,) = struct.unpack("<I", file[-_TRAILER_BYTES:-4])
    end = len(file) - _TRAILER_BYTES - length
    return file[len(MAGIC) : end], bytes(file[end:-_TRAILER_BYTES])


def _chunks(words: bytes, leaves: Sequence[Leaf]) -> list[int]:
    """Return the places at which the column chunks of a footer's only row group begin, and the end of the last one.

    Parsing the footer takes longer than writing the columns, so each chunk is found by its path. A path that occurs
    twice, for example in a value of the statistics, makes the search ambiguous: the footer is parsed then.
    """
    places, place = [], 0
    for leaf in leaves:
        place = words.find(leaf.marker, place)
        start = words.rfind(CHUNK_HEAD, place - 16, place)
        if place < 0 or start < 0 or words.find(leaf.marker, place + 1) >= 0:
            return _read_chunks(words)
        places.append(start)
    return [*places, thrift.end(words, places[-1], thrift.STRUCT)]


def _read_chunks(words: bytes) -> list[int]:
    """Return the same places by parsing the footer from its beginning."""
    spans = {field: start for field, _, start, _ in thrift.fields(words, 0)}
    _, _, group = thrift.list_header(words, spans[_FILE_GROUPS])
    spans = {field: start for field, _, start, _ in thrift.fields(words, group)}
    count, _, place = thrift.list_header(words, spans[_COLUMNS])
    places = [place]
    for _ in range(count):
        places.append(thrift.end(words, places[-1], thrift.STRUCT))
    return places


def moved(group: bytes, distance: int) -> bytes:
    """The words about a row group whose pages were moved by `distance` bytes."""
    offsets: list[tuple[int, int]] = []
    _find(group, 0, _PLACES, offsets)
    pieces, done = [], 0
    for start, end in offsets:
        offset = thrift.unzigzag(group, start)
        # 0 means "unknown" and is not moved
        pieces += [group[done:start], thrift.zigzag(offset + distance if offset else 0)]
        done = end
    return b"".join((*pieces, group[done:]))


def _find(data: bytes, position: int, wanted: _Wanted, found: list[tuple[int, int]]) -> int:
    """Collect the places of the wanted values of the struct at `position`, in order, and return the struct's end."""
    field = 0
    while header := data[position]:
        position += 1
        if header >> 4:
            field += header >> 4
        else:
            field = thrift.unzigzag(data, position)
            position = thrift.varint_end(data, position)
        kind, inner = header & 0x0F, wanted.get(field)
        if inner is None:
            position = thrift.end(data, position, kind)
        elif kind == thrift.LIST:
            count, _, position = thrift.list_header(data, position)
            for _ in range(count):
                position = _find(data, position, inner, found)
        elif kind == thrift.STRUCT:
            position = _find(data, position, inner, found)
        else:
            end = thrift.varint_end(data, position)
            found.append((position, end))
            position = end
    return position + 1
