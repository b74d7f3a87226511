"""Snapshots on disk: the archive and the chunks of an export, made when they are first needed.

Source of the form: the service's documentation of snapshots, and its public source for what that leaves open. The
lines are cut into buffers at line ends; a buffer is one member `<identifier>_<n>.ndjson` of the snapshot and the only
member `chunk_<i>.ndjson` of a chunk. Workers finish in no certain order, so a chunk's number is not its member's, and
the list of chunks is not sorted. Newer documentation describes a single member in a snapshot; both forms can be made.
The version of an archive is its MD5.

Memory never holds more than a piece of a megabyte, and the disk never more than the archives and one buffer.
"""

from __future__ import annotations

import shutil
import tarfile
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, BinaryIO

from isal import isal_zlib

from resources.sandbox.store.archives import GZIP, PIECE_BYTES, ArchiveStore, archive_in
from resources.sandbox.world.wire import Chance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from resources.sandbox.store.archives import Archive

#: Buffers that are written at the same time: so far from its place a chunk's number can be.
_WORKERS = 4


@dataclass(frozen=True)
class Holding:
    """The archives of one export: the complete one, and the chunks by number, in the order of the service's list."""

    whole: Archive
    chunks: dict[int, Archive]


@dataclass(frozen=True)
class Export:
    """An export of a snapshot."""

    identifier: str  # of the snapshot: `<project>_namespace_<n>`
    started: int  # its moment, microseconds since 1970
    serial: int = 0  # tells exports of the same moment apart

    @property
    def folder(self) -> str:
        """Name of its folder."""
        return f"{self.started}-{self.serial}"


class SnapshotStore(ArchiveStore):
    """The snapshots of one world."""

    def __init__(self, home: Path, form: str, chunk_bytes: int, *, single_member: bool) -> None:
        """Keep snapshots in `home`, with chunks of so many bytes (uncompressed).

        With `single_member`, the complete archive has one member, otherwise one for every chunk.
        """
        super().__init__(home, f"{form}-{chunk_bytes}-{int(single_member)}")
        self._chunk_bytes = chunk_bytes
        self._single = single_member

    def holding(self, export: Export, lines: Callable[[], Iterable[bytes]]) -> Holding | None:
        """Return the archives of an export, made unless they exist."""
        archives = self.made(self._target(export), lambda folder: self._write(folder, export, lines()))
        found = {archive.identifier: archive for archive in archives}
        whole = found.pop("whole", None)
        if whole is None:
            return None
        numbers = _as_finished(len(found), Chance("list", export.identifier, export.started, export.serial))
        return Holding(whole, {number: found[f"chunk_{number}"] for number in numbers})

    def has(self, export: Export) -> bool:
        """Return whether the archives of an export exist."""
        return self._target(export).is_dir()

    def _target(self, export: Export) -> Path:
        return self.folder / export.identifier / export.folder

    def keep_only(self, exports: Iterable[Export]) -> None:
        """Remove all other exports of the same snapshots. A response that is reading one still reads it to its end."""
        kept: dict[str, set[str]] = {}
        for export in exports:
            kept.setdefault(export.identifier, set()).add(export.folder)
        for identifier, names in kept.items():
            folder = self.folder / identifier
            for path in folder.iterdir() if folder.is_dir() else ():
                if path.name not in names and not path.name.endswith(".part"):
                    shutil.rmtree(path, ignore_errors=True)

    def _write(self, folder: Path, export: Export, lines: Iterable[bytes]) -> None:
        """Write the chunks, then the whole out of them."""
        stamp = export.started // 1_000_000 + export.serial
        chance = Chance("workers", export.identifier, export.started, export.serial)
        numbers: list[int] = []
        waiting = _buffers(lines, folder, self._chunk_bytes)
        while buffers := list(islice(waiting, _WORKERS)):
            for buffer, among in zip(buffers, _as_finished(len(buffers), chance), strict=True):
                number = len(numbers) // _WORKERS * _WORKERS + among
                numbers.append(number)
                self._write_chunk(folder, number, stamp, buffer)
        if numbers:
            self._write_whole(folder, export.identifier, numbers, stamp)

    @staticmethod
    def _write_chunk(folder: Path, number: int, stamp: int, buffer: Path) -> None:
        with buffer.open("rb") as text, archive_in(folder, f"chunk_{number}") as archive:
            archive.begin(f"chunk_{number}.ndjson", 0o644, stamp, buffer.stat().st_size)
            while piece := text.read(PIECE_BYTES):
                archive.add(piece)
        buffer.unlink()

    def _write_whole(self, folder: Path, identifier: str, numbers: list[int], stamp: int) -> None:
        chunks = [next(folder.glob(f"chunk_{number}.*")) for number in numbers]
        sizes = [_length(path) for path in chunks]
        with archive_in(folder, "whole") as archive:
            if self._single:
                archive.begin(f"{identifier}_0.ndjson", 0o766, stamp, sum(sizes))
            for position, (path, size) in enumerate(zip(chunks, sizes, strict=True)):
                if not self._single:
                    archive.begin(f"{identifier}_{position}.ndjson", 0o766, stamp, size)
                for piece in _content(path, size):
                    archive.add(piece)


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
    with chunk.open("rb") as file:
        head = isal_zlib.decompressobj(GZIP).decompress(file.read(PIECE_BYTES), tarfile.BLOCKSIZE)
    return tarfile.TarInfo.frombuf(head, "utf-8", "strict").size


def _content(chunk: Path, size: int) -> Iterator[bytes]:
    """The member of a chunk."""
    unpacker = isal_zlib.decompressobj(GZIP)
    skipped, left = tarfile.BLOCKSIZE, size
    with chunk.open("rb") as file:
        while left and (packed := unpacker.unconsumed_tail or file.read(PIECE_BYTES)):
            piece = unpacker.decompress(packed, PIECE_BYTES)
            piece, skipped = piece[skipped:], max(0, skipped - len(piece))
            yield piece[:left]
            left -= len(piece[:left])
