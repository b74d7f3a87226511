"""Growth benchmark for queries and hourly work with a week, a month and three months of the same projects' history.

`wme compact` compacts the complete history in one run, whereas a real mirror compacts hour by hour. Each query has a
separate connection, and its files are in the page cache. A query that exceeds the time limit is interrupted, and the
elapsed time is reported.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from benchmarks import operations
from benchmarks.harness import Work, measure, measure_command, median
from benchmarks.pages import Pages
from benchmarks.report import Report
from resources import data_folder
from resources.warehouse import Warehouse
from resources.warehouse.database.sql import moment, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime
    from pathlib import Path

    from benchmarks.harness import Cost

    _Say = Callable[[str], None]

_WME = ("-m", "pipelines")
#: Disk space for a lake file and its rows in all DuckDB files (measured and rounded up), and for all other files.
FILE_BYTES = 75_000
_OTHER_BYTES = 100_000_000
#: Number of hours that are loaded between two publications while a history is built.
_LOADED_AT_ONCE = 240
#: Maximum duration in seconds of a query that is repeated.
_LONG_SECONDS = 10.0
#: Changes per hour and number of pages in a project. Nearly all pages change within a week, so longer histories have
#: the same number of pages.
_CHANGES, _PAGES_OF_PROJECT = 16, 960
#: Number of pages whose text is read by one query.
_PAGES = 100
_KEY = "project_id, article_id, version_id, source_at"
_START = "from pipelines.definitions import defs; defs()"


@dataclass(frozen=True)
class Plan:
    """Settings for the measurements.

    Attributes:
        rounds: Number of hours that are loaded one by one, and of runs per query. The median is reported.
        limit: Time limit for a query in seconds.
        before: True to also measure queries before the compaction.
    """

    rounds: int = 3
    limit: float = 60.0
    before: bool = True


def disk_bytes(days: int, project_count: int) -> int:
    """Return the maximum disk space in bytes that the measurement of these history lengths needs."""
    return 24 * days * project_count * FILE_BYTES + _OTHER_BYTES


def compare(folder: Path, days: Sequence[int], project_count: int, last: datetime, plan: Plan, say: _Say) -> Report:
    """Measure a mirror for each history length, ending at `last`. All ratios are relative to the shortest history."""
    report = Report(f"Mirrors of growing age, {project_count} projects")
    for length in days:
        data, shares = (
            folder / f"{length}",
            {f"p{number:02}wiki": 100 / project_count for number in range(project_count)},
        )
        first = last - timedelta(hours=24 * length)
        pages = Pages(data, _PAGES_OF_PROJECT * project_count, shares, first, has_text=True, has_creations=False)
        data_folder.claim(data, "sandbox of the benchmarks")
        _Age(report, pages, length, plan, say).measure()
        shutil.rmtree(data)
    return report


class _Age:
    """Measurement of one history length."""

    def __init__(self, report: Report, pages: Pages, days: int, plan: Plan, say: _Say) -> None:
        self.name, self.report, self.pages, self.data = f"{days} days", report, pages, pages.data
        self.hours, self.changes, self.plan, self._say = 24 * days, _CHANGES * len(pages.projects), plan, say

    def say(self, what: str) -> None:
        """Display the current measurement step."""
        self._say(f"{self.name}: {what}")

    def measure(self) -> None:
        """Build and compact the mirror, load more hours, and measure each step."""
        self._fill()
        if self.plan.before:
            self.say("queries before the compaction")
            self._queries(", before compaction")
        self.say("compaction")
        self._compact()
        self.say("hours")
        self._load_more()
        # compact as the schedule does after each hour; files of the newest hours stay uncompacted
        self._command(*_WME, "compact")
        measure(Work(operations.publish, (self.data,)))
        self.say("queries")
        self._queries()
        self.say("status, code location")
        for title, arguments in {"wme status": (*_WME, "status"), "code location": ("-c", _START)}.items():
            self._add(title, median([self._command(*arguments) for _ in range(self.plan.rounds)]))
        self._note_sizes()

    def _add(self, title: str, cost: Cost) -> None:
        base = self.report.rows[0].case if self.report.rows else self.name
        self.report.add(self.name, title, cost, base=(base, title))

    def _command(self, *arguments: str) -> Cost:
        """Measure a Python command that runs with the mirror's settings."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("WME_", "DAGSTER"))}
        names = ",".join(self.pages.projects)
        settings = {"WME_DATA": str(self.data), "WME_PROJECTS": names, "WME_SANDBOX": "1"}
        return measure_command(arguments, clean | settings | {"WME_MIN_FREE_GB": "0", "WME_GRACE_HOURS": "0"})

    def _fill(self) -> None:
        """Load the history hour by hour, but apply, publish and merge its changes only occasionally."""
        for start in range(0, self.hours, _LOADED_AT_ONCE):
            self.say(f"{start:,} of {self.hours:,} hours loaded")
            some = range(start, min(self.hours, start + _LOADED_AT_ONCE))
            files = [self.pages.hour(number, self.changes) for number in some]
            measure(Work(operations.load_hours, (self.data, files)))
            measure(Work(operations.maintain, (self.data,)))

    def _load_more(self) -> None:
        """Load, apply and publish each of the next hours separately."""
        loads, publications = [], []
        for number in range(self.hours, self.hours + self.plan.rounds):
            files = self.pages.hour(number, self.changes)
            loads.append(measure(Work(operations.load_hours, (self.data, [files]))))
            publications.append(measure(Work(operations.publish, (self.data,), operations.published_sizes)))
        self._add("hour", median(loads))
        self._add("publication", median(publications))

    def _compact(self) -> None:
        """Compact the complete history, delete the replaced files, and verify that page text is unchanged."""
        before, files = self._text_digest(), self._lake_bytes()
        self._add("compaction", self._command(*_WME, "compact"))
        self.report.notes[f"{self.name}: lake before compaction, GB"] = sum(files) / 1e9
        measure(Work(operations.maintain, (self.data,)))
        self._command(*_WME, "clean")
        if (after := self._text_digest()) != before:
            raise RuntimeError(f"The compaction changed page text (count, digest): {before} before, {after} after.")

    def _text_digest(self) -> tuple[Any, ...]:
        """Return the number of rows in `article_bodies` and a digest of their content."""
        columns = "project_id, article_id, version_id, source_at, batch_hour, html, wikitext"
        query = f"SELECT count(*), bit_xor(hash({columns})) FROM article_bodies"
        return tuple(Warehouse(self.data).sql(query).rows[0])

    def _lake_bytes(self) -> list[int]:
        return [path.stat().st_size for path in (self.data / "lake").rglob("*.parquet")]

    def _note_sizes(self) -> None:
        files, warehouse = self._lake_bytes(), Warehouse(self.data)
        counts = "SELECT (SELECT count(*) FROM articles), (SELECT count(*) FROM article_changes)"
        [(pages, changes)] = warehouse.sql(counts).rows
        self.report.notes |= {
            f"{self.name}: pages": pages,
            f"{self.name}: changes": changes,
            f"{self.name}: lake files": len(files),
            f"{self.name}: lake, GB": sum(files) / 1e9,
            f"{self.name}: build file, GB": warehouse.build_path.stat().st_size / 1e9,
        }

    def _queries(self, suffix: str = "") -> None:
        """Measure queries for page text by keys from the middle of the mirror. Each query must return (True, True)."""
        for title, query in self._page_text_queries().items():
            work = Work(operations.ask, (self.data, query, self.plan.limit, [(True, True)]))
            costs = [measure(work)]  # the first run loads the files into the page cache
            while len(costs) <= self.plan.rounds and costs[-1].seconds < _LONG_SECONDS:
                costs.append(measure(work))
            self._add(title + suffix, median(costs[1:] or costs))

    def _page_text_queries(self) -> dict[str, str]:
        warehouse = Warehouse(self.data)
        [(name, project, article, version)] = warehouse.sql(
            "SELECT name, project_id, article_id, version_id FROM articles ORDER BY project_id, article_id "
            "LIMIT 1 OFFSET (SELECT count(*) // 2 FROM articles)"
        ).rows
        picked = warehouse.sql(
            "SELECT project_id, article_id FROM articles QUALIFY (row_number() OVER (ORDER BY project_id, article_id) "
            f"- 1) % greatest(count(*) OVER () // {_PAGES}, 1) = 0 LIMIT {_PAGES}"
        ).rows
        [(hour,)] = warehouse.sql("SELECT max(batch_hour) - INTERVAL 12 HOUR FROM hours").rows
        page = f"project_id = {quoted(project)} AND name = {quoted(name)}"
        right = f"starts_with(html, concat('<!-- ', {version}, ' -->'))"
        all_right = "bool_and(starts_with(html, concat('<!-- ', version_id, ' -->')))"
        return {
            "text by title": f"SELECT count(*) = 1, bool_and({right}) FROM articles "
            f"JOIN article_bodies USING ({_KEY}) WHERE {page}",
            "text by page": f"SELECT count(*) > 0, bool_or({right}) FROM article_bodies "
            f"WHERE project_id = {quoted(project)} AND article_id = {article}",
            "text by revision": f"SELECT count(*) > 0, bool_or({right}) FROM article_bodies "
            f"WHERE version_id = {version}",
            "text of 100 pages": f"SELECT count(*) = {_PAGES}, {all_right} FROM articles "
            f"JOIN article_bodies USING ({_KEY}) SEMI JOIN (VALUES {', '.join(map(str, picked))}) "
            "AS picked (project_id, article_id) USING (project_id, article_id)",
            "text of an hour": f"SELECT count(*) > 0, {all_right} FROM article_bodies "
            f"WHERE batch_hour = {moment(hour)} AND html IS NOT NULL",
            "article_text": f"SELECT count(*) = 1, true FROM article_text({quoted(project)}, {quoted(name)})",
        }
