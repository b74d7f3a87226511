"""An analyst in another process reads on while hours are loaded and published, and sees whole hours only."""

from __future__ import annotations

import queue
import subprocess
import sys
import threading

import pytest

from resources.tables import HourState
from resources.warehouse import HourStatus
from tests.builds import NO_BAR

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
    warehouse.publish()
    process = subprocess.Popen(
        [sys.executable, "-c", NO_BAR + READER, str(warehouse.published_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    lines = queue.Queue()
    pump = threading.Thread(target=lambda: [lines.put(line.split()) for line in process.stdout])
    pump.start()
    with process:
        yield lines
        status = process.poll()
        process.kill()
        pump.join()
        assert status is None, process.stderr.read()


def test_reader_sees_each_publication_whole(lake, warehouse, reader):
    assert reader.get(timeout=120) == [str(ROWS), "1", "1", str(ROWS), str(ROWS)]
    for hour in (1, 2):
        rows = [lake.change(1000 * hour + n, f"T{hour}-{n}", 60 * hour + n) for n in range(ROWS)]
        warehouse.load_hour(lake.hour(hour), [lake.file(hour, rows)])
        warehouse.publish()
        whole = [str(number) for number in (ROWS, hour + 1, hour + 1, ROWS * (hour + 1), ROWS * (hour + 1))]
        assert reader.get(timeout=120) == whole
    assert reader.empty()


#: Clients that open the file again and again, some for longer, and compare what they see with the revision it says it
#: is of.
LOOPING = """
import duckdb, random, select, sys
path, chance, seen = sys.argv[1], random.Random(int(sys.argv[2])), []
held = []
while not select.select([sys.stdin], [], [], 0)[0]:
    connection = duckdb.connect()
    connection.execute(f"ATTACH '{path}' AS warehouse (READ_ONLY)")
    connection.execute("USE warehouse")
    held.append((connection, None))
    for number, (connection, before) in enumerate(held):
        found = connection.execute(
            "SELECT (SELECT count(*) FROM hours), (SELECT value::BIGINT FROM about WHERE name = 'revision'), "
            "(SELECT bit_xor(hash(article_changes)) FROM article_changes)"
        ).fetchone()
        assert before in (None, found), (before, found)
        held[number] = connection, found
    seen.append(found[0] - found[1])
    if len(seen) == 1:
        print("reads", flush=True)
    while held and chance.random() < (0.9 if len(held) < 5 else 1):
        held.pop(chance.randrange(len(held)))[0].close()
print(len(seen), len(set(seen)))
"""


@pytest.mark.parametrize("count", [4, pytest.param(60, marks=pytest.mark.soak)])
def test_readers_in_loops_see_whole_states_only(lake, warehouse, count):
    warehouse.load_hour(lake.hour(0), [lake.file(0, [lake.change(n, f"T{n}", n) for n in range(ROWS)])])
    warehouse.publish()
    command = [sys.executable, "-c", NO_BAR + LOOPING, str(warehouse.published_path)]
    readers = [
        subprocess.Popen([*command, str(seed)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for seed in range(1 if count < 10 else 3)
    ]
    for reader in readers:
        assert reader.stdout.readline() == "reads\n"
    for number in range(1, count):
        warehouse.record_statuses([HourStatus(lake.hour(number), "enwiki", 0, HourState.NOT_YET)])
        warehouse.publish()
    for reader in readers:
        loops, states = reader.communicate("end\n", timeout=120)[0].split()
        assert reader.returncode == 0
        assert int(loops) > 0
        # one row and one revision more with each publication
        assert states == "1"
