"""The main job in processes of its own: a sandbox in this one, data folders, and runs that can be killed.

Belongs here: starting, watching and ending processes. Does not belong here: what tests expect of them.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from filelock import FileLock

from pipelines import cli
from pipelines.process import processes
from resources.sandbox import Settings, running
from resources.warehouse import warehouse
from tests import builds
from tests.e2e.forkserver import without_history

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from resources.sandbox import Sandbox
    from tests.e2e.interface import Mirror

ROOT = Path(__file__).resolve().parents[2]
PROJECTS = ("enwiki", "frwiki")
#: Names that unfinished work may have, anywhere in a data folder.
UNFINISHED = ("*.part", "*.part.*", "*.tmp", ".*.tmp", "*.unfinished", "*.wal")
#: `wme`, as a program.
WME = "from pipelines.__main__ import main; main()"
#: Longer than any run takes on a busy machine.
PATIENCE_SECONDS = 240.0
#: Runs and programs of the forking process that nobody has seen the end of.
_going: list[Run | Program] = []


@dataclass
class Account:
    """An account of the sandbox, and the environment in which `wme` uses it as it would a real one."""

    sandbox: Sandbox
    username: str
    password: str

    def environ(self, data: Path, **more: str) -> dict[str, str]:
        return {
            "WME_SANDBOX": "0",
            "WME_USERNAME": self.username,
            "WME_PASSWORD": self.password,
            "WME_AUTH_URL": self.sandbox.url,
            "WME_BASE_URL": self.sandbox.url,
            "WME_REALTIME_URL": self.sandbox.realtime_url,
            "WME_PROJECTS": ",".join(PROJECTS),
            "WME_MIN_FREE_GB": "0",
            "WME_DATA": str(data),
            "DAGSTER_DISABLE_TELEMETRY": "1",
            "PYTHONPATH": str(ROOT),
            **more,
        }


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """A sandbox with a small world on the real clock, as processes of their own meet it."""
    settings = Settings(
        state=tmp_path_factory.mktemp("service"), projects=PROJECTS, changes_per_hour=60, body_bytes=2000
    )
    with running(settings) as sandbox:
        yield sandbox


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mirror]:
    """A sandbox and `wme ui` in the background; those who use it come one after the other, and the last one ends it."""
    from tests.e2e.interface import serving

    with serving(tmp_path_factory.mktemp("served"), WME_UI_HOSTS="mirror.example.org") as mirror:
        yield mirror


@pytest.fixture
def account(service: Sandbox) -> Iterator[Account]:
    """An account of its own at the shared sandbox; faults and seen requests are taken back."""
    username = f"operator-{os.urandom(4).hex()}"
    password = f"Passw0rd-{os.urandom(8).hex()}"
    service.accounts.create(username, password, groups=["group_3"])
    service.requests.clear()
    yield Account(service, username, password)
    service.faults.clear()
    service.rate.set(None)


@pytest.fixture
def environ(account: Account, tmp_path: Path) -> dict[str, str]:
    """The environment of an empty data folder with an account of its own."""
    return account.environ(tmp_path / "data")


@pytest.fixture(scope="session")
def hours() -> list[datetime]:
    """Three hours that are published whatever the minute, and are kept for long enough."""
    newest = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=3)
    return [newest - timedelta(hours=back) for back in (2, 1, 0)]


@dataclass
class Run:
    """A run of the main job in a process of its own. `lines`: what it told, read so far."""

    pid: int
    pipe: int
    lines: list[str] = field(default_factory=list)
    ended: bool = False
    asking: int | None = None
    _rest: bytes = b""

    def __post_init__(self) -> None:
        _going.append(self)

    def wait_for(self, line: str) -> bool:
        """Read until the run has told `line`; False when it ended before."""
        while line not in self.lines and not self.ended:
            self._read(PATIENCE_SECONDS)
        return line in self.lines

    def kill(self) -> None:
        """End the run with SIGKILL, wherever it is; one that has just ended by itself is left as it is."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self.finish()

    def abandon(self) -> None:
        """Kill it, and read no more."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self._close()

    def finish(self) -> list[str]:
        """Read to the end; returns the sentences of what failed.

        Raises:
            RuntimeError: The run ended by an exception.
        """
        while not self.ended:
            self._read(PATIENCE_SECONDS)
        raised = [line for line in self.lines if line.startswith("!")]
        if raised:
            raise RuntimeError(raised[0])
        return next((json.loads(line[2:]) for line in self.lines if line.startswith("=")), ["the run was killed"])

    def ask(self, question: str) -> None:
        """Ask a question, in a line, of one that answers them, unless it is gone."""
        assert self.asking is not None
        with contextlib.suppress(BrokenPipeError):
            os.write(self.asking, f"{question}\n".encode())

    def hush(self) -> None:
        """Ask no more, at which it ends."""
        if self.asking is not None:
            os.close(self.asking)
            self.asking = None

    @property
    def phase(self) -> str:
        """The phase under way when the run last told of one; `between` when in none."""
        under_way: list[str] = []
        for line in self.lines:
            if line.startswith("> "):
                under_way.append(line[2:])
            elif line.startswith("< "):
                under_way.remove(line[2:])
        return under_way[-1] if under_way else "between"

    def _read(self, seconds: float) -> None:
        if not select.select([self.pipe], [], [], seconds)[0]:
            os.kill(self.pid, signal.SIGKILL)
            raise TimeoutError(f"The run told nothing for {seconds:.0f} s; the last was {self.lines[-3:]}.")
        data = os.read(self.pipe, 1 << 16)
        if not data:
            self._close()
            return
        *whole, self._rest = (self._rest + data).split(b"\n")
        self.lines += [line.decode() for line in whole]

    def _close(self) -> None:
        self.ended = True
        os.close(self.pipe)
        self.hush()
        _going[:] = [one for one in _going if one is not self]


class Program:
    """A program in a process of its own, with those ways of `subprocess.Popen` that tests use."""

    def __init__(self, out: int, err: int, told: int) -> None:
        self.stdout = os.fdopen(out)
        self.stderr = os.fdopen(err)
        # nothing may be read ahead of a wait
        self._told = os.fdopen(told, "rb", buffering=0)
        self.pid = int(self._told.readline())
        self.returncode: int | None = None
        _going.append(self)

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def communicate(self, timeout: float) -> tuple[str, str]:
        """What it writes until its end, which must come in time: else it is killed.

        Raises:
            subprocess.TimeoutExpired: It did not end.
        """
        with ThreadPoolExecutor(2) as pool:
            both = [pool.submit(stream.read) for stream in (self.stdout, self.stderr)]
            if not select.select([self._told], [], [], timeout)[0]:
                os.kill(self.pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired(str(self.pid), timeout)
            self.returncode = int(self._told.readline())
            out, err = (one.result() for one in both)
        self._close()
        return out, err

    def abandon(self) -> None:
        """Kill it, and read no more."""
        self.send_signal(signal.SIGKILL)
        self._close()

    def _close(self) -> None:
        for stream in (self.stdout, self.stderr, self._told):
            stream.close()
        _going.remove(self)


class Runner:
    """Forks runs from a process that has everything imported: a run starts in milliseconds.

    All workers have one such process, which ends with the last of them.
    """

    def __init__(self, place: Path) -> None:
        lock = f"{place}.lock"
        self._socket = socket.socket(socket.AF_UNIX)
        with FileLock(lock):
            try:
                self._socket.connect(str(place))
            except (FileNotFoundError, ConnectionRefusedError):
                place.unlink(missing_ok=True)
                with socket.socket(socket.AF_UNIX) as listening:
                    listening.bind(str(place))
                    listening.listen()
                    subprocess.run(
                        [sys.executable, Path(__file__).with_name("forkserver.py"), str(listening.fileno()), lock],
                        pass_fds=[listening.fileno()],
                        cwd=ROOT,
                        env={**os.environ, "PYTHONPATH": str(ROOT), "DAGSTER_DISABLE_TELEMETRY": "1"},
                        check=True,
                    )
                self._socket.connect(str(place))
        self._answers = self._socket.makefile("rb")
        assert self._answers.readline() == b"ready\n"

    def start(self, environ: dict[str, str], hours: Sequence[datetime], **more: Any) -> Run:
        """Start a run over `hours`.

        `more`: `reference=True` pulls the reference lists first; `history=False` keeps Dagster's history in memory.
        """
        request = {"environ": environ, "hours": [hour.isoformat() for hour in hours], **more}
        return self.call("tests.e2e.forkserver", "run", request)

    def call(self, module: str, function: str, *arguments: Any, asked: bool = False) -> Run:
        """Call a function of a module in a process of its own, with the pipe to report on.

        With `asked`, behind it one of questions.
        """
        reading, writing = os.pipe()
        asking = os.pipe() if asked else ()
        request = json.dumps({"call": [module, function], "arguments": arguments})
        descriptors = [*asking[:1], writing]
        socket.send_fds(self._socket, [request.encode()], descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        return Run(int(self._answers.readline()), reading, asking=asking[1] if asked else None)

    def program(self, text: str, *arguments: str, environ: dict[str, str], terminal: int | None = None) -> Program:
        """Start a program as `python -c TEXT ARGUMENTS` would, but with everything imported already.

        For what is not about starting, nor about Dagster's definitions, which have the settings of those who import
        them. `environ` is all of its environment; `terminal` takes the place of the pipes.
        """
        ours, theirs = zip(*(os.pipe() for _ in range(3)), strict=True)
        nothing = os.open(os.devnull, os.O_RDONLY)
        request = json.dumps({"program": text, "arguments": arguments, "environ": environ})
        streams = [nothing, *theirs[:2]] if terminal is None else [terminal] * 3
        socket.send_fds(self._socket, [request.encode()], [*streams, theirs[2]])
        for descriptor in (nothing, *theirs):
            os.close(descriptor)
        self._answers.readline()  # of the process that waits for it
        return Program(*ours)

    def close(self) -> None:
        self._answers.close()
        self._socket.close()


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of all workers of a run of the tests."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session")
def runner(shared: Path) -> Iterator[Runner]:
    """Starts runs of the main job in processes of their own."""
    runner = Runner(shared / "forkserver")
    yield runner
    runner.close()


@pytest.fixture(autouse=True)
def _nothing_goes_on() -> Iterator[None]:
    """Runs and programs of a test that failed end with it, those that were stopped too."""
    yield
    for one in _going.copy():  # each takes itself away from it
        one.abandon()


def is_sentence(text: str) -> bool:
    """Whether a failure is told as people tell it, and nothing of Python's is left in it."""
    left = ("Traceback", "[Errno", 'File "', "Error:", "Exception")
    return text.strip().endswith(".") and not any(word in text for word in left)


