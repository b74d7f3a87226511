"""Several processes over one data folder.

They wait for each other where they must, and readers never do.
"""

from __future__ import annotations

import json
import subprocess
import sys

import dagster as dg
import duckdb

from resources.warehouse import Warehouse
from tests.builds import NO_BAR, lay
from tests.e2e.conftest import PATIENCE_SECONDS

#: Opens the published file again and again, read-only, from a line `look` to the next other one, and tells what it sees
#: whenever that is new.
READER = """
import json, sys, threading
import duckdb

path, looking, ended = sys.argv[1], threading.Event(), False

def listen():
    global ended
    for line in sys.stdin:
        looking.set() if line == "look\\n" else looking.clear()
    ended = True
    looking.set()

threading.Thread(target=listen, daemon=True).start()
last, looks, kept = None, 0, None
while looking.wait() and not ended:
    try:
        connection = duckdb.connect()
        connection.execute(f"ATTACH '{path}' AS w (READ_ONLY)")
    except duckdb.IOException as error:
        if "does not exist" not in str(error):
            raise
        continue
    looks += 1
    seen = connection.execute(
        "SELECT (SELECT value FROM w.about WHERE name = 'revision'), "
        "(SELECT list(row(batch_hour::VARCHAR, project_id, n) ORDER BY batch_hour, project_id) FROM "
        "(SELECT batch_hour, project_id, count(*) AS n FROM w.article_changes GROUP BY ALL)), "
        "(SELECT list(row(batch_hour::VARCHAR, project_id, row_count) ORDER BY batch_hour, project_id) FROM w.loads), "
        "(SELECT count(*) FROM w.articles), (SELECT count(*) FROM w.article_bodies)"
    ).fetchall()[0]
    if kept is None:
        kept = connection, seen[3]
    else:
        connection.close()
    if seen != last:
        last = seen
        print(json.dumps(seen), flush=True)
# the file that was opened first has been replaced long ago, and is still whole for whoever has it open
assert kept[0].execute("SELECT count(*) FROM w.articles").fetchall() == [(kept[1],)]
print(json.dumps(looks), flush=True)
"""


def requests_of(account, ending, status=None):
    return sum(seen.path.endswith(ending) and status in (None, seen.status) for seen in list(account.sandbox.requests))


def test_two_runs_at_once_end_alike_and_fetch_everything_once(account, runner, hours, tmp_path, unfinished):
    environ = account.environ(tmp_path / "data")
    account.sandbox.faults.add(path="*/download", kind="slow", bytes_per_second=1_500_000, count=None)
    both = [runner.start(environ, hours[1:], reference=True) for _ in range(2)]
    assert [run.finish() for run in both] == [[], []]
    # each archive was asked for once: whoever came second waited for the first and found it there
    downloads = [seen.path for seen in account.sandbox.requests if seen.status == 307]
    assert len(downloads) == len(set(downloads)) == 4
    assert requests_of(account, "/v1/login") == 1
    with duckdb.connect(str(tmp_path / "data" / "warehouse.duckdb"), read_only=True) as connection:
        assert connection.execute("SELECT count(*), count(DISTINCT batch_hour) FROM loads").fetchall() == [(4, 2)]
        assert connection.execute(
            "SELECT count(*) FROM (SELECT event_id, name, batch_hour, count(*) n FROM article_changes GROUP BY ALL) "
            "WHERE n > 1"
        ).fetchall() == [(0,)]
    assert unfinished(tmp_path / "data") == []


def test_a_reader_sees_whole_hours_only_while_hours_come_in(account, runner, hours, tmp_path):
    data = lay(tmp_path / "data")
    reader = subprocess.Popen(
        [sys.executable, "-c", NO_BAR + READER, str(data / "warehouse.duckdb")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    seen = []
    for count in (1, 2):
        run = runner.start(account.environ(data), hours[:count], history=False)
        assert run.wait_for("> publish")
        print("look", file=reader.stdin, flush=True)
        assert run.finish() == []
        revision = Warehouse(data).publication().revision
        # until it has come so far, however little of the machine it gets
        while not seen or int(seen[-1][0]) < revision:
            seen.append(json.loads(reader.stdout.readline()))
        print("rest", file=reader.stdin, flush=True)
    told, wrong = reader.communicate(timeout=PATIENCE_SECONDS)
    assert reader.returncode == 0, wrong
    assert json.loads(told) >= len(seen) >= 2
    with duckdb.connect(str(data / "warehouse.duckdb"), read_only=True) as connection:
        final = {
            (hour, project): count
            for hour, project, count in connection.execute(
                "SELECT batch_hour::VARCHAR, project_id, count(*) FROM article_changes GROUP BY ALL"
            ).fetchall()
        }
    revisions = [int(revision) for revision, *_ in seen]
    assert revisions == sorted(set(revisions))
    for _, changes, loads, articles, bodies in seen:
        counts = {(hour, project): count for hour, project, count in changes}
        # what is there of an hour is all of it, for both projects, and stands in the ledger
        assert counts == {place: final[place] for place in counts}
        assert len(counts) % 2 == 0
        assert {(hour, project) for hour, project, _ in loads} == set(counts)
        assert 0 < articles <= bodies


def test_a_killed_run_is_ended_in_the_history_and_blocks_nobody(account, runner, hours, tmp_path):
    lay(tmp_path)
    for phase in ("load", "apply"):
        run = runner.start(account.environ(tmp_path), hours[2:])
        assert run.wait_for(f"> {phase}")
        run.kill()
    assert runner.start(account.environ(tmp_path), hours[2:]).finish() == []
    with duckdb.connect(str(tmp_path / "warehouse.duckdb"), read_only=True) as connection:
        assert connection.execute("SELECT count(*), count(DISTINCT batch_hour) FROM loads").fetchall() == [(2, 1)]
    home = tmp_path / "dagster"
    with dg.DagsterInstance.from_config(str(home)) as instance:
        found = [(run.job_name, run.status.value) for run in instance.get_runs()]
    assert found == [
        ("publish", "SUCCESS"),
        ("hours", "SUCCESS"),
        ("publish", "FAILURE"),
        ("hours", "SUCCESS"),
        ("hours", "FAILURE"),
    ]
    assert list((home / "processes").iterdir()) == []
