"""Python interface to the native decoder: library, decoders and results.

The installation builds the library next to this file if a C compiler is available. Without the library, or with
WME_NATIVE=0 in the environment, `decoding` yields None. Python then reads the records more slowly, with the same
result.
"""

import ctypes
import importlib.machinery
import logging
import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import pyarrow as pa

from resources import files
from resources.lake.decode.record_schema import Description, Tree, record_schema_of
from resources.lake.decode.rejected import LEFT
from resources.tables import Table

#: Maximum size of a reused arena. A larger arena, which only huge lines need, is freed with its batch.
KEEP_BYTES = 96 << 20
_VERSION = 6
#: Value of `_Given.length` that marks the number as a maximum.
_AT_MOST = -1
_log = logging.getLogger(__name__)


#: A row with undeclared fields: line number (starting at 0), row number, and the line's start and end in the block.
Place = tuple[int, int, int, int]
#: A row's undeclared fields, in order, each with its object's path, its name and its value.
Unknown = list[tuple[tuple[str, ...], bytes, bytes]]


@dataclass(frozen=True, slots=True)
class Decoded:
    """Decoder result for a block: rows in line order, and the lines (`left`) that did not become valid rows.

    `unknown` must be read before the decoder is used again. The batch includes the rows of BROKEN lines.
    """

    batch: pa.RecordBatch
    line_count: int
    left: pa.RecordBatch
    unknown: Iterator[tuple[Place, Unknown]]


class _Given(ctypes.Structure):
    _fields_ = [
        ("node", ctypes.c_int64),
        ("number", ctypes.c_int64),
        ("length", ctypes.c_int64),
        ("text", ctypes.c_char_p),
    ]


class _Result(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_int64 if name.endswith("_count") else ctypes.c_void_p)
        for name in (
            *("line_count", "row_count", "unknown_count", "unknown", "row_lines_count", "row_lines", "left_count"),
            *("left_lines", "left_rows", "left_starts", "left_bounds", "left_verdicts"),
        )
    ]


class Decoder:
    """Block decoder for a table and a selection of bodies. Not thread-safe; use `decoding` instead.

    A batch's memory is reused after the batch is freed. Until then, the next block uses separate memory.
    """

    def __init__(self, library: ctypes.CDLL, table: Table, bodies: frozenset[str]) -> None:
        self._library = library
        self._schema = table.schema
        tree = Tree(table, bodies)
        self._routes, self._places = tree.routes, tree.places
        texts = b"".join(tree.texts)
        self._handle: int | None = library.wme_open(
            (Description * len(tree.nodes))(*tree.nodes),
            len(tree.nodes),
            _integers(number for name in tree.names for number in name),
            len(tree.names),
            texts,
            len(texts),
            _integers(tree.columns),
            len(tree.columns),
            _integers(tree.rules),
            len(tree.rules),
            _integers(tree.sources),
            len(tree.sources),
            KEEP_BYTES,
            files.VALUES_MAX,
            record_schema_of(table).least_bytes,
        )
        if not self._handle:
            raise MemoryError("There is not enough memory for a record decoder.")
        self._result = _Result()
        self._array = (ctypes.c_int64 * 10)()  # a struct ArrowArray has ten words on 64-bit machines
        self._address = ctypes.addressof(self._array)

    def __del__(self) -> None:
        if handle := getattr(self, "_handle", None):
            self._handle = None
            self._library.wme_close(handle)

    def decode(
        self, view: memoryview, given: Mapping[str, str | int], most: Mapping[str, int] | None = None
    ) -> Decoded:
        """Decode a block of complete lines. The last line feed can be missing. The rows do not reference `view`.

        `given` maps columns to the required strings or integers; null is also allowed. `most` maps columns to their
        maximum integer values. Columns without a path in the record are null. Raises MemoryError if there is not enough
        memory for the rows, or the block is 2 GB or larger.
        """
        block = pa.py_buffer(view)
        rules = [
            _Given(self._places[name], 0, len(text := value.encode()), text)
            if isinstance(value, str)
            else _Given(self._places[name], value)
            for name, value in given.items()
        ] + [_Given(self._places[name], value, _AT_MOST) for name, value in (most or {}).items()]
        code = self._library.wme_decode(
            self._handle,
            block.address,
            block.size,
            (_Given * len(rules))(*rules),
            len(rules),
            self._address,
            ctypes.byref(self._result),
        )
        if code:
            raise MemoryError("There is not enough memory for the rows of a block.")
        batch = pa.RecordBatch._import_from_c(self._address, self._schema)  # noqa: SLF001  Arrow's documented door for other languages
        result = self._result
        count = result.left_count
        bounds = pa.FixedSizeListArray.from_arrays(_column(pa.int32(), result.left_bounds, 2 * count), 2)
        numbers, rows, starts = (
            _column(pa.int64(), address, count) for address in (result.left_lines, result.left_rows, result.left_starts)
        )
        verdicts = _column(pa.int8(), result.left_verdicts, count)
        left = pa.record_batch([numbers, rows, starts, bounds, verdicts], schema=LEFT)
        return Decoded(batch, result.line_count, left, self._unknown(view))

    def _unknown(self, view: memoryview) -> Iterator[tuple[Place, Unknown]]:
        result = self._result
        rows = _numbers(result.row_lines, result.row_lines_count, 4)
        found = groupby(_numbers(result.unknown, result.unknown_count, 6), itemgetter(0))
        for (row, line, start, end), (_, fields) in zip(rows, found, strict=True):
            yield (
                (line, row, start, end),
                [
                    (self._routes[route], bytes(view[key:key_end]), bytes(view[value:value_end]))
                    for _, route, key, key_end, value, value_end in fields
                ],
            )


