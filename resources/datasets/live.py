"""Files of a stream: folder, names, metadata, and the selection of valid files.

The name of a file has the number of its step, or the first and last number of its steps. A file of several steps
replaces the files of these steps. Its metadata record the position of the stream.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import BeforeValidator, PlainSerializer, TypeAdapter, ValidationError

from resources.datasets.paths import hour_folder, hour_folders
from resources.storage import read_footer
from resources.tables import ARTICLE_CHANGES

#: Folder of article events below the lake, and the table with their columns.
LIVE_CHANGES = "live_changes"
EVENTS = ARTICLE_CHANGES
#: Key of the step in the metadata of a Parquet file.
METADATA_KEY = "live"
#: Number of partitions of a stream, and the largest valid offset: the largest integer that every JSON parser reads
#: exactly.
PARTITIONS, OFFSET_MAX = 50, 2**53 - 1
#: Maximum age of an event on arrival. The service retains two days.
PAST = timedelta(days=31)
#: Partitions of a part of the stream. A connection reads complete parts, and all partitions of a part in parallel.
_PARTITIONS_OF_A_PART = 5
#: Most recent hours whose folders may contain files that were merged but not yet deleted.
_HOURS = 3
_NAME = re.compile(r"(\d{12})(?:-(\d{12}))?\.parquet")


class LiveFile(NamedTuple):
    """A file of a stream with the steps `first` to `last`."""

    last: int
    first: int
    path: Path


@dataclass(frozen=True)
class Run:
    """One run of the stream's reader, from `began_at` until its newest file (`kept_at`). Counts cover all its files.

    `too_long_count` is the number of events that were skipped because they exceed the longest allowed record.
    """

    began_at: datetime
    kept_at: datetime
    connection_count: int
    reconnect_count: int = 0
    too_long_count: int = 0
    event_count: int = 0
    other_count: int = 0
    duplicate_count: int = 0
    reject_count: int = 0
    reset_count: int = 0


#: Times by project and namespace. In JSON, a list of triples, because JSON keys are texts.
_ByScope = Annotated[
    Mapping[tuple[str, int], datetime],
    BeforeValidator(lambda given: {(one[0], one[1]): one[2] for one in given} if isinstance(given, list) else given),
    PlainSerializer(lambda kept: [(*scope, moment) for scope, moment in kept.items()]),
]


@dataclass(frozen=True)
class Step:
    """A file of events, with its counts and the position of the stream after it.

    Attributes:
        number: Number of the file; numbers are consecutive.
        duplicate_count: Events that were received again and skipped.
        other_count: Events of projects and namespaces that are not stored.
        reject_count: Lines that are not records, or not valid events; they are in a separate file.
        reset_count: Number of times that the offsets of a partition went back.
        offsets: Next offset by partition, for all partitions with at least one event so far.
        highest: By partition, the highest next offset so far if it differs from the current one, and the time since
            when it differs. Events below it are looked up among the stored events.
        since: Starting time for partitions without any event so far.
        kept_since: Time since when events are stored, by project and namespace. Empty: all from the beginning.
        event_counts: Number of events stored since the start of the stream, by partition.
        runs: The newest runs, oldest first; the last is the run of this step.
    """

    number: int
    path: Path
    since: datetime
    row_count: int = 0
    duplicate_count: int = 0
    other_count: int = 0
    reject_count: int = 0
    reset_count: int = 0
    offsets: Mapping[int, int] = field(default_factory=dict)
    highest: Mapping[int, tuple[int, datetime]] = field(default_factory=dict)
    published_at: Mapping[int, datetime] = field(default_factory=dict)
    kept_since: _ByScope = field(default_factory=dict)
    event_counts: Mapping[int, int] = field(default_factory=dict)
    runs: tuple[Run, ...] = ()

    @property
    def kept_until(self) -> datetime:
        """Time until which all events are stored: the earliest position of all parts with events."""
        reached: dict[int, datetime] = {}
        for partition, moment in self.published_at.items():
            part = partition // _PARTITIONS_OF_A_PART
            reached[part] = max(moment, reached.get(part, moment))
        return min(reached.values(), default=self.since)


COUNTS = ("row_count", "duplicate_count", "other_count", "reject_count", "reset_count")


_FACTS = tuple(one.name for one in fields(Step) if one.name not in {"number", "path"})


@cache
def _adapter() -> TypeAdapter[Step]:
    return TypeAdapter(Step)


def facts_of(step: Step) -> str:
    """Return the metadata of a step's file (JSON)."""
    return _adapter().dump_json(step, include=set(_FACTS)).decode()


def step_of(number: int, path: Path) -> Step:
    """Read the step from the metadata of a file. Raises ValueError: there is no step. Raises OSError: read error."""
    try:
        facts = json.loads(read_footer(path).metadata[METADATA_KEY.encode()])
        return _adapter().validate_python({name: facts[name] for name in _FACTS} | {"number": number, "path": path})
    except (KeyError, TypeError, ValidationError) as error:
        raise ValueError(f"its metadata have no position of the stream: {error!r}") from error


def path_of(folder: Path, hour: datetime, first: int, last: int) -> Path:
    """Return the path of the file of these steps. Raises ValueError if `hour` is not the start of an hour."""
    return folder / hour_folder(hour) / name_of(first, last)


def name_of(first: int, last: int) -> str:
    """Return the name of the file of the steps `first` to `last`."""
    return f"{first:012d}.parquet" if first == last else f"{first:012d}-{last:012d}.parquet"


def replaced(folder: Path, seconds: float) -> list[Path]:
    """Return the files of the newest hours whose steps have been in another file for at least `seconds`."""
    found = [file for _, of_hour in [*hour_folders(folder)][-_HOURS:] for file in files_in(of_hour)]
    old = [file for file in found if time.time() - file.path.stat().st_mtime > seconds]
    return [
        file.path
        for file in found
        if any(one is not file and one.first <= file.first and file.last <= one.last for one in old)
    ]


def files_in(of_hour: Path) -> list[LiveFile]:
    """Return all stream files in the folder of an hour, in any order."""
    found = ((path, _NAME.fullmatch(path.name)) for path in of_hour.iterdir())
    return [LiveFile(int(match[2] or match[1]), int(match[1]), path) for path, match in found if match]


def counting(files: Iterable[LiveFile]) -> list[LiveFile]:
    """Return the files that no other file replaces, oldest first."""
    kept: list[LiveFile] = []
    for file in sorted(files, key=lambda file: (file.last, -file.first), reverse=True):
        if not kept or file.last < kept[-1].first:
            kept.append(file)
    return kept[::-1]


def files_of(folder: Path, since: datetime | None = None) -> list[LiveFile]:
    """Return the valid files of the hours from `since` on (None: all hours), oldest first."""
    hours = (of_hour for hour, of_hour in hour_folders(folder) if since is None or hour >= since)
    return counting(file for of_hour in hours for file in files_in(of_hour))
