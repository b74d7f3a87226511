"""Damage of Parquet files: what a file's status and footer tell of it, and which errors mean it.

DuckDB does not compare pages with their checksums. Whoever has to rely on rows reads them with pyarrow, which does.
"""

from __future__ import annotations

import errno
import itertools
import stat
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

#: Raised by pyarrow for a file that it cannot read, whatever the reason.
UNREADABLE: Final = (OSError, ValueError, pa.ArrowException)
#: Errors of the system that say nothing about the file's bytes.
_NOT_OF_THE_FILE: Final = frozenset(
    {errno.EACCES, errno.EPERM, errno.EMFILE, errno.ENFILE, errno.ENOENT, errno.ENOMEM, errno.ESTALE, errno.ETIMEDOUT}
)
#: What replaces the end of the name of a file that is set aside.
_ASIDE: Final = "damaged"
_READ_BYTES: Final = 4 << 20


def is_damage(error: BaseException) -> bool:
    """Return whether an error of `UNREADABLE` means wrong bytes, and not a file that cannot be read now."""
    return not isinstance(error, MemoryError) and getattr(error, "errno", None) not in _NOT_OF_THE_FILE


def require_file(path: Path) -> None:
    """See that a path is a regular file. To open a FIFO would wait for whoever writes it.

    Raises:
        OSError: Nothing is there, or it cannot be reached.
        ValueError: Something else is there.
    """
    if (why := not_a_file(path.stat().st_mode)) is not None:
        raise ValueError(why)


def not_a_file(mode: int) -> str | None:
    """The kind of a path that is no regular file, by the mode of its status; None: it is one."""
    if stat.S_ISREG(mode):
        return None
    return f"it is {'a directory' if stat.S_ISDIR(mode) else 'no regular file'}"


def read_footer(path: Path) -> pq.FileMetaData:
    """The footer of a Parquet file.

    Raises:
        OSError, ValueError, pyarrow.ArrowException: It cannot be read (`UNREADABLE`).
    """
    require_file(path)
    return pq.read_metadata(path)


def verify(path: Path, columns: Sequence[str] | None = None) -> None:
    """Read a Parquet file, or some of its columns, and compare every page with its checksum.

    Raises:
        OSError, ValueError, pyarrow.ArrowException: It is damaged or cannot be read (`UNREADABLE`).
    """
    require_file(path)
    with pq.ParquetFile(path, page_checksum_verification=True, buffer_size=_READ_BYTES) as file:
        there = None if columns is None else [name for name in columns if name in file.schema_arrow.names]
        for _ in file.iter_batches(rows_at_once(file.metadata, _READ_BYTES), columns=there):
            pass


def rows_at_once(metadata: pq.FileMetaData, most_bytes: int, most_rows: int = 8192) -> int:
    """Return the number of rows to read at once, so that they take about `most_bytes`."""
    size = sum(metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups))
    return max(1, min(most_rows, int(most_bytes * metadata.num_rows // max(1, size))))


def set_aside(path: Path) -> Path:
    """Rename what lies at a path to `<name>.damaged`, where no view and no pattern of ours finds it; returns the new path."""
    for number in itertools.count():
        aside = path.with_name(f"{path.name}.{_ASIDE}{number or ''}")
        if not aside.exists():
            return path.replace(aside)
    raise AssertionError
