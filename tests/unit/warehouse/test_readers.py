"""Analysts in other processes read on while hours are loaded and published, and see whole hours only."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.builds import NO_BAR

ROWS = 40

#: A client that opens the file again and again, sometimes for longer. It tells how often, the states that it saw, as
#: differences from what the hours promise, and the hours that are there at the end.
LOOPING = """
import duckdb, random, select, sys
path, row_count, chance, seen = sys.argv[1], int(sys.argv[2]), random.Random(int(sys.argv[3])), []
held = []
def opened():
    connection = duckdb.connect()
    connection.execute(f"ATTACH '{path}' AS warehouse (READ_ONLY)")
    connection.execute("USE warehouse")
    return connection
def look(connection):
    tables = ("hours", "loads", "articles", "article_changes", "article_bodies")
    counts = ", ".join(f"(SELECT count(*) FROM {table})" for table in tables)
    return connection.execute(
        f"SELECT {counts}, (SELECT value::BIGINT FROM about WHERE name = 'revision'), "
        "(SELECT bit_xor(hash(article_changes)) FROM article_changes)"
    ).fetchone()
while not select.select([sys.stdin], [], [], 0)[0]:
    held.append((opened(), None))
    for number, (connection, before) in enumerate(held):
        found = look(connection)
        assert before in (None, found), (before, found)
        held[number] = connection, found
    hours, loads, *counts, revision, _ = found
    # an hour is loaded and applied, which raises the revision twice
    seen.append((loads - hours, *(count - row_count * hours for count in counts), revision - 2 * hours))
    if len(seen) == 1:
        print("reads", flush=True)
    while held and chance.random() < (0.9 if len(held) < 5 else 1):
        held.pop(chance.randrange(len(held)))[0].close()
print(len(seen), {state[:-1] for state in seen} == {(0, 0, 0, 0)}, len(set(seen)), look(opened())[0])
"""


@pytest.mark.parametrize("count", [4, pytest.param(60, marks=pytest.mark.soak)])
def test_readers_in_loops_see_whole_states_only(lake, warehouse, count):
    def publish(hour):
        rows = [lake.change(1000 * hour + n, f"T{hour}-{n}", 60 * hour + n) for n in range(ROWS)]
        warehouse.load_hour(lake.hour(hour), [lake.file(hour, rows)])
        warehouse.publish()

    publish(0)
    command = [sys.executable, "-c", NO_BAR + LOOPING, str(warehouse.published_path), str(ROWS)]
    readers = [
        subprocess.Popen([*command, str(seed)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for seed in range(1 if count < 10 else 3)
    ]
    for reader in readers:
        assert reader.stdout.readline() == "reads\n"
    for hour in range(1, count):
        publish(hour)
    for reader in readers:
        loops, *told = reader.communicate("end\n", timeout=120)[0].split()
        assert reader.returncode == 0
        assert int(loops) > 0
        assert told == ["True", "1", str(count)]
