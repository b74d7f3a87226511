"""A sandbox in this process, data folders, and runs and commands of the main job."""

import contextlib
import hashlib
import io
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pytest
from filelock import FileLock

from pipelines import cli
from pipelines.process import processes
from resources.sandbox import Sandbox, Settings, running
from resources.warehouse import warehouse
from tests import builds
from tests.e2e.forkserver import without_history
from tests.e2e.programs import GOING, PATIENCE_SECONDS, ROOT, Runner, bare

PROJECTS = ("enwiki", "frwiki")
#: Names that unfinished work may have, anywhere in a data folder.
UNFINISHED = ("*.part", "*.part.*", "*.tmp", ".*.tmp", "*.unfinished", "*.wal")
#: `wme`, as a program.
WME = "from pipelines.__main__ import main; main()"
#: `wme`, which ends itself by SIGKILL when it is about to move, link or remove the n-th path with a pattern in it.
KILLED_AT = """
import itertools, os, re, signal, sys
at, last, count = re.compile(sys.argv.pop(1)), int(sys.argv.pop(1)), itertools.count()
def look(event, arguments):
    if event in {"os.rename", "os.link", "os.remove", "os.rmdir"}:
        path = arguments[1] if event in {"os.rename", "os.link"} else arguments[0]
        if at.search(str(path)) and next(count) == last:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(look)
from pipelines.cli import main
main()
"""


@dataclass
class Account:
    """An account of the sandbox, and the environment in which `wme` uses it as it would a real one."""

    sandbox: Sandbox
    username: str
    password: str

    def environ(self, data, **more):
        url, realtime, projects = self.sandbox.url, self.sandbox.realtime_url, ",".join(PROJECTS)
        return {
            "WME_SANDBOX": "0", "WME_USERNAME": self.username, "WME_PASSWORD": self.password, "WME_AUTH_URL": url,
            "WME_BASE_URL": url, "WME_REALTIME_URL": realtime, "WME_PROJECTS": projects, "WME_MIN_FREE_GB": "0",
            "WME_DATA": str(data), "DAGSTER_DISABLE_TELEMETRY": "1", "PYTHONPATH": str(ROOT), **more,
        }  # fmt: skip


@pytest.fixture(scope="session")
def service(tmp_path_factory):
    """A sandbox with a small world on the real clock, as processes of their own meet it."""
    state, small = tmp_path_factory.mktemp("service"), {"changes_per_hour": 60, "body_bytes": 2000}
    # the day's snapshots are older than all `hours`, also just after midnight
    then = datetime.now(UTC) - timedelta(hours=8)
    with running(Settings(state=state, projects=PROJECTS, snapshot_hour=then.hour, **small)) as sandbox:
        yield sandbox


@pytest.fixture(scope="session")
def served(tmp_path_factory):
    """A sandbox and `wme ui` in the background; those who use it come one after the other, and the last one ends it."""
    from tests.e2e.interface import serving

    with serving(tmp_path_factory.mktemp("served"), WME_UI_HOSTS="mirror.example.org") as mirror:
        yield mirror


@pytest.fixture
def account(service):
    """An account of its own at the shared sandbox; faults and seen requests are taken back."""
    username = f"operator-{os.urandom(4).hex()}"
    password = f"Passw0rd-{os.urandom(8).hex()}"
    service.accounts.create(username, password, groups=["group_3"])
    service.requests.clear()
    yield Account(service, username, password)
    service.faults.clear()
    service.rate.set(None)


@pytest.fixture
def environ(account, tmp_path):
    return account.environ(tmp_path / "data")


@pytest.fixture(scope="session")
def hours():
    """Three hours that are published whatever the minute, and are kept for long enough."""
    newest = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=3)
    return [newest - timedelta(hours=back) for back in (2, 1, 0)]


@pytest.fixture(scope="session")
def runner():
    with contextlib.closing(Runner()) as runner:
        yield runner


@pytest.fixture(autouse=True)
def _nothing_goes_on():
    """Runs and programs of a test that failed end with it, those that were stopped too."""
    yield
    for one in GOING.copy():  # each takes itself away from it
        one.abandon()


def is_sentence(text):
    """Whether a failure is told as people tell it, and nothing of Python's is left in it."""
    left = ("Traceback", "[Errno", 'File "', "Error:", "Exception")
    return text.strip().endswith(".") and not any(word in text for word in left)


