"""Choice of what is compacted together: hours by spans of the calendar, and the versions of snapshots.

Files of hours are merged into ever longer spans, from an hour to a month, so that there are some dozens of them at any
time, and no row is written again more than once for each length. All files of a version become few, whole or not at
all. Only what makes the number of files smaller is done: files of the greatest size are left as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Final

from resources.datasets import Dataset, Family
from resources.datasets.paths import short
from resources.formatting import hour_text
from resources.warehouse.database.connect import Build, answer
from resources.warehouse.database.sql import statement

_HOUR: Final = timedelta(hours=1)
#: An hour may be loaded again as long as the service keeps it.
SETTLED: Final = timedelta(hours=50)
#: Files that are not worth a compaction: a reader opens as many in a few milliseconds.
_FEW: Final = 3
#: No file is started after so many bytes.
FILE_BYTES: Final = 1_000_000_000
# The versions of snapshots whose rows are in the files of their archives, the one loaded last first.
_VERSIONS = """
SELECT snapshot_id, snapshot_version, count(*) AS file_count, CAST(sum(lake_bytes) AS BIGINT) AS lake_bytes
FROM (SELECT * EXCLUDE (row_count, duplicate_count, applied_at) FROM snapshots) AS version
JOIN (SELECT * EXCLUDE (loaded_at) FROM loads WHERE row_count > 0 AND compaction_id IS NULL) AS file
  USING (table_name, source_at, project_id, namespace_id)
WHERE table_name = $table
GROUP BY ALL
ORDER BY any_value(loaded_at) DESC, snapshot_id, snapshot_version
"""


@dataclass(frozen=True)
class CompactionWindow:
    """A length of time, as part of the calendar (UTC).

    `start` returns the start of the span that a moment is in; `age` is the delay between the end of the span and its
    compaction.
    """

    name: str
    start: Callable[[datetime], datetime]
    age: timedelta

    def __str__(self) -> str:
        """Its name."""
        return self.name

    def end(self, start: datetime) -> datetime:
        """The end of the span that begins at `start`."""
        return _end(self, start)


@cache
def _end(span: CompactionWindow, start: datetime) -> datetime:
    moment = start
    while span.start(moment) == start:
        moment += _HOUR
    return moment


def _start_of_ten_days(moment: datetime) -> datetime:
    day = min(21, (moment.day - 1) // 10 * 10 + 1)
    return moment.replace(day=day, hour=0)


#: Shortest first.
SPANS: Final = (
    CompactionWindow("hour", lambda moment: moment, timedelta(minutes=30)),
    CompactionWindow("quarter", lambda moment: moment.replace(hour=moment.hour // 6 * 6), timedelta(hours=2)),
    CompactionWindow("day", lambda moment: moment.replace(hour=0), timedelta(hours=6)),
    CompactionWindow("ten_days", _start_of_ten_days, SETTLED),
    CompactionWindow("month", lambda moment: moment.replace(day=1, hour=0), SETTLED),
)
_RANK: Final = {span.name: rank for rank, span in enumerate(SPANS)}


@dataclass(frozen=True)
class Unit:
    """Smallest input of a compaction: a lake file of an hour (`span` is None), or all files of an earlier compaction.

    `name` is the path relative to the lake, or the compaction_id. `superseded`: it holds rows that are masked;
    `dropped`: some of them because their project was dropped.
    """

    name: str
    span: str | None
    first_hour: datetime
    file_count: int
    lake_bytes: int
    superseded: bool = False
    dropped: bool = False


@dataclass(frozen=True)
class Merge:
    """Units to be compacted together."""

    span: CompactionWindow
    first_hour: datetime
    units: tuple[Unit, ...]

    @property
    def end_hour(self) -> datetime:
        """The first hour after it."""
        return self.span.end(self.first_hour)

    @property
    def name(self) -> str:
        """Prefix of the names of its files."""
        return f"{self.span.name}_{self.first_hour:%Y-%m-%dT%H}"

    @property
    def label(self) -> str:
        """Name for messages."""
        return f"{self.span.name.replace('_', ' ')} from {hour_text(self.first_hour)} UTC on"

    @property
    def lake_bytes(self) -> int:
        """Bytes to read."""
        return sum(unit.lake_bytes for unit in self.units)

    @property
    def file_count(self) -> int:
        """Files to read."""
        return sum(unit.file_count for unit in self.units)


@dataclass(frozen=True)
class VersionMerge:
    """The files of a version, to be compacted together."""

    snapshot_id: str
    snapshot_version: str
    file_count: int
    lake_bytes: int

    #: In `compacted_files`.
    span = "snapshot"
    first_hour = None
    end_hour = None

    @property
    def name(self) -> str:
        """Prefix of the names of its files."""
        return self.snapshot_id

    @property
    def label(self) -> str:
        """Name for messages."""
        return f"version {short(self.snapshot_version)} of {self.snapshot_id}"


def compactions(build: Build, *of: Dataset) -> list[tuple[Dataset, Merge | VersionMerge]]:
    """Return the due compactions of datasets, newest first in each."""
    return [(one, merge) for one in of for merge in planned(build, one)]


def planned(build: Build, dataset: Dataset) -> list[Merge] | list[VersionMerge]:
    """Return the due compactions of a dataset, of versions the one loaded last first."""
    asked = {"table": dataset.name}
    if dataset.family is Family.SNAPSHOT:
        found = (VersionMerge(*row) for row in answer(build.connection, _VERSIONS, asked))
        return [merge for merge in found if is_worth(merge.file_count, merge.lake_bytes, FILE_BYTES)]
    return merges((Unit(*row) for row in answer(build.connection, statement("compaction/units"), asked)), build.now)


def merges(units: Iterable[Unit], now: datetime, *, file_bytes: int = FILE_BYTES) -> list[Merge]:
    """Return the due compactions, newest first, because recent hours are read most.

    Each unit goes into the longest span that is due and in which compaction reduces the number of files. Masked rows
    are left out by the next compaction of their span. Once a span is settled, masked rows alone are a reason to compact
    it. Rows of a dropped project are left out at once.
    """
    left = list(units)
    found: list[Merge] = []
    for span in reversed(SPANS):
        for start, some in _by_span(left, span).items():
            if span.end(start) + span.age > now:
                continue
            own = [unit for unit in some if unit.span == span.name]
            mended = any(u.dropped or (u.superseded and span.end(start) + SETTLED <= now) for u in own)
            if not mended:
                some = [unit for unit in some if unit.span != span.name]  # noqa: PLW2901
            files, size = sum(unit.file_count for unit in some), sum(unit.lake_bytes for unit in some)
            if mended or is_worth(files, size, file_bytes):
                found.append(Merge(span, start, tuple(some)))
                taken = set(map(id, some))
                left = [unit for unit in left if id(unit) not in taken]
    return sorted(found, key=lambda merge: (merge.first_hour, merge.span.name), reverse=True)


def _by_span(units: Sequence[Unit], span: CompactionWindow) -> dict[datetime, list[Unit]]:
    """The units of this span and of shorter ones by the part of the calendar that they are in."""
    found: dict[datetime, list[Unit]] = {}
    for unit in units:
        if unit.span is None or _RANK[unit.span] <= _RANK[span.name]:
            found.setdefault(span.start(unit.first_hour.astimezone(UTC)), []).append(unit)
    return found


def is_worth(file_count: int, lake_bytes: int, file_bytes: int) -> bool:
    """Return True if a compaction reduces the number of files enough to justify rewriting them."""
    return file_count > _FEW and file_count > 2 * -(-lake_bytes // file_bytes)
