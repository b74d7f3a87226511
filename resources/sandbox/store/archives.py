"""Archives on disk: gzipped tars with their MD5 in their name, and folders of them that appear complete or not at all.

Everything is a function of the world, so a removed archive is made again byte for byte. A folder appears when it is
renamed: threads and processes that make the same one do not disturb each other, and one that is killed leaves nothing
that could be mistaken for an archive.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

from isal import isal_zlib

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

#: Bytes that are read, compressed and written at a time.
PIECE_BYTES = 1 << 20
GZIP = 31
_LEVEL = 2
#: A member of this size and more needs another form of header.
_USTAR_BYTES = 8 << 30


@dataclass(frozen=True)
class Archive:
    """An archive: the part of its name before the MD5, its path, its MD5 (the service's version) and its bytes."""

    identifier: str
    path: Path
    version: str
    size: int


@dataclass(frozen=True)
class Piece:
    """A file that the service hands out: of an hour, a snapshot or a chunk.

    Attributes:
        record: The record that the service lists.
        version: The MD5 of the archive.
        size: Its bytes.
    """

    record: dict[str, Any]
    version: str
    size: int
    _place: Path
    _make_again: Callable[[], object]

    @property
    def path(self) -> Path:
        """The archive. It is made again, byte for byte, if it was removed since."""
        if not self._place.exists():
            self._make_again()
        return self._place


@dataclass(frozen=True)
class Snapshot(Piece):
    """An export of a project's namespace: the complete archive, and the same lines in chunks."""

    chunks: tuple[Piece, ...]


class ArchiveStore:
    """The folders of archives of one world. Safe for threads; several processes may share it."""

    def __init__(self, home: Path, form: str) -> None:
        """Keep archives in `home`, which is made when the first one is.

        Args:
            home: Folder of this world's archives alone.
            form: Digest of all that makes them next to the world itself; archives of another form are removed.
        """
        self._home = home
        self.folder = home / form
        self._locks: dict[Path, threading.Lock] = {}
        self._guard = threading.Lock()

    def made(self, target: Path, write: Callable[[Path], None]) -> list[Archive]:
        """Return the archives of a folder; unless it exists, `write` puts them into one that is renamed to it."""
        with self._guard:
            lock = self._locks.setdefault(target, threading.Lock())
        with lock:
            if not target.is_dir():
                self._make(target, write)
                for path in self._home.iterdir():
                    if path != self.folder:
                        shutil.rmtree(path, ignore_errors=True)
        return [_found(path) for path in sorted(target.iterdir())]

    @staticmethod
    def _make(target: Path, write: Callable[[Path], None]) -> None:
        part = target.with_name(f"{target.name}.{os.getpid()}-{threading.get_ident()}.part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        try:
            write(part)
            part.rename(target)
        except OSError:
            # another process was first, with the same bytes
            if not target.is_dir():
                raise
        finally:
            shutil.rmtree(part, ignore_errors=True)


def _found(path: Path) -> Archive:
    identifier, version, _ = path.name.split(".", 2)
    return Archive(identifier, path, version, path.stat().st_size)


class TarWriter:
    """A gzipped tar under way."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._packer = isal_zlib.compressobj(_LEVEL, isal_zlib.DEFLATED, GZIP)
        self.digest = hashlib.md5(usedforsecurity=False)
        self._size = 0

    def begin(self, name: str, mode: int, stamp: int, size: int) -> None:
        """Begin a member of `size` bytes, the one before being complete."""
        self._pad()
        info = tarfile.TarInfo(name)
        info.size, info.mode, info.mtime = size, mode, stamp
        self.add(info.tobuf(tarfile.USTAR_FORMAT if size < _USTAR_BYTES else tarfile.GNU_FORMAT))
        self._size = size

    def add(self, piece: bytes) -> None:
        """Add to the member."""
        self._forward(self._packer.compress(piece))

    def end(self) -> None:
        """End the archive."""
        self._pad()
        self.add(bytes(2 * tarfile.BLOCKSIZE))
        self._forward(self._packer.flush())
        self._file.flush()
        os.fsync(self._file.fileno())

    def _pad(self) -> None:
        self.add(bytes(-self._size % tarfile.BLOCKSIZE))
        self._size = 0

    def _forward(self, packed: bytes) -> None:
        self.digest.update(packed)
        self._file.write(packed)


@contextmanager
def archive_in(folder: Path, name: str) -> Iterator[TarWriter]:
    """An archive that gets its name, with its MD5 in it, when the block ends well."""
    written = folder / f"{name}.part"
    with written.open("wb") as file:
        archive = TarWriter(file)
        yield archive
        archive.end()
    written.rename(folder / f"{name}.{archive.digest.hexdigest()}.tar.gz")