def _column(kind: pa.DataType, address: int | None, count: int) -> pa.Array:
    """Return a copy of the numbers at an address, because the decoder reuses their memory."""
    data = ctypes.string_at(address, count * kind.bit_width // 8) if address is not None else b""
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(data)])


def _numbers(address: int | None, count: int, each: int) -> Iterator[tuple[int, ...]]:
    """Yield `count` tuples of `each` numbers, read on demand."""
    if not count or address is None:
        return iter(())
    numbers = (ctypes.c_int64 * (count * each)).from_address(address)
    return zip(*[iter(memoryview(numbers).cast("B").cast("q"))] * each, strict=True)


def _integers(numbers: Iterable[int]) -> ctypes.Array[ctypes.c_int32]:
    known = [*numbers]
    return (ctypes.c_int32 * len(known))(*known)


#: Free decoders, whose memory is reused. Only one thread at a time uses each decoder.
_FREE: dict[tuple[Table, frozenset[str]], list[Decoder]] = {}
_LOCK = threading.Lock()


@contextmanager
def decoding(table: Table, bodies: frozenset[str]) -> Iterator[Decoder | None]:
    """Yield a decoder that no other thread uses, or None if no library is available."""
    loaded = library() if os.environ.get("WME_NATIVE", "1") != "0" else None
    if loaded is None:
        yield None
        return
    with _LOCK:
        free = _FREE.setdefault((table, bodies), [])
        decoder = free.pop() if free else None
    decoder = decoder or Decoder(loaded, table, bodies)
    yield decoder
    with _LOCK:  # not reached after an exception, because a failed decoder must not be reused
        free.append(decoder)


def trim() -> None:
    """Free the memory of unused decoders, and the memory that Arrow and libc retain (15 ms for 100 MB)."""
    with _LOCK:
        _FREE.clear()
    pa.default_memory_pool().release_unused()
    if (give_back := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:  # glibc
        give_back(0)


@cache
def library() -> ctypes.CDLL | None:
    """Return the library next to this file, or None. Log a warning if the file exists but is unusable."""
    for suffix in importlib.machinery.EXTENSION_SUFFIXES:
        path = Path(__file__).with_name(f"_decode{suffix}")
        if path.is_file():
            return load(path)
    return None


def load(path: Path) -> ctypes.CDLL | None:
    """Load the library at `path`. Return None and log a warning if the library is unusable."""
    try:
        library = ctypes.CDLL(str(path))
        version = library.wme_version()
    except (OSError, AttributeError) as error:
        _log.warning(
            "The decoder %s cannot be used (%s), so records are read more slowly. Run `make setup`.", path, error
        )
        return None
    if version != _VERSION or ctypes.sizeof(ctypes.c_void_p) != 8:
        _log.warning("The decoder %s has a different version, so records are read more slowly. Run `make setup`.", path)
        return None
    number, pointer, count, text = ctypes.c_int64, ctypes.c_void_p, ctypes.c_int32, ctypes.c_char_p
    library.wme_open.restype = pointer
    library.wme_open.argtypes = [
        *(pointer, count, pointer, count, text, count, pointer, count, pointer, count, pointer, count),
        *(number, number, number),
    ]
    library.wme_decode.argtypes = [pointer, pointer, number, pointer, count, pointer, pointer]
    library.wme_close.argtypes, library.wme_close.restype = [pointer], None
    return library
