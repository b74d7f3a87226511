"""The native decoder, seen from Python: how a table is described to it, and what it gives back.

Belongs here: finding the library, the description of a table's columns as a tree of nodes, the pool of decoders.
Does not belong here: JSON (decode.c), and what becomes of lines that the decoder refuses (records).

The library is built beside this file when the package is installed, where there is a C compiler. Without it, or with
WME_NATIVE=0 in the environment, `decoding` lends nothing and records are read by other means, slower and with the same
result.
"""

from __future__ import annotations

import ctypes
import importlib.machinery
import logging
import os
import threading
from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from resources.lake.decode.shape import shape_of
from resources.lake.decode.strict_json import VALUES_MAX
from resources.tables import ChangeType

if TYPE_CHECKING:
    from collections.abc import Iterator

    from resources.lake.decode.shape import Node
    from resources.tables import Column, Table

#: An arena that grew beyond this for huge lines is freed as soon as its batch is, instead of being used again.
KEEP_BYTES = 96 << 20
#: The first of these that a record gives is the moment of its change.
MOMENTS = ("event_published_at", "event_created_at", "modified_at")

_VERSION = 2
_ROUTE, _STRUCT, _LIST, _TEXT, _INTEGER, _DOUBLE, _WHOLE, _BOOL, _TIME, _CONSTANT, _MOMENT, _NOTHING = range(12)
_REQUIRED, _NOT_EMPTY, _DISCARD, _PROJECT, _NAMESPACE, _CHANGE = (1 << bit for bit in range(6))
_RULES = {"name": _NOT_EMPTY, "project_id": _PROJECT, "namespace_id": _NAMESPACE, "change_type": _CHANGE}
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Refused:
    """A line that the decoder left to others: its number from 0, its bytes' place in the block, the rows before it."""

    line: int
    start: int
    end: int
    row: int


@dataclass(frozen=True, slots=True)
class Unknown:
    """Fields of one row that nothing is declared for: its line as in Refused, and (way, name, value) of each in order."""

    line: int
    start: int
    end: int
    row: int
    fields: list[tuple[tuple[str, ...], bytes, bytes]]


@dataclass(frozen=True, slots=True)
class Decoded:
    """What the decoder made of a block: the rows in the order of the lines, and what it leaves to others.

    `unknown` is read before the decoder takes another block.
    """

    batch: pa.RecordBatch
    line_count: int
    refused: list[Refused]
    unknown: Iterator[Unknown]


class _Description(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_int32) for name in ("kind", "flags", "first_child", "child_count", "name_at", "name_length")
    ]


class _Result(ctypes.Structure):
    _fields_ = [
        ("line_count", ctypes.c_int64),
        ("row_count", ctypes.c_int64),
        ("refused_count", ctypes.c_int64),
        ("refused", ctypes.c_void_p),
        ("unknown_count", ctypes.c_int64),
        ("unknown", ctypes.c_void_p),
        ("row_lines_count", ctypes.c_int64),
        ("row_lines", ctypes.c_void_p),
    ]


