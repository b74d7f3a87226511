"""Joining row groups that were encoded apart into one Parquet file: the arithmetic of footers.

Belongs here: reading and writing the few fields of a Parquet footer that say where things lie (parquet.thrift, in Thrift's
compact protocol). Does not belong here: encoding columns, which pyarrow does, and writing files.

pyarrow encodes a row group only as part of a file, and a file only in one thread. So each row group is encoded as a file
of its own, in memory and beside others, and its pages are put behind those of the row group before. All that changes is the
distance from the start of the file, which the footer tells for every column.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

MAGIC = b"PAR1"
#: A file ends with its footer, the length of it, and the magic number.
_TRAILER_BYTES = 8

# Types of the compact protocol.
_STOP, _TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(13)

# Field numbers of parquet.thrift's FileMetaData.
_FILE_ROWS, _FILE_GROUPS = 3, 4
_Wanted: TypeAlias = "dict[int, _Wanted]"
#: Where a RowGroup says how far from the start of the file something lies. Left out are page indexes, which hold places
#: themselves, and the ordinal: nothing here writes them.
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

    pages: memoryview
    row_count: int
    words: bytes


@dataclass(frozen=True)
class Frame:
    """What the footers of all row groups of one schema share: what stands before the rows, and behind the groups."""

    head: bytes
    tail: bytes

    @classmethod
    def of(cls, footer: bytes) -> Frame:
        """The frame of a file without row groups."""
        spans = {field: (start, end) for field, _, start, end in _fields(footer, 0)}
        before, after = spans[_FILE_ROWS][0], spans[_FILE_GROUPS][1]
        # the header of a field is one byte while fields follow one another closely, as they do in a footer
        return cls(footer[: before - 1], footer[after:])

    def footer(self, groups: Iterable[bytes], row_count: int, metadata: Mapping[str, str]) -> bytes:
        """The footer of a file of these row groups (see `moved`), with `metadata` as its key-value pairs."""
        groups = list(groups)
        pairs = [
            b"\x18" + _binary(key.encode()) + b"\x18" + _binary(value.encode()) + b"\x00"
            for key, value in metadata.items()
        ]
        return b"".join((
            self.head,
            bytes([0x16]), _zigzag(row_count),
            bytes([0x19]), _list_of_structs(groups),
            bytes([0x19]), _list_of_structs(pairs),
            # created_by follows field 5 now, where pyarrow wrote no pairs it followed field 4
            bytes([self.tail[0] - 0x10]), self.tail[1:],
        ))  # fmt: skip

    def group(self, footer: bytes) -> bytes:
        """The one row group in the footer of a file that holds no other and no key-value pairs."""
        rows_end = _varint_end(footer, len(self.head) + 1)
        return footer[rows_end + 2 : len(footer) - len(self.tail)]


def split(file: memoryview) -> tuple[memoryview, bytes]:
    """The pages and the footer of a Parquet file in memory."""
    (length,) = struct.unpack("<I", file[-_TRAILER_BYTES:-4])
    end = len(file) - _TRAILER_BYTES - length
    return file[len(MAGIC) : end], bytes(file[end:-_TRAILER_BYTES])


def moved(group: bytes, distance: int) -> bytes:
    """The words about a row group whose pages were moved by `distance` bytes."""
    offsets: list[tuple[int, int]] = []
    _find(group, 0, _PLACES, offsets)
    pieces, done = [], 0
    for start, end in offsets:
        offset = _unzigzag(group, start)
        # 0 stands for "not told", which moves nowhere
        pieces += [group[done:start], _zigzag(offset + distance if offset else 0)]
        done = end
    return b"".join((*pieces, group[done:]))


def _find(data: bytes, position: int, wanted: _Wanted, found: list[tuple[int, int]]) -> int:
    """Collect where the wanted values of the struct at `position` stand, in order; returns where the struct ends."""
    field = 0
    while header := data[position]:
        position += 1
        if header >> 4:
            field += header >> 4
        else:
            field = _unzigzag(data, position)
            position = _varint_end(data, position)
        kind, inner = header & 0x0F, wanted.get(field)
        if inner is None:
            position = _end(data, position, kind)
        elif kind == _LIST:
            count, _, position = _list_header(data, position)
            for _ in range(count):
                position = _find(data, position, inner, found)
        elif kind == _STRUCT:
            position = _find(data, position, inner, found)
        else:
            end = _varint_end(data, position)
            found.append((position, end))
            position = end
    return position + 1


def _fields(data: bytes, position: int) -> Iterator[tuple[int, int, int, int]]:
    """The fields of the struct at `position`: number, type, and where the value starts and ends."""
    field = 0
    while header := data[position]:
        kind = header & 0x0F
        position += 1
        if header >> 4:
            field += header >> 4
        else:
            field = _unzigzag(data, position)
            position = _varint_end(data, position)
        end = _end(data, position, kind)
        yield field, kind, position, end
        position = end


def _list_header(data: bytes, position: int) -> tuple[int, int, int]:
    """Number and type of a list's elements, and where they start."""
    header = data[position]
    if header >> 4 < 15:
        return header >> 4, header & 0x0F, position + 1
    return _unsigned(data, position + 1), header & 0x0F, _varint_end(data, position + 1)


def _end(data: bytes, position: int, kind: int) -> int:
    """Where the value of this type that starts at `position` ends."""
    if _I16 <= kind <= _I64:
        while data[position] & 0x80:
            position += 1
        return position + 1
    if kind == _BINARY:
        return _varint_end(data, position) + _unsigned(data, position)
    if kind == _STRUCT:
        while header := data[position]:
            position = position + 1 if header >> 4 else _varint_end(data, position + 1)
            position = _end(data, position, header & 0x0F)
        return position + 1
    if kind in (_LIST, _SET):
        count, element, position = _list_header(data, position)
        for _ in range(count):
            # in a list, truth values take a byte each
            position = position + 1 if element in (_TRUE, _FALSE) else _end(data, position, element)
        return position
    if kind in (_TRUE, _FALSE):
        return position
    if kind in (_BYTE, _DOUBLE):
        return position + (1 if kind == _BYTE else 8)
    raise ValueError(f"a footer holds no value of type {kind}")


def _varint_end(data: bytes, position: int) -> int:
    while data[position] & 0x80:
        position += 1
    return position + 1


def _unsigned(data: bytes, position: int) -> int:
    value = shift = 0
    while (byte := data[position]) & 0x80:
        value |= (byte & 0x7F) << shift
        shift += 7
        position += 1
    return value | byte << shift


def _unzigzag(data: bytes, position: int) -> int:
    value = _unsigned(data, position)
    return value >> 1 ^ -(value & 1)


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def _zigzag(value: int) -> bytes:
    return _varint(value << 1 if value >= 0 else ~value << 1 | 1)


def _binary(value: bytes) -> bytes:
    return _varint(len(value)) + value


def _list_of_structs(items: list[bytes]) -> bytes:
    header = bytes([len(items) << 4 | _STRUCT]) if len(items) < 15 else bytes([0xF0 | _STRUCT]) + _varint(len(items))
    return header + b"".join(items)
