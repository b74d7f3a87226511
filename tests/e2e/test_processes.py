"""Runs over one data folder: they wait for each other and for the service, and one that was killed blocks nobody."""

from types import SimpleNamespace

import dagster as dg
import duckdb
import pytest

from pipelines.operations import run as runs
from pipelines.operations.run import RunReport
from resources.warehouse import Warehouse
from tests.builds import lay
from tests.e2e.conftest import between, unfinished
from tests.e2e.programs import PATIENCE_SECONDS, bare
from tests.relay import Relay

#: Runs `wme` and tells in a file, one byte each, how often a port was asked for a connection.
COUNTING = """
import os, sys
told, port = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND), int(sys.argv[2])
del sys.argv[1:3]
def look(event, arguments):
    if event == "socket.connect" and arguments[1][1:2] == (port,):
        os.write(told, b".")
sys.addaudithook(look)
from pipelines.__main__ import main
main()
"""
#: Of one request: the first attempt and its repetitions.
ATTEMPTS = 6


@pytest.fixture
def relay(account):
    relay = Relay(account.sandbox.url)
    yield relay
    relay.close()


def test_waiting_for_a_host_takes_the_run_to_its_end(account, relay, runner, hours, tmp_path):
    relay.cut()
    data, connects = lay(tmp_path / "data"), tmp_path / "connects"
    ways = dict.fromkeys(("WME_AUTH_URL", "WME_BASE_URL", "WME_REALTIME_URL"), relay.url)
    words = (str(connects), str(relay.port), "run", "--wait=5", *between(hours[0], hours[0]))
    process = runner.program(COUNTING, *words, environ=bare() | account.environ(data, **ways))
    seen = ""
    while "Waiting up to 5 minutes for the host. Ctrl-C stops waiting.\n" not in seen:
        line = process.stderr.readline()
        assert line, seen
        seen += line
    # the reference lists are asked for first, and nothing is after them but, in longer and longer steps, whether the
    # host is there
    assert ATTEMPTS <= connects.stat().st_size < 2 * ATTEMPTS
    relay.mend()
    err = seen + process.communicate(timeout=PATIENCE_SECONDS)[1]
    assert process.returncode == 0, err
    assert err.count("Could not ") == err.count("Waiting up to") == err.count("The host is reachable again") == 1, err
    assert Warehouse(data).sql("SELECT DISTINCT batch_hour FROM loads").rows == [(hours[0],)]


def test_a_wait_ends(monkeypatch):
    lost = RunReport(["Could not."], unreachable=True)
    moments, looks, said = [0.0], [], []
    clock = SimpleNamespace(monotonic=lambda: moments[-1], sleep=lambda seconds: moments.append(moments[-1] + seconds))
    monkeypatch.setattr(runs, "time", clock)
    takes_4_seconds = lambda: looks.append(moments[-1]) or moments.append(moments[-1] + 4)  # noqa: E731
    report = runs.outlast(lambda: lost, takes_4_seconds, 3, said.append)
    assert report.failures == ["Could not.", "The host was still unreachable after 3 minutes."]
    assert said == ["Could not.", "Waiting up to 3 minutes for the host. Ctrl-C stops waiting."]
    assert looks == [1, 7, 15, 27, 47, 83, 147, 180]
    # a host that is there each time it is asked, and lost again in each run, is not waited for any longer
    moments[:], looks[:] = [0.0], []
    is_there = lambda: looks.append(moments[-1]) or len(looks) < 20  # noqa: E731
    report = runs.outlast(lambda: RunReport(["Could not."], unreachable=True), is_there, 3, said.append)
    assert (report.failures, looks) == (["Could not."], [1, 3, 7, 15, 31, 63, 123, 180])
    assert [line.split()[3] for line in said if line.startswith("Waiting")] == [*"333333221"]


def test_two_runs_at_once_end_alike_and_fetch_everything_once(account, runner, hours, tmp_path):
    environ = account.environ(tmp_path / "data")
    account.sandbox.faults.add(path="*/download", kind="slow", bytes_per_second=1_500_000, count=None)
    assert [run.finish() for run in [runner.start(environ, hours[1:], reference=True) for _ in range(2)]] == [[], []]
    # each archive was asked for once: whoever came second waited for the first and found it there
    downloads = [seen.path for seen in account.sandbox.requests if seen.status == 307]
    assert len(downloads) == len(set(downloads)) == 4
    assert sum(seen.path == "/v1/login" for seen in account.sandbox.requests) == 1
    with duckdb.connect(str(tmp_path / "data" / "warehouse.duckdb"), read_only=True) as connection:
        assert connection.execute("SELECT count(*), count(DISTINCT batch_hour) FROM loads").fetchall() == [(4, 2)]
        repeated = "SELECT event_id, name, batch_hour FROM article_changes GROUP BY ALL HAVING count(*) > 1"
        assert connection.execute(repeated).fetchall() == []
    assert not unfinished(tmp_path / "data")


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
        ("publish", "SUCCESS"), ("hours", "SUCCESS"), ("publish", "FAILURE"), ("hours", "SUCCESS"),
        ("hours", "FAILURE"),
    ]  # fmt: skip
    assert list((home / "processes").iterdir()) == []