def between(first, last):
    return "--from", f"{first:%Y-%m-%dT%H}", "--to", f"{last:%Y-%m-%dT%H}"


def started(*arguments, environ):
    # and not `-c`: where Python was started without a file, DuckDB draws a bar into the answer to a question that takes
    # two seconds
    words, pipe = [sys.executable, "-m", "pipelines", *arguments], subprocess.PIPE
    return subprocess.Popen(words, cwd=ROOT, env=bare() | environ, text=True, stdout=pipe, stderr=pipe)


@pytest.fixture
def forked(runner):
    """Starts `wme` from a process that has everything imported: for what is not about starting."""
    return lambda *arguments, environ: runner.program(WME, *arguments, environ=bare() | environ)


@pytest.fixture
def killed(runner):
    """Runs a program that ends itself by SIGKILL, and returns what it wrote."""

    def run(text, *arguments, environ):
        process = runner.program(text, *arguments, environ=bare() | environ)
        out, err = process.communicate(timeout=PATIENCE_SECONDS)
        assert process.returncode == -signal.SIGKILL, err
        return out

    return run


@pytest.fixture
def on_terminal(runner):
    """Runs `wme` on a terminal of so many columns, with answers to prompts, to a good end; returns what it showed."""

    def run(*arguments, environ, columns, answers=None):
        ours, theirs = pty.openpty()
        environ = bare() | environ | {"TERM": "xterm", "COLUMNS": str(columns), "PYTHONIOENCODING": "utf-8"}
        process = runner.program(WME, *arguments, environ=environ, terminal=theirs)
        os.close(theirs)
        shown, waiting = b"", dict(answers or {})
        # reading from a terminal whose other end was closed is an error
        with contextlib.suppress(OSError):
            while piece := os.read(ours, 65536):
                shown += piece
                for prompt in [one for one in waiting if shown.endswith(f"{one}: ".encode())]:
                    os.write(ours, f"{waiting.pop(prompt)}\n".encode())
        os.close(ours)
        text = shown.decode()
        process.communicate(timeout=PATIENCE_SECONDS)
        assert process.returncode == 0, text
        return text

    return run


@pytest.fixture
def mounted(tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()

    def mount(options):
        words = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
        return folder

    yield mount
    # lazily: where a test has failed, a process of it may still have the place in use, and the next run's clean-up
    # would stumble over it
    subprocess.run(["umount", "--lazy", str(folder)], capture_output=True, check=False)


def contents(folder):
    found = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): hashlib.md5(path.read_bytes()).hexdigest() for path in found}


def digests(data, *, moments=True, project=None):
    """Number and digest of all rows of every published table, perhaps of a project; without `moments`, no times."""
    left_out = () if moments else ("loaded_at", "applied_at", "checked_at", "compacted_at")
    with warehouse.Warehouse(data).connect_published() as connection:
        tables = connection.execute(
            "SELECT table_name, list(column_name) FROM duckdb_columns() WHERE schema_name = 'main' AND database_name = "
            "current_database() AND table_name IN (SELECT table_name FROM duckdb_tables() UNION SELECT "
            "'article_changes' UNION SELECT 'article_bodies' UNION SELECT 'snapshot_articles') AND table_name != "
            "'about' GROUP BY ALL ORDER BY ALL"
        ).fetchall()
        found = {}
        for name, columns in tables:
            if project is None or "project_id" in columns:
                kept = ", ".join(f'"{one}"' for one in columns if one not in left_out)
                where = "" if project is None else f" WHERE project_id = '{project}'"
                query = f"SELECT count(*), bit_xor(hash(t)), sum(hash(t)) FROM (SELECT {kept} FROM {name}{where}) AS t"
                found[name] = connection.execute(query).fetchone()
        return found


def unfinished(data):
    """Names of the temporary files anywhere in a data folder; a sandbox's own folder is not looked at."""
    found = {path for pattern in UNFINISHED for path in data.rglob(pattern) if path.is_file()}
    return {path.relative_to(data).as_posix() for path in found if (data / "sandbox") not in path.parents}


def until(look, seconds=PATIENCE_SECONDS, what="It happens", log=None, *, pause=0.002):
    end = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < end, f"{what}: not within {seconds:g} s. {log.read_text()[-4000:] if log else ''}"
        time.sleep(pause)
    return found


