"""An analyst in another process reads on while hours are loaded and published, and sees whole hours only."""

from __future__ import annotations

import queue
import subprocess
import sys
import threading

import pytest

from resources.warehouse.publish import standby

ROWS = 40

#: A plain client. It opens the file anew each time and tells, per state it sees, rows per hour and the articles.
READER = """
import duckdb, sys
told = None
while True:
    with duckdb.connect(sys.argv[1], read_only=True) as connection:
        hours = connection.execute("SELECT count(*) FROM article_changes GROUP BY batch_hour").fetchall()
        loads = connection.execute("SELECT count(*) FROM loads").fetchall()
        articles = connection.execute("SELECT count(*) FROM articles").fetchall()
        bodies = connection.execute("SELECT count(*) FROM article_bodies").fetchall()
    state = [n for (n,) in hours], loads[0][0], articles[0][0], bodies[0][0]
    if state != told:
        told = state
        print(*hours and {n for (n,) in hours}, len(hours), loads[0][0], articles[0][0], bodies[0][0], flush=True)
"""


@pytest.fixture
def reader(warehouse, lake):
    """The reader's lines, as they come."""
    warehouse.load_hour(lake.hour(0), [lake.file(0, [lake.change(n, f"T{n}", n) for n in range(ROWS)])])
    warehouse.apply_changes()
    warehouse.publish()
    process = subprocess.Popen(
        [sys.executable, "-c", READER, str(warehouse.published_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    lines = queue.Queue()
    pump = threading.Thread(target=lambda: [lines.put(line.split()) for line in process.stdout])
    pump.start()
    yield lines
    assert process.poll() is None, process.stderr.read()
    process.kill()
    pump.join()
    process.stdout.close()
    process.stderr.close()
    process.wait()


def test_reader_sees_each_publication_whole(lake, warehouse, reader, monkeypatch):
    # no waiting until late readers have opened what they looked up
    monkeypatch.setattr(standby, "SETTLED_SECONDS", 0.0)
    made = []
    assert reader.get(timeout=60) == [str(ROWS), "1", "1", str(ROWS), str(ROWS)]
    for hour in range(1, 7):
        rows = [lake.change(1000 * hour + n, f"T{hour}-{n}", 60 * hour + n) for n in range(ROWS)]
        warehouse.load_hour(lake.hour(hour), [lake.file(hour, rows)])
        warehouse.apply_changes()
        made.append(warehouse.publish())
        whole = [str(number) for number in (ROWS, hour + 1, hour + 1, ROWS * (hour + 1), ROWS * (hour + 1))]
        assert reader.get(timeout=60) == whole
    assert reader.empty()
    assert any(one.whole_because is None for one in made)
