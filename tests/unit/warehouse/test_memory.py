"""What the warehouse does stays within the memory that it is allowed, however many pages or events there are."""

import json
import os
import random
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from assets.steps.compaction import compact_lake
from benchmarks.pages import Pages
from resources.engine import Engine
from resources.lake import Layout
from resources.warehouse import Warehouse
from resources.warehouse.state import articles as current
from tests.builds import close_all
from tests.unit.warehouse.conftest import lake_files

ROOT = Path(__file__).parents[3]
#: What a process has besides: libraries, threads, and what DuckDB does not count.
BESIDES_MIB = 250


@pytest.mark.parametrize(
    ("limit", "rows", "passes"), [("2GB", 1_000_000, 1), ("180MB", 1_000_000, 3), ("2GB", 65_000_000, 17)]
)
def test_passes_follow_from_rows_and_memory(warehouse, limit, rows, passes):
    with warehouse._connector.build("look") as connection:
        connection.execute(f"SET memory_limit = '{limit}'")
        connection.execute("CREATE TEMP TABLE renewed AS SELECT 'enwiki' AS project_id")
        loads = f"CREATE TEMP TABLE loads AS SELECT 'enwiki' AS project_id, {rows} AS row_count"
        connection.execute(f"{loads} UNION ALL SELECT 'another', 10 ** 10")
        assert current._passes(connection) == passes


def rebuild(data, limit):
    tell(Warehouse(Path(data), memory_limit=limit).rebuild_articles().written_count)


def compact(data):
    warehouse = Warehouse(Path(data), clock=lambda: datetime(2026, 11, 9, tzinfo=UTC))
    tell(len(compact_lake(Layout(Path(data)), warehouse, Engine(workers=1), threads=1)))


def tell(written):
    """Write what was made, and the most memory that it took (MiB)."""
    # of this program alone; what rusage tells begins with the process that started it
    peak = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    # after the bar with which DuckDB shows how far a long statement is
    sys.stdout.write("\n" + json.dumps([written, int(peak[1]) / 1024]))


def told_by(call, environment=None):
    """What a call of this module tells, as a process of its own."""
    command = [sys.executable, "-c", f"from tests.unit.warehouse.test_memory import *; {call}"]
    env = (environment or {}) | os.environ
    told = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=True, timeout=900)
    return json.loads(told.stdout.splitlines()[-1])


@pytest.mark.soak
def test_a_million_pages_are_made_anew_in_little_memory(tmp_path):
    """In a process of its own, with less memory than the three tables of a million keys take that lead to them."""
    pages, warehouse = Pages(tmp_path / "data", 1_000_000), Warehouse(tmp_path / "data")
    for snapshot in pages.snapshots():
        warehouse.load_snapshot(snapshot)
    warehouse.apply_changes()
    with warehouse._connector.build("compare") as connection:
        whole = connection.execute("SELECT count(*), bit_xor(hash(articles)) FROM articles").fetchall()
    written, peak = told_by(f"rebuild({str(tmp_path / 'data')!r}, '250MB')")
    assert (written, peak < 250 + BESIDES_MIB) == (1_000_000, True), peak
    with warehouse._connector.build("compare") as connection:
        assert connection.execute("SELECT count(*), bit_xor(hash(articles)) FROM articles").fetchall() == whole


@pytest.mark.soak
def test_a_body_of_200_megabytes_is_compacted_in_bounded_memory_and_found_by_its_title(mirror):
    long = "".join(random.Random(1).choices("abcdefgh ", k=10_000)) * 20_000
    for hour in range(4):
        rows = [mirror.lake.change(n, f"Page {n}", 60 * hour + n, wikitext=f"{n} {hour}") for n in range(9)]
        if hour == 3:
            rows[4]["wikitext"] = long
        mirror.warehouse.load_hour(mirror.lake.hour(hour), [mirror.lake.file(hour, rows)])
    mirror.warehouse.apply_changes()
    close_all()
    done, peak = told_by(f"compact({str(mirror.data)!r})")
    assert done == 1
    # the rows of a step, and of what is longer than a row group four times its length
    assert peak < 512 + 4 * len(long) / (1 << 20)
    mirror.warehouse._clock.now += timedelta(days=9)
    mirror.warehouse.publish()
    assert all("compacted" in name for name in lake_files(mirror.warehouse))
    bodies = "article_bodies WHERE project_id = 'enwiki' AND article_id = 4"
    query = f"SELECT length(wikitext) FROM {bodies} ORDER BY source_at"
    assert mirror.warehouse.sql(query).rows == [(3,), (3,), (3,), (len(long),)]
    assert mirror.warehouse.sql("SELECT wikitext = ? FROM article_text('enwiki', 'Page_4')", [long]).rows == [(True,)]