class Decoder:
    """Decodes blocks of lines for one table and choice of bodies. One thread at a time; `decoding` sees to that.

    The memory of a batch is used again once the batch is gone; until then the next block goes into other memory.
    """

    def __init__(self, library: ctypes.CDLL, table: Table, bodies: frozenset[str]) -> None:
        self._library = library
        self._schema = table.schema
        tree = _Tree(table, bodies)
        self._routes = tree.routes
        names = b"".join(tree.names)
        self._handle: int | None = library.wme_open(
            (_Description * len(tree.nodes))(*tree.nodes),
            len(tree.nodes),
            names,
            len(names),
            (ctypes.c_int32 * len(tree.columns))(*tree.columns),
            len(tree.columns),
            (ctypes.c_int32 * len(tree.moments))(*tree.moments),
            len(tree.moments),
            b"".join(change.encode() + b"\0" for change in tree.changes),
            len(tree.changes),
            KEEP_BYTES,
            VALUES_MAX,
        )
        if not self._handle:
            raise MemoryError("There is no memory for a decoder of records.")
        self._result = _Result()
        self._array = (ctypes.c_int64 * 10)()  # a struct ArrowArray: ten words on every machine of 64 bits
        self._address = ctypes.addressof(self._array)

    def __del__(self) -> None:
        if handle := getattr(self, "_handle", None):
            self._handle = None
            self._library.wme_close(handle)

    @property
    def arena_bytes(self) -> int:
        """Bytes held for batches to come."""
        return int(self._library.wme_bytes(self._handle))

    def trim(self) -> None:
        """Give back the memory that no living batch needs."""
        self._library.wme_trim(self._handle)

    def decode(self, view: memoryview, project_id: str, namespace_id: int, batch_hour: int) -> Decoded:
        """The rows of a block of whole lines (the last may lack its line feed). Nothing refers to `view` afterwards.

        Args:
            view: The block.
            project_id: What each row must say of its project.
            namespace_id: The same of its namespace.
            batch_hour: Start of the hour in microseconds since 1970, for the column of that name.

        Raises:
            MemoryError: There is no memory for the rows, or the block is of 2 GB.
        """
        project = project_id.encode()
        block = pa.py_buffer(view)
        code = self._library.wme_decode(
            self._handle,
            block.address,
            block.size,
            project,
            len(project),
            namespace_id,
            batch_hour,
            self._address,
            ctypes.byref(self._result),
        )
        if code:
            raise MemoryError("There is no memory for the rows of a block.")
        batch = pa.RecordBatch._import_from_c(self._address, self._schema)  # noqa: SLF001  Arrow's documented door for other languages
        result = self._result
        refused = [Refused(*numbers) for numbers in _numbers(result.refused, result.refused_count, 4)]
        return Decoded(batch, result.line_count, refused, self._unknown(view))

    def _unknown(self, view: memoryview) -> Iterator[Unknown]:
        result = self._result
        rows = _numbers(result.row_lines, result.row_lines_count, 4)
        found = groupby(_numbers(result.unknown, result.unknown_count, 6), itemgetter(0))
        for (row, line, start, end), (_, fields) in zip(rows, found, strict=True):
            yield Unknown(
                line,
                start,
                end,
                row,
                [
                    (self._routes[route], bytes(view[key:key_end]), bytes(view[value:value_end]))
                    for _, route, key, key_end, value, value_end in fields
                ],
            )


def _numbers(address: int | None, count: int, each: int) -> Iterator[tuple[int, ...]]:
    """`count` groups of `each` numbers, read as they are asked for."""
    if not count or address is None:
        return iter(())
    numbers = (ctypes.c_int64 * (count * each)).from_address(address)
    return zip(*[iter(memoryview(numbers).cast("B").cast("q"))] * each, strict=True)


class _Tree:
    """A table as the decoder wants it: nodes, the children of each one behind another, the record itself first."""

    def __init__(self, table: Table, bodies: frozenset[str]) -> None:
        self.nodes: list[_Description] = []
        self.names: list[bytes] = []
        self.routes: dict[int, tuple[str, ...]] = {0: ()}
        self._places: dict[tuple[str, ...], int] = {}
        self._columns = {
            tuple(column.path.split(".")): (column, _flags(column, bodies))
            for column in table
            if column.path is not None
        }
        self._name_bytes = 0
        self._add("", _ROUTE)
        waiting: deque[tuple[int, Node, tuple[str, ...]]] = deque([(0, shape_of(table).root, ())])
        while waiting:
            self._descend(waiting)
        found: dict[str, int] = {column.name: self._places[path] for path, (column, _) in self._columns.items()}
        for column in table:
            if column.path is None:
                kind = {"batch_hour": _CONSTANT, "event_at": _MOMENT}.get(column.name, _NOTHING)
                found[column.name] = self._add("", kind, _REQUIRED if kind == _MOMENT else 0)
        self.columns = [found[column.name] for column in table]
        self.moments = [found[name] for name in ("event_at", *MOMENTS)] if "event_at" in found else []
        self.changes = [str(change) for change in ChangeType]

    def _descend(self, waiting: deque[tuple[int, Node, tuple[str, ...]]]) -> None:
        number, node, path = waiting.popleft()
        children = {"": node.element} if node.element is not None else node.fields or {}
        self.nodes[number].first_child = len(self.nodes)
        self.nodes[number].child_count = len(children)
        nested = self.nodes[number].kind != _ROUTE
        for name, child in children.items():
            way = (*path, name)
            column, flags = (None, 0) if nested else self._columns.get(way, (None, 0))
            routed = not nested and column is None
            place = self._add(name, _ROUTE if routed else _kind(child), flags)
            if routed:
                self.routes[place] = way
            elif column is not None:
                self._places[way] = place
            waiting.append((place, child, way))

    def _add(self, name: str, kind: int, flags: int = 0) -> int:
        encoded = name.encode()
        self.nodes.append(_Description(kind, flags, 0, 0, self._name_bytes, len(encoded)))
        self.names.append(encoded)
        self._name_bytes += len(encoded)
        return len(self.nodes) - 1


