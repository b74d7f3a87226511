"""The warehouse at growing size: what an hour costs, and what the plain ways cost that people use instead.

Belongs here: what is measured, and the plain ways beside it. Does not belong here: making the rows (`pages`).

The plain ways keep the same columns and take the same files. `window`: the hour's rows are added to all rows, and the pages are
made anew by a window over everything. `replace`: the pages have a primary key, and the hour's rows are put in by INSERT OR
REPLACE. Both are easier than ours: they do not follow titles, and get deletes wrong where a title changes hands.
"""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from assets.steps.live_publication import ENVIRONMENT
from benchmarks.costs import Cost, median, of_process, taken, timed, total, written_bytes
from benchmarks.pages import FIRST_HOUR, PROJECTS, Pages
from resources.datasets import live
from resources.tables import ARTICLE_CHANGES
from resources.warehouse import Warehouse
from resources.warehouse.database.sql import column_list, quoted
from resources.warehouse.publish import standby

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from resources.warehouse import LakeFile

#: Hours that are loaded one by one; the median counts.
_ROUNDS = 3
_DAY = 24
#: More of these: they are short, and the sizes are compared with each other.
_LIVE_ROUNDS = 9
_ROOT = Path(__file__).parents[1]
#: What the process of a live publication does, at a moment that is given; what it costs without the start of Python goes into a file.
_LIVE_PROCESS = """
import sys
from datetime import datetime
from pathlib import Path
from benchmarks.costs import timed
from resources.warehouse import Warehouse
data, now, told = sys.argv[1:]
warehouse, made = Warehouse(Path(data), clock=lambda: datetime.fromisoformat(now)), []
cost = timed(lambda: made.append(warehouse.publish_live()))
Path(told).write_text(f"{cost.seconds} {cost.cpu_seconds} {made[0].event_count} {made[0].seconds}")
"""
#: Before the days: one that is loaded first, some of which each is measured, some that are each published.
_HOURS = 1 + _ROUNDS + 1 + _ROUNDS
#: From so many pages on, one hour by a window over everything says enough.
_ONCE_FROM = 1_000_000
PLAIN_WAYS = ("window", "replace")
#: The current pages with the columns of the changes.
_PAGES = "(SELECT * RENAME (source_at AS batch_hour) FROM build.articles)"


@dataclass
class Size:
    """All that was measured of one number of pages, by what was done."""

    pages: int
    changes: int
    costs: dict[str, Cost] = field(default_factory=dict)
    notes: dict[str, float] = field(default_factory=dict)

    def ratio(self, plain: str) -> float | None:
        """How many times longer a plain way takes for an hour, by the clock; None where it was not measured."""
        found = self.costs.get(f"hour, plain: {plain}")
        return None if found is None else found.seconds / self.costs["hour"].seconds

    def facts(self) -> dict[str, Any]:
        """The same as plain values."""
        return asdict(self) | {"plain_to_ours": {way: self.ratio(way) for way in PLAIN_WAYS}}


@dataclass
class _Mirror:
    """One size while it is measured: its data folder, what makes its rows, and the hours that it is given."""

    size: Size
    data: Path
    made: Pages
    warehouse: Warehouse
    hours: list[list[LakeFile]]
    say: Callable[[str], None]

    def tell(self, what: str) -> None:
        self.say(f"{self.size.pages:,} pages: {what}")


def measure(
    folder: Path, pages: Sequence[int], changes: int, *, plain: bool, days: bool, say: Callable[[str], None]
) -> list[Size]:
    """Measure each size in a folder of its own below `folder`, which is emptied afterwards."""
    mirrors = [_begin(folder / f"{count}", count, changes, plain=plain, days=days, say=say) for count in pages]
    say("Live publications, the sizes in turn")
    _live(mirrors)
    for mirror in mirrors:
        _end(mirror, days=days)
    return [mirror.size for mirror in mirrors]


def _begin(data: Path, pages: int, changes: int, *, plain: bool, days: bool, say: Callable[[str], None]) -> _Mirror:
    made = Pages(data, pages)
    mirror = _Mirror(Size(pages, changes), data, made, Warehouse(data), [], say)
    size, warehouse = mirror.size, mirror.warehouse
    mirror.tell("making them")
    snapshots = made.snapshots()
    mirror.tell("snapshots")
    with taken(size.costs, "snapshots"):
        for snapshot in snapshots:
            warehouse.load_snapshot(snapshot)
    with taken(size.costs, "articles from snapshots"):
        warehouse.apply_changes()
    mirror.tell("hours")
    mirror.hours = hours = [made.hour(number, changes) for number in range(_HOURS + (2 * _DAY if days else 0))]
    _load(warehouse, hours[:1])
    # the plain ways begin as ours does: once ours has taken the hours in, their pages lie together, which would help them
    for way in PLAIN_WAYS if plain else ():
        mirror.tell(f"the plain way, {way}")
        _plain(size, way, data, hours[1 : 1 + _ROUNDS])
    mirror.tell("hours, one by one")
    size.costs["hour"] = median([timed(partial(_load, warehouse, [files])) for files in hours[1 : 1 + _ROUNDS]])
    mirror.tell("publish and questions")
    _publish(size, warehouse, hours[1 + _ROUNDS : _HOURS])
    _questions(size, warehouse)
    return mirror