def between(first: datetime, last: datetime) -> tuple[str, ...]:
    """The options of `wme run` for these hours and those between them."""
    return "--from", f"{first:%Y-%m-%dT%H}", "--to", f"{last:%Y-%m-%dT%H}"


def bare() -> dict[str, str]:
    """The environment without anything of ours."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("WME_", "DAGSTER_HOME"))}


@pytest.fixture
def wme() -> Callable[..., subprocess.Popen[str]]:
    """Starts `wme` with arguments and an environment; standard output and error are pipes."""

    def start(*arguments: str, environ: dict[str, str]) -> subprocess.Popen[str]:
        # and not `-c`: where Python was started without a file, DuckDB draws a bar into the answer to a question that
        # takes two seconds
        return subprocess.Popen(
            [sys.executable, "-m", "pipelines", *arguments],
            cwd=ROOT,
            env=bare() | environ,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    return start


@pytest.fixture
def forked(runner: Runner) -> Callable[..., Program]:
    """Starts `wme` from a process that has everything imported: for what is not about starting."""
    return lambda *arguments, environ: runner.program(WME, *arguments, environ=bare() | environ)


@pytest.fixture
def killed(runner: Runner) -> Callable[..., str]:
    """Runs a program that ends itself by SIGKILL, and returns what it wrote."""

    def run(text: str, *arguments: str, environ: dict[str, str]) -> str:
        process = runner.program(text, *arguments, environ=bare() | environ)
        out, err = process.communicate(timeout=PATIENCE_SECONDS)
        assert process.returncode == -signal.SIGKILL, err
        return out

    return run


@pytest.fixture
def on_terminal(runner: Runner) -> Callable[..., str]:
    """Runs `wme` on a terminal of so many columns, to a good end, and returns what it showed."""

    def run(*arguments: str, environ: dict[str, str], columns: int) -> str:
        ours, theirs = pty.openpty()
        environ = bare() | environ | {"TERM": "xterm", "COLUMNS": str(columns), "PYTHONIOENCODING": "utf-8"}
        process = runner.program(WME, *arguments, environ=environ, terminal=theirs)
        os.close(theirs)
        shown = b""
        # reading from a terminal whose other end was closed is an error
        with contextlib.suppress(OSError):
            while piece := os.read(ours, 65536):
                shown += piece
        os.close(ours)
        text = shown.decode()
        process.communicate(timeout=PATIENCE_SECONDS)
        assert process.returncode == 0, text
        return text

    return run


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Mounts a file system in memory with these options."""
    folder = tmp_path / "disk"
    folder.mkdir()

    def mount(options: str) -> Path:
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
        return folder

    yield mount
    # lazily: where a test has failed, a process of it may still have the place in use, and the next run's clean-up
    # would stumble over it
    subprocess.run(["umount", "--lazy", str(folder)], capture_output=True, check=False)