def _flags(column: Column, bodies: frozenset[str]) -> int:
    required = _REQUIRED if column.required else 0
    return required | _RULES.get(column.name, 0) | (_DISCARD if column.body and column.name not in bodies else 0)


def _kind(node: Node) -> int:
    if node.fields is not None:
        return _STRUCT
    if node.element is not None:
        return _LIST
    if node.whole:
        return _WHOLE
    leaf = node.leaf
    if pa.types.is_timestamp(leaf):
        return _TIME
    return {pa.string(): _TEXT, pa.int64(): _INTEGER, pa.float64(): _DOUBLE, pa.bool_(): _BOOL}[leaf]


class _Pool:
    """Decoders that are free: each is lent to one thread at a time, and their memory is warm."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._free: dict[tuple[str, frozenset[str]], list[Decoder]] = {}

    @contextmanager
    def lend(self, library: ctypes.CDLL, table: Table, bodies: frozenset[str]) -> Iterator[Decoder]:
        """A decoder for the time of the context."""
        key = (table.name, bodies)
        with self._lock:
            free = self._free.setdefault(key, [])
            decoder = free.pop() if free else None
        decoder = decoder or Decoder(library, table, bodies)
        yield decoder
        with self._lock:  # one that raised is not used again
            free.append(decoder)

    def trim(self) -> None:
        """Forget the decoders that are free."""
        with self._lock:
            self._free.clear()


_POOL = _Pool()


@contextmanager
def decoding(table: Table, bodies: frozenset[str]) -> Iterator[Decoder | None]:
    """A decoder that no other thread uses meanwhile; None where there is no library."""
    loaded = library() if os.environ.get("WME_NATIVE", "1") != "0" else None
    if loaded is None:
        yield None
        return
    with _POOL.lend(loaded, table, bodies) as decoder:
        yield decoder


def trim() -> None:
    """Give back the memory of all decoders that are not in use, and what Arrow and libc keep for later."""
    _POOL.trim()
    pa.default_memory_pool().release_unused()
    if (give_back := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:  # glibc
        give_back(0)


@cache
def library() -> ctypes.CDLL | None:
    """The library beside this file; None, with a warning, where it is there and cannot be used."""
    for suffix in importlib.machinery.EXTENSION_SUFFIXES:
        path = Path(__file__).with_name(f"_decode{suffix}")
        if path.is_file():
            return load(path)
    return None


def load(path: Path) -> ctypes.CDLL | None:
    """The library at `path`; None, with a warning, where it cannot be used."""
    try:
        library = ctypes.CDLL(str(path))
        version = library.wme_version()
    except (OSError, AttributeError) as error:
        _log.warning(
            "The decoder %s cannot be used (%s), so records are read the slow way. Run `make setup`.", path, error
        )
        return None
    if version != _VERSION or ctypes.sizeof(ctypes.c_void_p) != 8:
        _log.warning("The decoder %s is of another version, so records are read the slow way. Run `make setup`.", path)
        return None
    number, pointer, text = ctypes.c_int64, ctypes.c_void_p, ctypes.c_char_p
    library.wme_open.restype = pointer
    library.wme_open.argtypes = [
        *(pointer, ctypes.c_int32, text, ctypes.c_int32, pointer, ctypes.c_int32, pointer, ctypes.c_int32),
        *(text, ctypes.c_int32, number, number),
    ]
    library.wme_decode.argtypes = [pointer, pointer, number, text, number, number, number, pointer, pointer]
    library.wme_bytes.argtypes = library.wme_trim.argtypes = library.wme_close.argtypes = [pointer]
    library.wme_bytes.restype = number
    library.wme_trim.restype = library.wme_close.restype = None
    return library
