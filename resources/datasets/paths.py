"""The grammar of paths in the archive and the lake: names of files and of the folders of hours, built and parsed.

A file is named `<identifier>.<digits>.<kind>`. The digits are the first ones of a version or digest. New content has a
new name, so a file is written once and never replaced.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

#: Digits of a version or digest in a name.
DIGITS = 8
ARCHIVE, SET, PARQUET = "tar.gz", "set.json", "parquet"
#: Two files with the same rows in the same order: one has the bodies, the other all else.
ROWS, BODIES = f"rows.{PARQUET}", f"bodies.{PARQUET}"
#: Kinds of files in the folder of a snapshot: sets, archives (unfinished ones too), and their notes.
_OF_SNAPSHOT = {SET, *(f"{ARCHIVE}{part}{note}" for part in ("", ".part") for note in ("", ".json"))}
_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_NAME = re.compile(rf"({_SAFE.pattern})\.([A-Za-z0-9][A-Za-z0-9_-]{{{DIGITS - 1}}})\.([a-z][a-z.]*)")


class Name(NamedTuple):
    """The parsed name of a file: `digits` are the first of the version or digest, `kind` is the rest."""

    identifier: str
    digits: str
    kind: str


def name_of(identifier: str, version: str, kind: str = ARCHIVE) -> str:
    """The name of a file, by default of an archive. Raises ValueError for what cannot be part of a name."""
    return f"{safe(identifier)}.{short(version)}.{kind}"


def parse(name: str) -> Name | None:
    """The parts of what `name_of` made; None for another name."""
    found = _NAME.fullmatch(name)
    return Name(*found.groups()) if found else None


def with_bodies(path: str) -> str:
    """Return the file that has the bodies of a lake file's rows: a separate one, or the file itself."""
    return f"{path.removesuffix(ROWS)}{BODIES}" if path.endswith(f".{ROWS}") else path


def with_rows(path: str) -> str:
    """The file that the ledger names for a lake file: the one with the rows of these bodies, or itself."""
    return f"{path.removesuffix(BODIES)}{ROWS}" if path.endswith(f".{BODIES}") else path


def is_of_snapshot(name: str, identifier: str) -> bool:
    """Return True if a file belongs to this snapshot: an archive, a set, an unfinished file or a note."""
    found = parse(name)
    if found is None or found.kind not in _OF_SNAPSHOT:
        return False
    return re.fullmatch(rf"{re.escape(identifier)}(_chunk_\d+)?", found.identifier) is not None


def short(version: str) -> str:
    """Return the digits of a version or digest that a file name has. Raises ValueError if there are too few."""
    if len(version) < DIGITS:
        raise ValueError(f"{version!r} is too short for a version or digest: at least {DIGITS} digits are needed.")
    return safe(version[:DIGITS])


def safe(name: str) -> str:
    """A name that came from outside and becomes part of a path. Raises ValueError where it cannot."""
    if not _SAFE.fullmatch(name):
        raise ValueError(f"{name!r} cannot be part of a file name: letters, digits, '_', '-' and '.' can.")
    return name


def hour_folder(hour: datetime) -> str:
    """Return the folder of an hour: `date=2026-11-19/hour=05`. Raises ValueError if `hour` does not start an hour."""
    if hour.tzinfo is None:
        raise ValueError(f"The hour {hour} has no time zone; hours are aware datetimes.")
    start = hour.astimezone(UTC)
    if (start.minute, start.second, start.microsecond) != (0, 0, 0):
        raise ValueError(f"{hour} is not the start of an hour.")
    return f"date={start:%Y-%m-%d}/hour={start:%H}"


def hour_folders(root: Path) -> Iterator[tuple[datetime, Path]]:
    """The hours that have a folder below `root`, in order; a folder that was put aside under another name is none."""
    for day in sorted(root.glob("date=*")):
        for folder in sorted(day.glob("hour=*")):
            name = f"{day.name}/{folder.name}"
            with suppress(ValueError):
                hour = datetime.strptime(name, "date=%Y-%m-%d/hour=%H").replace(tzinfo=UTC)
                if hour_folder(hour) == name:
                    yield hour, folder