def unfinished(data: Path) -> set[str]:
    """Names of the temporary files anywhere in a data folder; a sandbox's own folder is not looked at."""
    return {
        path.relative_to(data).as_posix()
        for pattern in UNFINISHED
        for path in data.rglob(pattern)
        if path.is_file() and (data / "sandbox") not in path.parents
    }


def until(
    look: Callable[[], Any],
    seconds: float = PATIENCE_SECONDS,
    what: str = "It happens",
    log: Path | None = None,
    *,
    pause: float = 0.002,
) -> Any:
    """What `look` finds; it is asked again as long as it finds nothing, after a pause in seconds."""
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

    def done(self, *words: str) -> Told:
        """See that it went well, and said these words."""
        assert self.code == 0, self.err
        for word in words:
            assert word in self.out
        return self

    def fails(self, *words: str, code: int = 1, out: str | None = None) -> Told:
        """See that it failed, and said so in a sentence with these words."""
        assert (self.code, is_sentence(self.err.replace("Error: ", "", 1))) == (code, True), self
        assert out in (None, self.out)
        for word in words:
            assert word in self.err
        return self


def ran(*words: Any, environ: dict[str, str] | None = None, cwd: Path = ROOT, **options: Any) -> Told:
    """What a program told that was started as any other, to its end."""
    given = {"capture_output": True, "text": True, "timeout": 2 * PATIENCE_SECONDS} | options
    done = subprocess.run(words, cwd=cwd, env=environ, check=False, **given)
    return Told(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="session")
