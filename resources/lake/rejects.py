"""Files for rejected records: Parquet rows for all lines, and a separate file for lines that are too long for a row.

`<name>.lines.gz`, next to `<name>.parquet`, contains each long line, with its line feed, as a separate gzip member.
`zcat` prints all long lines. Each row records the offset of its gzip member.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from isal import isal_zlib

from resources import files
from resources.errors import clause
from resources.lake.archive.buffers import Block, LongLine, repeated
from resources.lake.archives import Archive, Layout
from resources.lake.decode.rejected import Rejects, reasons_of
from resources.lake.parquet.writer import ParquetFile, Unfinished, encode
from resources.storage import open_file
from resources.tables import REJECTED_LINES

#: Maximum length of a complete line in a row. Longer lines are stored in the file for long lines, and their rows
#: contain only the beginning.
RAW_BYTES_MAX = 1 << 20
RAW_BEGINNING_BYTES = 4096
#: Maximum size of a row group, unless the rejects of a single block are larger.
_GROUP_BYTES = 16 << 20
_GROUP_ROWS = 262_144
_READ_BYTES = 1 << 20


@dataclass(frozen=True)
class Rejected:
    """A block's rejects as rows, and the compressed lines that are too long for a row, with their row numbers."""

    rows: pa.RecordBatch
    long: tuple[tuple[int, bytes], ...] = ()


