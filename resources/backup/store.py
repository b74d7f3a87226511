"""What lies in a destination: complete backups by their time, each with its files' digests, and at most one unfinished.

<destination>/2026-11-23T080500Z/        a complete backup: the mirror's files under their own paths
              2026-11-23T080500Z/MD5SUMS      a line per file, as `md5sum` writes and checks it, in `order`
              2026-11-23T080500Z/backup.json  written last: how many files and bytes there are
              unfinished/                the one under way, or killed
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from resources import files
from resources.backup.errors import BackupError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import BufferedReader
    from pathlib import Path

_log = logging.getLogger(__name__)

SUMS, FACTS, UNFINISHED = "MD5SUMS", "backup.json", "unfinished"
#: Files of a backup at most, bytes of their list, bytes of a line of it, bytes of `backup.json`.
_MOST_FILES: Final = 50_000_000
_SUMS_BYTES, _LINE_BYTES, _FACTS_BYTES = 8 << 30, 4_100, 1 << 16
_LINE = re.compile(r"([0-9a-f]{32})  ([^\n]+)\n")


class _Facts(BaseModel):
    """Content of `backup.json`."""

    model_config = ConfigDict(extra="forbid", strict=True)

    service: Annotated[str, Field(max_length=1_000, pattern=r"\A[^\x00-\x1f\x7f-\x9f]*\z")]
    file_count: Annotated[int, Field(ge=0, le=_MOST_FILES)]
    size_bytes: Annotated[int, Field(ge=0, lt=1 << 63)]
    sums_md5: Annotated[str, Field(pattern=r"\A[0-9a-f]{32}\z")]


_FACTS = TypeAdapter(_Facts)


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
        """Yield path and MD5 of every file, in `order`; one at a time, since there may be very many.

        Raises:
            BackupError: The list was changed since, or is none that `wme backup` writes.
        """
        path = self.path / SUMS
        try:
            with files.opened(path, follow=False) as lines:
                self._check_seal(lines)
                yield from self._lines(lines)
        except (FileNotFoundError, files.UnusableFileError) as error:
            told = f"The list of files {path} is gone." if isinstance(error, FileNotFoundError) else error.what
            raise BackupError(
                f"{told} Nothing was changed. Choose an older backup, or copy the files of this one by hand: it is a plain copy of the data folder."
            ) from None

    def _check_seal(self, lines: BufferedReader) -> None:
        # a list without end is not read to its end
        is_short = os.fstat(lines.fileno()).st_size <= _SUMS_BYTES
        if not is_short or hashlib.file_digest(lines, files.new_md5).hexdigest() != self.sums_md5:
            raise files.UnusableFileError(f"The list of files {self.path / SUMS} is damaged.")
        lines.seek(0)

    def _lines(self, lines: BufferedReader) -> Iterator[tuple[str, str]]:
        last: list[str] | None = None
        for number in range(self.file_count):
            try:
                found = _LINE.fullmatch(lines.readline(_LINE_BYTES).decode())
            except UnicodeDecodeError:
                found = None
            if found is None or (last is not None and order(found[2]) >= last):
                raise files.UnusableFileError(
                    f"Line {number + 1} of {self.path / SUMS} is not one that `wme backup` writes there."
                )
            last = order(found[2])
            yield found[2], found[1]
        if lines.read(1):
            raise files.UnusableFileError(
                f"{self.path / SUMS} has more lines than the {self.file_count} files of the backup."
            )


def line_of(name: str, digest: str) -> str:
    """A file's line in the list."""
    return f"{digest}  {name}\n"


def order(name: str) -> list[str]:
    """What files are sorted by, descending: the newest hours come first, and all of a folder together."""
    return name.split("/")


def completed(destination: Path) -> list[Backup]:
    """Return the complete backups of a destination, the oldest first. A damaged one is named in the log and is none."""
    found = []
    for path in sorted(destination.glob("????-??-??T??????Z")):
        try:
            backup = _read(path)
        except BackupError as error:
            _log.warning("%s", error)
        else:
            found += [] if backup is None else [backup]
    return found


def find(source: Path) -> Backup:
    """Return the backup that a path names: itself, or the newest of those in it.

    Raises:
        BackupError: There is none, or it is damaged.
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
    """Return the backup of a folder; None: it is not complete.

    Raises:
        BackupError: Its note is damaged.
    """
    try:
        facts = files.read_json(folder / FACTS, _FACTS, most=_FACTS_BYTES)
        return Backup(folder, **facts.model_dump())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except files.UnusableFileError as error:
        told = error.what
    except OSError as error:
        told = f"its note {FACTS} cannot be read ({error.strerror})."
    raise BackupError(
        f"The backup {folder} cannot be used: {told} Nothing was changed. Its other files are plain copies of the data folder's; choose another "
        "backup, or copy them by hand."
    )
