"""Several runs over one data folder: they wait for each other, and one that was killed blocks nobody."""

import dagster as dg
import duckdb

from tests.builds import lay
from tests.e2e.conftest import unfinished


def test_two_runs_at_once_end_alike_and_fetch_everything_once(account, runner, hours, tmp_path):
    environ = account.environ(tmp_path / "data")
    account.sandbox.faults.add(path="*/download", kind="slow", bytes_per_second=1_500_000, count=None)
    both = [runner.start(environ, hours[1:], reference=True) for _ in range(2)]
    assert [run.finish() for run in both] == [[], []]
    # each archive was asked for once: whoever came second waited for the first and found it there
    downloads = [seen.path for seen in account.sandbox.requests if seen.status == 307]
    assert len(downloads) == len(set(downloads)) == 4
    assert sum(seen.path == "/v1/login" for seen in account.sandbox.requests) == 1
    with duckdb.connect(str(tmp_path / "data" / "warehouse.duckdb"), read_only=True) as connection:
        assert connection.execute("SELECT count(*), count(DISTINCT batch_hour) FROM loads").fetchall() == [(4, 2)]
        assert connection.execute(
            "SELECT count(*) FROM (SELECT event_id, name, batch_hour, count(*) n FROM article_changes GROUP BY ALL) "
            "WHERE n > 1"
        ).fetchall() == [(0,)]
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
        ("publish", "SUCCESS"),
        ("hours", "SUCCESS"),
        ("publish", "FAILURE"),
        ("hours", "SUCCESS"),
        ("hours", "FAILURE"),
    ]
    assert list((home / "processes").iterdir()) == []
