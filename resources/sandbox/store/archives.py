"""Archives on disk, stored as gzipped tars with the MD5 in the file name, and the store for hourly batches.

The world determines all archives, so a removed archive is rebuilt byte for byte. Folders are written under a temporary
name and then renamed. Therefore, concurrent threads and processes do not interfere with each other, and a killed
process leaves no incomplete archive behind. Hourly archives are retained for as long as in the real service.

Source: the service's batch documentation and public source code. An archive is a gzipped tar with members named
`<identifier>_<n>.ndjson`. Members are split at line ends. Lines are in the order in which a topic's partitions are
read, and a few messages appear twice. An archive's version is its MD5.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from isal import isal_zlib

from resources.sandbox.world.wire import Chance

#: Block size in bytes for reading, compressing and writing.
PIECE_BYTES = 1 << 20
GZIP = 31
_LEVEL = 2
#: Minimum member size that requires a GNU header.
_USTAR_BYTES = 8 << 30


@dataclass(frozen=True)
class Archive:
    """Archive on disk. `identifier` precedes the MD5 in the file name, `version` is the MD5, and `size` is in bytes."""

    identifier: str
    path: Path
    version: str
    size: int


@dataclass(frozen=True)
class Piece(Archive):
    """Downloadable file with its record in listings. The file is an hourly batch, a snapshot or a chunk."""

    record: dict[str, Any]


@dataclass(frozen=True)
class Snapshot(Piece):
    """Export of a project's namespace as one complete archive and as chunks with the same lines."""

    chunks: tuple[Piece, ...]


class ArchiveStore:
    """Thread-safe store of one world's archives. Several processes can share a store."""

    def __init__(self, home: Path, form: str) -> None:
        """Store archives in `home`/`form`. Building an archive removes all other folders in `home`."""
        self._home = home
        self.folder = home / form
        self._locks: dict[Path, threading.Lock] = {}
        self._guard = threading.Lock()

    def made(self, target: Path, write: Callable[[Path], None]) -> list[Archive]:
        """Return the archives in `target`. A missing `target` is first built with `write`."""
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
            # another process finished first and wrote the same bytes
            if not target.is_dir():
                raise
        finally:
            shutil.rmtree(part, ignore_errors=True)


def _found(path: Path) -> Archive:
    identifier, version, _ = path.name.split(".", 2)
    return Archive(identifier, path, version, path.stat().st_size)


class TarWriter:
    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._packer = isal_zlib.compressobj(_LEVEL, isal_zlib.DEFLATED, GZIP)
        self.digest = hashlib.md5(usedforsecurity=False)
        self._size = 0

    def begin(self, name: str, mode: int, stamp: int, size: int) -> None:
        """Start a member of `size` bytes. The previous member must be complete."""
        self._pad()
        info = tarfile.TarInfo(name)
        info.size, info.mode, info.mtime = size, mode, stamp
        self.add(info.tobuf(tarfile.USTAR_FORMAT if size < _USTAR_BYTES else tarfile.GNU_FORMAT))
        self._size = size

    def add(self, piece: bytes) -> None:
        self._forward(self._packer.compress(piece))

    def end(self) -> None:
        """Finish the archive and flush it to disk."""
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
    """Yield a writer. If the block succeeds, rename the archive to its final name, which contains the MD5."""
    written = folder / f"{name}.part"
    with written.open("wb") as file:
        archive = TarWriter(file)
        yield archive
        archive.end()
    written.rename(folder / f"{name}.{archive.digest.hexdigest()}.tar.gz")


#: Maximum uncompressed size of a member in bytes. The service uses 100 MB. With the smaller value, batches in the
#: default world have several members.
MEMBER_BYTES = 4_000_000
PARTITIONS = 50
#: Maximum number of messages that are read consecutively from one partition.
_LONGEST_RUN = 16
#: Ratio of all messages to messages that are repeated later.
_REPEATED = 160
_FIRST_REPEATED = 120
#: Archive retention, which is the service's two days plus a margin.
_KEPT = timedelta(hours=60)

_Item = TypeVar("_Item")


