"""Stream files: folder, names, metadata, and the selection of valid files.

A file's name contains the number of its step, or the first and last numbers of its steps. A file with several steps
replaces the individual files of these steps. The file's metadata records the stream position.
"""

import json
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import BeforeValidator, PlainSerializer, TypeAdapter, ValidationError

from resources.datasets.paths import hour_folder, hour_folders
from resources.storage import read_footer
from resources.tables import ARTICLE_CHANGES

#: Folder of article events in the lake, and the table with their columns.
LIVE_CHANGES = "live_changes"
EVENTS = ARTICLE_CHANGES
#: Key of the step in a Parquet file's metadata.
METADATA_KEY = "live"
#: Number of stream partitions, and the largest valid offset, which is the largest integer that all JSON parsers read
#: exactly.
PARTITIONS, OFFSET_MAX = 50, 2**53 - 1
#: Maximum age of an event on arrival. The service retains events for two days.
PAST = timedelta(days=31)
#: Partitions per part of the stream. A connection reads complete parts, and all partitions in a part in parallel.
_PARTITIONS_OF_A_PART = 5
#: Number of recent hours whose folders can contain files that have been merged but not yet deleted.
_HOURS = 3
_NAME = re.compile(r"(\d{12})(?:-(\d{12}))?\.parquet")


class LiveFile(NamedTuple):
    """A stream file with the steps `first` to `last`."""

    last: int
    first: int
    path: Path


@dataclass(frozen=True)
class Run:
    """A run of the stream reader, from `began_at` to its newest file (`kept_at`), with counts over all its files.

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


#: Times by project and namespace. In JSON, the times are a list of triples, because JSON keys are strings.
_ByScope = Annotated[
    Mapping[tuple[str, int], datetime],
    BeforeValidator(lambda given: {(one[0], one[1]): one[2] for one in given} if isinstance(given, list) else given),
    PlainSerializer(lambda kept: [(*scope, moment) for scope, moment in kept.items()]),
]


@dataclass(frozen=True)
class Step:
    """A file of events, with its counts and the stream position after the file.

    Attributes:
        number: Consecutive number of the file.
        duplicate_count: Number of events that were received again and skipped.
        other_count: Number of events for projects and namespaces that are not stored.
        reject_count: Number of lines that are not valid records or events. These lines are in a separate file.
        reset_count: Number of times that a partition's offsets moved backward.
        offsets: Next offset by partition, for all partitions with at least one event so far.
        highest: Each partition's highest next offset and the time when it was reached, if that offset differs from the
            current next offset. Events below this offset are looked up among the stored events.
        since: Start time for partitions that have no events yet.
        kept_since: Start time of the stored events, by project and namespace. If empty, all events are stored.
        event_counts: Number of events stored since the start of the stream, by partition.
        runs: Newest runs, oldest first. The last run is the run of this step.
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
        """Time that every part with events has reached. All earlier events are stored."""
        reached: dict[int, datetime] = {}
        for partition, moment in self.published_at.items():
            part = partition // _PARTITIONS_OF_A_PART
            reached[part] = max(moment, reached.get(part, moment))
        return min(reached.values(), default=self.since)


COUNTS = ("row_count", "duplicate_count", "other_count", "reject_count", "reset_count")
_STEP = TypeAdapter(Step)


def facts_of(step: Step) -> str:
    """Return the JSON metadata for a step's file."""
    return _STEP.dump_json(step, exclude={"number", "path"}).decode()


def step_of(number: int, path: Path) -> Step:
    """Read the step from a file's metadata. Raises ValueError if there is no step, or OSError on a read error."""
    try:
        facts = json.loads(read_footer(path).metadata[METADATA_KEY.encode()])
        return _STEP.validate_python(facts | {"number": number, "path": path})
    except (KeyError, TypeError, ValidationError) as error:
        raise ValueError(f"its metadata contains no stream position: {error!r}") from error


def path_of(folder: Path, hour: datetime, first: int, last: int) -> Path:
    """Return the path of the file with these steps. Raises ValueError if `hour` is not the start of an hour."""
    return folder / hour_folder(hour) / name_of(first, last)


def name_of(first: int, last: int) -> str:
    return f"{first:012d}.parquet" if first == last else f"{first:012d}-{last:012d}.parquet"


def replaced(folder: Path, seconds: float) -> list[Path]:
    """Return files from recent hours that were replaced by another file at least `seconds` ago."""
    found = [file for _, of_hour in [*hour_folders(folder)][-_HOURS:] for file in files_in(of_hour)]
    old = [file for file in found if time.time() - file.path.stat().st_mtime > seconds]
    return [
        file.path
        for file in found
        if any(one is not file and one.first <= file.first and file.last <= one.last for one in old)
    ]


def files_in(of_hour: Path) -> list[LiveFile]:
    """Return all stream files in an hour's folder, in any order."""
    found = ((path, _NAME.fullmatch(path.name)) for path in of_hour.iterdir())
    return [LiveFile(int(match[2] or match[1]), int(match[1]), path) for path, match in found if match]


def counting(files: Iterable[LiveFile]) -> list[LiveFile]:
    """Return the files that have not been replaced by another file, oldest first."""
    kept: list[LiveFile] = []
    for file in sorted(files, key=lambda file: (file.last, -file.first), reverse=True):
        if not kept or file.last < kept[-1].first:
            kept.append(file)
    return kept[::-1]


def files_of(folder: Path, since: datetime | None = None) -> list[LiveFile]:
    """Return the valid files, oldest first. If `since` is specified, earlier hours are omitted."""
    hours = (of_hour for hour, of_hour in hour_folders(folder) if since is None or hour >= since)
    return counting(file for of_hour in hours for file in files_in(of_hour))
