"""A mirror that grows old: what an analyst and an hour wait for with a week, a month and a year of the same projects.

Belongs here: what is asked and done, and what of it is measured. Does not belong here: making the mirror (`lakes`).

The history is compacted as a whole, by `wme compact`, which a mirror does hour by hour. The bodies are asked for before as well, from the files
as they were loaded. Each question is asked over a connection of its own, as analysts ask theirs, when the files are in the system's memory already. What
takes longer than the limit is interrupted, and counts as that long.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from benchmarks.costs import median, of_process, taken, timed
from resources.warehouse.database.sql import moment, quoted
from resources.warehouse.publish import standby

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.costs import Cost
    from benchmarks.lakes import Stock
    from resources.warehouse import Warehouse

ROOT = Path(__file__).parents[1]
_WME = ("-m", "pipelines")
#: A question that took as long once is not asked again.
_LONG_SECONDS = 10.0
#: Disk that a lake file takes, with its row in both DuckDB files (measured, and some more).
FILE_BYTES = 75_000
_BESIDES_BYTES = 100_000_000
#: Pages whose bodies are asked for together.
_PAGES = 100
_KEY = "project_id, article_id, version_id, source_at"


#: What an hour or an analyst waits for: after 90 days it is to take no more than 1.5 times as long as after 7.
AIM = 1.5


@dataclass
class Age:
    """All that was measured of one length of history, by what was done."""

    days: int
    projects: int
    costs: dict[str, Cost] = field(default_factory=dict)
    notes: dict[str, float] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The history in a few words."""
        return f"{self.days} days of {self.projects} projects"

    def facts(self) -> dict[str, Any]:
        """The same as plain values."""
        return asdict(self)


@dataclass(frozen=True)
class Plan:
    """How each history is measured.

    `rounds`: hours that are loaded one by one (the stock's last), and askings of a question; the median counts. `limit`: seconds for
    a question. `is_loaded_asked`: whether questions are asked before the compaction too.
    """

    rounds: int = 3
    limit: float = 60.0
    is_loaded_asked: bool = True


def disk_bytes(files: int) -> int:
    """Disk that measuring takes at the most, by the number of lake files of the longest history."""
    return 2 * files * FILE_BYTES + _BESIDES_BYTES


def measure(folder: Path, stock: Stock, days: int, plan: Plan, say: Callable[[str], None]) -> Age:
    """Measure a mirror of `days` days below `folder`, which is emptied afterwards."""
    age = Age(days, len(stock.projects))
    data = folder / f"{days}"
    last = stock.last - plan.rounds * timedelta(hours=1)
    warehouse = stock.mirror(data, last, 24 * days, lambda what: say(f"{age.name}: making it, {what}"))
    if plan.is_loaded_asked:
        say(f"{age.name}: questions before the compaction")
        _questions(age, warehouse, plan, ", as loaded")
    say(f"{age.name}: compaction")
    _compaction(age, stock, warehouse)
    say(f"{age.name}: hours")
    _hours(age, stock, warehouse, plan.rounds)
    # as each hour does it by its schedule: the newest hour's own files are left
    _process(stock, data, *_WME, "compact")
    warehouse.publish()
    say(f"{age.name}: questions")
    _questions(age, warehouse, plan)
    say(f"{age.name}: status, code location")
    for title, arguments in {
        "wme status": (*_WME, "status"),
        "code location": ("-c", "from pipelines.definitions import defs; defs()"),
    }.items():
        age.costs[title] = median([_process(stock, data, *arguments) for _ in range(plan.rounds)])
    _sizes(age, warehouse)
    shutil.rmtree(data)
    return age


def _compaction(age: Age, stock: Stock, warehouse: Warehouse) -> None:
    """The whole history, in a process of its own; then what was read goes. The bodies are the same before and after."""
    before, files = _bodies(warehouse), _lake_files(warehouse)
    age.costs["compaction"] = cost = _process(stock, warehouse.data, *_WME, "compact")
    age.notes["compaction, MB/s read"] = sum(files) / 1e6 / cost.seconds
    age.notes["compaction, CPU s a day"] = cost.cpu_seconds / age.days
    age.notes["lake before, GB"] = sum(files) / 1e9
    warehouse.publish()
    _process(stock, warehouse.data, *_WME, "clean")
    if (after := _bodies(warehouse)) != before:
        raise RuntimeError(f"Bodies before the compaction (count, digest): {before}, after it: {after}.")


def _bodies(warehouse: Warehouse) -> tuple[Any, ...]:
    """The number of all bodies, and a digest of them."""
    query = "SELECT count(*), bit_xor(hash(project_id, article_id, version_id, source_at, batch_hour, html, wikitext)) FROM article_bodies"
    return tuple(warehouse.sql(query).rows[0])