@dataclass(frozen=True)
class Message:
    """Message on a topic, with its key and a function that returns its line."""

    key: str
    line: Callable[[], bytes]


def partition(key: str) -> int:
    """Return the partition (0 to 49) for a message key."""
    return zlib.crc32(key.encode()) % PARTITIONS


def in_reading_order(messages: Iterable[Message], chance: Chance) -> Iterator[Message]:
    """Yield the messages as a parallel reader might receive them, ordered only within each partition."""
    lanes: dict[int, list[Message]] = {}
    for message in messages:
        lanes.setdefault(partition(message.key), []).append(message)
    return side_by_side([lanes[number] for number in sorted(lanes)], chance)


def side_by_side(lanes: Iterable[list[_Item]], chance: Chance) -> Iterator[_Item]:
    """Interleave the items of all lanes in random runs. The order within each lane is preserved."""
    waiting = [lane[::-1] for lane in lanes]
    while waiting:
        at = chance.below(len(waiting))
        lane = waiting[at]
        for _ in range(min(len(lane), 1 + chance.below(_LONGEST_RUN))):
            yield lane.pop()
        if not lane:
            waiting[at] = waiting[-1]
            waiting.pop()


def with_repetitions(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines, and repeat a few of the lines later."""
    again: tuple[int, bytes] | None = None
    for number, line in enumerate(lines):
        yield line
        if again is not None and again[0] == number:
            yield again[1]
            again = None
        if number % _REPEATED == _FIRST_REPEATED:
            again = (number + 1 + len(line) % 40, line)
    if again is not None:
        yield again[1]


class BatchStore(ArchiveStore):
    def __init__(self, home: Path, form: str = "1", member_bytes: int = MEMBER_BYTES) -> None:
        """Store archives in `home`. `member_bytes` is the maximum uncompressed size of a member."""
        super().__init__(home, f"{form}-{member_bytes}")
        self._member_bytes = member_bytes

    def archives(
        self, project: str, hour: datetime, make: Callable[[], Mapping[str, Iterable[Message]]]
    ) -> list[Archive]:
        """Return a project's archives for an hour. If archives are missing, build them and remove expired hours."""

        def write(folder: Path) -> None:
            stamp = int(hour.timestamp())
            for identifier, messages in make().items():
                ordered = in_reading_order(messages, Chance("reading", identifier, stamp))
                self._write(folder, identifier, stamp + 3600, with_repetitions(message.line() for message in ordered))
            self._remove_old(hour)

        return self.made(self._hour_folder(hour) / project, write)

    def has(self, project: str, hour: datetime) -> bool:
        return (self._hour_folder(hour) / project).is_dir()

    def _hour_folder(self, hour: datetime) -> Path:
        return self.folder / f"{hour:%Y-%m-%dT%H}"

    def _write(self, folder: Path, identifier: str, stamp: int, lines: Iterable[bytes]) -> None:
        with archive_in(folder, identifier) as archive:
            for number, part in enumerate(in_parts(lines, self._member_bytes)):
                member = b"".join(part)
                archive.begin(f"{identifier}_{number}.ndjson", 0o766, stamp, len(member))
                for start in range(0, len(member), PIECE_BYTES):
                    archive.add(member[start : start + PIECE_BYTES])

    def _remove_old(self, hour: datetime) -> None:
        """Remove the archives of hours that expire before `hour` is published."""
        oldest = self._hour_folder(hour - _KEPT).name
        for path in self.folder.iterdir():
            if path.name < oldest:
                shutil.rmtree(path, ignore_errors=True)


def in_parts(lines: Iterable[bytes], most: int) -> Iterator[Iterator[bytes]]:
    """Split the lines into parts of at most `most` bytes. A longer line gets a separate part. Add the line ends."""

    def numbered() -> Iterator[tuple[int, bytes]]:
        number = size = 0
        for line in lines:
            if size + len(line) + 1 > most:
                number, size = number + 1, 0
            size += len(line) + 1
            yield number, line + b"\n"

    for _, part in groupby(numbered(), key=itemgetter(0)):
        yield (line for _, line in part)
