"""Publications that are killed, fail or meet one another; readers keep their file, and see whole hours only."""

import errno
import filecmp
import os
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import duckdb
import pytest

from resources import datasets
from resources.warehouse import WarehouseFullError
from resources.warehouse.publisher import Publisher
from tests.builds import NO_BAR, close_all
from tests.unit.warehouse.killing_steps import PUBLISHING

ROOT = Path(__file__).parents[3]


class Mirror:
    """Hours of a few pages, loaded and published."""

    def __init__(self, warehouse, lake):
        self.warehouse, self.lake, self.hours = warehouse, lake, 0

    def load(self):
        number = self.hours
        rows = [
            self.lake.change(n * 7 + number, f"T{n * 7 + number}", 60 * number + n, html=f"{number:02}")
            for n in range(40)
        ]
        self.warehouse.load_hour(
            self.lake.hour(number), [self.lake.file(number, rows)], dataset=datasets.ARTICLE_CHANGES
        )
        self.warehouse.apply_changes()
        self.hours += 1

    def publish(self):
        self.load()
        return self.warehouse.publish()

    def assert_published(self, hours):
        """What is published is the state of so many hours."""
        answer = self.warehouse.sql(
            "SELECT (SELECT count(*) FROM loads), (SELECT count(DISTINCT batch_hour) FROM article_changes), "
            "(SELECT count(*) FROM article_bodies), (SELECT max(html) FROM article_bodies)"
        )
        assert answer.rows == [(hours, hours, 40 * hours, f"{hours - 1:02}")]

    def assert_whole(self):
        """What is published is the newest state."""
        self.assert_published(self.hours)
        assert not list(self.warehouse.data.glob("*.tmp*"))


@pytest.fixture
def mirror(warehouse, lake):
    made = Mirror(warehouse, lake)
    made.publish()
    return made


def test_published_file_is_a_copy_of_the_build_file_and_a_reader_keeps_its_own(closing_warehouse, lake, monkeypatch):
    """Also where the file system does not support `copy_file_range`."""
    mirror = Mirror(closing_warehouse, lake)
    mirror.publish()

    def refuse(*_):
        raise OSError(errno.EXDEV, "not here")

    for is_supported in (True, False):
        if not is_supported:
            monkeypatch.setattr(os, "copy_file_range", refuse)
        with mirror.warehouse.connect_published() as reader, mirror.warehouse.published_path.open("rb") as held:
            content = held.read()
            query = "SELECT count(*), bit_xor(hash(articles)) FROM articles"
            before = reader.execute(query).fetchall()
            # closes a descriptor of the same file, and with it DuckDB's lock
            mirror.warehouse.sql("SELECT 1")
            mirror.publish()
            assert reader.execute(query).fetchall() == before
            # nothing is written into a file that somebody has open
            held.seek(0)
            assert held.read() == content
        assert filecmp.cmp(mirror.warehouse.build_path, mirror.warehouse.published_path, shallow=False)
        mirror.assert_whole()


def test_killed_at_each_step_of_a_publication(mirror, killing):
    with killing(mirror.warehouse.data, "2026-12-01") as kill_at:
        for step in PUBLISHING:
            mirror.load()
            kill_at(step)
            # what is published is the state before or the new one, whole, and another publication works
            is_new = step == "in place"
            mirror.assert_published(mirror.hours if is_new else mirror.hours - 1)
            assert mirror.warehouse.publish().changed is not is_new
            mirror.assert_whole()


def test_failure_while_the_file_is_copied_or_synchronized_changes_nothing_and_leaves_nothing(mirror, monkeypatch):
    mirror.load()
    published, before = mirror.warehouse.published_path, mirror.warehouse.published_path.stat()

    full = "Disk space or memory ran out, so this run could not publish.*Free disk space"
    for name, error, told, message in (
        ("copy_file_range", OSError(errno.ENOSPC, "No space left on device"), WarehouseFullError, full),
        ("fsync", OSError("Nothing is kept"), OSError, "Nothing is kept"),
    ):
        refuse = Mock(side_effect=error)
        with monkeypatch.context() as patch:
            patch.setattr(os, name, refuse)
            with pytest.raises(told, match=message):
                mirror.warehouse.publish()
        after = published.stat()
        assert (after.st_ino, after.st_size, after.st_mtime_ns) == (before.st_ino, before.st_size, before.st_mtime_ns)
        # half a copy would keep a full disk full, and no hour could be fetched
        assert not list(mirror.warehouse.data.glob("*.tmp*"))
    assert mirror.warehouse.publish().changed
    mirror.assert_whole()


def test_a_failure_that_no_lake_file_explains_is_not_tried_again(mirror, monkeypatch):
    mirror.load()
    refuse = Mock(side_effect=duckdb.OutOfMemoryException("Nothing is left."))
    with monkeypatch.context() as patch:
        patch.setattr(Publisher, "_write", refuse)
        with pytest.raises(WarehouseFullError, match="Nothing is left"):
            mirror.warehouse.publish()
    assert refuse.call_count == 1
    assert mirror.warehouse.publish().changed
    mirror.assert_whole()


def test_two_publications_at_once(mirror):
    mirror.load()
    close_all()
    program = (
        "import sys; from pathlib import Path; from resources.warehouse import Warehouse; "
        "print(Warehouse(Path(sys.argv[1]), lock_timeout=60.0).publish({'service': sys.argv[2]}).changed)"
    )
    both = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(mirror.warehouse.data), name],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in ("one", "two")
    ]
    assert [process.communicate(timeout=120)[0] for process in both] == ["True\n", "True\n"]
    mirror.assert_whole()


# --- readers in other processes ---------------------------------------------------------------------------------------

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
