"""The files of a stream: their folder, their names, and which of them count.

A file has the numbers of the steps in it, one or from the first to the last; a file of several steps takes the place of theirs.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, NamedTuple

from resources.datasets.paths import hour_folder, hour_folders

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime
    from pathlib import Path

#: Folder below the lake: events of articles.
LIVE_CHANGES = "live_changes"
#: Folders that files which were merged may still lie in.
_HOURS = 3
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


def replaced(folder: Path, seconds: float) -> list[Path]:
    """The files of the newest hours whose steps another one has had for so long."""
    found = [file for _, of_hour in [*hour_folders(folder)][-_HOURS:] for file in files_in(of_hour)]
    old = [file for file in found if time.time() - file.path.stat().st_mtime > seconds]
    return [
        file.path
        for file in found
        if any(one is not file and one.first <= file.first and file.last <= one.last for one in old)
    ]


def files_in(of_hour: Path) -> list[LiveFile]:
    """All files in the folder of an hour, in any order."""
    found = ((path, _NAME.fullmatch(path.name)) for path in of_hour.iterdir())
    return [LiveFile(int(match[2] or match[1]), int(match[1]), path) for path, match in found if match]


def counting(files: Iterable[LiveFile]) -> list[LiveFile]:
    """Those of which no other one has the steps, the oldest first."""
    kept: list[LiveFile] = []
    for file in sorted(files, key=lambda file: (file.last, -file.first), reverse=True):
        if not kept or file.last < kept[-1].first:
            kept.append(file)
    return kept[::-1]


def files_of(folder: Path, since: datetime | None = None) -> list[LiveFile]:
    """The files that came in the hours from `since` on (None: all), the oldest first, without those whose steps another one has."""
    hours = (of_hour for hour, of_hour in hour_folders(folder) if since is None or hour >= since)
    return counting(file for of_hour in hours for file in files_in(of_hour))
