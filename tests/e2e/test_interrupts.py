"""Ctrl-C at any moment of `wme run`: one sentence, exit code 130, nothing that the next run does not mend by itself.

A moment is a number of audit events (imports, opened files, connections, ...) that the run itself counts, and a drawn
while after it. The signal goes to the whole process group, as a terminal sends it.
"""

import fcntl
import os
import pty
import random
import select
import signal
import subprocess
import sys
import termios
import time

import dagster as dg
import duckdb
import pytest
from filelock import FileLock

from pipelines.process.interrupts import SENTENCE
from tests.builds import lay
from tests.e2e.conftest import Account, between, ran, unfinished, until
from tests.e2e.programs import PATIENCE_SECONDS, ROOT, bare

ENDED = {dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.CANCELED}
#: A run has more audit events than these, about 76,000: who measures no run strikes before its last fifth.
FEWEST_EVENTS = 60_000
#: Tells on a pipe that it has seen so many audit events since the command line's own imports began, or at the end how
#: many.
COUNTING = """
import atexit, itertools, os, signal, sys
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # as in a terminal, even where the tests run without one
pipe, moment = int(sys.argv[1]), int(sys.argv[2])
del sys.argv[1:3]
count, begun = itertools.count(1), []
def look(event, arguments):
    if begun:
        if next(count) == moment:
            os.write(pipe, b"now")
    elif event == "import" and arguments[0] == "pipelines.cli":
        begun.append(True)
sys.addaudithook(look)
from pipelines.__main__ import main
atexit.register(lambda: os.write(pipe, str(next(count)).encode()))
main()
"""


class Counted:
    """`wme` in a process group of its own, which tells when it has come to a moment."""

    def __init__(self, words, environ, moment=-1):
        self.pipe, writing = os.pipe()
        words = [sys.executable, "-c", COUNTING, str(writing), str(moment), *words]
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        how = {"cwd": ROOT, "env": bare() | environ, "pass_fds": [writing], "start_new_session": True}
        self.process = subprocess.Popen(words, **streams, **how)
        os.close(writing)

    def told(self):
        """What it told on its pipe: `now`, a number of events, or nothing."""
        data = os.read(self.pipe, 100)
        os.close(self.pipe)
        return data.decode()


@pytest.fixture(scope="module")
def length(service, hours, tmp_path_factory):
    account = Account(service, "undisturbed", f"Passw0rd-{os.urandom(8).hex()}")
    service.accounts.create(account.username, account.password, groups=["group_3"])
    environ = account.environ(lay(tmp_path_factory.mktemp("undisturbed") / "data"))
    counted = Counted(("run", *between(hours[0], hours[-1])), environ)
    _, err = counted.process.communicate(timeout=PATIENCE_SECONDS)
    assert counted.process.returncode == 0, err
    return int(counted.told())


def interrupted(words, environ, moment, wait, number, bound):
    """Strike at a moment, and see that the command ends as it should."""
    counted = Counted(words, environ, moment)
    told = counted.told()
    time.sleep(wait)  # a part of the moment that is drawn, within what counts no events; nothing depends on its length
    os.killpg(counted.process.pid, number)
    began = time.monotonic()
    _, err = counted.process.communicate(timeout=PATIENCE_SECONDS)
    seconds = time.monotonic() - began
    assert told == "now"
    assert counted.process.returncode == 128 + number, err
    assert (err.count(SENTENCE), err[-len(SENTENCE) - 1 :]) == (1, f"{SENTENCE}\n"), err
    assert "Traceback" not in err
    assert seconds < bound


def tidy(data):
    """Nothing is locked, and no run is shown as under way."""
    home = data / "dagster"
    assert not list(home.glob("processes/*"))
    if (home / "history" / "runs.db").exists():
        with dg.DagsterInstance.from_config(str(home)) as instance:
            assert {run.status for run in instance.get_runs()} <= ENDED
    for lock in data.rglob("*.lock"):
        with FileLock(lock, timeout=0):
            pass


