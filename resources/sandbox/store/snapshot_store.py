"""Snapshots on disk: the archive and the chunks of an export, made when they are first needed.

Source of the form: the service's documentation of snapshots, and its public source for what that leaves open. The
lines are cut into buffers at line ends; a buffer is one member `<identifier>_<n>.ndjson` of the snapshot and the only
member `chunk_<i>.ndjson` of a chunk. Workers finish in no certain order, so a chunk's number is not its member's, and
the list of chunks is not sorted. Newer documentation describes a single member in a snapshot; both forms can be made.
The version of an archive is its MD5.

An export is made in a folder of its own that appears complete, by renaming. Memory never holds more than a piece of a
megabyte, and the disk never more than the archives and one buffer.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, BinaryIO

from isal import isal_zlib

from resources.sandbox.world.chance import Chance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

_LEVEL = 2
_GZIP = 31
_PIECE = 1 << 20
#: Buffers that are written at the same time: so far from its place a chunk's number can be.
_WORKERS = 4


@dataclass(frozen=True)
class Stored:
    """An archive: its path, its MD5 (the service's version) and its bytes."""

    path: Path
    version: str
    size: int


@dataclass(frozen=True)
class Holding:
    """The archives of one export: the whole, and the chunks by their numbers, in the order of the service's list."""

    whole: Stored
    chunks: dict[int, Stored]


@dataclass(frozen=True)
class Export:
    """Which export of a snapshot is meant.

    Attributes:
        identifier: Of the snapshot: `<project>_namespace_<n>`.
        started: Its moment, microseconds since 1970.
        serial: Tells exports of the same moment apart.
    """

    identifier: str
    started: int
    serial: int = 0

    @property
    def folder(self) -> str:
        """Name of its folder."""
        return f"{self.started}-{self.serial}"


class SnapshotStore:
    """The folder of snapshots of one world. Safe for threads; several processes may share it."""

    def __init__(self, home: Path, form: str, chunk_bytes: int, *, single_member: bool) -> None:
        """Keep snapshots in `home`, which is made when the first one is.

        Args:
            home: Folder of this world's snapshots alone.
            form: What makes them beside the world itself; snapshots of another form are removed.
            chunk_bytes: Uncompressed bytes after which a chunk ends.
            single_member: The whole archive has one member. False: one for every chunk.
        """
        self._home = home
        self._folder = home / f"{form}-{chunk_bytes}-{int(single_member)}"
        self._chunk_bytes = chunk_bytes
        self._single = single_member
        self._locks: dict[Export, threading.Lock] = {}
        self._guard = threading.Lock()

    def holding(self, export: Export, lines: Callable[[], Iterable[bytes]]) -> Holding | None:
        """The archives of an export, made unless they exist.

        Args:
            export: Which.
            lines: Gives its lines without line ends; not called when the archives exist.

        Returns:
            The archives; None when there is no line.
        """
        target = self._target(export)
        with self._guard:
            lock = self._locks.setdefault(export, threading.Lock())
        with lock:
            if not target.is_dir():
                self._make(target, export, lines())
                self._remove_other_forms()
        return self._found(target, export)

    def has(self, export: Export) -> bool:
        """Whether the archives of an export exist."""
        return self._target(export).is_dir()

    def _target(self, export: Export) -> Path:
        return self._folder / export.identifier / export.folder

    def keep_only(self, exports: Iterable[Export]) -> None:
        """Remove all other exports of the same snapshots. Whoever reads one of them still reads it to its end."""
        kept: dict[str, set[str]] = {}
        for export in exports:
            kept.setdefault(export.identifier, set()).add(export.folder)
        for identifier, names in kept.items():
            folder = self._folder / identifier
            for path in folder.iterdir() if folder.is_dir() else ():
                if path.name not in names and not path.name.endswith(".part"):
                    shutil.rmtree(path, ignore_errors=True)

    def _found(self, target: Path, export: Export) -> Holding | None:
        found = {}
        for path in target.iterdir():
            name, version, _ = path.name.split(".", 2)
            found[name] = Stored(path, version, path.stat().st_size)
        whole = found.pop("whole", None)
        if whole is None:
            return None
        numbers = _as_finished(len(found), Chance("list", export.identifier, export.started, export.serial))
        return Holding(whole, {number: found[f"chunk_{number}"] for number in numbers})

    def _make(self, target: Path, export: Export, lines: Iterable[bytes]) -> None:
        part = target.with_name(f"{target.name}.{os.getpid()}-{threading.get_ident()}.part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        try:
            self._write(part, export, lines)
            part.rename(target)
        except OSError:
            # another process was first, with the same bytes
            if not target.is_dir():
                raise
        finally:
            shutil.rmtree(part, ignore_errors=True)

    def _write(self, folder: Path, export: Export, lines: Iterable[bytes]) -> None:
        """Write the chunks, then the whole out of them."""
        stamp = export.started // 1_000_000 + export.serial
        chance = Chance("workers", export.identifier, export.started, export.serial)
        numbers: list[int] = []
        for buffers in _batched(_buffers(lines, folder, self._chunk_bytes)):
            for buffer, among in zip(buffers, _as_finished(len(buffers), chance), strict=True):
                number = len(numbers) // _WORKERS * _WORKERS + among
                numbers.append(number)
                self._write_chunk(folder, number, stamp, buffer)
        if numbers:
            self._write_whole(folder, export.identifier, numbers, stamp)

    @staticmethod
    def _write_chunk(folder: Path, number: int, stamp: int, buffer: Path) -> None:
        with buffer.open("rb") as text, _archive(folder, f"chunk_{number}") as archive:
            archive.begin(f"chunk_{number}.ndjson", 0o644, stamp, buffer.stat().st_size)
            while piece := text.read(_PIECE):
                archive.add(piece)
        buffer.unlink()

    def _write_whole(self, folder: Path, identifier: str, numbers: list[int], stamp: int) -> None:
        chunks = [next(folder.glob(f"chunk_{number}.*")) for number in numbers]
        sizes = [_length(path) for path in chunks]
        with _archive(folder, "whole") as archive:
            if self._single:
                archive.begin(f"{identifier}_0.ndjson", 0o766, stamp, sum(sizes))
            for position, (path, size) in enumerate(zip(chunks, sizes, strict=True)):
                if not self._single:
                    archive.begin(f"{identifier}_{position}.ndjson", 0o766, stamp, size)
                for piece in _content(path, size):
                    archive.add(piece)

    def _remove_other_forms(self) -> None:
        for path in self._home.iterdir():
            if path != self._folder:
                shutil.rmtree(path, ignore_errors=True)


class _Archive:
    """A gzipped tar under way."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._packer = isal_zlib.compressobj(_LEVEL, isal_zlib.DEFLATED, _GZIP)
        self.digest = hashlib.md5(usedforsecurity=False)
        self._size = 0

    def begin(self, name: str, mode: int, stamp: int, size: int) -> None:
        """Begin a member of `size` bytes, the one before being complete."""
        self._pad()
        info = tarfile.TarInfo(name)
        info.size, info.mode, info.mtime = size, mode, stamp
        # a member of 8 GiB and more has no other form
        self._put(info.tobuf(tarfile.USTAR_FORMAT if size < 8 << 30 else tarfile.GNU_FORMAT))
        self._size = size

    def add(self, piece: bytes) -> None:
        """Add to the member."""
        self._put(piece)

    def end(self) -> None:
        """End the archive."""
        self._pad()
        self._put(bytes(2 * tarfile.BLOCKSIZE))
        self._forward(self._packer.flush())
        self._file.flush()
        os.fsync(self._file.fileno())

    def _pad(self) -> None:
        self._put(bytes(-self._size % tarfile.BLOCKSIZE))
        self._size = 0

    def _put(self, data: bytes) -> None:
        self._forward(self._packer.compress(data))

    def _forward(self, packed: bytes) -> None:
        self.digest.update(packed)
        self._file.write(packed)


@contextmanager
def _archive(folder: Path, name: str) -> Iterator[_Archive]:
    """An archive that gets its name, with its MD5 in it, when the block ends well."""
    written = folder / f"{name}.part"
    with written.open("wb") as file:
        archive = _Archive(file)
        yield archive
        archive.end()
    written.rename(folder / f"{name}.{archive.digest.hexdigest()}.tar.gz")


def _buffers(lines: Iterable[bytes], folder: Path, most: int) -> Iterator[Path]:
    """The lines as files of at most about `most` bytes, cut at line ends; a longer line has one for itself."""
    size = number = 0
    file: BinaryIO | None = None
    try:
        for line in lines:
            if file is not None and size + len(line) + 1 > most:
                file.close()
                yield folder / f"buffer_{number}"
                file, size, number = None, 0, number + 1
            if file is None:
                file = (folder / f"buffer_{number}").open("wb")
            file.write(line)
            file.write(b"\n")
            size += len(line) + 1
        if file is not None:
            file.close()
            yield folder / f"buffer_{number}"
    finally:
        if file is not None:
            file.close()


def _batched(buffers: Iterator[Path]) -> Iterator[list[Path]]:
    """As many buffers as there are workers, again and again."""
    while some := list(islice(buffers, _WORKERS)):
        yield some


def _as_finished(count: int, chance: Chance) -> list[int]:
    """The numbers from 0 in the order in which workers side by side would finish them: seldom the numbers' own."""
    numbers: list[int] = []
    for start in range(0, count, _WORKERS):
        group = list(range(start, min(start + _WORKERS, count)))
        numbers += [group.pop(chance.below(len(group))) for _ in range(len(group))]
    if count > 1 and numbers == list(range(count)):
        numbers[0], numbers[1] = numbers[1], numbers[0]
    return numbers


def _length(chunk: Path) -> int:
    """Uncompressed bytes of the member of a chunk."""
    head = isal_zlib.decompressobj(_GZIP).decompress(_first(chunk), tarfile.BLOCKSIZE)
    return tarfile.TarInfo.frombuf(head, "utf-8", "strict").size


def _first(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_PIECE)


def _content(chunk: Path, size: int) -> Iterator[bytes]:
    """The member of a chunk."""
    unpacker = isal_zlib.decompressobj(_GZIP)
    skipped, left = tarfile.BLOCKSIZE, size
    with chunk.open("rb") as file:
        while left and (packed := unpacker.unconsumed_tail or file.read(_PIECE)):
            piece = unpacker.decompress(packed, _PIECE)
            piece, skipped = piece[skipped:], max(0, skipped - len(piece))
            yield piece[:left]
            left -= len(piece[:left])
