"""Selection of files to compact together: hourly files of a compaction window, or files of a snapshot version.

Hourly files are merged into files for successively longer windows, up to a month. The lake therefore contains only
dozens of files at any time, and each row is rewritten at most once per window. A snapshot version's files are merged
completely or not at all. A compaction must reduce the number of files, so files of the maximum size are not rewritten.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from resources.datasets import Dataset, Family
from resources.datasets.paths import short
from resources.formatting import hour_text
from resources.warehouse.database.connect import Build, answer
from resources.warehouse.database.sql import statement

#: Age at which an hour can no longer change, because the service has deleted the hour's file.
SETTLED: Final = timedelta(hours=50)
#: Largest number of files that are not compacted. A reader can open this few in a few milliseconds.
_FEW: Final = 3
#: File size in bytes at which a compaction starts another file.
FILE_BYTES: Final = 1_000_000_000
# Snapshot versions whose rows are still in their original files, most recently loaded first.
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
    """A calendar unit (UTC) whose hourly files are compacted together.

    `start` maps a timestamp to the start of its window. `longest` is the length of the longest window. `age` is the
    delay between a window's end and its compaction.
    """

    name: str
    start: Callable[[datetime], datetime]
    longest: timedelta
    age: timedelta

    def end(self, start: datetime) -> datetime:
        return self.start(start + self.longest)


def _start_of_ten_days(moment: datetime) -> datetime:
    day = min(21, (moment.day - 1) // 10 * 10 + 1)
    return moment.replace(day=day, hour=0)


#: Shortest first.
SPANS: Final = (
    CompactionWindow("hour", lambda moment: moment, timedelta(hours=1), timedelta(minutes=30)),
    CompactionWindow(
        "quarter", lambda moment: moment.replace(hour=moment.hour // 6 * 6), timedelta(hours=6), timedelta(hours=2)
    ),
    CompactionWindow("day", lambda moment: moment.replace(hour=0), timedelta(days=1), timedelta(hours=6)),
    CompactionWindow("ten_days", _start_of_ten_days, timedelta(days=11), SETTLED),
    CompactionWindow("month", lambda moment: moment.replace(day=1, hour=0), timedelta(days=31), SETTLED),
)
_RANK: Final = {span.name: rank for rank, span in enumerate(SPANS)}


@dataclass(frozen=True)
class Unit:
    """Smallest input of a compaction: an hour's lake file (`span` is None), or all files of an earlier compaction.

    `name` is the path relative to the lake, or the compaction_id. `superseded` means that some rows are masked, and
    `dropped` means that some rows are masked because their project was dropped.
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
    """Files to compact together: the units of a window, or the files of a snapshot's `version`.

    `span` is the window's name or `snapshot`. `name` is the prefix of the new files' names, and `label` is the name for
    messages. `version` contains the snapshot's identifier and version.
    """

    span: str
    name: str
    label: str
    file_count: int
    lake_bytes: int
    first_hour: datetime | None = None
    end_hour: datetime | None = None
    units: tuple[Unit, ...] = ()
    version: tuple[str, str] | None = None


def compactions(build: Build, *of: Dataset) -> list[tuple[Dataset, Merge]]:
    """Return the due compactions of several datasets, newest first within each dataset."""
    return [(one, merge) for one in of for merge in planned(build, one)]


def planned(build: Build, dataset: Dataset) -> list[Merge]:
    """Return a dataset's due compactions, starting with the newest hours or the most recently loaded version."""
    asked = {"table": dataset.name}
    if dataset.family is Family.SNAPSHOT:
        return [
            Merge("snapshot", name, f"version {short(version)} of {name}", count, size, version=(name, version))
            for name, version, count, size in answer(build.connection, _VERSIONS, asked)
            if _is_worth(count, size)
        ]
    return merges((Unit(*row) for row in answer(build.connection, statement("compaction/units"), asked)), build.now)


def merges(units: Iterable[Unit], now: datetime) -> list[Merge]:
    """Return the due compactions, newest first, because recent hours are read most often.

    Each unit is assigned to the longest due window in which a compaction reduces the number of files. The next
    compaction of a window omits the window's masked rows. A settled window is compacted again if it has masked rows.
    Rows of a dropped project are removed immediately.
    """
    left = list(units)
    found: list[Merge] = []
    for span in reversed(SPANS):
        windows: defaultdict[datetime, list[Unit]] = defaultdict(list)
        for unit in left:
            if unit.span is None or _RANK[unit.span] <= _RANK[span.name]:
                windows[span.start(unit.first_hour.astimezone(UTC))].append(unit)
        for start, some in windows.items():
            if span.end(start) + span.age > now:
                continue
            own = [unit for unit in some if unit.span == span.name]
            mended = any(u.dropped or (u.superseded and span.end(start) + SETTLED <= now) for u in own)
            if not mended:
                some = [unit for unit in some if unit.span != span.name]  # noqa: PLW2901
            files, size = sum(unit.file_count for unit in some), sum(unit.lake_bytes for unit in some)
            if mended or _is_worth(files, size):
                name, label = f"{span.name}_{start:%Y-%m-%dT%H}", span.name.replace("_", " ")
                label += f" from {hour_text(start)} UTC"
                found.append(Merge(span.name, name, label, files, size, start, span.end(start), tuple(some)))
                taken = set(map(id, some))
                left = [unit for unit in left if id(unit) not in taken]
    return sorted(found, key=lambda merge: (merge.first_hour, merge.span), reverse=True)


def _is_worth(file_count: int, lake_bytes: int) -> bool:
    """Return True if a compaction reduces the number of files enough to justify rewriting them."""
    return file_count > _FEW and file_count > 2 * -(-lake_bytes // FILE_BYTES)
