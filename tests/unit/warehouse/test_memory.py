"""What the warehouse does stays within the memory that it is allowed, however many pages or events there are."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.pages import Pages
from resources.warehouse import Warehouse
from resources.warehouse.state import articles as current

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
        connection.execute(f"CREATE TEMP TABLE loads AS SELECT 'enwiki' AS project_id, {rows} AS row_count")
        assert current._passes(connection) == passes


def rebuild(data, limit):
    warehouse = Warehouse(Path(data), memory_limit=limit)
    tell(warehouse.rebuild_articles().written_count)


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
