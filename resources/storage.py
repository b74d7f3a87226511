"""Reading of lake files, and detection of damaged files.

Files are identified by paths from `Layout`, and DuckDB reads them by the same paths. DuckDB does not verify the
checksums of data pages. Code that depends on intact rows therefore reads them with pyarrow, which verifies checksums.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from resources import files

#: Errors that pyarrow raises for an unreadable file.
UNREADABLE: Final = (OSError, ValueError, pa.ArrowException)
#: Operating system errors that do not imply damaged data.
_NOT_OF_THE_FILE: Final = frozenset(
    {errno.EACCES, errno.EPERM, errno.EMFILE, errno.ENFILE, errno.ENOENT, errno.ENOMEM, errno.ESTALE, errno.ETIMEDOUT}
)
_READ_BYTES: Final = 4 << 20


def open_file(path: Path) -> pa.NativeFile:
    """Open a file for reading by one or several threads. Raises OSError, or ValueError if the path is not a file."""
    # opening a named pipe would block until it has a writer
    if (why := files.not_a_file(path.stat().st_mode)) is not None:
        raise ValueError(why)
    return pa.OSFile(str(path))


def is_damage(error: BaseException) -> bool:
    """Return whether an error in `UNREADABLE` means that the file is damaged, not just temporarily unreadable."""
    return not isinstance(error, MemoryError) and getattr(error, "errno", None) not in _NOT_OF_THE_FILE


def read_footer(path: Path) -> pq.FileMetaData:
    """Return a Parquet file's footer. Raises an error in `UNREADABLE` if the file cannot be read."""
    with open_file(path) as file:
        return pq.read_metadata(file)


def verify(path: Path, columns: Sequence[str] | None = None) -> int:
    """Read a Parquet file, or some of its columns, and verify the checksum of every data page.

    Return the number of rows. Raises an error in `UNREADABLE` if the file is damaged or cannot be read.
    """
    with (
        open_file(path) as opened,
        pq.ParquetFile(opened, page_checksum_verification=True, buffer_size=_READ_BYTES) as file,
    ):
        there = None if columns is None else [name for name in columns if name in file.schema_arrow.names]
        return sum(map(len, file.iter_batches(rows_at_once(file.metadata, _READ_BYTES), columns=there)))


def rows_at_once(metadata: pq.FileMetaData, most_bytes: int, most_rows: int = 8192) -> int:
    """Return the number of rows that can be read at a time with about `most_bytes` of memory."""
    size = sum(metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups))
    return max(1, min(most_rows, int(most_bytes * metadata.num_rows // max(1, size))))