class Told(NamedTuple):
    """What a command told, and its exit code."""

    code: int
    out: str
    err: str

    def done(self, *words):
        """See that it went well, and said these words."""
        assert self.code == 0, self.err
        for word in words:
            assert word in self.out
        return self

    def fails(self, *words, code=1, out=None):
        """See that it failed, and said so in a sentence with these words."""
        assert (self.code, is_sentence(self.err.replace("Error: ", "", 1))) == (code, True), self
        assert out in (None, self.out)
        for word in words:
            assert word in self.err
        return self


def ran(*words, environ=None, cwd=ROOT, **options):
    """What a program told that was started as any other, to its end."""
    given = {"capture_output": True, "text": True, "timeout": 2 * PATIENCE_SECONDS} | options
    done = subprocess.run(words, cwd=cwd, env=environ, check=False, **given)
    return Told(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="session")
def call():
    """Calls `wme` in this process: `call("status", environ=...)`; Dagster's history is in memory unless asked for."""

    def run(*arguments, environ, stdin="", history=False):
        out, err = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch:
            for name in [name for name in os.environ if name.startswith("WME_")]:
                patch.delenv(name)
            for name, value in environ.items():
                patch.setenv(name, value)
            # an instance puts its folder there; taken back with the rest
            patch.setenv("DAGSTER_HOME", "")
            patch.delenv("DAGSTER_HOME")
            if not history:
                patch.setattr(processes, "opened", without_history)
            if not GOING:
                # nobody else has the files of DuckDB open: until the command ends, they stay so
                patch.setattr(warehouse, "Connector", builds.Keeping)
            patch.setattr(sys, "argv", ["wme", *arguments])
            patch.setattr(sys, "stdin", io.StringIO(stdin))
            code = 0
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                try:
                    cli.main()
                except SystemExit as stop:
                    code = stop.code or 0
                finally:
                    builds.close_all()
        told = Told(code, out.getvalue(), err.getvalue())
        assert not (double := re.findall(r".{0,80}[^.]\.\.(?=\s|$)", told.out + told.err)), double
        return told

    return run


@pytest.fixture(scope="session")
def made_once(service, call, tmp_path_factory):
    """Makes a data folder by `wme run`, perhaps going on from another one, in one worker.

    Each worker gets a copy that belongs to its own sandbox, as its environment, and what the run told.
    """
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    filler = Account(service, "filler", "Passw0rd-of-the-filler")
    service.accounts.create(filler.username, filler.password, groups=["group_3"])

    def make(name, *words, since=None, **more):
        made = shared / f"made-{name}"
        with FileLock(f"{made}.lock"):
            if not (ended := made / "ended.json").exists():
                if since is not None:
                    shutil.copytree(since["WME_DATA"], made / "data")
                told = call("run", *words, environ=filler.environ(made / "data", **more), history=True)
                ended.write_text(json.dumps([service.url, *told]))
        url, code, *texts = json.loads(ended.read_text())
        environ = filler.environ(tmp_path_factory.mktemp(name) / "data", **more)
        data = shutil.copytree(made / "data", environ["WME_DATA"])
        note = Path(data) / "state" / "service.json"
        note.write_text(note.read_text().replace(url, service.url))
        (Path(data) / "state" / "tokens.json").unlink()
        for command in (("auth", "login"), ("relocate",)):
            assert call(*command, environ=environ).code == 0
        return environ, Told(code, *(text.replace(str(made / "data"), data) for text in texts))

    return make


@pytest.fixture(scope="session")
def filled(made_once, hours):
    """A data folder with the two older of the hours, loaded by `wme run`: its environment, and the run's output."""
    first, last = (f"{hour:%Y-%m-%dT%H}" for hour in hours[:2])
    return made_once(f"filled-{first}", "--from", first, "--to", last)


@pytest.fixture(scope="session")
def mirrored(filled, made_once, hours):
    """The environment of that folder with a snapshot of one project, and the newest hour, which the other has not."""
    last = f"{hours[2]:%Y-%m-%dT%H}"
    words = ("--snapshots", "--from", last, "--no-reference")
    environ, told = made_once(f"mirrored-{last}", *words, since=filled[0], WME_PROJECTS="frwiki")
    assert told.code == 0, told.err
    return environ


@pytest.fixture
def copy(call, tmp_path):
    def make(environ, data=tmp_path / "data"):
        copied = environ | {"WME_DATA": str(shutil.copytree(environ["WME_DATA"], data))}
        assert call("relocate", environ=copied).code == 0
        return copied

    return make
