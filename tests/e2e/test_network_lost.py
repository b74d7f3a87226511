"""The service is out of reach: a run that waits for it ends as any other (without waiting: tests/integration)."""

from __future__ import annotations

from types import SimpleNamespace

import duckdb
import pytest

from pipelines.operations import run as runs
from pipelines.operations.run import RunReport
from tests.builds import lay
from tests.e2e.conftest import PATIENCE_SECONDS, bare
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


class Command:
    """`wme` by way of a relay."""

    def __init__(self, runner, relay, account, data, *words):
        ways = dict.fromkeys(("WME_AUTH_URL", "WME_BASE_URL", "WME_REALTIME_URL"), relay.url)
        self._counted = data.with_name("connects")
        self._seen = 0
        self.process = runner.program(
            COUNTING, str(self._counted), str(relay.port), *words, environ=bare() | account.environ(data, **ways)
        )

    def connects(self):
        """Connections that were attempted since the last call."""
        before, self._seen = self._seen, self._counted.stat().st_size
        return self._seen - before

    def finish(self):
        """Wait for the end; returns what it said on standard error since it was last read."""
        _, err = self.process.communicate(timeout=PATIENCE_SECONDS)
        return err


def span(hours):
    return "--from", f"{hours[0]:%Y-%m-%dT%H}", "--to", f"{hours[-1]:%Y-%m-%dT%H}"


def loaded(data):
    with duckdb.connect(str(data / "warehouse.duckdb"), read_only=True) as connection:
        rows = connection.execute("SELECT DISTINCT batch_hour AT TIME ZONE 'UTC' FROM loads ORDER BY 1").fetchall()
    return [hour for (hour,) in rows]


def naive(hours):
    return [hour.replace(tzinfo=None) for hour in hours]


def test_waiting_for_a_host_takes_the_run_to_its_end(account, relay, runner, hours, tmp_path):
    relay.cut()
    command = Command(runner, relay, account, lay(tmp_path / "data"), "run", "--wait=5", *span(hours[:1]))
    seen = ""
    while "Waiting up to 5 minutes for the host. Ctrl-C stops waiting.\n" not in seen:
        line = command.process.stderr.readline()
        assert line, seen
        seen += line
    # the reference lists are asked for first, and nothing is after them but, in longer and longer steps, whether the
    # host is there
    assert ATTEMPTS <= command.connects() < 2 * ATTEMPTS
    relay.mend()
    err = seen + command.finish()
    assert command.process.returncode == 0, err
    assert err.count("Could not ") == err.count("Waiting up to") == err.count("The host is reachable again") == 1, err
    assert loaded(tmp_path / "data") == naive(hours[:1])


def test_a_wait_ends(monkeypatch):
    lost = RunReport(["Could not."], unreachable=True)
    moments, looks, said = [0.0], [], []
    clock = SimpleNamespace(monotonic=lambda: moments[-1], sleep=lambda seconds: moments.append(moments[-1] + seconds))
    monkeypatch.setattr(runs, "time", clock)
    report = runs.outlast(lambda: lost, lambda: bool(looks.append(moments[-1])), 3, said.append)
    assert report.failures == ["Could not.", "The host was still unreachable after 3 minutes."]
    assert said == ["Could not.", "Waiting up to 3 minutes for the host. Ctrl-C stops waiting."]
    assert looks == [1, 3, 7, 15, 31, 63, 123, 180]
