"""Warehouse benchmark that compares the cost of loads and publications with common alternatives at several sizes.

The alternatives store the same columns and load the same files. `window` appends the hour's rows to all rows and
recreates the pages with a window function over all rows. `replace` gives the pages a primary key and writes the hour's
rows with INSERT OR REPLACE. The alternatives do less work, because they do not track titles. The alternatives also
handle deletions of moved titles incorrectly.
"""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import duckdb

from benchmarks import operations
from benchmarks.harness import MeasurementError, Work, in_turn, measure, median
from benchmarks.pages import FIRST_HOUR, PROJECTS, Pages
from benchmarks.report import Report
from resources.tables import ARTICLE_CHANGES
from resources.warehouse import Warehouse
from resources.warehouse.database.sql import column_list, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from benchmarks.harness import Cost
    from resources.warehouse import ConvertedFile

ALTERNATIVES = ("window", "replace")
#: Query for the current pages, with the column names of the changes.
_PAGES = "(SELECT * RENAME (source_at AS batch_hour) FROM build.articles)"
_LIMIT_SECONDS = 600.0


@dataclass(frozen=True)
class _Mirror:
    """Data folder of one size, and the files for its hours."""

    name: str
    data: Path
    hours: list[list[ConvertedFile]]


def compare(
    folder: Path, pages: Sequence[int], changes: int, rounds: int, *, plain: bool, say: Callable[[str], None]
) -> Report:
    """Measure each number of pages in a separate data folder. All ratios are relative to the first number.

    `rounds` hours are loaded one by one. Then, `rounds` more hours are loaded and published one by one. The medians are
    reported.
    """
    report = Report(f"Warehouses of growing size, hours of {changes:,} changes")
    mirrors = [_made(report, folder / f"{number}", number, changes, rounds, say) for number in pages]
    hours = in_turn({one.name: _hour_of(one, 1) for one in mirrors}, rounds, say)
    publications = in_turn({one.name: _publication_of(one, rounds) for one in mirrors}, rounds, say)
    for mirror in mirrors:
        first = mirrors[0].name
        report.add(mirror.name, "hour", _median(hours[mirror.name]), base=(first, "hour"))
        report.add(mirror.name, "publication", _median(publications[mirror.name]), base=(first, "publication"))
        for title, query in _queries(mirror.data).items():
            work = Work(operations.ask, (mirror.data, query, _LIMIT_SECONDS))
            measure(work)  # load the files into the page cache
            report.add(mirror.name, title, measure(work), base=(first, title))
        for method in ALTERNATIVES if plain else ():
            say(f"{mirror.name}: the alternative, {method}")
            cost = _alternative(method, mirror.data, mirror.hours[1 : 1 + rounds])
            report.add(mirror.name, f"hour, {method}", cost, base=(mirror.name, "hour"))
        say(f"{mirror.name}: rebuild")
        report.add(
            mirror.name, "full rebuild", measure(Work(operations.rebuild, (mirror.data,))), base=(first, "full rebuild")
        )
        shutil.rmtree(mirror.data)
    return report


def _made(report: Report, data: Path, pages: int, changes: int, rounds: int, say: Callable[[str], None]) -> _Mirror:
    """Write a mirror's files, and load its snapshots and its first hour."""
    made, name = Pages(data, pages), f"{pages:,} pages"
    say(f"{name}: snapshots")
    snapshots = made.snapshots()
    first = report.rows[0].case if report.rows else name
    loaded = measure(Work(operations.load_snapshots, (data, snapshots)))
    report.add(name, "snapshots", loaded, base=(first, "snapshots"))
    applied = measure(Work(operations.apply_changes, (data,)))
    report.add(name, "articles from snapshots", applied, base=(first, "articles from snapshots"))
    mirror = _Mirror(name, data, [made.hour(number, changes) for number in range(1 + 2 * rounds)])
    measure(Work(operations.load_hours, (data, mirror.hours[:1])))
    return mirror


def _hour_of(mirror: _Mirror, first: int) -> Callable[[int], Cost]:
    return lambda number: measure(Work(operations.load_hours, (mirror.data, [mirror.hours[first + number]])))


def _publication_of(mirror: _Mirror, rounds: int) -> Callable[[int], Cost]:
    """Return a measurement that loads and publishes the next hour. Only the publication is measured."""
    load = _hour_of(mirror, 1 + rounds)

    def publication(number: int) -> Cost:
        load(number)
        return measure(Work(operations.publish, (mirror.data,), operations.published_sizes))

    return publication


def _median(costs: list[Cost] | str) -> Cost:
    if isinstance(costs, str):
        raise MeasurementError(costs)
    return median(costs)


def _queries(data: Path) -> dict[str, str]:
    """Return typical analyst queries by title."""
    hour, project = FIRST_HOUR.isoformat(), list(PROJECTS)[2]
    middle = "SELECT name FROM articles LIMIT 1 OFFSET (SELECT count(*) // 2 FROM articles)"
    name = Warehouse(data).sql(middle).rows[0][0]
    return {
        "page by its name": f"SELECT * FROM articles WHERE project_id = 'enwiki' AND name = {quoted(name)}",
        "top 100 of an hour": "SELECT project_id, name, count(*) AS n FROM article_changes "
        f"WHERE batch_hour = '{hour}' GROUP BY ALL ORDER BY n DESC LIMIT 100",
        "articles_at, one project": "SELECT count(*), max(abstract) "
        f"FROM articles_at('{hour}', project := '{project}', inexact := true)",
    }


def _alternative(method: str, data: Path, hours: list[list[ConvertedFile]]) -> Cost:
    """Return an alternative's median cost of loading an hour into a DuckDB file that contains the current pages."""
    path = data / f"{method}.duckdb"
    columns = column_list(ARTICLE_CHANGES.narrow)
    with _opened(path, data) as connection:
        connection.execute(f"ATTACH {quoted(str(data / 'warehouse' / 'build.duckdb'))} AS build (READ_ONLY)")
        connection.execute(f"CREATE TABLE changes AS SELECT {columns} FROM build.article_changes LIMIT 0")
        if method == "replace":
            kinds = connection.execute("SELECT column_name, column_type FROM (DESCRIBE changes)").fetchall()
            declared = ", ".join(f'"{name}" {kind}' for name, kind in kinds)
            connection.execute(f"CREATE TABLE articles ({declared}, PRIMARY KEY (project_id, article_id))")
            connection.execute(f"INSERT INTO articles SELECT {columns} FROM {_PAGES}")
        else:
            connection.execute(f"INSERT INTO changes SELECT {columns} FROM {_PAGES}")
            connection.execute("CREATE TABLE articles AS FROM changes")
    cost = median([measure(Work(load_alternative, (method, path, data, files))) for files in hours])
    path.unlink()
    return cost


def load_alternative(method: str, path: Path, data: Path, files: list[ConvertedFile]) -> None:
    """Load an hour's files with an alternative method."""
    columns = column_list(ARTICLE_CHANGES.narrow)
    names = ", ".join(quoted(str(file.path)) for file in files)
    newest = (
        "QUALIFY row_number() OVER (PARTITION BY project_id, article_id ORDER BY event_at DESC, version_id DESC) = 1"
    )
    with _opened(path, data) as connection:
        connection.execute("BEGIN")
        rows = f"SELECT {columns} FROM read_parquet([{names}], hive_partitioning = false)"
        connection.execute(f"INSERT INTO changes {rows}")
        if method == "window":
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
