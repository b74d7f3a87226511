"""The service is out of reach: a run that waits for it ends as any other (without waiting: tests/integration)."""

from types import SimpleNamespace

import pytest

from pipelines.operations import run as runs
from pipelines.operations.run import RunReport
from resources.warehouse import Warehouse
from tests.builds import lay
from tests.e2e.conftest import PATIENCE_SECONDS, bare, between
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
    report = runs.outlast(lambda: lost, lambda: bool(looks.append(moments[-1])), 3, said.append)
    assert report.failures == ["Could not.", "The host was still unreachable after 3 minutes."]
    assert said == ["Could not.", "Waiting up to 3 minutes for the host. Ctrl-C stops waiting."]
    assert looks == [1, 3, 7, 15, 31, 63, 123, 180]
