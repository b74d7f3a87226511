"""Damage of Parquet files: signs of it in a file's status and footer, and the errors that mean it.

DuckDB does not verify the checksums of data pages. Code that relies on rows reads them with pyarrow, which does.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from resources.storage import LOCAL

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from resources.storage import Storage

#: Raised by pyarrow for a file that it cannot read, whatever the reason.
UNREADABLE: Final = (OSError, ValueError, pa.ArrowException)
#: Errors of the system that say nothing about the file's bytes.
_NOT_OF_THE_FILE: Final = frozenset(
    {errno.EACCES, errno.EPERM, errno.EMFILE, errno.ENFILE, errno.ENOENT, errno.ENOMEM, errno.ESTALE, errno.ETIMEDOUT}
)
_READ_BYTES: Final = 4 << 20


def is_damage(error: BaseException) -> bool:
    """Return whether an error of `UNREADABLE` means wrong bytes, and not a file that cannot be read now."""
    return not isinstance(error, MemoryError) and getattr(error, "errno", None) not in _NOT_OF_THE_FILE


def read_footer(path: Path, storage: Storage = LOCAL) -> pq.FileMetaData:
    """Return the footer of a Parquet file.

    Raises:
        OSError, ValueError, pyarrow.ArrowException: It cannot be read (`UNREADABLE`).
    """
    with storage.open(path) as file:
        return pq.read_metadata(file)


def verify(path: Path, columns: Sequence[str] | None = None, storage: Storage = LOCAL) -> int:
    """Read a Parquet file, or some of its columns, and compare every data page with its checksum.

    Returns the number of its rows.

    Raises:
        OSError, ValueError, pyarrow.ArrowException: It is damaged or cannot be read (`UNREADABLE`).
    """
    with (
        storage.open(path) as opened,
        pq.ParquetFile(opened, page_checksum_verification=True, buffer_size=_READ_BYTES) as file,
    ):
        there = None if columns is None else [name for name in columns if name in file.schema_arrow.names]
        return sum(map(len, file.iter_batches(rows_at_once(file.metadata, _READ_BYTES), columns=there)))


def rows_at_once(metadata: pq.FileMetaData, most_bytes: int, most_rows: int = 8192) -> int:
    """Return the number of rows to read at once, so that they take about `most_bytes`."""
    size = sum(metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups))
    return max(1, min(most_rows, int(most_bytes * metadata.num_rows // max(1, size))))
