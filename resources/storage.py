"""Storage of a lake, and detection of damaged files.

Files are identified by their paths from `Layout`, and DuckDB reads them by the same paths. DuckDB does not verify the
checksums of data pages: code that depends on intact rows reads them with pyarrow, which does.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from resources import files


class Storage(Protocol):
    """The seven operations that the lake needs from a file system; all raise OSError if the storage refuses.

    A file appears complete or not at all, and is never changed: a new version has a new name.
    """

    def put(self, finished: Path, path: Path) -> None:
        """Move a complete local file into the storage, durably; an existing file of that name is replaced."""

    def open(self, path: Path) -> pa.NativeFile:
        """Open a file for reading, also from several threads.

        Raises:
            FileNotFoundError: The file does not exist.
            ValueError: The path is not a file.
        """

    def exists(self, path: Path) -> bool:
        """Return whether the file exists."""

    def list(self, folder: Path, pattern: str = "**/*.*") -> list[Path]:
        """Return the sorted paths below a folder that match a pattern. Folders of a lake have no dot in their names."""

    def delete(self, path: Path) -> None:
        """Delete a file, if it exists, and its folder if it is empty then."""

    def modified(self, path: Path) -> datetime:
        """Return the time when a file was stored. Raises FileNotFoundError if it does not exist."""

    def size(self, path: Path) -> int:
        """Return the size of a file in bytes. Raises FileNotFoundError if it does not exist."""


class LocalStorage:
    """A local file system; paths are used unchanged."""

    def put(self, finished: Path, path: Path) -> None:
        files.sync(finished)
        path.parent.mkdir(parents=True, exist_ok=True)
        finished.replace(path)

    def open(self, path: Path) -> pa.NativeFile:
        files.require_file(path)  # opening a named pipe would wait for a writer
        return pa.OSFile(str(path))

    def exists(self, path: Path) -> bool:
        return path.exists()

    def list(self, folder: Path, pattern: str = "**/*.*") -> list[Path]:
        return sorted(folder.glob(pattern))

    def delete(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # the folder has other files
            path.parent.rmdir()

    def modified(self, path: Path) -> datetime:
        return datetime.fromtimestamp(path.stat().st_mtime, UTC)

    def size(self, path: Path) -> int:
        return path.stat().st_size


LOCAL = LocalStorage()


#: Errors of pyarrow for an unreadable file, whatever the reason.
UNREADABLE: Final = (OSError, ValueError, pa.ArrowException)
#: Errors of the system that do not imply damaged bytes.
_NOT_OF_THE_FILE: Final = frozenset(
    {errno.EACCES, errno.EPERM, errno.EMFILE, errno.ENFILE, errno.ENOENT, errno.ENOMEM, errno.ESTALE, errno.ETIMEDOUT}
)
_READ_BYTES: Final = 4 << 20


def is_damage(error: BaseException) -> bool:
    """Return whether an error of `UNREADABLE` means damaged bytes, not a file that cannot be read now."""
    return not isinstance(error, MemoryError) and getattr(error, "errno", None) not in _NOT_OF_THE_FILE


def read_footer(path: Path, storage: Storage = LOCAL) -> pq.FileMetaData:
    """Return the footer of a Parquet file.

    Raises:
        OSError, ValueError, pyarrow.ArrowException: The file cannot be read (`UNREADABLE`).
    """
    with storage.open(path) as file:
        return pq.read_metadata(file)


def verify(path: Path, columns: Sequence[str] | None = None, storage: Storage = LOCAL) -> int:
    """Read a Parquet file, or some of its columns, and verify the checksum of every data page.

    Returns the number of its rows.

    Raises:
        OSError, ValueError, pyarrow.ArrowException: The file is damaged or cannot be read (`UNREADABLE`).
    """
    with (
        storage.open(path) as opened,
        pq.ParquetFile(opened, page_checksum_verification=True, buffer_size=_READ_BYTES) as file,
    ):
        there = None if columns is None else [name for name in columns if name in file.schema_arrow.names]
        return sum(map(len, file.iter_batches(rows_at_once(file.metadata, _READ_BYTES), columns=there)))


def rows_at_once(metadata: pq.FileMetaData, most_bytes: int, most_rows: int = 8192) -> int:
    """Return the number of rows per read that needs about `most_bytes`."""
    size = sum(metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups))
    return max(1, min(most_rows, int(most_bytes * metadata.num_rows // max(1, size))))
