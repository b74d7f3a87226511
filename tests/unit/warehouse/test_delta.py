"""The file that was published before takes over the changed blocks, if nobody reads it; what is published is the same either way."""

from __future__ import annotations

import contextlib
import filecmp
import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import duckdb
import filelock
import pytest

from resources.warehouse import Warehouse
from resources.warehouse.publish import copying, publisher, standby
from tests.builds import NO_BAR, looking

ROOT = Path(__file__).parents[3]
#: Opens the published file twice and closes it once: with any of its descriptors a process loses its locks on a file. Says so, and asks again
#: for each line that comes.
HOLDER = """
import duckdb, sys
path = sys.argv[1]
def attached():
    connection = duckdb.connect()
    connection.execute(f"ATTACH '{path}' AS warehouse (READ_ONLY)")
    connection.execute("USE warehouse")
    return connection
connection, other = attached(), attached()
other.close()
def answers():
    found = [connection.execute(f"SELECT count(*), bit_xor(hash({t})) FROM {t}").fetchone() for t in ("articles", "article_changes", "loads")]
    return found + [connection.execute("SELECT max(html) FROM article_bodies").fetchone()]
first = answers()
print("open", flush=True)
for line in sys.stdin:
    print(answers() == first, flush=True)
"""


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    """No waiting until late readers have opened what they looked up."""
    monkeypatch.setattr(standby, "SETTLED_SECONDS", 0.0)


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
        self.warehouse.load_hour(self.lake.hour(number), [self.lake.file(number, rows)])
        self.warehouse.apply_changes()
        self.hours += 1

    def publish(self):
        self.load()
        return self.warehouse.publish()

    @property
    def standby(self):
        return self.warehouse.build_path.with_name("standby.duckdb")

    def assert_whole(self):
        """What is published is the newest state, and no file is in use under both names."""
        answer = self.warehouse.sql(
            "SELECT (SELECT count(*) FROM loads), (SELECT count(DISTINCT batch_hour) FROM article_changes), "
            "(SELECT count(*) FROM article_bodies), (SELECT max(html) FROM article_bodies)"
        )
        assert answer.rows == [(self.hours, self.hours, 40 * self.hours, f"{self.hours - 1:02}")]
        assert not list(self.warehouse.data.glob("*.tmp*"))
        if self.standby.exists():
            assert not self.standby.samefile(self.warehouse.published_path)


@pytest.fixture(scope="module")
def template(tmp_path_factory, make_lake):
    """Published twice, so that there is a standby; copied for each test."""
    data = tmp_path_factory.mktemp("template") / "data"
    made = Mirror(Warehouse(data, lock_timeout=5.0), make_lake(data))
    made.publish()
    made.publish()
    return made


@pytest.fixture
def mirror(template, data, make_lake, clock):
    shutil.copytree(template.warehouse.data, data)
    made = Mirror(Warehouse(data, lock_timeout=30.0, clock=clock), make_lake(data))
    made.hours = template.hours
    assert made.standby.exists()
    return made


