"""Thrift's compact protocol, as far as Parquet's footers need it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

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
        stop = end(data, position, kind)
        yield field, kind, position, stop
        position = stop


def list_header(data: bytes, position: int) -> tuple[int, int, int]:
    """Number and type of a list's elements, and where they start."""
    header = data[position]
    if header >> 4 < 15:
        return header >> 4, header & 0x0F, position + 1
    return unsigned(data, position + 1), header & 0x0F, varint_end(data, position + 1)


def end(data: bytes, position: int, kind: int) -> int:
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
            position = end(data, position, header & 0x0F)
        return position + 1
    if kind in (LIST, SET):
        count, element, position = list_header(data, position)
        for _ in range(count):
            # in a list, truth values take a byte each
            position = position + 1 if element in (TRUE, FALSE) else end(data, position, element)
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
