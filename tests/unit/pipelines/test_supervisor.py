"""The process of `wme ui` over a small command in place of the servers: one for each lock, nothing outlives it."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pipelines.process import supervisor
from pipelines.process.interrupts import SENTENCE
from tests.unit.sandbox.conftest import wait_until

ROOT = Path(__file__).resolve().parents[3]
#: Prints its group, then waits; a run in it ends by an interrupt, which prints a traceback.
SERVERS = """
import os, signal, subprocess, sys
from pipelines.process import supervisor
supervisor.end_with_supervisor()
run = (
    "import signal; signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGINT)); print('a run', flush=True); "
    "signal.pause()"
)
started = subprocess.Popen([sys.executable, "-c", run])
print(os.getpgrp(), flush=True)
signal.signal(signal.SIGTERM, lambda *_: None)
started.wait()
"""


def start(lock, code=SERVERS, ignored=()):
    """Start a supervisor, as the shell of a script does with `ignored` signals."""

    def ignore():
        for number in ignored:
            signal.signal(number, signal.SIG_IGN)

    words = [sys.executable, "-m", supervisor.__name__, str(lock), sys.executable, "-c", code]
    how = {"cwd": ROOT, "env": {**os.environ, "PYTHONPATH": str(ROOT)}, "stdout": subprocess.DEVNULL}
    # no thread of the tests holds a lock that `ignore` needs
    return subprocess.Popen(words, stderr=subprocess.PIPE, text=True, preexec_fn=ignore, **how)  # noqa: PLW1509


def group_of(process):
    shown = {process.stderr.readline().strip(), process.stderr.readline().strip()}
    assert "a run" in shown
    (group,) = shown - {"a run"}
    return int(group)


def is_empty(group):
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return None


@pytest.mark.parametrize(
    ("number", "ignored"),
    [(signal.SIGINT, ()), (signal.SIGTERM, ()), (signal.SIGTERM, (signal.SIGINT,))],
    ids=["Ctrl-C", "SIGTERM", "SIGTERM in the background of a script"],
)
def test_a_signal_ends_the_group_in_order_with_one_sentence(tmp_path, number, ignored):
    process = start(tmp_path / "ui.lock", ignored=ignored)
    group = group_of(process)
    process.send_signal(number)
    began = time.monotonic()
    _, shown = process.communicate(timeout=60)
    assert time.monotonic() - began < supervisor.END_SECONDS, "nothing had to be killed"
    # the run's traceback is not shown: it was interrupted because the operator asked for it
    assert (process.returncode, shown) == (128 + number, f"{SENTENCE}\n")
    assert is_empty(group)


def test_a_second_one_is_refused_while_the_first_runs_and_nothing_outlives_one_that_was_killed(tmp_path):
    process = start(tmp_path / "ui.lock")
    group = group_of(process)
    _, shown = (second := start(tmp_path / "ui.lock")).communicate(timeout=60)
    assert second.returncode == 1
    assert shown.startswith(f"Another `wme ui` is already serving {tmp_path.parent}, and two daemons would start")
    process.kill()
    process.communicate(timeout=60)
    try:
        wait_until(lambda: is_empty(group))
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
    # its lock has ended with it
    assert supervisor.hold(tmp_path / "ui.lock") is not None


def test_servers_that_end_by_themselves_are_reported_with_what_they_said_and_end_their_runs(tmp_path):
    begun = "import os; from pipelines.process import supervisor; supervisor.end_with_supervisor(); "
    ended = "print(os.getpgrp(), flush=True); os.spawnlp(os.P_NOWAIT, 'sleep', 'sleep', '90'); exit('taken')"
    process = start(tmp_path / "ui.lock", code=begun + ended)
    _, shown = process.communicate(timeout=60)
    group, said, sentence = shown.splitlines()
    assert (process.returncode, said, is_empty(int(group))) == (1, "taken", True)
    assert sentence.startswith("Dagster's servers ended unexpectedly (exit code 1).")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_group_that_has_ended_is_not_waited_for_and_one_that_ignores_it_is_killed(monkeypatch, number):
    trap, most = {signal.SIGTERM: ("", 60.0), signal.SIGKILL: ("trap '' TERM; ", 0.0)}[number]
    monkeypatch.setattr(supervisor, "END_SECONDS", most)
    words = ["sh", "-c", f"{trap}echo; exec sleep 90"]
    process, polls = subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True), []

    def sleep(seconds):
        polls.append(seconds)
        process.wait()
        assert len(polls) == 1

    monkeypatch.setattr(supervisor.time, "sleep", sleep)
    with process.stdout as begun:
        begun.readline()
        supervisor._end(process.pid)
    assert (len(polls), process.returncode) == (1, -number)
