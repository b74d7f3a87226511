"""What lies in a destination: complete backups by their time, each with its files' digests, and at most one unfinished.

<destination>/2026-11-23T080500Z/        a complete backup: the mirror's files under their own paths
              2026-11-23T080500Z/MD5SUMS      a line per file, as `md5sum` writes and checks it, in `order`
              2026-11-23T080500Z/backup.json  written last: how many files and bytes there are
              unfinished/                the one under way, or killed
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from resources import files
from resources.backup.errors import BackupError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SUMS, FACTS, UNFINISHED = "MD5SUMS", "backup.json", "unfinished"


@dataclass(frozen=True)
class Backup:
    """A complete backup.

    Attributes:
        path: Its folder, named by the time (UTC) at which it was taken.
        service: The service that the mirror was filled from.
    """

    path: Path
    service: str
    file_count: int
    size_bytes: int
    sums_md5: str

    def sums(self) -> Iterator[tuple[str, str]]:
        """Path and MD5 of every file, in `order`; one at a time, since there may be very many.

        Raises:
            BackupError: The list was changed since.
        """
        if files.md5_of(self.path / SUMS) != self.sums_md5:
            raise BackupError(
                f"The list of files {self.path / SUMS} is damaged. Nothing was changed. Choose an older backup, or copy the files of this one by "
                "hand: it is a plain copy of the data folder."
            )
        with (self.path / SUMS).open() as lines:
            for line in lines:
                digest, _, name = line.rstrip("\n").partition("  ")
                yield name, digest


def line_of(name: str, digest: str) -> str:
    """A file's line in the list."""
    return f"{digest}  {name}\n"


def order(name: str) -> list[str]:
    """What files are sorted by, descending: the newest hours come first, and all of a folder together."""
    return name.split("/")


def completed(destination: Path) -> list[Backup]:
    """The complete backups of a destination, the oldest first."""
    found = (_read(path) for path in sorted(destination.glob("????-??-??T??????Z")))
    return [backup for backup in found if backup is not None]


def find(source: Path) -> Backup:
    """The backup that a path names: itself, or the newest of those in it.

    Raises:
        BackupError: There is none.
    """
    one = None if source.name == UNFINISHED else _read(source)
    if one is None and not (found := completed(source)):
        unfinished = (
            " It holds an unfinished one, which `wme backup` continues." if (source / UNFINISHED).exists() else ""
        )
        raise BackupError(
            f"There is no complete backup in {source}.{unfinished} Nothing was changed. Name a folder that `wme backup` has written."
        )
    return one or found[-1]


def complete(folder: Path, service: str, file_count: int, size_bytes: int) -> Backup:
    """Write down that the backup in a folder has everything."""
    backup = Backup(folder, service, file_count, size_bytes, files.md5_of(folder / SUMS))
    facts = {name: value for name, value in vars(backup).items() if name != "path"}
    files.write(folder / FACTS, json.dumps(facts, indent=2).encode() + b"\n")
    return backup


def _read(folder: Path) -> Backup | None:
    try:
        return Backup(folder, **json.loads((folder / FACTS).read_bytes()))
    except (OSError, ValueError, TypeError):
        return None
