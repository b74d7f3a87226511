"""External sorting, which sorts rows in pieces that fit into memory and merges the pieces.

Spilled pieces are temporary files next to the target file. `sweep` removes pieces left by killed processes.
"""

import bisect
import contextlib
import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from resources.lake.errors import landing_failed
from resources.lake.parquet.writer import Unfinished

#: Ratio of the memory to the size of a piece. Sorting needs a copy of the piece, as does the encoding of row groups.
_SHARE = 4
#: Maximum number of rows per row group. Readers skip row groups by statistics and Bloom filters, but each row group
#: adds kilobytes to the footer. Long page text makes row groups smaller (`group_bytes`), because a reader of one row
#: decompresses its neighbours too.
GROUP_ROWS = 8192
#: Number of slices per piece. A merge keeps one slice of each piece in memory.
_SLICES = 128
#: Maximum number of pieces to merge together. More pieces are first merged in groups of this size, which limits memory
#: and open files.
_AT_ONCE = 64


def in_order(
    batches: Iterable[pa.RecordBatch], key: Sequence[str], target: Path, memory_bytes: int
) -> Iterator[pa.Table]:
    """Sort the rows of batches by `key`, and yield the sorted rows in tables.

    Batches must be small compared with the memory, but a single row can exceed the memory. Keys must not contain null.
    Rows that do not fit into memory are written next to the `target` file. Raises LakeError if the disk is full.
    """
    piece_bytes = memory_bytes // _SHARE
    #: Pieces on disk. All pieces of a level have about the same size.
    levels: list[list[Unfinished]] = []

    def spill(slices: Iterator[pa.Table], level: int = 0) -> None:
        """Write a piece to disk, and merge its level into one piece of the next level if the level is full."""
        if level == len(levels):
            levels.append([])
        levels[level].append(stack.enter_context(Unfinished(target)))
        _write(levels[level][-1].path, slices, piece_bytes // _SLICES, target)
        if len(levels[level]) == _AT_ONCE:
            merge(level)

    def merge(level: int) -> None:
        full, levels[level] = levels[level], []
        spill(_merged([_read(one.path) for one in full], key), level + 1)
        for one in full:
            one.close()

    with contextlib.ExitStack() as stack:
        piece: list[pa.RecordBatch] = []
        size = 0
        for batch in batches:
            if size + batch.nbytes > piece_bytes and piece:
                spill(_slices(piece, key, piece_bytes))
                piece, size = [], 0
            piece.append(batch)
            size += batch.nbytes
        last = _slices(piece, key, piece_bytes)
        # merge levels, smallest pieces first, until the final merge can read all remaining pieces
        for level in range(len(levels) - 1):
            if sum(map(len, levels)) >= _AT_ONCE and levels[level]:
                merge(level)
        pieces = [_read(one.path) for of_level in levels for one in of_level]
        yield from _merged([*pieces, last], key) if pieces else last


def _order(table: pa.Table, key: Sequence[str]) -> pa.Array:
    return pc.sort_indices(table.select(key), sort_keys=[(name, "ascending") for name in key])


def _slices(piece: list[pa.RecordBatch], key: Sequence[str], piece_bytes: int) -> Iterator[pa.Table]:
    """Sort a piece and yield its slices."""
    if not piece:
        return
    table = pa.Table.from_batches(piece).combine_chunks()
    order = _order(table, key)
    rows = max(1, len(table) * (piece_bytes // _SLICES) // max(1, table.nbytes))
    for start in range(0, len(table), rows):
        yield table.take(order.slice(start, rows))


def _write(path: Path, slices: Iterator[pa.Table], slice_bytes: int, target: Path) -> None:
    """Write sorted rows in batches small enough for a merge."""
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    try:
        first = next(slices)
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, first.schema, options=options) as writer:
            for table in itertools.chain([first], slices):
                rows = max(1, len(table) * slice_bytes // max(1, table.nbytes))
                writer.write_table(table.combine_chunks(), max_chunksize=rows)
    except OSError as error:
        raise landing_failed(error, target) from error


def _read(path: Path) -> Iterator[pa.Table]:
    with pa.OSFile(str(path)) as source, pa.ipc.open_file(source) as reader:
        for number in range(reader.num_record_batches):
            yield pa.Table.from_batches([reader.get_batch(number)])


class _Cursor:
    """Position in a sorted piece, with the loaded rows."""

    def __init__(self, tables: Iterator[pa.Table], key: Sequence[str]) -> None:
        self.tables, self._key = tables, key
        #: The loaded rows, or None after the last row.
        self.table: Any = None
        self._load()

    def _load(self) -> None:
        self._taken, self.table = 0, next(self.tables, None)
        self._rows = [] if self.table is None else [self.table[name].combine_chunks() for name in self._key]

    def last(self) -> tuple[Any, ...]:
        """Return the key of the last loaded row."""
        return self._values(-1)

    def _values(self, row: int) -> tuple[Any, ...]:
        return tuple(column[row].as_py() for column in self._rows)

    def take(self, bound: tuple[Any, ...]) -> pa.Table:
        """Return the loaded rows up to and including the `bound` key. After the last loaded row, load more rows."""
        table, start = self.table, self._taken
        self._taken = end = bisect.bisect_right(range(len(table)), bound, start, key=self._values)
        if end == len(table):
            self._load()
        return table.slice(start, end - start)


def _merged(pieces: Iterable[Iterator[pa.Table]], key: Sequence[str]) -> Iterator[pa.Table]:
    """Merge sorted pieces. Each step yields all rows up to the smallest of the pieces' last loaded keys."""
    cursors = [_Cursor(piece, key) for piece in pieces]
    while cursors := [cursor for cursor in cursors if cursor.table is not None]:
        bound = min(cursor.last() for cursor in cursors)
        table = pa.concat_tables([cursor.take(bound) for cursor in cursors]).combine_chunks()
        yield table.take(_order(table, key))


def row_groups(tables: Iterable[pa.Table], group_bytes: int) -> Iterator[pa.RecordBatch]:
    """Split tables into row groups of at most GROUP_ROWS rows and `group_bytes` bytes, or of a single larger row."""
    waiting: list[pa.Table] = []
    rows = size = 0
    for table in tables:
        start = 0
        for row, row_bytes in enumerate(_row_bytes(table)):
            if rows and (rows == GROUP_ROWS or size + row_bytes > group_bytes):
                yield joined([*waiting, table.slice(start, row - start)])
                waiting, rows, size, start = [], 0, 0, row
            rows += 1
            size += row_bytes
        waiting.append(table.slice(start))
    if rows:
        yield joined(waiting)


def joined(tables: list[pa.Table]) -> pa.RecordBatch:
    return pa.concat_tables(tables).combine_chunks().to_batches()[0]


def _row_bytes(table: pa.Table) -> list[int]:
    """Return each row's size in bytes, which is the size of its strings plus the average of the other columns."""
    sizes = pa.chunked_array([pa.array([0] * len(table), "int64")])
    for column in table.columns:
        if column.type == pa.string() and column.null_count < len(table):
            sizes = pc.add(sizes, pc.fill_null(pc.binary_length(column), 0))
    texts = pc.sum(sizes).as_py() or 0
    rest = max(0, table.nbytes - texts) // max(1, len(table))
    return [size + rest for size in sizes.to_pylist()]
