"""Files for rejected records: Parquet rows for all lines, and a separate file for lines that are too long for a row.

`<name>.lines.gz`, next to `<name>.parquet`, contains each long line, with its line feed, as a separate gzip member.
`zcat` prints all long lines. Each row records the offset of its gzip member.
"""

import zlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
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
from resources.lake.decode.rejected import reasons_of
from resources.lake.parquet.writer import ParquetFile, Unfinished, encode
from resources.tables import REJECTED_LINES

#: Maximum length of a complete line in a row. Longer lines are stored in the file for long lines, and their rows
#: contain only the beginning.
RAW_BYTES_MAX = 1 << 20
RAW_BEGINNING_BYTES = 4096
#: Minimum size of a row group in bytes, except for the last.
_GROUP_BYTES = 8 << 20
_READ_BYTES = 1 << 20


class RejectsFile(ExitStack):
    """Unfinished files for an archive's rejects. Each file is created only when needed."""

    def __init__(self, target: Path, archive: Archive, layout: Layout, level: int) -> None:
        super().__init__()
        self._target = target
        self._archive = archive
        self._storage = layout.storage
        self._level = level
        is_inside = archive.path.is_relative_to(layout.archive)
        self._archive_name = archive.path.relative_to(layout.archive).as_posix() if is_inside else archive.path.name
        self._lines_path = lines_file(target).relative_to(layout.lake).as_posix()
        self._parquet: ParquetFile | None = None
        #: File with the long lines, if there are any.
        self.lines: Unfinished | None = None
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = self.row_count = 0

    def of_block(self, some: pa.RecordBatch, block: Block) -> tuple[pa.RecordBatch, bytes]:
        """Convert a block's rejects to rows, and compress the lines that are too long for a row. Thread-safe.

        Positions in `some` are relative to the block. In the rows, `raw_offset` is relative to the compressed lines.
        """
        raws = some["raw"]
        sizes = pc.cast(pc.binary_length(raws.dictionary), pa.int64()).take(raws.indices)
        is_long = pc.greater(sizes, RAW_BYTES_MAX)
        offsets, packed = pa.nulls(len(some), pa.int64()), b""
        if pc.any(is_long).as_py():
            every = raws.dictionary_decode()
            raws = pc.if_else(is_long, pc.binary_slice(every, 0, RAW_BEGINNING_BYTES), every).dictionary_encode()
            starts = []
            for row in pc.indices_nonzero(is_long).to_pylist():
                starts.append(len(packed))
                zipped = packer()
                packed += zipped.compress(every[row].as_buffer()) + zipped.compress(b"\n") + zipped.flush()
            offsets = pc.replace_with_mask(offsets, is_long, pa.array(starts, pa.int64()))
        places = block.where(some["line_number"], some["byte_offset"])
        return self._rows(places, some["reason"], raws, sizes, offsets), packed

    def _rows(
        self, places: tuple[pa.Array, ...], reasons: pa.Array, raws: pa.Array, sizes: pa.Array, raw_offsets: pa.Array
    ) -> pa.RecordBatch:
        members, numbers, offsets = places
        same = partial(repeated, count=len(reasons))
        columns = {
            "batch_hour": pa.repeat(
                pa.scalar(self._archive.batch_hour, REJECTED_LINES["batch_hour"].type), len(reasons)
            ),
            "project_id": same(self._archive.project_id),
            "namespace_id": pa.repeat(self._archive.namespace_id, len(reasons)),
            "archive": same(self._archive_name),
            "member": members,
            "line_number": numbers,
            "byte_offset": offsets,
            "reason": reasons,
            "raw": raws,
            "raw_bytes": sizes,
            "raw_path": pc.if_else(pc.is_valid(raw_offsets), self._lines_path, pa.scalar(None, pa.string())),
            "raw_offset": raw_offsets,
        }
        arrays = [columns[column.name] for column in REJECTED_LINES]
        fields = [column.field.with_type(array.type) for column, array in zip(REJECTED_LINES, arrays, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))

    def add(self, rows: pa.RecordBatch, packed: bytes = b"") -> None:
        """Add a block's rejects, as returned by `of_block`."""
        if packed:
            column = rows.schema.get_field_index("raw_offset")
            offsets = pc.add(rows.column(column), self._long_lines().size)
            rows = rows.set_column(column, rows.schema.field(column), offsets)
            self._long_lines().write(packed)
        self._waiting.append(rows)
        self._waiting_bytes += rows.nbytes
        self.row_count += len(rows)
        if self._waiting_bytes >= _GROUP_BYTES:
            self._flush()

    def add_long_line(self, line: LongLine, longest: int) -> None:
        """Add a line that exceeds the maximum record length, in pieces."""
        file, zipped, beginning = self._long_lines(), packer(), b""
        offset = file.size
        for piece in line.pieces:
            beginning = beginning or bytes(piece[:RAW_BEGINNING_BYTES])
            file.write(zipped.compress(piece))
        file.write(zipped.compress(b"\n") + zipped.flush())
        reason = (
            f"The line is {line.size:,} bytes long; the maximum record length is {longest:,} bytes (WME_MAX_RECORD_MB)."
        )
        member, number, place = (pa.array([value]) for value in (line.member, line.number, line.offset))
        raw, size, raw_offset = (pa.array([value]) for value in (beginning, line.size, offset))
        places = (member.dictionary_encode(), number, place)
        self.add(self._rows(places, reasons_of([reason]), raw.dictionary_encode(), size, raw_offset))

    def land(self, metadata: Mapping[str, str]) -> None:
        """Rename the files to their final names, starting with the long lines, to which visible rows refer."""
        self._flush()
        if self.lines is not None:
            self.lines.land()
        if self._parquet is not None:
            self._parquet.finish(metadata)

    def _flush(self) -> None:
        """Write the waiting rows as a row group. A block may have only a few rejects."""
        if not self._waiting:
            return
        rows, self._waiting, self._waiting_bytes = pa.concat_batches(self._waiting), [], 0
        if self._parquet is None:
            self._parquet = self.enter_context(ParquetFile(self._target, REJECTED_LINES, self._storage))
        self._parquet.add(encode(rows, REJECTED_LINES, level=self._level))

    def _long_lines(self) -> Unfinished:
        if self.lines is None:
            self.lines = self.enter_context(Unfinished(lines_file(self._target), self._storage))
        return self.lines


def lines_file(rejects: Path) -> Path:
    """Return the path of the file for the long lines of a `rejects` Parquet file. The file might not exist."""
    return rejects.with_suffix(".lines.gz")


def whole_line(layout: Layout, raw_path: str, raw_offset: int) -> Iterator[bytes]:
    """Yield a long rejected line, without its line feed, in pieces. Raises OSError if the line cannot be read."""
    unpacker, held = zlib.decompressobj(zlib.MAX_WBITS | 16), b""
    try:
        opened = layout.storage.open(files.within(layout.lake, raw_path))
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


def packer() -> Any:
    """Return a compressor that writes one gzip member."""
    return isal_zlib.compressobj(level=1, wbits=zlib.MAX_WBITS | 16)
