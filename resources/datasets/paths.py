"""Construction and parsing of the names of files and hour folders in the archive and the lake.

A file is named `<identifier>.<digits>.<kind>`, where `<digits>` are the first digits of a version or digest. New
content gets a new name, so a file is written once and never replaced.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

#: Number of version or digest digits in a file name.
DIGITS = 8
ARCHIVE, SET, PARQUET = "tar.gz", "set.json", "parquet"
#: Suffixes of two files with the same rows in the same order, one with the bodies and one with the other columns.
ROWS, BODIES = f"rows.{PARQUET}", f"bodies.{PARQUET}"
#: Kinds of files in a snapshot's folder: sets, complete and partial archives, and notes about archives.
_OF_SNAPSHOT = re.compile(rf"{re.escape(SET)}|{re.escape(ARCHIVE)}(\.part(\.[0-9]+)?)?(\.json)?")
_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_NAME = re.compile(rf"({_SAFE.pattern})\.([A-Za-z0-9][A-Za-z0-9_-]{{{DIGITS - 1}}})\.([a-z][a-z.]*[0-9]*)")


class Name(NamedTuple):
    """Parts of a file name. `digits` are the first digits of the version or digest; `kind` is the suffix."""

    identifier: str
    digits: str
    kind: str


def name_of(identifier: str, version: str, kind: str = ARCHIVE) -> str:
    """Build a file name, by default for an archive. Raises ValueError for characters that are not allowed in names."""
    return f"{safe(identifier)}.{short(version)}.{kind}"


def parse(name: str) -> Name | None:
    """Split a name from `name_of` into its parts, or return None for other names."""
    found = _NAME.fullmatch(name)
    return Name(*found.groups()) if found else None


def with_bodies(path: str) -> str:
    """Return the path of the file that contains a lake file's bodies: a separate file or the lake file itself."""
    return f"{path.removesuffix(ROWS)}{BODIES}" if path.endswith(f".{ROWS}") else path


def with_rows(path: str) -> str:
    """Return the path that the ledger lists for a lake file. For a file with bodies, return its row file's path."""
    return f"{path.removesuffix(BODIES)}{ROWS}" if path.endswith(f".{BODIES}") else path


def is_of_snapshot(name: str, identifier: str) -> bool:
    """Return True if a file (a set, a complete or partial archive, or a note) belongs to this snapshot."""
    found = parse(name)
    if found is None or not _OF_SNAPSHOT.fullmatch(found.kind):
        return False
    return re.fullmatch(rf"{re.escape(identifier)}(_chunk_\d+)?", found.identifier) is not None


def short(version: str) -> str:
    """Return a version's or digest's first digits, for a file name. Raises ValueError if the version is too short."""
    if len(version) < DIGITS:
        raise ValueError(f"{version!r} is too short for a version or digest, which needs at least {DIGITS} digits.")
    return safe(version[:DIGITS])


def safe(name: str) -> str:
    """Return an external name if it is safe to use in a path. Raises ValueError for characters that are not allowed."""
    if not _SAFE.fullmatch(name):
        raise ValueError(f"{name!r} cannot be part of a file name; only letters, digits, '_', '-' and '.' are allowed.")
    return name


def hour_folder(hour: datetime) -> str:
    """Return an hour's folder, such as `date=2026-11-19/hour=05`. Raises ValueError if `hour` is not a full hour."""
    if hour.tzinfo is None:
        raise ValueError(f"The hour {hour} has no time zone; hours must be timezone-aware.")
    start = hour.astimezone(UTC)
    if (start.minute, start.second, start.microsecond) != (0, 0, 0):
        raise ValueError(f"{hour} is not the start of an hour.")
    return f"date={start:%Y-%m-%d}/hour={start:%H}"


def hour_folders(root: Path) -> Iterator[tuple[datetime, Path]]:
    """Yield the hours that have a folder under `root`, in order. Renamed folders are ignored."""
    for day in sorted(root.glob("date=*")):
        for folder in sorted(day.glob("hour=*")):
            name = f"{day.name}/{folder.name}"
            with suppress(ValueError):
                hour = datetime.strptime(name, "date=%Y-%m-%d/hour=%H").replace(tzinfo=UTC)
                if hour_folder(hour) == name:
                    yield hour, folder
