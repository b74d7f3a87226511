"""Lake files: written under a name nobody reads, made durable, then given their final name.

Belongs here: landing, sweeping, and how Parquet is written. Does not belong here: what the rows mean.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
from typing import TYPE_CHECKING, Self

import pyarrow as pa
import pyarrow.parquet as pq

from resources.lake.errors import landing_failed

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from resources.lake.layout import Layout
    from resources.tables import Table

#: A row group is closed at the first block that fills it to this many bytes of Arrow data: bodies of megabytes make a
#: bound in rows meaningless. Small groups cost time per column; large ones cost memory, and time at the ends of a file,
#: where the writer waits for its first group and everyone else for its last.
ROW_GROUP_BYTES = 32 << 20
COMPRESSION_LEVEL = 3
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


class ParquetFile:
    """A Parquet file under way: batches in, row groups out, in order.

    The same batches give the same bytes. Body columns have neither dictionary nor statistics; pages are indexed and
    checksummed.
    """

    def __init__(self, target: Path, table: Table, *, level: int = COMPRESSION_LEVEL) -> None:
        self._table = table
        self._level = level
        self._unfinished = Unfinished(target)
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = 0
        self.row_count = 0

    def __enter__(self) -> Self:
        narrow = [column.name for column in self._table if not column.body]
        try:
            self._unfinished.__enter__()
            self._sink = pa.OSFile(str(self._unfinished.path), "wb")
            self._writer = pq.ParquetWriter(
                self._sink,
                _bare(self._table.schema),
                compression="zstd",
                compression_level=self._level,
                use_dictionary=narrow,
                write_statistics=narrow,
                write_page_index=True,
                write_page_checksum=True,
            )
        except OSError as error:
            self._unfinished.__exit__(None, None, None)
            raise landing_failed(error, self._unfinished.target) from error
        return self

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows. Raises LakeError (DiskFull among them) where they cannot be written."""
        self._waiting.append(batch)
        self._waiting_bytes += batch.nbytes
        self.row_count += len(batch)
        if self._waiting_bytes >= ROW_GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        group = pa.Table.from_batches(self._waiting, schema=self._table.schema)
        self._waiting, self._waiting_bytes = [], 0
        try:
            self._writer.write_table(group, row_group_size=max(1, len(group)))
        except OSError as error:
            raise landing_failed(error, self._unfinished.target) from error

    def land(self, metadata: dict[str, str]) -> None:
        """Write what is left, the file's own metadata and footer, and give the file its final name."""
        if self._waiting_bytes or not self.row_count:
            self._flush()
        try:
            self._writer.add_key_value_metadata(metadata)
            self._writer.close()
            self._sink.close()
            self._unfinished.land()
        except OSError as error:
            raise landing_failed(error, self._unfinished.target) from error

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # After an error the writer would write a footer to a file that goes away: it may fail, and must not matter.
        with contextlib.suppress(OSError, pa.ArrowException):
            self._writer.close()
        with contextlib.suppress(OSError):
            self._sink.close()
        self._unfinished.__exit__(kind, error, trace)


def _bare(schema: pa.Schema) -> pa.Schema:
    """The schema without its descriptions, which would weigh more than the rows of most hourly files."""
    return pa.schema([field.remove_metadata() for field in schema])
