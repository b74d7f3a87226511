"""The archives of hours: made when they are first needed, and kept for as long as the service would keep them.

Source of the form: the service's documentation of batches, and its public source for what that leaves open: a gzipped
tar of `<identifier>_<n>.ndjson` members cut at line ends, in the order in which the partitions of a topic are read,
with a few messages twice. The version of an archive is its MD5.
"""

from __future__ import annotations

import shutil
import zlib
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

from resources.sandbox.store.archives import PIECE_BYTES, ArchiveStore, archive_in
from resources.sandbox.world.chance import Chance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from datetime import datetime
    from pathlib import Path

    from resources.sandbox.store.archives import Archive

#: Uncompressed bytes after which a member ends. The service's are 100 MB; an hour of the default world shall have
#: several all the same.
MEMBER_BYTES = 4_000_000
PARTITIONS = 50
#: Messages that a reader takes from one partition before it turns to another, at most.
_LONGEST_RUN = 16
#: Every message of this number is followed by its repetition: fewer than one in a hundred.
_REPEATED = 160
_FIRST_REPEATED = 120
#: The service keeps two days; what is older than that and a margin is removed.
_KEPT = timedelta(hours=60)

_Item = TypeVar("_Item")


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
    """Yield the items of all lanes, some of one and then some of another, each in its own order."""
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


class BatchStore(ArchiveStore):
    """The hourly archives of one world."""

    def __init__(self, home: Path, form: str = "1", member_bytes: int = MEMBER_BYTES) -> None:
        """Keep archives in `home`, each member of them up to `member_bytes` (uncompressed)."""
        super().__init__(home, f"{form}-{member_bytes}")
        self._member_bytes = member_bytes

    def archives(
        self, project: str, hour: datetime, make: Callable[[], Mapping[str, Iterable[Message]]]
    ) -> list[Archive]:
        """Return the archives of a project's hour, made unless they exist; making one removes those long before it.

        Args:
            project: Database name.
            hour: Start of the hour.
            make: Gives the messages by identifier; not called when the archives exist.

        Returns:
            The archives in the order of their identifiers; none for a quiet hour.
        """

        def write(folder: Path) -> None:
            stamp = int(hour.timestamp())
            for identifier, messages in make().items():
                ordered = in_reading_order(messages, Chance("reading", identifier, stamp))
                self._write(folder, identifier, stamp + 3600, with_repetitions(message.line() for message in ordered))
            self._remove_old(hour)

        return self.made(self._hour_folder(hour) / project, write)

    def has(self, project: str, hour: datetime) -> bool:
        """Return whether the archives of a project's hour exist."""
        return (self._hour_folder(hour) / project).is_dir()

    def _hour_folder(self, hour: datetime) -> Path:
        return self.folder / f"{hour:%Y-%m-%dT%H}"

    def _write(self, folder: Path, identifier: str, stamp: int, lines: Iterable[bytes]) -> None:
        with archive_in(folder, identifier) as archive:
            for number, member in enumerate(_members(lines, self._member_bytes)):
                archive.begin(f"{identifier}_{number}.ndjson", 0o766, stamp, len(member))
                for start in range(0, len(member), PIECE_BYTES):
                    archive.add(member[start : start + PIECE_BYTES])

    def _remove_old(self, hour: datetime) -> None:
        """Remove the hours that the service no longer keeps when `hour` is new."""
        oldest = self._hour_folder(hour - _KEPT).name
        for path in self.folder.iterdir():
            if path.name < oldest:
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
