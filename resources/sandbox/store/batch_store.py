"""The archives of hours: made when they are first needed, and kept for as long as the service would keep them.

Source of the form: the service's documentation of batches, and its public source for what that leaves open: a gzipped
tar of `<identifier>_<n>.ndjson` members cut at line ends, in the order in which the partitions of a topic are read,
with a few messages twice. The version of an archive is its MD5.

Everything is a function of the world, so a removed archive is made again byte for byte. All archives of a project's
hour appear at once when their folder is renamed: threads and processes that make the same hour do not disturb each
other, and one that is killed leaves nothing that could be mistaken for an archive.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
import threading
import zlib
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

from isal import isal_zlib

from resources.sandbox.world.chance import Chance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from datetime import datetime
    from pathlib import Path

#: Uncompressed bytes after which a member ends. The service's are 100 MB; an hour of the default world shall have
#: several all the same.
MEMBER_BYTES = 4_000_000
PARTITIONS = 50
#: Messages that a reader takes from one partition before it turns to another, at most.
_LONGEST_RUN = 16
#: Every message of this number is followed by its repetition: fewer than one in a hundred.
_REPEATED = 160
_FIRST_REPEATED = 120
_LEVEL = 2
_GZIP = 31
#: The service keeps two days; what is older than that and a margin is removed.
_KEPT = timedelta(hours=60)
_CHUNK = 1 << 20

_Item = TypeVar("_Item")


@dataclass(frozen=True)
class Archive:
    """An hourly file: its path, its MD5 (the service's version) and its bytes."""

    identifier: str
    path: Path
    version: str
    size: int


@dataclass(frozen=True)
class Message:
    """A message of a topic: its key, and the way to its line."""

    key: str
    line: Callable[[], bytes]


def partition(key: str) -> int:
    """The partition, 0 to 49, that messages of a key go to."""
    return zlib.crc32(key.encode()) % PARTITIONS


def in_reading_order(messages: Iterable[Message], chance: Chance) -> Iterator[Message]:
    """The messages as they arrive when partitions are read side by side: ordered within a partition only."""
    lanes: dict[int, list[Message]] = {}
    for message in messages:
        lanes.setdefault(partition(message.key), []).append(message)
    return side_by_side([lanes[number] for number in sorted(lanes)], chance)


def side_by_side(lanes: Iterable[list[_Item]], chance: Chance) -> Iterator[_Item]:
    """What the lanes hold, some of one and then some of another, each in its own order."""
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
    """The lines, a few of them a second time further on."""
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


class BatchStore:
    """The folder of archives of one world."""

    def __init__(self, home: Path, form: str = "1", member_bytes: int = MEMBER_BYTES) -> None:
        """Keep archives in `home`, which is made when the first one is.

        Args:
            home: Folder of this world's archives alone.
            form: What makes them beside the world itself; archives of another form are removed.
            member_bytes: Uncompressed bytes after which a member ends.
        """
        self._home = home
        self._folder = home / f"{form}-{member_bytes}"
        self._member_bytes = member_bytes
        self._locks: dict[Path, threading.Lock] = {}
        self._guard = threading.Lock()

    def archives(
        self, project: str, hour: datetime, make: Callable[[], Mapping[str, Iterable[Message]]]
    ) -> list[Archive]:
        """The archives of a project's hour, made unless they exist; making one removes those long before it.

        Args:
            project: Database name.
            hour: Start of the hour.
            make: Gives the messages by identifier; not called when the archives exist.

        Returns:
            The archives in the order of their identifiers; none for a quiet hour.
        """
        target = self._hour_folder(hour) / project
        with self._guard:
            lock = self._locks.setdefault(target, threading.Lock())
        with lock:
            if not target.is_dir():
                self._make(target, hour, make())
                self._remove_old(hour)
        return [_found(path) for path in sorted(target.iterdir())]

    def has(self, project: str, hour: datetime) -> bool:
        """Whether the archives of a project's hour exist."""
        return (self._hour_folder(hour) / project).is_dir()

    def _hour_folder(self, hour: datetime) -> Path:
        return self._folder / f"{hour:%Y-%m-%dT%H}"

    def _make(self, target: Path, hour: datetime, contents: Mapping[str, Iterable[Message]]) -> None:
        part = target.with_name(f"{target.name}.{os.getpid()}-{threading.get_ident()}.part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        try:
            for identifier, messages in contents.items():
                ordered = in_reading_order(messages, Chance("reading", identifier, int(hour.timestamp())))
                lines = with_repetitions(message.line() for message in ordered)
                self._write(part, identifier, int(hour.timestamp()) + 3600, lines)
            part.rename(target)
        except OSError:
            # another process was first, with the same bytes
            if not target.is_dir():
                raise
        finally:
            shutil.rmtree(part, ignore_errors=True)

    def _write(self, folder: Path, identifier: str, stamp: int, lines: Iterable[bytes]) -> None:
        packer = isal_zlib.compressobj(_LEVEL, isal_zlib.DEFLATED, _GZIP)
        digest = hashlib.md5(usedforsecurity=False)
        written = folder / f"{identifier}.part"
        with written.open("wb") as file:

            def put(data: bytes) -> None:
                digest.update(data)
                file.write(data)

            for number, member in enumerate(_members(lines, self._member_bytes)):
                info = tarfile.TarInfo(f"{identifier}_{number}.ndjson")
                info.size, info.mode, info.mtime = len(member), 0o766, stamp
                put(packer.compress(info.tobuf(tarfile.USTAR_FORMAT)))
                for start in range(0, len(member), _CHUNK):
                    put(packer.compress(member[start : start + _CHUNK]))
                put(packer.compress(bytes(-len(member) % tarfile.BLOCKSIZE)))
            put(packer.compress(bytes(2 * tarfile.BLOCKSIZE)))
            put(packer.flush())
            file.flush()
            os.fsync(file.fileno())
        written.rename(folder / f"{identifier}.{digest.hexdigest()}.tar.gz")

    def _remove_old(self, hour: datetime) -> None:
        """Remove the hours that the service no longer keeps when `hour` is new, and archives of another form."""
        oldest = self._hour_folder(hour - _KEPT).name
        expired = [path for path in self._folder.iterdir() if path.name < oldest]
        superseded = [path for path in self._home.iterdir() if path != self._folder]
        for path in expired + superseded:
            shutil.rmtree(path, ignore_errors=True)


def _members(lines: Iterable[bytes], most: int) -> Iterator[bytes]:
    """The lines as members of at most about `most` bytes, cut at line ends; a longer line has one for itself."""
    held: list[bytes] = []
    size = 0
    for line in lines:
        if held and size + len(line) + 1 > most:
            yield b"".join(held)
            held, size = [], 0
        held += (line, b"\n")
        size += len(line) + 1
    if held:
        yield b"".join(held)


def _found(path: Path) -> Archive:
    identifier, version, _ = path.name.split(".", 2)
    return Archive(identifier, path, version, path.stat().st_size)