def call() -> Callable[..., Told]:
    """Calls `wme` in this process, with an environment of its own: `call("status", environ=...)`.

    Dagster's history is in memory, unless it is asked for: it costs a third of a run.
    """

    def run(*arguments: str, environ: dict[str, str], stdin: str = "", history: bool = False) -> Told:
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
            if not _going:
                # nobody else has the files of DuckDB open: until the command ends, they stay so
                patch.setattr(warehouse, "Connector", builds.Keeping)
            patch.setattr(sys, "argv", ["wme", *arguments])
            patch.setattr(sys, "stdin", io.StringIO(stdin))
            code: Any = 0
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
def made_once(
    service: Sandbox, call: Callable[..., Told], shared: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., tuple[dict[str, str], Told]]:
    """A data folder that one worker makes by `wme run`, perhaps going on from another one: its environment, and what
    the run told.

    Each worker has a copy that belongs to its own sandbox: their worlds are the same.
    """
    filler = Account(service, "filler", "Passw0rd-of-the-filler")
    service.accounts.create(filler.username, filler.password, groups=["group_3"])

    def make(name: str, *words: str, since: dict[str, str] | None = None, **more: str) -> tuple[dict[str, str], Told]:
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
def filled(made_once: Callable[..., tuple[dict[str, str], Told]], hours: list[datetime]) -> tuple[dict[str, str], Told]:
    """A data folder with the two older of the hours, loaded by `wme run`: its environment, and the run's output."""
    first, last = (f"{hour:%Y-%m-%dT%H}" for hour in hours[:2])
    return made_once(f"filled-{first}", "--from", first, "--to", last)


@pytest.fixture(scope="session")
def mirrored(
    filled: tuple[dict[str, str], Told], made_once: Callable[..., tuple[dict[str, str], Told]], hours: list[datetime]
) -> dict[str, str]:
    """The environment of that folder with a snapshot of one project, and the newest hour, which the other has not."""
    last = f"{hours[2]:%Y-%m-%dT%H}"
    words = ("--snapshots", "--from", last, "--no-reference")
    environ, told = made_once(f"mirrored-{last}", *words, since=filled[0], WME_PROJECTS="frwiki")
    assert told.code == 0, told.err
    return environ


@pytest.fixture
def copy(call: Callable[..., Told], tmp_path: Path) -> Callable[..., dict[str, str]]:
    """Copies a data folder, and returns the environment of the copy."""

    def make(environ: dict[str, str], data: Path = tmp_path / "data") -> dict[str, str]:
        copied = environ | {"WME_DATA": str(shutil.copytree(environ["WME_DATA"], data))}
        assert call("relocate", environ=copied).code == 0
        return copied

    return make
