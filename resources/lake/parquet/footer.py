"""Footers of Parquet files: joining row groups that were encoded separately, and columns without a single value.

pyarrow encodes a row group only as part of a file, and a file only in one thread. So each row group is encoded as a
separate file in memory, in parallel with others, and its data pages are appended to those of the row group before. Only
the distance from the start of the file changes, which the footer records for every column.

Half of the columns of an archive are empty, and the writer takes as long for one of them as for a column of thirty
values. Only the number of rows matters: a data page of levels that are all 0, and a null count.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pyarrow.parquet as pq


# Types of the compact protocol.
STOP, TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(13)


def fields(data: bytes, position: int) -> Iterator[tuple[int, int, int, int]]:
    """The fields of the struct at `position`: number, type, and where the value starts and ends."""
    field = 0
    while header := data[position]:
        kind = header & 0x0F
        position += 1
        if header >> 4:
            field += header >> 4
        else:
            field = unzigzag(data, position)
            position = varint_end(data, position)
        stop = value_end(data, position, kind)
        yield field, kind, position, stop
        position = stop


def list_header(data: bytes, position: int) -> tuple[int, int, int]:
    """Number and type of a list's elements, and where they start."""
    header = data[position]
    if header >> 4 < 15:
        return header >> 4, header & 0x0F, position + 1
    return unsigned(data, position + 1), header & 0x0F, varint_end(data, position + 1)


def value_end(data: bytes, position: int, kind: int) -> int:
    """Return the end of the value of this type at `position`. Raises ValueError for a type that footers lack."""
    if I16 <= kind <= I64:
        while data[position] & 0x80:
            position += 1
        return position + 1
    if kind == BINARY:
        return varint_end(data, position) + unsigned(data, position)
    if kind == STRUCT:
        while header := data[position]:
            position = position + 1 if header >> 4 else varint_end(data, position + 1)
            position = value_end(data, position, header & 0x0F)
        return position + 1
    if kind in (LIST, SET):
        count, element, position = list_header(data, position)
        for _ in range(count):
            # in a list, truth values take a byte each
            position = position + 1 if element in (TRUE, FALSE) else value_end(data, position, element)
        return position
    if kind in (TRUE, FALSE):
        return position
    if kind in (BYTE, DOUBLE):
        return position + (1 if kind == BYTE else 8)
    raise ValueError(f"a footer holds no value of type {kind}")


def varint_end(data: bytes, position: int) -> int:
    """Return the end of the number at `position`."""
    while data[position] & 0x80:
        position += 1
    return position + 1


def unsigned(data: bytes, position: int) -> int:
    """The number at `position`."""
    value = shift = 0
    while (byte := data[position]) & 0x80:
        value |= (byte & 0x7F) << shift
        shift += 7
        position += 1
    return value | byte << shift


def unzigzag(data: bytes, position: int) -> int:
    """The number with a sign at `position`."""
    value = unsigned(data, position)
    return value >> 1 ^ -(value & 1)


def varint(value: int) -> bytes:
    """A number that is not negative."""
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def zigzag(value: int) -> bytes:
    """A number with a sign."""
    return varint(value << 1 if value >= 0 else ~value << 1 | 1)


def binary(value: bytes) -> bytes:
    """Bytes or text, with their length before them."""
    return varint(len(value)) + value


def list_of_structs(items: list[bytes]) -> bytes:
    """A list of structs that are written already."""
    header = bytes([len(items) << 4 | STRUCT]) if len(items) < 15 else bytes([0xF0 | STRUCT]) + varint(len(items))
    return header + b"".join(items)


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
        pieces = [b"\x19", list_of_structs(columns)]
        for number, _, start, stop in fields(words, end):
            # the columns were field 1, which those behind it count from
            value = words[start:stop]
            if number + _COLUMNS in (_UNPACKED_SIZE, _PACKED_SIZE):
                value = zigzag(unzigzag(value, 0) + len(added))
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
        spans = {field: (start, end) for field, _, start, end in fields(footer, 0)}
        before, after = spans[_FILE_ROWS][0], spans[_FILE_GROUPS][1]
        # the header of a field is one byte while fields follow one another closely, as they do in a footer
        return cls(footer[: before - 1], footer[after:])

    def footer(self, groups: Iterable[bytes], row_count: int, metadata: Mapping[str, str]) -> bytes:
        """The footer of a file of these row groups (see `moved`), with `metadata` as its key-value pairs."""
        groups = list(groups)
        pairs = [
            b"\x18" + binary(key.encode()) + b"\x18" + binary(value.encode()) + b"\x00"
            for key, value in metadata.items()
        ]
        return b"".join((
            self.head,
            bytes([0x16]), zigzag(row_count),
            bytes([0x19]), list_of_structs(groups),
            bytes([0x19]), list_of_structs(pairs),
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
    return [*places, value_end(words, places[-1], STRUCT)]


def _read_chunks(words: bytes) -> list[int]:
    """Return the same places by parsing the footer from its beginning."""
    spans = {field: start for field, _, start, _ in fields(words, 0)}
    _, _, group = list_header(words, spans[_FILE_GROUPS])
    spans = {field: start for field, _, start, _ in fields(words, group)}
    count, _, place = list_header(words, spans[_COLUMNS])
    places = [place]
    for _ in range(count):
        places.append(value_end(words, places[-1], STRUCT))
    return places


def moved(group: bytes, distance: int) -> bytes:
    """The words about a row group whose pages were moved by `distance` bytes."""
    offsets: list[tuple[int, int]] = []
    _find(group, 0, _PLACES, offsets)
    pieces, done = [], 0
    for start, end in offsets:
        offset = unzigzag(group, start)
        # 0 means "unknown" and is not moved
        pieces += [group[done:start], zigzag(offset + distance if offset else 0)]
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
            field = unzigzag(data, position)
            position = varint_end(data, position)
        kind, inner = header & 0x0F, wanted.get(field)
        if inner is None:
            position = value_end(data, position, kind)
        elif kind == LIST:
            count, _, position = list_header(data, position)
            for _ in range(count):
                position = _find(data, position, inner, found)
        elif kind == STRUCT:
            position = _find(data, position, inner, found)
        else:
            end = varint_end(data, position)
            found.append((position, end))
            position = end
    return position + 1
