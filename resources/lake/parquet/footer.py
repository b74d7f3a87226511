"""Parquet footers, for assembling a file from separately encoded row groups.

pyarrow can encode a row group only as part of a file, and it encodes a file in a single thread. Each row group is
therefore encoded as a separate file in memory, in parallel with other row groups. The row group's data pages are then
appended to the final file. Only the file offsets change, which the footer records for every column.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

# Types in Thrift's compact protocol that footers contain.
_TRUE, _FALSE, _I16, _I32, _I64, _BINARY, _LIST, _STRUCT = 1, 2, 4, 5, 6, 8, 9, 12


def _unsigned(data: bytes, position: int) -> tuple[int, int]:
    """Decode the unsigned varint at `position`, and return its value and end."""
    value = shift = 0
    while (byte := data[position]) & 0x80:
        value |= (byte & 0x7F) << shift
        shift += 7
        position += 1
    return value | byte << shift, position + 1


def _signed(data: bytes, position: int) -> tuple[int, int]:
    """Decode the signed (zigzag) varint at `position`, and return its value and end."""
    value, end = _unsigned(data, position)
    return value >> 1 ^ -(value & 1), end


def _varint(value: int) -> bytes:
    """Encode a non-negative integer."""
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def _zigzag(value: int) -> bytes:
    """Encode a signed integer."""
    return _varint(value << 1 if value >= 0 else ~value << 1 | 1)


def _binary(value: bytes) -> bytes:
    """Encode bytes or a string with a length prefix."""
    return _varint(len(value)) + value


def _list_of_structs(items: list[bytes]) -> bytes:
    header = bytes([len(items) << 4 | _STRUCT]) if len(items) < 15 else bytes([0xF0 | _STRUCT]) + _varint(len(items))
    return header + b"".join(items)


MAGIC = b"PAR1"
#: Number of bytes after the footer, which contain the footer's length and the magic number.
_TRAILER_BYTES = 8

#: FileMetaData field number of the row count, from parquet.thrift.
_FILE_ROWS = 3
_Wanted: TypeAlias = "dict[int, _Wanted]"
#: RowGroup fields that contain file offsets. Page indexes, which also contain offsets, and the ordinal are not
#: supported, because this package does not write them.
_PLACES: _Wanted = {
    1: {  # columns
        2: {},  # file_offset
        3: {9: {}, 10: {}, 11: {}, 14: {}},  # meta_data: data page, index page, dictionary page, Bloom filter
    },
    5: {},  # file_offset
}


@dataclass(frozen=True)
class Group:
    """An encoded row group: pages, row count, and footer entry (for a group at the start of a file)."""

    pages: memoryview
    row_count: int
    words: bytes


@dataclass(frozen=True)
class Frame:
    """Constant parts of a schema's footer: the parts before the row count and after the row groups."""

    head: bytes
    tail: bytes

    @classmethod
    def of(cls, footer: bytes) -> Frame:
        """Extract the frame from a footer without row groups."""
        found: list[tuple[int, int]] = []
        _find(footer, 0, _STRUCT, {_FILE_ROWS: {}}, found)
        [(start, end)] = found
        # each field header takes one byte, as does the empty list of row groups after the row count
        return cls(footer[: start - 1], footer[end + 2 :])

    def group(self, file: memoryview, row_count: int) -> Group:
        """Return the only row group of an in-memory file. Raises ValueError if the file has a different schema."""
        pages, words = split(file)
        before = self._before(row_count) + bytes([0x10 | _STRUCT])
        if not (words.startswith(before) and words.endswith(self.tail)):
            raise ValueError("pyarrow wrote a different footer than for a file without rows")
        return Group(pages, row_count, words[len(before) : -len(self.tail)])

    def footer(self, groups: list[bytes], row_count: int, metadata: Mapping[str, str]) -> bytes:
        """Encode a footer for these row groups (see `moved`), with `metadata` as key-value pairs."""
        pairs = [
            b"\x18" + _binary(key.encode()) + b"\x18" + _binary(value.encode()) + b"\x00"
            for key, value in metadata.items()
        ]
        return b"".join((
            self._before(row_count), _list_of_structs(groups),
            bytes([0x19]), _list_of_structs(pairs),
            # created_by now follows field 5; in pyarrow's footer without pairs, it followed field 4
            bytes([self.tail[0] - 0x10]), self.tail[1:],
        ))  # fmt: skip

    def _before(self, row_count: int) -> bytes:
        """Encode the footer up to the list of row groups."""
        return self.head + bytes([0x16]) + _zigzag(row_count) + bytes([0x19])


def split(file: memoryview) -> tuple[memoryview, bytes]:
    """Split an in-memory Parquet file into pages and footer."""
    (length,) = struct.unpack("<I", file[-_TRAILER_BYTES:-4])
    end = len(file) - _TRAILER_BYTES - length
    return file[len(MAGIC) : end], bytes(file[end:-_TRAILER_BYTES])


def moved(group: bytes, distance: int) -> bytes:
    """Return a row group's footer entry after its pages have moved by `distance` bytes."""
    offsets: list[tuple[int, int]] = []
    _find(group, 0, _STRUCT, _PLACES, offsets)
    pieces, done = [], 0
    for start, end in offsets:
        offset, _ = _signed(group, start)
        # 0 means "unknown" and must remain 0
        pieces += [group[done:start], _zigzag(offset + distance if offset else 0)]
        done = end
    return b"".join((*pieces, group[done:]))


def _find(data: bytes, position: int, kind: int, wanted: _Wanted | None, found: list[tuple[int, int]]) -> int:
    """Return the end of the value of type `kind` at `position`, and append the bounds of wanted integers to `found`.

    Raises ValueError for a type that footers do not contain.
    """
    if kind == _STRUCT:
        field = 0
        while header := data[position]:
            if header >> 4:
                field, position = field + (header >> 4), position + 1
            else:
                field, position = _signed(data, position + 1)
            inner = None if wanted is None else wanted.get(field)
            position = _find(data, position, header & 0x0F, inner, found)
        return position + 1
    if kind == _LIST:
        header = data[position]
        count, position = (header >> 4, position + 1) if header >> 4 < 15 else _unsigned(data, position + 1)
        for _ in range(count):
            position = _find(data, position, header & 0x0F, wanted, found)
        return position
    if kind in (_TRUE, _FALSE):
        return position
    if kind not in (_I16, _I32, _I64, _BINARY):
        raise ValueError(f"a footer does not contain values of type {kind}")
    value, end = _unsigned(data, position)
    if wanted is not None:
        found.append((position, end))
    return end + value if kind == _BINARY else end