@dataclass(frozen=True)
class RejectTable:
    """Builder for reject rows, whose common columns describe the archive."""

    archive: Archive
    archive_name: str
    lines_path: str

    def of_block(self, some: Rejects, block: Block) -> Rejected:
        """Convert a block's rejects to rows. Positions in `some` are relative to the block."""
        sizes = pc.cast(pc.binary_length(some.raws.dictionary), pa.int64()).take(some.raws.indices)
        is_long = pc.greater(sizes, RAW_BYTES_MAX)
        raws, long = some.raws, []
        if pc.any(is_long).as_py():
            every = raws.dictionary_decode()
            raws = pc.if_else(is_long, pc.binary_slice(every, 0, RAW_BEGINNING_BYTES), every).dictionary_encode()
            long = [(row, _gzip(every[row].as_buffer())) for row in pc.indices_nonzero(is_long).to_pylist()]
        places = block.where(some.line_numbers, some.byte_offsets)
        return Rejected(self._rows(places, some.reasons, raws, sizes, is_long), tuple(long))

    def of_long_line(self, line: LongLine, beginning: bytes, longest: int) -> pa.RecordBatch:
        """Return the row for a line that exceeds the maximum record length."""
        reason = (
            f"The line has {line.size:,} bytes; the longest record that is converted has {longest:,} "
            "(WME_MAX_RECORD_MB)."
        )
        member, number, offset = (pa.array([value]) for value in (line.member, line.number, line.offset))
        raw, size, is_long = (pa.array([value]) for value in (beginning, line.size, True))
        places = (member.dictionary_encode(), number, offset)
        return self._rows(places, reasons_of([reason]), raw.dictionary_encode(), size, is_long)

    def _rows(
        self, places: tuple[pa.Array, ...], reasons: pa.Array, raws: pa.Array, sizes: pa.Array, is_long: pa.Array
    ) -> pa.RecordBatch:
        members, numbers, offsets = places
        same = partial(repeated, count=len(reasons))
        columns = {
            "batch_hour": pa.repeat(
                pa.scalar(self.archive.batch_hour, REJECTED_LINES["batch_hour"].type), len(reasons)
            ),
            "project_id": same(self.archive.project_id),
            "namespace_id": pa.repeat(self.archive.namespace_id, len(reasons)),
            "archive": same(self.archive_name),
            "member": members,
            "line_number": numbers,
            "byte_offset": offsets,
            "reason": reasons,
            "raw": raws,
            "raw_bytes": sizes,
            "raw_path": pc.if_else(is_long, self.lines_path, pa.scalar(None, pa.string()))
            if pc.any(is_long).as_py()
            else pa.nulls(len(reasons), pa.string()),
            "raw_offset": pa.nulls(len(reasons), pa.int64()),
        }
        arrays = [columns[column.name] for column in REJECTED_LINES]
        fields = [column.field.with_type(array.type) for column, array in zip(REJECTED_LINES, arrays, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


class RejectsFile(ExitStack):
    """Unfinished files for an archive's rejects. Each file is created only when needed."""

    def __init__(self, target: Path, level: int) -> None:
        super().__init__()
        self._target = target
        self._level = level
        self._parquet: ParquetFile | None = None
        self._lines: Unfinished | None = None
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = 0
        self.row_count = 0

    @property
    def has_lines(self) -> bool:
        """True if a separate file with long lines exists."""
        return self._lines is not None

    def add(self, rejected: Rejected) -> None:
        offsets = {}
        for row, packed in rejected.long:
            offsets[row] = self._long_lines().size
            self._long_lines().write(packed)
        self._add(_placed(rejected.rows, offsets) if offsets else rejected.rows)

    def add_long_line(self, line: LongLine, table: RejectTable, longest: int) -> None:
        """Add a line that exceeds the maximum record length, in pieces."""
        file, zipped, beginning = self._long_lines(), packer(), b""
        offset = file.size
        for piece in line.pieces:
            beginning = beginning or bytes(piece[:RAW_BEGINNING_BYTES])
            file.write(zipped.compress(piece))
        file.write(zipped.compress(b"\n") + zipped.flush())
        self._add(_placed(table.of_long_line(line, beginning, longest), {0: offset}))

    def land(self, metadata: Mapping[str, str]) -> None:
        """Rename the files to their final names, starting with the long lines, to which visible rows refer."""
        self._flush()
        if self._lines is not None:
            self._lines.land()
        if self._parquet is not None:
            self._parquet.finish(metadata)

    def _add(self, rows: pa.RecordBatch) -> None:
        if self._waiting and (
            self._waiting_bytes + rows.nbytes > _GROUP_BYTES or sum(map(len, self._waiting)) + len(rows) > _GROUP_ROWS
        ):
            self._flush()
        self._waiting.append(rows)
        self._waiting_bytes += rows.nbytes
        self.row_count += len(rows)

    def _flush(self) -> None:
        if not self._waiting:
            return
        rows = pa.concat_batches(self._waiting) if len(self._waiting) > 1 else self._waiting[0]
        self._waiting, self._waiting_bytes = [], 0
        if self._parquet is None:
            self._parquet = self.enter_context(ParquetFile(self._target, REJECTED_LINES))
        self._parquet.add(encode(rows, REJECTED_LINES, level=self._level))

    def _long_lines(self) -> Unfinished:
        if self._lines is None:
            self._lines = self.enter_context(Unfinished(lines_file(self._target)))
        return self._lines


def lines_file(rejects: Path) -> Path:
    """Return the path of the file for the long lines of a `rejects` Parquet file. The file might not exist."""
    return rejects.with_suffix(".lines.gz")


def whole_line(layout: Layout, raw_path: str, raw_offset: int) -> Iterator[bytes]:
    """Yield a long rejected line, without its line feed, in pieces. Raises OSError if the line cannot be read."""
    unpacker, held = zlib.decompressobj(zlib.MAX_WBITS | 16), b""
    try:
        opened = open_file(files.within(layout.lake, raw_path))
    except files.UnusableFileError as error:
        raise OSError(error.what) from error
    except ValueError as error:
        raise OSError(f"{raw_path} cannot be read: {clause(error)}.") from error
    with opened as file:
        file.seek(raw_offset)
        while not unpacker.eof:
            packed = unpacker.unconsumed_tail or file.read(_READ_BYTES)
            if not packed:
                raise OSError(f"{raw_path} ends in the middle of a line.")
            try:
                piece = unpacker.decompress(packed, _READ_BYTES)
            except zlib.error as error:
                raise OSError(f"{raw_path} is damaged: {error}") from error
            if piece:
                yield from (held,) if held else ()
                held = piece
    yield held.removesuffix(b"\n")


def _placed(rows: pa.RecordBatch, offsets: Mapping[int, int]) -> pa.RecordBatch:
    """Fill in `raw_offset`, the offset of each long line in its file."""
    column = rows.schema.get_field_index("raw_offset")
    values: Iterable[int | None] = (offsets.get(row) for row in range(len(rows)))
    return rows.set_column(column, rows.schema.field(column), pa.array(values, pa.int64()))


def packer() -> Any:
    """Return a compressor that writes one gzip member."""
    return isal_zlib.compressobj(level=1, wbits=zlib.MAX_WBITS | 16)


def _gzip(line: pa.Buffer) -> bytes:
    zipped = packer()
    return b"".join((zipped.compress(line), zipped.compress(b"\n"), zipped.flush()))
