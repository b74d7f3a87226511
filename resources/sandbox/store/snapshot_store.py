"""Snapshots on disk. An export's archive and chunks are built on first use.

Source: the service's snapshot documentation and public source code. The lines are split into buffers at line ends. Each
buffer becomes a member `<identifier>_<n>.ndjson` of the snapshot and the only member `chunk_<i>.ndjson` of a chunk.
Workers finish in arbitrary order. Chunk numbers therefore differ from member numbers, and chunk listings are not
sorted. Newer documentation describes a single member per snapshot, so a setting selects the format. An archive's
version is its MD5.

Memory use is limited to blocks of one megabyte. Disk use is limited to the archives and a few buffers.
"""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from isal import isal_zlib

from resources.sandbox.store.archives import GZIP, PIECE_BYTES, Archive, ArchiveStore, archive_in, in_parts
from resources.sandbox.world.wire import Chance

#: Number of simulated workers. Chunk numbers are shuffled within groups of this size.
_WORKERS = 4


@dataclass(frozen=True)
class Holding:
    """Archives of one export. `chunks` maps chunk numbers to archives in listing order."""

    whole: Archive
    chunks: dict[int, Archive]


@dataclass(frozen=True)
class Export:
    identifier: str  # snapshot identifier `<project>_namespace_<n>`
    started: int  # start in microseconds since 1970
    serial: int = 0  # serial number that distinguishes exports with the same start

    @property
    def folder(self) -> str:
        return f"{self.started}-{self.serial}"


class SnapshotStore(ArchiveStore):
    def __init__(self, home: Path, form: str, chunk_bytes: int, *, single_member: bool) -> None:
        """Store snapshots in `home`. `chunk_bytes` is the approximate uncompressed size of a chunk.

        The complete archive has one member if `single_member` is true, and otherwise one member per chunk.
        """
        super().__init__(home, f"{form}-{chunk_bytes}-{int(single_member)}")
        self._chunk_bytes = chunk_bytes
        self._single = single_member

    def holding(self, export: Export, lines: Callable[[], Iterable[bytes]]) -> Holding | None:
        """Return an export's archives, or None if the export has no lines. Missing archives are built."""
        archives = self.made(self._target(export), lambda folder: self._write(folder, export, lines()))
        found = {archive.identifier: archive for archive in archives}
        whole = found.pop("whole", None)
        if whole is None:
            return None
        numbers = _as_finished(len(found), Chance("list", export.identifier, export.started, export.serial))
        return Holding(whole, {number: found[f"chunk_{number}"] for number in numbers})

    def has(self, export: Export) -> bool:
        return self._target(export).is_dir()

    def _target(self, export: Export) -> Path:
        return self.folder / export.identifier / export.folder

    def keep_only(self, identifier: str, exports: Iterable[Export]) -> None:
        """Remove all other exports of the snapshot. Responses in progress can still read removed files."""
        names = {export.folder for export in exports}
        for path in (self.folder / identifier).glob("*"):
            if path.name not in names and not path.name.endswith(".part"):
                shutil.rmtree(path, ignore_errors=True)

    def _write(self, folder: Path, export: Export, lines: Iterable[bytes]) -> None:
        """Write the chunks, then combine them into the complete archive."""
        stamp = export.started // 1_000_000 + export.serial
        chance = Chance("workers", export.identifier, export.started, export.serial)
        sizes: dict[int, int] = {}
        waiting = _buffers(lines, folder, self._chunk_bytes)
        while buffers := list(islice(waiting, _WORKERS)):
            for buffer, among in zip(buffers, _as_finished(len(buffers), chance), strict=True):
                number = len(sizes) // _WORKERS * _WORKERS + among
                sizes[number] = buffer.stat().st_size
                self._write_chunk(folder, number, stamp, buffer)
        if sizes:
            self._write_whole(folder, export.identifier, sizes, stamp)

    @staticmethod
    def _write_chunk(folder: Path, number: int, stamp: int, buffer: Path) -> None:
        with buffer.open("rb") as text, archive_in(folder, f"chunk_{number}") as archive:
            archive.begin(f"chunk_{number}.ndjson", 0o644, stamp, buffer.stat().st_size)
            while piece := text.read(PIECE_BYTES):
                archive.add(piece)
        buffer.unlink()

    def _write_whole(self, folder: Path, identifier: str, sizes: dict[int, int], stamp: int) -> None:
        """Write the complete archive from the chunks, whose uncompressed sizes are `sizes`."""
        with archive_in(folder, "whole") as archive:
            if self._single:
                archive.begin(f"{identifier}_0.ndjson", 0o766, stamp, sum(sizes.values()))
            for position, (number, size) in enumerate(sizes.items()):
                if not self._single:
                    archive.begin(f"{identifier}_{position}.ndjson", 0o766, stamp, size)
                for piece in _content(next(folder.glob(f"chunk_{number}.*")), size):
                    archive.add(piece)


def _buffers(lines: Iterable[bytes], folder: Path, most: int) -> Iterator[Path]:
    """Write the lines to files of at most `most` bytes, and yield each file when it is complete."""
    for number, part in enumerate(in_parts(lines, most)):
        path = folder / f"buffer_{number}"
        with path.open("wb") as file:
            file.writelines(part)
        yield path


def _as_finished(count: int, chance: Chance) -> list[int]:
    """Return the numbers below `count` in an order in which parallel workers might finish."""
    numbers: list[int] = []
    for start in range(0, count, _WORKERS):
        group = list(range(start, min(start + _WORKERS, count)))
        numbers += [group.pop(chance.below(len(group))) for _ in range(len(group))]
    if count > 1 and numbers == list(range(count)):
        numbers[0], numbers[1] = numbers[1], numbers[0]
    return numbers


def _content(chunk: Path, size: int) -> Iterator[bytes]:
    """Yield the uncompressed content of a chunk's member in blocks."""
    unpacker = isal_zlib.decompressobj(GZIP)
    skipped, left = tarfile.BLOCKSIZE, size
    with chunk.open("rb") as file:
        while left and (packed := unpacker.unconsumed_tail or file.read(PIECE_BYTES)):
            piece = unpacker.decompress(packed, PIECE_BYTES)
            piece, skipped = piece[skipped:], max(0, skipped - len(piece))
            yield piece[:left]
            left -= len(piece[:left])
