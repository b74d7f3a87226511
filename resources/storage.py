"""The storage of a lake: seven operations, which are all that the lake needs from a file system.

Files are named by their paths as `Layout` computes them. A file appears complete or not at all, is never changed, and
is written once: a new version has a new name. DuckDB reads the files by the same paths.
"""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from resources import files

if TYPE_CHECKING:
    from pathlib import Path


class Storage(Protocol):
    """Operations on the files of a lake; all raise OSError if the storage refuses."""

    def put(self, finished: Path, path: Path) -> None:
        """Move a complete local file into the storage, durably; a file of that name is replaced."""

    def open(self, path: Path) -> pa.NativeFile:
        """Open a file for reading, also from several threads.

        Raises:
            FileNotFoundError: There is no such file.
            ValueError: There is something other than a file.
        """

    def exists(self, path: Path) -> bool:
        """Return whether there is such a file."""

    def list(self, folder: Path, pattern: str = "**/*.*") -> list[Path]:
        """Return the sorted paths below a folder that match a pattern. Folders of a lake have no dot in their names."""

    def delete(self, path: Path) -> None:
        """Delete a file, if it exists, and its folder if that is empty then."""

    def modified(self, path: Path) -> datetime:
        """Return when a file was put. Raises FileNotFoundError if there is none."""

    def size(self, path: Path) -> int:
        """Return the size of a file in bytes. Raises FileNotFoundError if there is none."""


class LocalStorage:
    """A local file system; the files are where their paths say."""

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