def _end(mirror: _Mirror, *, days: bool) -> None:
    size, warehouse = mirror.size, mirror.warehouse
    if days:
        mirror.tell("days")
        day, other = mirror.hours[_HOURS:][:_DAY], mirror.hours[_HOURS + _DAY :]
        costs = {files[0].batch_hour: timed(partial(_load, warehouse, [files])) for files in day}
        size.costs["24 hours, 24 runs"] = total(costs.values())
        size.costs["of them, the first of a day"] = next(cost for hour, cost in costs.items() if hour.hour == 0)
        # what a run does once it has published
        merges: list[Cost] = []
        while not merges or size.notes["merged_rows"]:
            merges.append(timed(lambda: size.notes.update(merged_rows=warehouse.merge_row_groups(steps=1))))
        size.costs["their row groups put together"] = total(merges)
        size.costs["of that, the longest step"] = max(merges, key=lambda cost: cost.seconds)
        with taken(size.costs, "24 hours, one run"):
            _load(warehouse, other)
    mirror.tell("rebuild")
    with taken(size.costs, "full rebuild"):
        warehouse.rebuild_articles()
    shutil.rmtree(mirror.data)


def _load(warehouse: Warehouse, hours: list[list[LakeFile]]) -> None:
    """File to article_changes to articles to ledger: hours one by one, then the articles once."""
    for files in hours:
        warehouse.load_hour(files[0].batch_hour, files)
    warehouse.apply_changes()


def _publish(size: Size, warehouse: Warehouse, hours: list[list[LakeFile]]) -> None:
    """A publication after each hour: the first copies everything, as where the file before last is in use, the others what changed."""
    # for how long a file must have been out of use costs no work
    standby.SETTLED_SECONDS = 0.0  # type: ignore[misc]
    warehouse.publish()
    for title, key, some in (("publish, everything copied", "whole", hours[:1]), ("publish", "delta", hours[1:])):
        costs, made, written = [], [], []
        for files in some:
            _load(warehouse, [files])
            before = written_bytes()
            costs.append(timed(lambda: made.append(warehouse.publish())))  # noqa: B023  called at once
            written.append(written_bytes() - before)
        if any((one.whole_because is None) != (key == "delta") for one in made):
            raise SystemExit(f"Not the publication that was to be measured: {made[-1]}")
        size.costs[title] = median(costs)
        size.notes |= {
            f"{key}_locked_seconds": max(one.locked_seconds for one in made),
            f"{key}_copied_share": max(one.copied_bytes / one.size_bytes for one in made),
            f"{key}_written_share": max(count / one.size_bytes for count, one in zip(written, made, strict=True)),
        }
    size.notes["published_gb"] = made[-1].size_bytes / 1e9


def _live(mirrors: Sequence[_Mirror]) -> None:
    """The events of an hour without a file, as the stream would bring them: seen by analysts beside what is published.

    The sizes take turns, since they are compared and no machine is equally fast all the time. Each publication has a process of its own, as with a stream.
    """
    costs: list[tuple[list[Cost], list[Cost]]] = [([], []) for _ in mirrors]
    for mirror in mirrors:
        _stream(mirror)
        _live_process(mirror)
    for _ in range(_LIVE_ROUNDS):
        for mirror, found in zip(mirrors, costs, strict=True):
            for one, cost in zip(found, _live_process(mirror), strict=True):
                one.append(cost)
    for mirror, found in zip(mirrors, costs, strict=True):
        mirror.size.costs["live publication"] = median(found[0])
        mirror.size.costs["live publication, with the start of its process"] = median(found[1])
        shutil.rmtree(mirror.data / "lake" / live.LIVE_CHANGES)
        mirror.warehouse.publish({"stream": "ended"})


def _stream(mirror: _Mirror) -> None:
    """Put an hour where a stream would, and no file of it where it would be loaded from."""
    files = mirror.made.hour(len(mirror.hours), mirror.size.changes)
    for number, file in enumerate(files, 1):
        target = live.path_of(mirror.data / "lake" / live.LIVE_CHANGES, file.batch_hour, number, number)
        target.parent.mkdir(parents=True, exist_ok=True)
        file.path.rename(target)
    mirror.size.notes["live_events"] = sum(file.row_count for file in files)