@contextlib.contextmanager
def holding(mirror):
    """Another process that has the file open which is published now; `ask()` says whether it still answers as it did."""
    with subprocess.Popen(
        [sys.executable, "-c", NO_BAR + HOLDER, str(mirror.warehouse.published_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline() == "open\n"

        def ask():
            process.stdin.write("\n")
            process.stdin.flush()
            return process.stdout.readline()

        yield ask


def everything(path):
    """All that a file holds: each table and view with its definition and rows, and each macro."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(f"ATTACH '{path}' AS warehouse (READ_ONLY)")
        connection.execute("USE warehouse")
        here = "database_name = 'warehouse'"
        found = connection.execute(
            f"SELECT schema_name, table_name, sql, comment FROM duckdb_tables() WHERE {here} "
            f"UNION ALL SELECT schema_name, view_name, sql, comment FROM duckdb_views() WHERE {here} AND NOT internal ORDER BY ALL"
        ).fetchall()
        rows = {
            (schema, name): sorted(map(repr, connection.execute(f'FROM "{schema}"."{name}"').fetchall()))
            for schema, name, _, _ in found
        }
        macros = connection.execute(
            f"SELECT function_name, macro_definition, comment FROM duckdb_functions() WHERE {here} AND NOT internal ORDER BY ALL"
        ).fetchall()
        columns = connection.execute(
            f"SELECT schema_name, table_name, column_name, data_type, comment FROM duckdb_columns() WHERE {here} ORDER BY ALL"
        ).fetchall()
        return found, rows, macros, columns


def test_changed_blocks_make_the_same_file_as_a_whole_copy(mirror):
    made = mirror.publish()
    assert made.whole_because is None
    assert 0 < made.copied_bytes < made.size_bytes
    assert f"Copied: {made.copied_bytes / 1e6:,.1f} MB, the blocks that changed." in str(made)
    assert made.copied == mirror.warehouse.publication().copied
    mirror.assert_whole()
    found = everything(mirror.warehouse.published_path)
    mirror.standby.unlink()
    mirror.warehouse.published_path.unlink()
    again = mirror.warehouse.publish()
    assert again.whole_because == "no file is left of an earlier publication"
    assert "MB, because no file is left" in str(again)
    assert again.copied == mirror.warehouse.publication().copied
    assert again.copied_bytes == mirror.warehouse.build_path.stat().st_size
    assert everything(mirror.warehouse.published_path) == found


def test_finishing_rewrites_no_rows(mirror):
    """Each hour has added row groups, which DuckDB would merge as the file is finished; then the next publication would write them back."""
    mirror.publish()
    question = "SELECT row_group_id, column_name, segment_id, block_id, block_offset FROM pragma_storage_info('{}') ORDER BY ALL"
    with looking(mirror.warehouse) as connection:
        wanted = connection.execute(question.format("article_changes")).fetchall()
    assert len({row_group for row_group, *_ in wanted}) > 1
    assert mirror.warehouse.sql(question.format("hot_article_changes")).rows == wanted


def random_step(chance, warehouse, lake):
    """Something that changes the build file: hours, again and otherwise, snapshots, lists, a project less."""
    hour, page = chance.randrange(6), chance.randrange(300)
    rows = [
        lake.change(page + n, f"T{chance.randrange(400)}", 60 * hour + n % 60, html=f"{n}")
        for n in range(chance.randrange(120))
    ]
    project = chance.choice(["enwiki", "frwiki"])
    match chance.randrange(6):
        case 0:
            warehouse.load_snapshot(
                lake.snapshot([[row | {"change_type": "update"} for row in rows]], project), keep_replaced=1
            )
        case 1:
            warehouse.drop_project(project)
        case 2:
            warehouse.rebuild_articles()
        case _:
            warehouse.load_hour(lake.hour(hour), [lake.file(hour, rows, project)])
    if chance.random() < 0.7:
        warehouse.apply_changes()


@pytest.mark.parametrize(
    ("seed", "steps"), [(1, 12), *(pytest.param(seed, 60, marks=pytest.mark.soak) for seed in range(2, 8))]
)
def test_random_changes_make_the_same_file_as_a_whole_copy(warehouse, lake, monkeypatch, seed, steps):
    chance, finish, ways = random.Random(seed), publisher.Publisher._finish, []

    def watched(self, copy, *words):
        assert filecmp.cmp(copy, warehouse.build_path, shallow=False)
        return finish(self, copy, *words)

    monkeypatch.setattr(publisher.Publisher, "_finish", watched)
    warehouse.publish()
    for step in range(steps):
        random_step(chance, warehouse, lake)
        if step % 3 == 2:
            ways.append(warehouse.publish().whole_because is None)
    assert sum(ways) >= steps / 3 - 1
    found = everything(warehouse.published_path)
    warehouse.build_path.with_name("standby.duckdb").unlink()
    warehouse.published_path.unlink()
    assert warehouse.publish().whole_because is not None
    assert everything(warehouse.published_path) == found


def test_reader_of_another_process_keeps_its_file_for_ever(mirror):
    with holding(mirror) as ask:
        reasons = [mirror.publish().whole_because for _ in range(3)]
        # its file became the standby with the first, was left to it by the second, and concerns nobody any more
        assert reasons == [None, "a reader still has the file of the publication before open", None]
        assert ask() == "True\n"
    mirror.assert_whole()


def test_standby_of_anything_is_made_right(mirror):
    """Of another mirror, damaged, longer, or of the times before the build file was made anew: what differs is written."""
    for content in (b"no database", os.urandom(30_000_000)):
        mirror.standby.unlink()
        mirror.standby.write_bytes(content)
        made = mirror.publish()
        assert made.whole_because is None
        mirror.assert_whole()
    assert made.size_bytes < 30_000_000
    mirror.warehouse.build_path.unlink()
    mirror.hours = 0
    mirror.publish()
    mirror.assert_whole()


def test_reader_of_the_same_process_keeps_its_file(mirror):
    with mirror.warehouse.connect_published() as reader:
        question = "SELECT count(*), bit_xor(hash(articles)) FROM articles"
        before = reader.execute(question).fetchall()
        # closes a descriptor of the same file, and with it DuckDB's lock
        mirror.warehouse.sql("SELECT 1")
        reasons = [mirror.publish().whole_because for _ in range(3)]
        assert reasons == [None, "a reader still has the file of the publication before open", None]
        assert reader.execute(question).fetchall() == before
    mirror.assert_whole()


def test_hours_are_loaded_while_the_file_is_copied(mirror, monkeypatch):
    """The first copy is of a state that is no longer there; the second has both."""
    copy, loads = copying.copy_changed, iter(range(2))

    def interrupted(*words):
        written = copy(*words)
        for _ in loads:
            mirror.load()
            break
        return written

    monkeypatch.setattr(copying, "copy_changed", interrupted)
    monkeypatch.setattr(copying, "_WITHOUT_LOCK", 3)
    made = mirror.publish()
    assert made.revision == mirror.warehouse.publication().revision
    assert next(loads, None) is None
    assert mirror.warehouse.unpublished_revision() is None
    mirror.assert_whole()


def test_where_somebody_loads_all_the_time_the_last_copy_is_made_under_the_lock(mirror, monkeypatch):
    lock = filelock.FileLock(mirror.warehouse.data / "state" / "warehouse.lock")
    copy, seen = copying.copy_changed, []

    def watched(*words):
        written = copy(*words)
        try:
            lock.acquire(timeout=0)
        except filelock.Timeout:
            seen.append("held")
        else:
            lock.release()
            seen.append("free")
            mirror.load()
        return written

    monkeypatch.setattr(copying, "copy_changed", watched)
    mirror.publish()
    assert seen == ["free", "free", "held"]
    mirror.assert_whole()


@pytest.mark.parametrize("is_committed", [False, True])
def test_writer_that_is_killed_while_the_file_is_copied(mirror, monkeypatch, is_committed):
    """It leaves blocks that no header names, or a log beside the file."""
    writer = (
        "import duckdb, os, sys; c = duckdb.connect(sys.argv[1]); c.execute('PRAGMA disable_checkpoint_on_shutdown'); "
        "c.execute('SET wal_autocheckpoint = \\'1TB\\''); c.execute('BEGIN'); c.execute('CREATE TABLE internal.other AS SELECT range AS a, random() AS b FROM range(2000000)'); "
        "c.execute('UPDATE internal.meta SET revision = revision + 1'); "
        f"{'c.execute(chr(67) + chr(79) + chr(77) + chr(77) + chr(73) + chr(84)); ' if is_committed else ''}os.kill(os.getpid(), 9)"
    )
    copy, passes = copying.copy_changed, []

    def interrupted(*words):
        written = copy(*words)
        if not passes:
            killed = subprocess.run([sys.executable, "-c", writer, str(mirror.warehouse.build_path)], check=False)
            assert killed.returncode == -signal.SIGKILL
        passes.append(written)
        return written

    mirror.load()
    monkeypatch.setattr(copying, "copy_changed", interrupted)
    made = mirror.warehouse.publish()
    assert len(passes) == 2
    monkeypatch.undo()
    with looking(mirror.warehouse) as connection:
        assert connection.execute("SELECT revision FROM internal.meta").fetchall() == [(made.revision,)]
    mirror.assert_whole()


def test_killed_at_each_step_of_a_publication(mirror):
    """By `killing_publications.py`, which checks after each kill what is published, and then publishes."""
    told = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("killing_publications.py")), str(mirror.warehouse.data)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert told.returncode == 0, told.stderr
    assert told.stdout.splitlines() == [
        "standby taken: published as before, then all, because no file is left of an earlier publication",
        "amid the blocks: published as before, then all, because no file is left of an earlier publication",
        "blocks copied: published as before, then all, because no file is left of an earlier publication",
        "amid the views: published as before, then all, because no file is left of an earlier publication",
        "finished: published as before, then all, because no file is left of an earlier publication",
        "made durable: published as before, then all, because no file is left of an earlier publication",
        "two names: published as before, then all, because the file of the publication before has another name as well",
        "in place: published anew, then the blocks that changed",
    ]
    assert not mirror.standby.samefile(mirror.warehouse.published_path)
    assert not list(mirror.warehouse.data.glob("*.tmp*"))


def test_full_disk_while_blocks_are_copied_changes_nothing_and_leaves_nothing(mirror):
    mirror.load()
    published, before = mirror.warehouse.published_path, mirror.warehouse.published_path.stat()
    program = """
import resource, sys
from pathlib import Path
from resources.warehouse import Warehouse, WarehouseFullError
from resources.warehouse.publish import standby
standby.SETTLED_SECONDS = 0.0
resource.setrlimit(resource.RLIMIT_FSIZE, (8192, resource.RLIM_INFINITY))
try:
    Warehouse(Path(sys.argv[1]), lock_timeout=5.0).publish()
except WarehouseFullError as error:
    print(error)
"""
    told = subprocess.run(
        [sys.executable, "-c", program, str(mirror.warehouse.data)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "Disk or memory ran out, so this run could not publish" in told
    assert "Make room" in told
    after = published.stat()
    assert (after.st_ino, after.st_size, after.st_mtime_ns) == (before.st_ino, before.st_size, before.st_mtime_ns)
    assert not list(mirror.warehouse.data.glob("*.tmp*"))
    assert mirror.warehouse.publish().changed
    mirror.assert_whole()


def test_two_publications_at_once(mirror):
    mirror.load()
    program = (
        "import sys; from pathlib import Path; from resources.warehouse import Warehouse; "
        "from resources.warehouse.publish import standby; standby.SETTLED_SECONDS = 0.0; "
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


def test_other_duckdb_reads_what_was_made_of_blocks(mirror, elsewhere, monkeypatch):
    folder = os.environ.get("TEST_OTHER_DUCKDB")
    if folder is None:
        pytest.skip("TEST_OTHER_DUCKDB names no folder with another DuckDB, as it does in `make test`")
    assert mirror.publish().whole_because is None
    monkeypatch.setenv("PYTHONPATH", str(Path(folder).resolve()))
    told = elsewhere(
        """
        print(duckdb.__version__)
        with duckdb.connect(path, read_only=True) as c:
            for name in ("articles", "article_changes", "article_bodies", "loads"):
                print(c.execute(f"SELECT count(*) FROM {name}").fetchone())
        """,
        mirror.warehouse.published_path,
    )
    assert told[0] != duckdb.__version__
    assert told[2:] == ["(120,)", "(120,)", "(3,)"]
