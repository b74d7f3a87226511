"""A lake's storage, and detection of damaged files.

Files are identified by paths from `Layout`, and DuckDB reads them by the same paths. DuckDB does not verify the
checksums of data pages. Code that depends on intact rows therefore reads them with pyarrow, which verifies checksums.
"""

import contextlib
import errno
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from resources import files


class Storage:
    """The seven file operations that the lake needs, on a local file system. All operations raise OSError if they fail.

    A file appears only when it is complete, and never changes. New versions have new names. A subclass can store files
    elsewhere.
    """

    def put(self, finished: Path, path: Path) -> None:
        """Move a complete local file into durable storage. An existing file with that name is replaced."""
        files.sync(finished)
        path.parent.mkdir(parents=True, exist_ok=True)
        finished.replace(path)

    def open(self, path: Path) -> pa.NativeFile:
        """Open a file for reading by one or several threads. Raises OSError, or ValueError for a non-file."""
        # opening a named pipe would block until it has a writer
        if (why := files.not_a_file(path.stat().st_mode)) is not None:
            raise ValueError(why)
        return pa.OSFile(str(path))

    def exists(self, path: Path) -> bool:
        return path.exists()

    def list(self, folder: Path, pattern: str = "**/*.*") -> list[Path]:
        """Return the sorted paths below a folder that match a pattern. Names of lake folders do not contain dots."""
        return sorted(folder.glob(pattern))

    def delete(self, path: Path) -> None:
        """Delete a file if it exists. If its folder is then empty, delete the folder too."""
        path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # the folder contains other files
            path.parent.rmdir()

    def modified(self, path: Path) -> datetime:
        """Return the time when a file was stored. Raises FileNotFoundError if the file does not exist."""
        return datetime.fromtimestamp(path.stat().st_mtime, UTC)

    def size(self, path: Path) -> int:
        """Return the size of a file in bytes. Raises FileNotFoundError if the file does not exist."""
        return path.stat().st_size


LOCAL = Storage()

#: Errors that pyarrow raises for an unreadable file.
UNREADABLE: Final = (OSError, ValueError, pa.ArrowException)
#: Operating system errors that do not imply damaged data.
_NOT_OF_THE_FILE: Final = frozenset(
    {errno.EACCES, errno.EPERM, errno.EMFILE, errno.ENFILE, errno.ENOENT, errno.ENOMEM, errno.ESTALE, errno.ETIMEDOUT}
)
_READ_BYTES: Final = 4 << 20


def is_damage(error: BaseException) -> bool:
    """Return whether an error in `UNREADABLE` means that the file is damaged, not just temporarily unreadable."""
    return not isinstance(error, MemoryError) and getattr(error, "errno", None) not in _NOT_OF_THE_FILE


def read_footer(path: Path, storage: Storage = LOCAL) -> pq.FileMetaData:
    """Return a Parquet file's footer. Raises an error in `UNREADABLE` if the file cannot be read."""
    with storage.open(path) as file:
        return pq.read_metadata(file)


def verify(path: Path, columns: Sequence[str] | None = None, storage: Storage = LOCAL) -> int:
    """Read a Parquet file, or some of its columns, and verify the checksum of every data page.

    Return the number of rows. Raises an error in `UNREADABLE` if the file is damaged or cannot be read.
    """
    with (
        storage.open(path) as opened,
        pq.ParquetFile(opened, page_checksum_verification=True, buffer_size=_READ_BYTES) as file,
    ):
        there = None if columns is None else [name for name in columns if name in file.schema_arrow.names]
        return sum(map(len, file.iter_batches(rows_at_once(file.metadata, _READ_BYTES), columns=there)))


def rows_at_once(metadata: pq.FileMetaData, most_bytes: int, most_rows: int = 8192) -> int:
    """Return the number of rows that can be read at a time with about `most_bytes` of memory."""
    size = sum(metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups))
    return max(1, min(most_rows, int(most_bytes * metadata.num_rows // max(1, size))))