def _live_process(mirror: _Mirror) -> tuple[Cost, Cost]:
    """The cost of a live publication, and of the whole process."""
    told = mirror.data / "told"
    now = FIRST_HOUR + timedelta(hours=len(mirror.hours) + 1)
    command = [sys.executable, "-c", _LIVE_PROCESS, str(mirror.data), now.isoformat(), str(told)]
    whole = of_process(command, _ROOT, ENVIRONMENT | os.environ)
    seconds, busy, events, locked = map(float, told.read_text().split())
    if events != mirror.size.notes["live_events"]:
        raise SystemExit(f"Not the events that were to be measured: {events:.0f}")
    mirror.size.notes["live_locked_seconds"] = max(mirror.size.notes.get("live_locked_seconds", 0.0), locked)
    return Cost(seconds, busy, whole.peak_mib), whole


def _questions(size: Size, warehouse: Warehouse) -> None:
    """What analysts ask, each on a connection of its own; the second asking counts, as the file is then in memory."""
    hour = FIRST_HOUR.isoformat()
    project = list(PROJECTS)[2]
    with warehouse.connect_published() as connection:
        name = connection.execute(
            "SELECT name FROM articles LIMIT 1 OFFSET (SELECT count(*) // 2 FROM articles)"
        ).fetchall()[0][0]
        asked = {
            "look-up by name": f"SELECT * FROM articles WHERE project_id = 'enwiki' AND name = {quoted(name)}",
            "top 100 of an hour": "SELECT project_id, name, count(*) AS n FROM article_changes "
            f"WHERE batch_hour = '{hour}' GROUP BY ALL ORDER BY n DESC LIMIT 100",
            "articles_at, one project": f"SELECT count(*), max(abstract) FROM articles_at('{hour}', project := '{project}', inexact := true)",
        }
        for title, query in asked.items():
            connection.execute(query).fetchall()
            with taken(size.costs, title):
                connection.execute(query).fetchall()


def _plain(size: Size, way: str, data: Path, hours: list[list[LakeFile]]) -> None:
    path = data / f"{way}.duckdb"
    columns = column_list(ARTICLE_CHANGES.narrow)
    with _opened(path, data) as connection:
        connection.execute(f"ATTACH {quoted(str(data / 'warehouse' / 'build.duckdb'))} AS build (READ_ONLY)")
        connection.execute(f"CREATE TABLE changes AS SELECT {columns} FROM build.article_changes LIMIT 0")
        if way == "replace":
            kinds = connection.execute("SELECT column_name, column_type FROM (DESCRIBE changes)").fetchall()
            declared = ", ".join(f'"{name}" {kind}' for name, kind in kinds)
            connection.execute(f"CREATE TABLE articles ({declared}, PRIMARY KEY (project_id, article_id))")
            connection.execute(f"INSERT INTO articles SELECT {columns} FROM {_PAGES}")
        else:
            connection.execute(f"INSERT INTO changes SELECT {columns} FROM {_PAGES}")
            connection.execute("CREATE TABLE articles AS FROM changes")
    some = hours[: 1 if way == "window" and size.pages > _ONCE_FROM else _ROUNDS]
    size.costs[f"hour, plain: {way}"] = median([timed(partial(_plain_hour, way, path, data, files)) for files in some])
    path.unlink()


def _plain_hour(way: str, path: Path, data: Path, files: list[LakeFile]) -> None:
    columns = column_list(ARTICLE_CHANGES.narrow)
    names = ", ".join(quoted(str(file.path)) for file in files)
    newest = (
        "QUALIFY row_number() OVER (PARTITION BY project_id, article_id ORDER BY event_at DESC, version_id DESC) = 1"
    )
    with _opened(path, data) as connection:
        connection.execute("BEGIN")
        rows = f"SELECT {columns} FROM read_parquet([{names}], hive_partitioning = false)"
        connection.execute(f"INSERT INTO changes {rows}")
        if way == "window":
            connection.execute(
                f"CREATE OR REPLACE TABLE articles AS FROM (FROM changes {newest}) WHERE change_type = 'update'"
            )
        else:
            connection.execute(f"INSERT OR REPLACE INTO articles {rows} {newest}")
            connection.execute("DELETE FROM articles WHERE change_type = 'delete'")
        connection.execute("COMMIT")


@contextmanager
def _opened(path: Path, data: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(str(path)) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("SET memory_limit = '4GB'")
        connection.execute("SET preserve_insertion_order = false")
        connection.execute(f"SET temp_directory = {quoted(str(data / 'spill'))}")
        yield connection
