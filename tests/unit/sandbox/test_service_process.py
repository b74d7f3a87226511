"""Sandboxes in processes of their own: started once, joined by all, ended when idle, replaced when killed."""

import concurrent.futures
import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest
import requests
from filelock import FileLock

from resources.sandbox import Endpoint, SandboxConflictError, SandboxStartError, Settings, attach, process, running
from resources.sandbox.__main__ import main
from resources.sandbox.options import command_line
from resources.sandbox.process import find
from tests.unit.sandbox.conftest import BOUND_SECONDS, prepared_state, wait_until

ROOT = Path(__file__).resolve().parents[3]


def ended(pid):
    """Return whether the process is gone; as its parent, this process must also collect it."""
    with contextlib.suppress(ChildProcessError):
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    return not Path(f"/proc/{pid}").exists()


@pytest.fixture
def state(tmp_path, signing_key):
    folder = prepared_state(tmp_path, signing_key)
    yield folder
    record = find(folder)
    if record is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(record.pid, signal.SIGKILL)
        wait_until(lambda: ended(record.pid))


def small(state, **options):
    return Settings(**{"state": state, "changes_per_hour": 5, "body_bytes": 300, **options})


def login(endpoint):
    body = {"username": endpoint.username, "password": endpoint.password}
    return requests.post(f"{endpoint.url}/v1/login", json=body, timeout=120)


def test_attach_starts_joins_and_replaces(state):
    first = attach(small(state))
    assert isinstance(first, Endpoint)
    assert first.identity == small(state).identity
    assert login(first).status_code == 200
    assert first.password not in repr(first)
    assert attach(small(state)) == first

    with pytest.raises(SandboxConflictError, match="not as sandbox-2-"):
        attach(small(state, seed=2))

    os.kill(first.pid, signal.SIGKILL)
    wait_until(lambda: ended(first.pid))
    second = attach(small(state), idle_seconds=2.0)
    assert second.pid != first.pid
    assert (second.username, second.password) == (first.username, first.password)
    assert login(second).status_code == 200

    wait_until(lambda: ended(second.pid))
    assert find(state) is None
    log = (state / "sandbox.log").read_text()
    assert f"curl -s {second.url}/v2/projects" in log
    assert second.password not in log
    assert "The sandbox is stopping because it received no requests for 2 seconds." in log


def test_processes_that_attach_at_the_same_time_get_the_same_sandbox(state):
    code = (
        "import sys, pathlib; from resources.sandbox import Settings, attach;"
        "print(attach(Settings(state=pathlib.Path(sys.argv[1]), changes_per_hour=5, body_bytes=300)).url)"
    )

    def run(_):
        words = [sys.executable, "-c", code, str(state)]
        return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=120, check=True).stdout

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        assert len(set(pool.map(run, range(2)))) == 1


def test_a_sandbox_ends_soon_after_its_owner_and_holds_nothing_of_who_started_it(state):
    owner, (reading, writing) = FileLock(state.parent / "owner.lock"), os.pipe()
    os.set_inheritable(writing, True)
    with owner:
        endpoint = attach(small(state), owner=Path(owner.lock_file))
        os.close(writing)
        assert os.read(reading, 1) == b""  # the end of the pipe: the sandbox does not hold it open
    os.close(reading)
    wait_until(lambda: ended(endpoint.pid))
    assert "owner.lock has ended." in (state / "sandbox.log").read_text()


def test_a_sandbox_that_cannot_start_shows_its_log(state):
    (state / "signing-key.pem").write_text("no key")
    with pytest.raises(SandboxStartError, match=r"did not start\. The last lines of"):
        attach(small(state))


def test_a_sandbox_in_this_process_is_joined_and_guards_its_folder(state):
    settings = small(state, now=datetime(2025, 3, 9, tzinfo=UTC))
    with running(settings) as sandbox:
        endpoint = attach(settings)
        assert (endpoint.url, endpoint.pid) == (sandbox.url, os.getpid())
        with pytest.raises(SandboxConflictError, match=f"already serving .* at {sandbox.url}"), running(settings):
            pass
    assert find(state) is None
    with running(settings) as sandbox:
        assert sandbox.clock.now() == settings.now


def one_project(state, **options):
    """Of which little is prepared."""
    return small(state, projects=("enwiki",), namespaces=(0,), entities=0, **options)


@contextlib.contextmanager
def preparing(settings):
    """A sandbox in this process that stays in the middle of its preparation for as long as the block runs."""
    under_way, goes_on = threading.Event(), threading.Event()

    def hold(ready, of):
        under_way.set()
        assert goes_on.wait(BOUND_SECONDS)

    def serve():
        with running(settings.model_copy(update={"prepare": 1}), progress=hold):
            ending.wait(BOUND_SECONDS)

    ending = threading.Event()
    thread = threading.Thread(target=serve)
    thread.start()
    try:
        assert under_way.wait(BOUND_SECONDS)
        yield goes_on
    finally:
        goes_on.set()
        ending.set()
        thread.join()


def test_a_sandbox_that_prepares_is_waited_for_and_joined_and_named_if_it_does_not_get_on(state, caplog, monkeypatch):
    with preparing(one_project(state)) as goes_on, concurrent.futures.ThreadPoolExecutor(1) as pool:
        with pytest.raises(SandboxConflictError, match=f"in process {os.getpid()} serves .* not as sandbox-2-"):
            attach(one_project(state, seed=2))
        with monkeypatch.context() as patch:
            patch.setattr(process, "_STALLED_SECONDS", 0.1)
            with pytest.raises(SandboxStartError, match=f"End that process with `kill {os.getpid()}`, then run"):
                attach(one_project(state))
        caplog.clear()
        attached = pool.submit(attach, one_project(state))
        told = rf"Waiting for the sandbox in process {os.getpid()}, which has prepared 0 of \d+ archives\."
        wait_until(lambda: any(re.fullmatch(told, message) for message in caplog.messages))
        assert not attached.done()
        goes_on.set()
        assert attached.result(BOUND_SECONDS).pid == os.getpid()
    assert not (state / "sandbox.log").exists()  # no other was started


def test_serve_in_this_process_until_it_is_told_to_stop(state, capsys):
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]

    def stop():
        wait_until(lambda: find(state) is not None)
        requests.post(f"{find(state).url}/sandbox/stop", timeout=120)

    stopper = threading.Thread(target=stop)
    stopper.start()
    assert main(command_line(small(state))) == 0
    stopper.join()
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers
    assert "/v2/batches/" in capsys.readouterr().out
    assert main(command_line(small(state, idle=0.05))) == 0
    assert capsys.readouterr().out.endswith(
        "The sandbox is stopping because it received no requests for 0.05 seconds.\n"
    )
    with running(small(state)) as sandbox:
        assert main([*command_line(small(state))]) == 1
        refusal = f"at {sandbox.url}. Use or stop that sandbox, or choose another state folder."
        assert capsys.readouterr().err.strip().endswith(refusal)
        port = sandbox.url.rpartition(":")[2]
        assert main([*command_line(small(state.parent / "other")), "--port", port]) == 1
        refusal = f"Port {port} of 127.0.0.1 is already in use. Choose another port, or 0 for any free port."
        assert refusal in capsys.readouterr().err


def test_serve_ends_quietly_on_a_signal(state):
    command = [sys.executable, "-m", "resources.sandbox", *command_line(small(state))]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: find(state) is not None)
    url = find(state).url
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, "")
    assert f"The sandbox runs at {url}" in out
    assert "/enwiki_namespace_0/download" in out
