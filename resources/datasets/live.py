"""The files of a stream: their folder, their names, and which of them count.

A file has the numbers of the steps in it, one or from the first to the last; a file of several steps takes the place of theirs.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from resources.datasets.paths import hour_folder, hour_folders

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime
    from pathlib import Path

#: Folder below the lake: events of articles.
LIVE_CHANGES = "live_changes"
_NAME = re.compile(r"(\d{12})(?:-(\d{12}))?\.parquet")


class LiveFile(NamedTuple):
    """A file of a stream, with the steps from `first` to `last` in it."""

    last: int
    first: int
    path: Path


def path_of(folder: Path, hour: datetime, first: int, last: int) -> Path:
    """Where the file of these steps lies. Raises ValueError where `hour` is no start of an hour."""
    return folder / hour_folder(hour) / name_of(first, last)


def name_of(first: int, last: int) -> str:
    """The name of the file of these steps."""
    return f"{first:012d}.parquet" if first == last else f"{first:012d}-{last:012d}.parquet"


def files_of(folder: Path, since: datetime | None = None) -> list[LiveFile]:
    """The files that came in the hours from `since` on (None: all), the oldest first, without those whose steps another one has."""
    found = sorted(_found(folder, since), key=lambda file: (file.last, -file.first))
    kept: list[LiveFile] = []
    for file in reversed(found):
        if not kept or file.last < kept[-1].first:
            kept.append(file)
    return kept[::-1]


def _found(folder: Path, since: datetime | None) -> Iterator[LiveFile]:
    for hour, of_hour in hour_folders(folder):
        if since is None or hour >= since:
            for path in of_hour.iterdir():
                if match := _NAME.fullmatch(path.name):
                    first = int(match[1])
                    yield LiveFile(int(match[2] or first), first, path)
