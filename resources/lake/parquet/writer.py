"""Writer for lake files, which are written under a temporary name, made durable, then renamed to the final name.

Threads encode row groups in parallel (`encode`). A single thread appends the row groups to the file in order
(`ParquetFile.add`) and adjusts only their offsets.
"""

import contextlib
import os
import secrets
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from resources import files
from resources.lake.archives import Layout
from resources.lake.errors import landing_failed
from resources.lake.parquet import footer
from resources.storage import LOCAL, Storage
from resources.tables import Table

COMPRESSION_LEVEL = 3
#: Minimum size at which a row group's column is compressed. Half of an hourly file's columns are nearly empty, and
#: setting up a compressor for these columns would cost more than it saves.
_UNPACKED_BYTES = 1024
#: False-positive rate for Bloom filters.
_BLOOM_MISSES = 0.01
#: Suffix of unfinished files.
UNFINISHED = ".unfinished"


class Unfinished:
    """A file that has a temporary name until `land` is called. If the context ends before that, the file is removed.

    A lock distinguishes the file from files left by killed writers (see `sweep`). `size` is the number of bytes
    written. Operating system errors are raised as LakeError (DiskFull if the disk is full).
    """

    def __init__(self, target: Path, storage: Storage = LOCAL) -> None:
        self.target = target
        self._storage = storage
        self.path = target.with_name(f"{target.name}.{os.getpid()}-{secrets.token_hex(4)}{UNFINISHED}")
        self.size = 0
        self._handle = -1

    def __enter__(self) -> Self:
        with self._named_errors():
            self.target.parent.mkdir(parents=True, exist_ok=True)
            self._handle = os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o644)
            files.take(self._handle)
        return self

    def write(self, data: bytes | memoryview) -> None:
        with self._named_errors(), memoryview(data) as rest:
            done = 0
            while done < len(rest):
                done += os.write(self._handle, rest[done:])
            self.size += done

    def land(self) -> None:
        """Make the file durable and rename it to its final name."""
        with self._named_errors():
            self._storage.put(self.path, self.target)

    @contextlib.contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise landing_failed(error, self.target) from error

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the file unless it was renamed."""
        with contextlib.suppress(OSError):  # the file was renamed, or the folder became read-only (see `sweep`)
            self.path.unlink()
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


def sweep(layout: Layout) -> tuple[Path, ...]:
    """Remove unfinished files left by killed writers, and return their paths.

    Files of running writers are kept.
    """
    removed = []
    for path in sorted(layout.lake.glob(f"**/*{UNFINISHED}")):
        try:
            handle = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            continue
        try:
            if files.take(handle):
                path.unlink(missing_ok=True)
                removed.append(path)
        finally:
            os.close(handle)
    return tuple(removed)


def encode(batch: pa.RecordBatch | pa.Table, table: Table, *, level: int = COMPRESSION_LEVEL) -> footer.Group:
    """Encode and compress a row group of `table` with at least one row, into reproducible bytes.

    Body columns have neither a dictionary nor statistics. Data pages have checksums. Lookup columns have a Bloom
    filter, because rows are in archive order and every row group spans most titles. A column that is a DictionaryArray
    has no statistics.
    """
    # the buffer size is cheap to compute and never smaller than `nbytes`, so it is compared first
    packed = {
        name
        for name, rows in zip(batch.schema.names, batch.columns, strict=True)
        if rows.get_total_buffer_size() >= _UNPACKED_BYTES and rows.nbytes >= _UNPACKED_BYTES
    }
    frame, columns = _form(table)
    paths = [path for path in columns if path.partition(".")[0] in packed]
    codecs = {"compression": dict.fromkeys(paths, "zstd"), "compression_level": dict.fromkeys(paths, level)}
    return frame.group(_encoded(batch, table, codecs), len(batch))


def _encoded(batch: pa.RecordBatch | pa.Table, table: Table, codecs: dict[str, Any]) -> memoryview:
    """Return an in-memory Parquet file with one row group, or without row groups if there are no rows."""
    narrow = [column.name for column in table if not column.body]
    # computing statistics of a DictionaryArray would take longer than all other steps
    plain = [name for name in narrow if not pa.types.is_dictionary(batch.schema.field(name).type)]
    rising = {column.name: "DELTA_BINARY_PACKED" for column in table if column.rising}
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink,
        batch.schema,
        use_dictionary=[name for name in narrow if name not in rising and batch[name].null_count < len(batch)],
        column_encoding=rising,
        write_statistics=plain,
        write_page_checksum=True,
        # Arrow's schema would be larger than most hourly files' rows, and the Parquet types are equivalent
        store_schema=False,
        bloom_filter_options={
            column.name: {"ndv": max(1, len(batch)), "fpp": _BLOOM_MISSES} for column in table if column.lookup
        },
        **codecs,
    ) as writer:
        if len(batch):
            writer.write(batch, row_group_size=len(batch))
    return memoryview(sink.getvalue())


@cache
def _form(table: Table) -> tuple[footer.Frame, tuple[str, ...]]:
    """Return the common parts of a table's files: the footer frame and the paths of the Parquet columns."""
    file = _encoded(pa.RecordBatch.from_pylist([], schema=table.schema), table, {"compression": "none"})
    schema = pq.ParquetFile(pa.BufferReader(pa.py_buffer(file))).schema
    paths = tuple(schema.column(number).path for number in range(len(schema)))
    return footer.Frame.of(footer.split(file)[1]), paths


class ParquetFile(Unfinished):
    """An unfinished Parquet file with reproducible bytes, built from encoded row groups in order."""

    def __init__(self, target: Path, table: Table, storage: Storage = LOCAL) -> None:
        super().__init__(target, storage)
        self._table = table
        self._groups: list[bytes] = []
        self.row_count = 0

    def add(self, group: footer.Group) -> None:
        distance = max(0, self.size - len(footer.MAGIC))
        if not self.size:
            self.write(footer.MAGIC)
        self._groups.append(footer.moved(group.words, distance) if distance else group.words)
        self.row_count += group.row_count
        self.write(group.pages)

    def finish(self, metadata: Mapping[str, str]) -> None:
        """Write the footer with `metadata`, and rename the file to its final name."""
        frame, _ = _form(self._table)
        words = frame.footer(self._groups, self.row_count, metadata)
        self.write((b"" if self.size else footer.MAGIC) + words + len(words).to_bytes(4, "little") + footer.MAGIC)
        self.land()
