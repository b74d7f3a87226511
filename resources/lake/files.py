"""Lake files: written under a name nobody reads, made durable, then given their final name.

Belongs here: landing, sweeping, and how Parquet is written. Does not belong here: what the rows mean.

Row groups are encoded by whoever made the rows, on as many threads as there are (`encode`), and put into the file by one
(`ParquetFile.write`), in order. Nothing of a row group is looked at twice but its footer, which is moved.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from resources.lake import footer
from resources.lake.errors import landing_failed

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import TracebackType

    from resources.lake.layout import Layout
    from resources.tables import Table

COMPRESSION_LEVEL = 3
#: A column of fewer bytes in a row group is not compressed: making a compressor ready would take longer than it saves
#: anybody, and half of the columns of an hourly file are all but empty.
_UNPACKED_BYTES = 1024
#: How many of a hundred row groups a Bloom filter lets a reader open in vain.
_BLOOM_MISSES = 0.01
_SUFFIX = ".unfinished"


class Unfinished:
    """A file that is being written. It has a name of its own until `land`, and is removed unless it lands.

    While it is written it is locked, so that `sweep` can tell it from one whose writer was killed.
    """

    def __init__(self, target: Path) -> None:
        self.target = target
        self.path = target.with_name(f"{target.name}.{os.getpid()}-{secrets.token_hex(4)}{_SUFFIX}")
        self._handle: int | None = None

    def __enter__(self) -> Self:
        self.target.parent.mkdir(parents=True, exist_ok=True)
        self._handle = os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o644)
        fcntl.flock(self._handle, fcntl.LOCK_EX)
        return self

    def write(self, data: bytes | memoryview) -> None:
        """Add bytes."""
        assert self._handle is not None
        with memoryview(data) as rest:
            done = 0
            while done < len(rest):
                done += os.write(self._handle, rest[done:])

    def land(self) -> None:
        """Make the file durable and give it its final name."""
        assert self._handle is not None
        os.fsync(self._handle)
        self.path.replace(self.target)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):  # it has landed, or its folder cannot be written any more: see `sweep`
            self.path.unlink()
        if self._handle is not None:
            os.close(self._handle)


def sweep(layout: Layout) -> tuple[Path, ...]:
    """Remove the unfinished files of writers that were killed; those of writers at work stay. Returns what was removed."""
    removed = []
    for path in sorted(layout.lake.glob(f"**/*{_SUFFIX}")):
        try:
            handle = os.open(path, os.O_RDWR)
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        else:
            path.unlink(missing_ok=True)
            removed.append(path)
        finally:
            os.close(handle)
    return tuple(removed)


def encode(batch: pa.RecordBatch, table: Table, *, level: int = COMPRESSION_LEVEL) -> footer.Group:
    """One row group of `table`, encoded and compressed. The same rows give the same bytes.

    Body columns have neither dictionary nor statistics. Pages carry checksums. The columns that single rows are looked up by
    have a Bloom filter: rows lie in the order of the archive, so every row group spans most of the titles.
    """
    form = _form(table)
    packed = [
        leaf
        for column, leaves in zip(batch.columns, form.leaves, strict=True)
        if column.nbytes >= _UNPACKED_BYTES
        for leaf in leaves
    ]
    codecs = {"compression": dict.fromkeys(packed, "zstd"), "compression_level": dict.fromkeys(packed, level)}
    pages, words = footer.split(_encoded(batch, table, codecs))
    return footer.Group(pages, len(batch), form.frame.group(words))


def _encoded(batch: pa.RecordBatch | None, table: Table, codecs: dict[str, Any]) -> memoryview:
    """A Parquet file in memory, of one row group or of none."""
    narrow = [column.name for column in table if not column.body]
    row_count = 0 if batch is None else len(batch)
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink,
        table.schema,
        use_dictionary=narrow,
        write_statistics=narrow,
        write_page_checksum=True,
        # Arrow's own schema would weigh more than the rows of most hourly files; the Parquet types say the same
        store_schema=False,
        bloom_filter_options={
            column.name: {"ndv": max(1, row_count), "fpp": _BLOOM_MISSES} for column in table if column.lookup
        },
        **codecs,
    ) as writer:
        if batch is not None:
            writer.write_batch(batch, row_group_size=row_count)
    return memoryview(sink.getvalue())


@dataclass(frozen=True)
class _Form:
    """What all files of a table share: the frame of their footers, and the Parquet columns of each of its columns."""

    frame: footer.Frame
    leaves: tuple[tuple[str, ...], ...]


@cache
def _form(table: Table) -> _Form:
    file = _encoded(None, table, {"compression": "none"})
    schema = pq.ParquetFile(pa.BufferReader(pa.py_buffer(file))).schema
    leaves: dict[str, list[str]] = {column.name: [] for column in table}
    for number in range(len(schema)):
        path = schema.column(number).path
        leaves[path.partition(".")[0]].append(path)
    return _Form(footer.Frame.of(footer.split(file)[1]), tuple(map(tuple, leaves.values())))


class ParquetFile:
    """A Parquet file under way: encoded row groups in, in order; the same row groups give the same bytes."""

    def __init__(self, target: Path, table: Table) -> None:
        self._table = table
        self._unfinished = Unfinished(target)
        self._groups: list[bytes] = []
        self._size = 0
        self.row_count = 0

    def __enter__(self) -> Self:
        try:
            self._unfinished.__enter__()
            self._unfinished.write(footer.MAGIC)
        except OSError as error:
            self._unfinished.__exit__(None, None, None)
            raise landing_failed(error, self._unfinished.target) from error
        self._size = len(footer.MAGIC)
        return self

    def write(self, group: footer.Group) -> None:
        """Add a row group. Raises LakeError (DiskFull among them) where it cannot be written."""
        distance = self._size - len(footer.MAGIC)
        self._groups.append(footer.moved(group.words, distance) if distance else group.words)
        self.row_count += group.row_count
        self._write(group.pages)

    def land(self, metadata: Mapping[str, str]) -> None:
        """Write the footer with the file's own metadata, and give the file its final name."""
        words = _form(self._table).frame.footer(self._groups, self.row_count, metadata)
        self._write(words + len(words).to_bytes(4, "little") + footer.MAGIC)
        try:
            self._unfinished.land()
        except OSError as error:
            raise landing_failed(error, self._unfinished.target) from error

    def _write(self, data: bytes | memoryview) -> None:
        try:
            self._unfinished.write(data)
        except OSError as error:
            raise landing_failed(error, self._unfinished.target) from error
        self._size += len(data)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._unfinished.__exit__(kind, error, trace)
