"""The files of a stream: their folder, their names, and which of them count.

A file has the numbers of the steps in it, one or from the first to the last; a file of several steps takes the place of
theirs. Its own metadata say how far the stream is kept with it.
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

#: Folder below the lake: events of articles, with the columns of this table.
LIVE_CHANGES = "live_changes"
EVENTS = ARTICLE_CHANGES
#: Key of the facts in a file's own metadata.
METADATA_KEY = "live"
#: Partitions of a stream, and the largest offset that can be one: every whole number up to it is exact in all JSON.
PARTITIONS, OFFSET_MAX = 50, 2**53 - 1
#: An event is published at most so long before it comes; the service keeps two days.
PAST = timedelta(days=31)
#: Partitions of a part of the stream. A connection reads whole parts, all partitions of one side by side.
_PARTITIONS_OF_A_PART = 5
#: Folders that may still have merged files.
_HOURS = 3
_NAME = re.compile(r"(\d{12})(?:-(\d{12}))?\.parquet")


class LiveFile(NamedTuple):
    """A file of a stream, with the steps from `first` to `last` in it."""

    last: int
    first: int
    path: Path


@dataclass(frozen=True)
class Run:
    """One reading of the stream, from `began_at` until its newest file (`kept_at`); the counts cover all its files.

    `too_long_count` counts events that were longer than the longest record and were skipped.
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


#: Moments by project and namespace; in JSON, whose keys are texts, a list of all three.
_ByScope = Annotated[
    Mapping[tuple[str, int], datetime],
    BeforeValidator(lambda given: {(one[0], one[1]): one[2] for one in given} if isinstance(given, list) else given),
    PlainSerializer(lambda kept: [(*scope, moment) for scope, moment in kept.items()]),
]


@dataclass(frozen=True)
class Step:
    """A file of events, with its counts and the position of the stream after it.

    Attributes:
        number: Number of the file; each new file has the next one.
        duplicate_count: Events that were received again and were skipped.
        other_count: Events of projects and namespaces that are not stored.
        reject_count: Lines that are no records or impossible events; they are in a separate file.
        reset_count: Times that the offsets of a partition went back.
        offsets: Next offset by partition, of all partitions that have ever had an event.
        highest: By partition, the offset after all events ever received and the moment since which it has differed from
            the next one. Below it, events are looked up among the stored ones.
        since: Starting point of partitions that have never had an event.
        kept_since: Moment from which events are stored, by project and namespace. Empty: from the beginning for all.
        event_counts: Events stored since the stream began, by partition.
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
        """The moment until which all events are stored: that of the part with events that is furthest behind."""
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
    """The step of a file, by its own metadata. Raises ValueError: there are none, or OSError: it cannot be read."""
    try:
        facts = json.loads(read_footer(path).metadata[METADATA_KEY.encode()])
        return _adapter().validate_python({name: facts[name] for name in _FACTS} | {"number": number, "path": path})
    except (KeyError, TypeError, ValidationError) as error:
        raise ValueError(f"it does not say how far the stream is kept: {error!r}") from error


def path_of(folder: Path, hour: datetime, first: int, last: int) -> Path:
    """Return the path of the file of these steps. Raises ValueError if `hour` is not the start of an hour."""
    return folder / hour_folder(hour) / name_of(first, last)


def name_of(first: int, last: int) -> str:
    """The name of the file of these steps."""
    return f"{first:012d}.parquet" if first == last else f"{first:012d}-{last:012d}.parquet"


def replaced(folder: Path, seconds: float) -> list[Path]:
    """Return the files of the newest hours whose steps another file has had for `seconds`."""
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
    """Return the files whose steps no other file has, oldest first."""
    kept: list[LiveFile] = []
    for file in sorted(files, key=lambda file: (file.last, -file.first), reverse=True):
        if not kept or file.last < kept[-1].first:
            kept.append(file)
    return kept[::-1]


def files_of(folder: Path, since: datetime | None = None) -> list[LiveFile]:
    """Return the files of the hours from `since` on (None: all) that count, oldest first."""
    hours = (of_hour for hour, of_hour in hour_folders(folder) if since is None or hour >= since)
    return counting(file for of_hour in hours for file in files_in(of_hour))