def _questions(age: Age, warehouse: Warehouse, plan: Plan, when: str = "") -> None:
    """What analysts ask for bodies, by keys of pages in the middle of the mirror."""
    with warehouse.connect_published() as connection:
        [(name, project, article, version)] = connection.execute(
            "SELECT name, project_id, article_id, version_id FROM articles ORDER BY project_id, article_id "
            "LIMIT 1 OFFSET (SELECT count(*) // 2 FROM articles)"
        ).fetchall()
        picked = connection.execute(
            "SELECT project_id, article_id FROM articles QUALIFY "
            "(row_number() OVER (ORDER BY project_id, article_id) - 1) % greatest(count(*) OVER () // $1, 1) = 0 LIMIT $1",
            [_PAGES],
        ).fetchall()
        [(hour,)] = connection.execute("SELECT max(batch_hour) - INTERVAL 12 HOUR FROM hours").fetchall()
        macros = {
            row[0] for row in connection.execute("SELECT DISTINCT function_name FROM duckdb_functions()").fetchall()
        }
    page = f"project_id = {quoted(project)} AND name = {quoted(name)}"
    right = f"starts_with(html, concat('<!-- ', {version}, ' -->'))"
    asked = {
        "body by title": f"SELECT count(*) = 1, bool_and({right}) FROM articles JOIN article_bodies USING ({_KEY}) WHERE {page}",
        "body by page": f"SELECT count(*) > 0, bool_or({right}) FROM article_bodies WHERE project_id = {quoted(project)} "
        f"AND article_id = {article}",
        "body by revision": f"SELECT count(*) > 0, bool_or({right}) FROM article_bodies WHERE version_id = {version}",
        "bodies of 100 pages": f"SELECT count(*) = {_PAGES}, bool_and(starts_with(html, concat('<!-- ', version_id, ' -->'))) "
        f"FROM articles JOIN article_bodies USING ({_KEY}) SEMI JOIN (VALUES {', '.join(map(str, picked))}) "
        "AS picked (project_id, article_id) USING (project_id, article_id)",
        "bodies of an hour": "SELECT count(*) > 0, bool_and(starts_with(html, concat('<!-- ', version_id, ' -->'))) FROM article_bodies "
        f"WHERE batch_hour = {moment(hour)} AND html IS NOT NULL",
    }
    if "article_text" in macros:
        asked["article_text"] = f"SELECT count(*) = 1, true FROM article_text({quoted(project)}, {quoted(name)})"
    for title, query in asked.items():
        age.costs[title + when] = _asked(warehouse, query, plan)
    if not when:
        # over one connection that keeps what it has learnt of the files, as notebooks have it
        with warehouse.connect_published() as connection:
            connection.execute("SET parquet_metadata_cache = true")
            for title, query in asked.items():
                again = partial(_ask, connection, query, plan.limit)
                again()
                age.costs[f"{title}, again"] = median([timed(again) for _ in range(plan.rounds)])


def _asked(warehouse: Warehouse, query: str, plan: Plan) -> Cost:
    """A question that answers with two truths: asked once so that its files are in memory, then by the clock."""
    costs = []
    for _ in range(1 + plan.rounds):
        costs.append(timed(lambda: _ask_anew(warehouse, query, plan.limit)))
        if costs[-1].seconds > _LONG_SECONDS:
            return costs[-1]
    return median(costs[1:])


def _ask_anew(warehouse: Warehouse, query: str, limit: float) -> None:
    with warehouse.connect_published() as connection:
        _ask(connection, query, limit)


def _ask(connection: duckdb.DuckDBPyConnection, query: str, limit: float) -> None:
    timer = threading.Timer(limit, connection.interrupt)
    timer.start()
    try:
        found = connection.execute(query).fetchall()
    except duckdb.InterruptException:
        return
    finally:
        timer.cancel()
    if found != [(True, True)]:
        raise RuntimeError(f"The bodies are not those of the pages: {found} is the answer of {query}")


def _process(stock: Stock, data: Path, *arguments: str) -> Cost:
    """A Python process with the settings of the mirror."""
    names = ",".join(one.project_id for one in stock.projects)
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("WME_", "DAGSTER"))}
    settings = {
        "WME_DATA": str(data),
        "WME_PROJECTS": names,
        "WME_SANDBOX": "1",
        "WME_MIN_FREE_GB": "0",
        "WME_GRACE_HOURS": "0",
    }
    return of_process([sys.executable, *arguments], ROOT, clean | settings)


def _hours(age: Age, stock: Stock, warehouse: Warehouse, rounds: int) -> None:
    """The hours that are still to come, each loaded, applied and published."""
    loads, publications, locked = [], [], []
    # for how long a file must have been out of use before a publication may write over it costs no work
    standby.SETTLED_SECONDS = 0.0  # type: ignore[misc]
    for number in range(rounds):
        hour = stock.last - (rounds - number) * timedelta(hours=1)
        files = stock.hour(warehouse.data, hour)
        costs: dict[str, Cost] = {}
        with taken(costs, "load"):
            warehouse.load_hour(hour, files)
            warehouse.apply_changes()
        with taken(costs, "publish"):
            locked.append(warehouse.publish().locked_seconds)
        loads.append(costs["load"])
        publications.append(costs["publish"])
    age.costs["hour"] = median(loads)
    age.costs["publication"] = median(publications)
    age.notes["locked, s"] = sorted(locked)[rounds // 2]


def _sizes(age: Age, warehouse: Warehouse) -> None:
    files = _lake_files(warehouse)
    [(pages, changes)] = warehouse.sql(
        "SELECT (SELECT count(*) FROM articles), (SELECT count(*) FROM article_changes)"
    ).rows
    age.notes |= {
        "pages": pages,
        "changes": changes,
        "lake files": len(files),
        "lake, GB": sum(files) / 1e9,
        "build file, GB": warehouse.build_path.stat().st_size / 1e9,
        "published file, GB": warehouse.published_path.stat().st_size / 1e9,
    }


def _lake_files(warehouse: Warehouse) -> list[int]:
    """The bytes of each file of the lake."""
    return [path.stat().st_size for path in (warehouse.data / "lake").rglob("*.parquet")]