def campaign(seed, count, bound, data, account, hours, length, runner):
    """Interrupt `count` runs, each over an empty folder and in another part of its way; let each go on afterwards."""
    chance = random.Random(seed)
    for part in range(count):
        # the last hundredth is the way out, where an interrupt may come too late to be one
        moment = int(length * 0.99 * (part + chance.random()) / count) + 1
        environ = account.environ(lay(data / str(part)))
        number = chance.choice((signal.SIGINT, signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
        interrupted(("run", *between(hours[0], hours[-1])), environ, moment, chance.random() * 0.1, number, bound)
        tidy(data / str(part))
        assert runner.start(environ, hours, history=False).finish() == []
        assert not unfinished(data / str(part))
        with duckdb.connect(str(data / str(part) / "warehouse.duckdb"), read_only=True) as connection:
            assert connection.execute("SELECT count(*), count(DISTINCT batch_hour) FROM loads").fetchall() == [(2, 1)]


@pytest.fixture(scope="module")
def hours(hours):
    """One hour goes through everything."""
    return hours[2:]


def test_an_interrupt_at_any_moment_ends_a_run_with_a_sentence(tmp_path, account, hours, runner):
    # others share the machine
    campaign(1, 2, 60, tmp_path, account, hours, FEWEST_EVENTS, runner)


@pytest.mark.soak
def test_forty_interrupts_leave_nothing_behind(tmp_path, account, hours, length, runner):
    campaign(1000, 40, 5, tmp_path, account, hours, length, runner)


def test_interrupt_of_a_prompt_gives_the_terminal_its_echo_back(tmp_path, account):
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    words = [sys.executable, "-m", "pipelines", "auth", "new-password"]
    how = dict.fromkeys(("stdin", "stdout", "stderr"), theirs) | {"cwd": ROOT, "start_new_session": True}
    how["env"] = {**os.environ, **account.environ(tmp_path / "data"), "TERM": "xterm"}
    how["preexec_fn"] = lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # as a login does
    process = subprocess.Popen(words, **how)
    until(lambda: not termios.tcgetattr(theirs)[3] & termios.ECHO)
    os.write(ours, b"\x03")
    assert (process.wait(timeout=PATIENCE_SECONDS), termios.tcgetattr(theirs)) == (130, before)
    shown = b""
    # what was written comes through the terminal in pieces, a line before the sentence among them
    while not shown.endswith(f"{SENTENCE}\r\n".encode()):
        assert select.select([ours], [], [], PATIENCE_SECONDS)[0], shown
        shown += os.read(ours, 65536)
    assert shown.decode().replace("\x1b[?25h", "").split("\r\n")[-2:] == [SENTENCE, ""]
    for descriptor in (ours, theirs):
        os.close(descriptor)


WATCHED = "import os, signal, threading, time; from pipelines.process import interrupts\n"
#: Programs, which end by these signals.
PROGRAMS = {
    "one that was ignored, as after nohup, stays so": """
signal.signal(signal.SIGHUP, signal.SIG_IGN); interrupts.watch()
os.kill(os.getpid(), signal.SIGHUP); os.kill(os.getpid(), signal.SIGINT); signal.pause()""",
    # Dagster installs a handler for each step of a run, whatever was there before
    "an ignored interrupt stays ignored while Dagster has a handler of its own": """
signal.signal(signal.SIGINT, signal.SIG_IGN); interrupts.watch()
signal.signal(signal.SIGINT, signal.default_int_handler); os.kill(os.getpid(), signal.SIGINT)
signal.signal(signal.SIGINT, signal.SIG_IGN); os.kill(os.getpid(), signal.SIGTERM); signal.pause()""",
    "what cannot be tidied holds nobody up": """
interrupts.watch(1.0)
with interrupts.tidied(threading.Event().wait):
    os.kill(os.getpid(), signal.SIGTERM)
    while True: time.sleep(0.1)""",
}
ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGTERM)


@pytest.mark.parametrize(("number", "code"), [*zip(ENDS, PROGRAMS.values(), strict=True)], ids=PROGRAMS)
def test_a_signal_ends_a_program_with_a_sentence(number, code):
    assert ran(sys.executable, "-c", WATCHED + code, timeout=60) == (128 + number, "", f"{SENTENCE}\n")
