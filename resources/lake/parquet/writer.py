"""Lake files: written under a temporary name, made durable, then renamed to the final name.

The producers of rows encode row groups in parallel (`encode`), and one thread writes them to the file in order
(`ParquetFile.write`). Only the footer of a row group is processed again: it is moved.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
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
#: A column of fewer bytes in a row group is not compressed: preparing a compressor would take longer than it saves, and
#: half of the columns of an hourly file are nearly empty.
_UNPACKED_BYTES = 1024
#: Share of row groups that a Bloom filter makes a reader open without success.
_BLOOM_MISSES = 0.01
#: Suffix of unfinished files and folders.
UNFINISHED = ".unfinished"


class Unfinished:
    """A file that is being written. It has a temporary name until `land`, and is removed unless it lands.

    It is locked while it is written, so that `sweep` can distinguish it from the file of a killed writer. `size` is the
    number of bytes written. Errors of the system are raised as LakeError, DiskFull among them.
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
        """Add bytes."""
        with self._named_errors(), memoryview(data) as rest:
            done = 0
            while done < len(rest):
                done += os.write(self._handle, rest[done:])
            self.size += done

    def land(self) -> None:
        """Make the file durable and give it its final name."""
        with self._named_errors():
            self._storage.put(self.path, self.target)

    @contextlib.contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise landing_failed(error, self.target) from error

    def __exit__(self, *_exception: object) -> None:
        with contextlib.suppress(OSError):  # it has landed, or its folder cannot be written any more: see `sweep`
            self.path.unlink()
        if self._handle >= 0:
            os.close(self._handle)


def sweep(layout: Layout) -> tuple[Path, ...]:
    """Remove the unfinished files and folders of killed writers, not those of running ones; return their paths."""
    removed = []
    for path in sorted(layout.lake.glob(f"**/*{UNFINISHED}")):
        try:
            handle = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            continue
        try:
            if files.take(handle):
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink(missing_ok=True)
                removed.append(path)
        finally:
            os.close(handle)
    return tuple(removed)


def encode(batch: pa.RecordBatch | pa.Table, table: Table, *, level: int = COMPRESSION_LEVEL) -> footer.Group:
    """Encode and compress one row group of `table`, of at least one row. The same rows give the same bytes.

    Body columns have neither dictionary nor statistics. Data pages carry checksums. Columns by which single rows are
    queried have a Bloom filter: rows are in the order of the archive, so every row group spans most of the titles.
    A column may be a dictionary of its values, and has no statistics then.
    """
    if not batch.schema.equals(table.schema) and not _plain(batch.schema).equals(table.schema):
        raise ValueError(f"These rows are not of {table.name}.")
    # the size of the buffers is known at once, and never smaller than their content
    packed = {
        name
        for name, rows in zip(batch.schema.names, batch.columns, strict=True)
        if rows.get_total_buffer_size() >= _UNPACKED_BYTES and rows.nbytes >= _UNPACKED_BYTES
    }
    form = _form(table)
    paths = [path for path in form.paths if path.partition(".")[0] in packed]
    codecs = {"compression": dict.fromkeys(paths, "zstd"), "compression_level": dict.fromkeys(paths, level)}
    return form.frame.group(_encoded(batch, table, codecs), len(batch))


def _plain(schema: pa.Schema) -> pa.Schema:
    """The schema with the values of dictionaries in their place."""
    return pa.schema(
        field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field for field in schema
    )


def _encoded(batch: pa.RecordBatch | pa.Table, table: Table, codecs: dict[str, Any]) -> memoryview:
    """A Parquet file in memory, of one row group or, without a row, of none."""
    narrow = [column.name for column in table if not column.body]
    # of a dictionary that is given, they would take longer than all else
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
        # Arrow's own schema would weigh more than the rows of most hourly files; the Parquet types say the same
        store_schema=False,
        bloom_filter_options={
            column.name: {"ndv": max(1, len(batch)), "fpp": _BLOOM_MISSES} for column in table if column.lookup
        },
        **codecs,
    ) as writer:
        if len(batch):
            writer.write(batch, row_group_size=len(batch))
    return memoryview(sink.getvalue())


@dataclass(frozen=True)
class _Form:
    """The common parts of all files of a table: the frame of their footers, and the paths of their Parquet columns."""

    frame: footer.Frame
    paths: tuple[str, ...]


@cache
def _form(table: Table) -> _Form:
    file = _encoded(pa.RecordBatch.from_pylist([], schema=table.schema), table, {"compression": "none"})
    schema = pq.ParquetFile(pa.BufferReader(pa.py_buffer(file))).schema
    return _Form(
        footer.Frame.of(footer.split(file)[1]), tuple(schema.column(number).path for number in range(len(schema)))
    )


class ParquetFile(Unfinished):
    """A Parquet file under way: encoded row groups in, in order; the same row groups give the same bytes."""

    def __init__(self, target: Path, table: Table, storage: Storage = LOCAL) -> None:
        super().__init__(target, storage)
        self._table = table
        self._groups: list[bytes] = []
        self.row_count = 0

    def add(self, group: footer.Group) -> None:
        """Add a row group."""
        distance = max(0, self.size - len(footer.MAGIC))
        if not self.size:
            self.write(footer.MAGIC)
        self._groups.append(footer.moved(group.words, distance) if distance else group.words)
        self.row_count += group.row_count
        self.write(group.pages)

    def finish(self, metadata: Mapping[str, str]) -> None:
        """Write the footer with the file's own metadata, and give the file its final name."""
        words = _form(self._table).frame.footer(self._groups, self.row_count, metadata)
        self.write((b"" if self.size else footer.MAGIC) + words + len(words).to_bytes(4, "little") + footer.MAGIC)
        self.land()
