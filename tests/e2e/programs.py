"""Programs in processes of their own: started, watched and killed."""

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: Calls a function of a module, as `Runner.call` asks for it.
CALL = "import json, sys; from tests.e2e import forkserver; forkserver.call(*json.loads(sys.argv[1]))"
#: Longer than any run takes on a busy machine.
PATIENCE_SECONDS = 240.0
#: Runs and programs of the forking process that nobody has seen the end of.
GOING = []


def bare():
    return {name: value for name, value in os.environ.items() if not name.startswith(("WME_", "DAGSTER_HOME"))}


class Program:
    """A program in a process of its own, with those ways of `subprocess.Popen` that tests use."""

    def __init__(self, runner, text, arguments, environ, *, terminal=None, stderr=None):
        pipes = [os.pipe() for _ in range(4)]
        (stdin, asking), (answering, stdout), (complaining, complaints), (telling, told) = pipes
        streams = [stdin, stdout, complaints if stderr is None else stderr] if terminal is None else [terminal] * 3
        request = {"program": text, "arguments": arguments, "environ": environ}
        self.pid = runner.fork(request, [*streams, told])
        for descriptor in (stdin, stdout, complaints, told):
            os.close(descriptor)
        self.stdin = os.fdopen(asking, "wb", buffering=0)
        self.stdout, self.stderr = os.fdopen(answering), os.fdopen(complaining)
        self.told = os.fdopen(telling, "rb")
        self.returncode = None
        GOING.append(self)

    def send_signal(self, number):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def communicate(self, timeout):
        """What it writes until its end, which must come in time: else it is killed."""
        self.stdin.close()
        with ThreadPoolExecutor(2) as pool:
            both = [pool.submit(stream.read) for stream in (self.stdout, self.stderr)]
            if not select.select([self.told], [], [], timeout)[0]:
                self.send_signal(signal.SIGKILL)
                raise subprocess.TimeoutExpired(str(self.pid), timeout)
            self.returncode = int(self.told.readline())
            out, err = (one.result() for one in both)
        self.close()
        return out, err

    def abandon(self):
        self.send_signal(signal.SIGKILL)
        self.close()

    def close(self):
        for stream in (self.stdin, self.stdout, self.stderr, self.told):
            stream.close()
        GOING[:] = [one for one in GOING if one is not self]


class Run(Program):
    """A call that tells in lines how far it is. `lines`: what it told, read so far."""

    def __init__(self, *what):
        super().__init__(*what, stderr=2)
        self.lines = []
        self.ended = False
        self._rest = b""

    def wait_for(self, line):
        """Read until the run has told `line`; False when it ended before."""
        while line not in self.lines and not self.ended:
            self.read()
        return line in self.lines

    def kill(self):
        """End the run with SIGKILL, wherever it is; one that has just ended by itself is left as it is."""
        self.send_signal(signal.SIGKILL)
        self.finish()

    def finish(self):
        """Read to the end; returns the sentences of what failed, unless it ended by an exception."""
        while not self.ended:
            self.read()
        raised = [line for line in self.lines if line.startswith("!")]
        if raised:
            raise RuntimeError(raised[0])
        return next((json.loads(line[2:]) for line in self.lines if line.startswith("=")), ["the run was killed"])

    def ask(self, question):
        """Ask a question, in a line, of one that answers them, unless it is gone."""
        with contextlib.suppress(BrokenPipeError):
            self.stdin.write(f"{question}\n".encode())

    @property
    def phase(self):
        """The phase under way when the run last told of one; `between` when in none."""
        under_way = []
        for line in self.lines:
            if line.startswith("> "):
                under_way.append(line[2:])
            elif line.startswith("< "):
                under_way.remove(line[2:])
        return under_way[-1] if under_way else "between"

    def read(self, seconds=PATIENCE_SECONDS):
        if not select.select([self.stdout], [], [], seconds)[0]:
            self.send_signal(signal.SIGKILL)
            raise TimeoutError(f"The run told nothing for {seconds:.0f} s; the last was {self.lines[-3:]}.")
        data = os.read(self.stdout.fileno(), 1 << 16)
        if not data:
            self.ended = True
            self.close()
            return
        *whole, self._rest = (self._rest + data).split(b"\n")
        self.lines += [line.decode() for line in whole]


class Runner:
    """Forks programs from a process that has everything imported: a run starts in milliseconds."""

    def __init__(self):
        self._socket, theirs = socket.socketpair()
        with theirs:
            words = [sys.executable, Path(__file__).with_name("forkserver.py"), str(theirs.fileno())]
            how = {"pass_fds": [theirs.fileno()], "cwd": ROOT, "env": bare() | {"PYTHONPATH": str(ROOT)}}
            self._process = subprocess.Popen(words, **how)
        self._answers = self._socket.makefile("rb")
        assert self._answers.readline() == b"ready\n"

    def fork(self, request, descriptors):
        """Have a program started with these standard streams and the pipe for its exit status; returns the pid."""
        socket.send_fds(self._socket, [json.dumps(request).encode()], descriptors)
        return int(self._answers.readline())

    def program(self, text, *arguments, environ, terminal=None):
        """Start a program as `python -c TEXT ARGUMENTS` would, but with everything imported already.

        For what is not about starting, nor about Dagster's definitions, which have the settings of those who import
        them. `environ` is all of its environment; `terminal` takes the place of the pipes.
        """
        return Program(self, text, arguments, environ, terminal=terminal)

    def call(self, module, function, *arguments):
        """Call a function of a module in a process of its own, with what it reports by."""
        return Run(self, CALL, [json.dumps([module, function, arguments])], bare())

    def start(self, environ, hours, **more):
        """Start a run over `hours`; `reference=True` pulls the lists first, `history=False` keeps history in memory."""
        request = {"environ": environ, "hours": [hour.isoformat() for hour in hours], **more}
        return self.call("tests.e2e.forkserver", "run", request)

    def close(self):
        self._answers.close()
        self._socket.close()  # it ends with its last request
        self._process.wait()
