"""The initial and the final state of every test.

A test starts without an account, telemetry and addresses outside loopback, with folders in memory if there is room. A
failed test ends with none of its processes alive.
"""

import atexit
import gc
import itertools
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import scripts_once

os.environ["DAGSTER_DISABLE_TELEMETRY"] = "1"
# a developer's own .env is none of the tests' business
os.environ["PYTHON_DOTENV_DISABLED"] = "1"
#: Set while the suite runs, so that definitions imported anywhere belong to no real account.
for _name in [name for name in os.environ if name.startswith("WME_")]:
    del os.environ[_name]
os.environ.pop("DAGSTER_HOME", None)
# a hundred processes are started, and each would compile the project anew, and every run all the tests
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# a shell starts what is to run in the background without interrupts, which the commands under test would inherit
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_MEMORY = Path("/dev/shm")
#: The suite's folders have about 200 MB when they are largest; tests that watch memory need room beside them.
_ROOM_BYTES = 4 << 30


def _prefer_memory() -> None:
    """Have temporary folders in memory, unless TMPDIR names a place.

    Most of the waiting is for `fsync`: a run in a new folder asks for it 1,300 times, nearly all for Dagster's history.
    What the tests kill are processes, and these leave the same behind on either; a machine that stops is not among the
    tests.
    """
    if "TMPDIR" in os.environ or not os.access(_MEMORY, os.W_OK | os.X_OK):
        return
    system = os.statvfs(_MEMORY)
    memory = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    available = int(memory["MemAvailable"].removesuffix("kB")) << 10
    if min(available, system.f_bavail * system.f_frsize) >= _ROOM_BYTES:
        os.environ["TMPDIR"] = str(_MEMORY)
        tempfile.tempdir = None


_prefer_memory()

scripts_once.keep()

# of what is imported and collected nothing is garbage: it is not to be looked through, now or later
gc.disable()


@pytest.hookimpl(trylast=True)  # once those that are not to run are taken out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let each worker begin with files that mostly wait, and end with short tests, which idle workers take over.

    pytest-xdist gives each of N workers an Nth of the list, in its order; what remains goes to the last ones.
    """
    unit = Path(__file__).parent / "unit"
    worker_count = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    waiting: dict[Any, list[pytest.Item]] = {}
    for item in items:
        if unit not in item.path.parents:
            # all that share one server are one
            shared = "served" in item.fixturenames  # type: ignore[attr-defined]
            waiting.setdefault("served" if shared else item.path, []).append(item)
    units = [item for item in items if unit in item.path.parents]
    # those of the warehouse take longest
    short = iter(sorted(units, key=lambda item: unit / "warehouse" not in item.path.parents))
    shares: list[list[pytest.Item]] = [[] for _ in range(worker_count)]
    loads = [0] * worker_count
    for of_file in waiting.values():
        # half of the workers have a process that forks others, with everything imported; its files are the longest
        forks = any("runner" in item.fixturenames for item in of_file)  # type: ignore[attr-defined]
        number = min(range(-(-worker_count // 2) if forks else worker_count), key=loads.__getitem__)
        loads[number] += 2 if forks else 1
        shares[number].extend(of_file)
    for number, share in enumerate(shares):
        size = (len(items) + number) // worker_count
        share.extend(itertools.islice(short, max(0, size - len(share))))
    items[:] = itertools.chain(*shares, short)


def pytest_collection_finish() -> None:
    gc.freeze()
    atexit.register(gc.unfreeze)
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def _shared(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Let workers share what takes each of them more than a second of a processor to make, and sandboxes their key."""
    from resources.sandbox.accounts import tokens
    from tests import builds

    if "PYTEST_XDIST_WORKER" in os.environ:
        builds.shared = tmp_path_factory.getbasetemp().parent
    make, made = tokens._private_key, tmp_path_factory.mktemp("key") / "signing-key.pem"

    def key(path: Path) -> bytes:
        if not path.exists():
            tokens.write_private(path, make(made))
        return make(path)

    tokens._private_key = key


@pytest.fixture
def untraced() -> Iterator[None]:
    """Run a test without the tracer of coverage, which makes Python slower than what it is compared with.

    The marker `no_cover` of pytest-cov 7.1 has no effect in the workers of pytest-xdist.
    """
    traces = sys.gettrace(), threading.gettrace()
    sys.settrace(None)
    threading.settrace(None)  # type: ignore[arg-type]
    yield
    sys.settrace(traces[0])
    threading.settrace(traces[1])  # type: ignore[arg-type]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    """End what a test has started and, since it failed, left behind: otherwise it disturbs, or fails, another test."""
    begun: list[subprocess.Popen[Any]] = []
    start = subprocess.Popen.__init__

    def noted(process: subprocess.Popen[Any], *words: Any, **options: Any) -> None:
        start(process, *words, **options)
        begun.append(process)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess.Popen, "__init__", noted)
        try:
            return (yield)
        except BaseException:
            for process in begun:
                process.kill()
                with process:  # closes its pipes and waits for it
                    pass
            raise
