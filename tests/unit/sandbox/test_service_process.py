"""Sandboxes in processes of their own: started once, joined by all, ended when idle, replaced when killed.

Archives that are listed were made beforehand, by separate processes: counted in archives, not in seconds.
"""

import concurrent.futures
import os
import re
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import requests
from filelock import FileLock

from resources.sandbox import Endpoint, Settings, attach, preparation, process, running
from resources.sandbox.__main__ import main
from resources.sandbox.options import command_line
from resources.sandbox.process import SandboxConflictError, SandboxStartError, find
from resources.sandbox.store.archived_world import ArchivedWorld
from tests.unit.sandbox.conftest import BOUND_SECONDS, NOW, Client, logged_in, prepared_state, wait_until

ROOT = Path(__file__).resolve().parents[3]
HOUR = timedelta(hours=1)
NEWEST = datetime(2025, 3, 9, 6, tzinfo=UTC)


@pytest.fixture(autouse=True)
def few_processes(monkeypatch):
    """One process for what is asked for: each takes half a second of a processor to begin."""
    monkeypatch.setattr(preparation, "_MOST_WORKERS", 1)


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@contextmanager
def serve(settings):
    words = [sys.executable, "-m", "resources.sandbox", *command_line(settings)]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()  # whatever failed: nothing is waited for that goes on


@pytest.fixture
def state(tmp_path, signing_key):
    folder = prepared_state(tmp_path, signing_key)
    yield folder
    if (record := find(folder)) is not None:
        with suppress(ProcessLookupError):
            os.kill(record.pid, signal.SIGKILL)
        wait_until(lambda: not is_alive(record.pid))


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
    assert os.getsid(first.pid) == first.pid  # Ctrl-C in the terminal does not reach it
    assert attach(small(state)) == first
    with pytest.raises(SandboxConflictError, match=f"as {first.identity}, not as sandbox-2-"):
        attach(small(state, seed=2))
    os.kill(first.pid, signal.SIGKILL)
    wait_until(lambda: not is_alive(first.pid))
    second = attach(small(state), idle_seconds=2.0)
    assert second.pid != first.pid
    assert (second.username, second.password) == (first.username, first.password)
    assert login(second).status_code == 200
    wait_until(lambda: not is_alive(second.pid))
    assert find(state) is None
    log = (state / "sandbox.log").read_text()
    assert all(f"curl -s {one.url}/v2/projects" in log for one in (first, second))
    assert (state / "sandbox.log").stat().st_mode & 0o077 == 0
    assert second.password not in log
    assert "The sandbox is stopping because it received no requests for 2 seconds." in log


def test_processes_that_attach_at_the_same_time_get_the_same_sandbox(state):
    code = "import sys, pathlib; from resources.sandbox import Settings, attach;"
    code += "print(attach(Settings(state=pathlib.Path(sys.argv[1]), changes_per_hour=5, body_bytes=300)).url)"

    words = [sys.executable, "-c", code, str(state)]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True) as other:
        printed = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=120, check=True).stdout
        assert other.communicate(timeout=120)[0] == printed


def test_a_sandbox_ends_soon_after_its_owner_and_holds_nothing_of_who_started_it(state):
    owner, (reading, writing) = FileLock(state.parent / "owner.lock"), os.pipe()
    os.set_inheritable(writing, True)
    with owner:
        endpoint = attach(small(state), owner=Path(owner.lock_file))
        os.close(writing)
        assert os.read(reading, 1) == b""  # the end of the pipe: the sandbox does not hold it open
    os.close(reading)
    wait_until(lambda: not is_alive(endpoint.pid))
    assert "owner.lock has ended." in (state / "sandbox.log").read_text()


def test_a_sandbox_that_cannot_start_shows_its_log(state):
    (state / "signing-key.pem").write_text("no key")
    (state / "sandbox.log").write_text("x" * 3_000)
    with pytest.raises(SandboxStartError, match=r"did not start\. The last lines of \S+sandbox\.log are: x+[^x].*\S"):
        attach(small(state))


def test_a_sandbox_in_this_process_is_joined_and_guards_its_folder(state):
    settings = small(state, now=datetime(2025, 3, 9, tzinfo=UTC))
    with running(settings) as sandbox:
        endpoint = attach(settings)
        urls = (sandbox.url, sandbox.object_url, sandbox.realtime_url)
        assert endpoint == Endpoint(*urls, sandbox.username, sandbox.password, settings.identity, os.getpid())
        records = [find(state), *(find(state)._replace(**other) for other in ({"pid": 1}, {"identity": "x"}))]
        assert [process._is_answering(record) for record in records] == [True, False, False]
        with pytest.raises(SandboxConflictError, match=f"already serving .* at {sandbox.url}"), running(settings):
            pass
    assert find(state) is None
    with running(settings) as sandbox:
        assert sandbox.clock.now() == settings.now


def one_project(state, **options):
    """Of which little is prepared."""
    return small(state, **{"projects": ("enwiki",), "namespaces": (0,), "entities": 0, **options})


@contextmanager
def preparing(settings):
    """A sandbox in this process that stays in the middle of its preparation for as long as the block runs."""
    under_way, goes_on = threading.Event(), threading.Event()

    def hold(ready, of):
        under_way.set()
        assert goes_on.wait(BOUND_SECONDS)

    def serve():
        with running(settings.model_copy(update={"prepare": 1}), progress=hold):
            ending.wait(BOUND_SECONDS)

    ending, thread = threading.Event(), threading.Thread(target=serve)
    thread.start()
    try:
        assert under_way.wait(BOUND_SECONDS)
        yield goes_on
    finally:
        goes_on.set()
        ending.set()
        thread.join()


def test_a_sandbox_that_prepares_is_waited_for_and_joined_and_named_if_it_does_not_get_on(state, caplog, monkeypatch):
    me, this, other = os.getpid(), one_project(state), one_project(state, seed=2)
    with preparing(this) as goes_on, concurrent.futures.ThreadPoolExecutor(1) as pool:
        told = f"The sandbox in process {me} serves {state} as {this.identity}, not as {other.identity}. Stop that sand"
        with pytest.raises(SandboxConflictError, match=told):
            attach(other)
        starting = rf"serving {state} from process {me} \(still starting\)\. Use or stop"
        with pytest.raises(SandboxConflictError, match=starting), running(this):
            pass
        with monkeypatch.context() as patch:
            patch.setattr(process, "_STALLED_SECONDS", 0.1)
            told = f"Process {me} serves {state} but .* 0 seconds. No sandbox was .* that process with `kill {me}`"
            with pytest.raises(SandboxStartError, match=told):
                attach(this)
        caplog.clear()
        attached = pool.submit(attach, this)
        told = rf"Waiting for the sandbox in process {me}, which has prepared 0 of 3 archives\."
        wait_until(lambda: any(re.fullmatch(told, message) for message in caplog.messages))
        assert not attached.done()
        goes_on.set()
        assert attached.result(BOUND_SECONDS).pid == me
        assert sum(message.startswith("Waiting for ") for message in caplog.messages) == 1
    assert not (state / "sandbox.log").exists()  # no other was started


def test_a_sandbox_that_makes_progress_is_waited_for_however_long(state, monkeypatch):
    moments = iter(range(0, 9_999, 100))
    records = iter([process.Record(small(state).identity, 7, ready=number, of=9) for number in range(9)])
    monkeypatch.setattr(process, "time", SimpleNamespace(monotonic=lambda: next(moments), sleep=bool))
    monkeypatch.setattr(process, "_read", lambda _: next(records))
    monkeypatch.setattr(process, "_is_taken", lambda _: True)
    joined = iter([None] * 8 + [Mock()])
    monkeypatch.setattr(process, "_join", lambda *_: next(joined))
    assert isinstance(process._running(small(state), state), Mock)


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
    assert main(command_line(small(state, idle=0.05, now=NOW))) == 0
    told = capsys.readouterr().out
    assert told.endswith("The sandbox is stopping because it received no requests for 0.05 seconds.\n")
    assert len(set(re.findall(r"http://\w+[\w.]*:\d+", told))) == 3
    parts = ["t sandbox is in {}/account.json.", "to {}/outbox.", "-d @{}/account.json \\", "s/2025-03-09/06/enwiki"]
    assert [part for part in parts if part.format(state) not in told] == []
    with running(small(state)) as sandbox:
        assert main([*command_line(small(state))]) == 1
        refusal = f"at {sandbox.url}. Use or stop that sandbox, or choose another state folder."
        assert capsys.readouterr().err.strip().endswith(refusal)
        port = sandbox.url.rpartition(":")[2]
        assert main([*command_line(small(state.parent / "other")), "--port", port]) == 1
        refusal = f"Port {port} of 127.0.0.1 is already in use. Choose another port, or 0 for any free port."
        assert refusal in capsys.readouterr().err


def test_serve_ends_quietly_on_a_signal(state):
    with serve(small(state)) as process:
        wait_until(lambda: find(state) is not None)
        record = find(state)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, "")
    urls = f"{record.url} (signed downloads: {record.object_url}, streams: {record.realtime_url})"
    assert f"The sandbox runs at {urls}. All data is synthetic.\nThe password of " in out
    assert "/enwiki_namespace_0/download" in out


@contextmanager
def prepared(settings, hours):
    with running(settings.model_copy(update={"prepare": hours})) as sandbox, logged_in(sandbox) as client:
        yield client


def archives(client):
    """All archives and when they were written."""
    found = {}
    # others are made meanwhile, under names that they do not keep
    for folder, _, names in os.walk(client.sandbox.settings.state):
        for path in (Path(folder, name) for name in names if name.endswith(".tar.gz")):
            with suppress(FileNotFoundError):
                found[path] = path.stat().st_mtime_ns
    return found


def workers(pid):
    """The processes that make archives for a process, by number."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            ppid = int(status.read_text().rpartition(")")[2].split()[1])
            words = status.with_name("cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if ppid == pid and b"resources.sandbox.preparation" in words:
            found.append(int(status.parent.name))
    return found


def listed(client, *paths):
    answers = [client.call(path) for path in paths]
    assert [answer.status_code for answer in answers] == [200] * len(paths)
    return [answer.json() for answer in answers]


LISTS = ("/v2/batches/2025-03-09/06", "/v2/snapshots", "/v2/snapshots/enwiki_namespace_0/chunks")


def test_what_is_listed_was_made_by_processes_that_may_die_and_stays_for_the_next_start(state):
    settings = one_project(state, now=NOW, prepare=1)
    with prepared(settings, 1) as client:
        before = archives(client)
        hour, snapshots, chunks = listed(client, *LISTS)
        assert before.items() <= archives(client).items()
        assert {record["identifier"] for record in hour} == {record["identifier"] for record in snapshots}
        found = {path.name.split(".")[1] for path in before}
        assert {record["version"] for record in (*hour, *snapshots, *chunks)} <= found
        # an hour that nobody prepared is made by the same processes, and by others when these have died
        assert len(listed(client, "/v2/batches/2025-03-08/12")[0]) == 1
        first = workers(os.getpid())
        assert [os.getsid(pid) for pid in first] == first != []
        wait_until(lambda: all(os.getpriority(os.PRIO_PROCESS, pid) >= min(19, os.nice(0) + 5) for pid in first))
        # nor was anything made in this process: it has not even got the words to write with
        assert client.sandbox.world._wikis == {}
        for pid in first:
            os.kill(pid, signal.SIGKILL)
        for number in (13, 14):
            assert len(listed(client, f"/v2/batches/2025-03-08/{number}")[0]) == 1
        assert not set(first) & set(workers(os.getpid()))
    assert not workers(os.getpid())
    told = []
    with running(settings, progress=lambda *many: told.append(many)) as sandbox, logged_in(sandbox) as client:
        assert not told
        assert listed(client, LISTS[0]) == [hour]
        assert before.items() <= archives(client).items()
    # what a world makes by itself is the same, byte for byte
    alone = ArchivedWorld(one_project(state / "alone", now=NOW))
    assert [piece.record for piece in alone.batches(NEWEST)] == hour


def test_once_it_is_ready_no_listing_makes_an_archive(state):
    told = []
    settings = one_project(state, now=NOW, projects=("enwiki", "frwiki"), entities=125, prepare=2)
    with running(settings, progress=lambda *many: told.append(many)) as sandbox, requests.Session() as session:
        before = archives(Client(sandbox, session))
        for group in ("group_3", "group_1"):
            sandbox.accounts.set_groups(sandbox.username, [group])
            client = Client(sandbox, session)
            client.login()
            paths = ["/v2/snapshots", "/v2/snapshots/frwiki_namespace_0/chunks", "/v2/snapshots/wikidata"]
            if group != "group_1":
                paths += [f"/v2/batches/{area}2025-03-09/0{hour}" for hour in (6, 5) for area in ("", "wikidata/")]
            found = listed(client, *paths)
            assert all(len(records) in (1, 2) for records in found if "_chunk_" not in records[0]["identifier"])
        assert archives(client) == before
        assert sandbox.world._wikis == {}
    # two hours of two projects and of Wikidata, and four snapshots for either kind of account
    assert told == [(ready, 14) for ready in range(15)]


def test_it_goes_on_with_what_comes_next_and_keeps_no_export_that_nobody_sees(state):
    name = "enwiki_namespace_0"
    with prepared(one_project(state, now=NOW), 2) as client:
        world, exports, clock = client.sandbox.world, client.sandbox.exports, client.sandbox.clock
        for back in range(2):
            wait_until(lambda back=back: world.has_hour("enwiki", NEWEST - back * HOUR))
        assert not world.has_hour("enwiki", NEWEST + HOUR)
        first = exports.turn(name, free=False)
        # an hour is made before it is published, a snapshot before its export ends
        clock.set(NEWEST + 2 * HOUR)
        wait_until(lambda: world.has_hour("enwiki", NEWEST + HOUR))
        assert client.call("/v2/batches/2025-03-09/07").status_code == 404
        clock.set(exports.upcoming(name).ended - timedelta(minutes=1))
        coming = exports.upcoming(name)
        wait_until(lambda: world.has_snapshot(name, coming.started))
        # listing the one that stands leaves the one that comes
        client.login()
        listed(client, "/v2/snapshots")
        assert world.has_snapshot(name, coming.started)
        assert exports.turn(name, free=False) != coming
        before = archives(client)
        clock.set(coming.ended)
        (record,) = listed(client, f"/v2/snapshots/{name}")
        assert record["version"] in {path.name.split(".")[1] for path in before}
        assert world._wikis == {}
        for _ in range(2):
            clock.set(exports.upcoming(name).ended + timedelta(hours=2))
            client.login()
            listed(client, f"/v2/snapshots/{name}")
        assert world.has_snapshot(name, exports.turn(name, free=True).started)
        assert not world.has_snapshot(name, first.started)
        assert not world.has_hour("enwiki", NEWEST - 2 * HOUR)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 0), (signal.SIGKILL, -9)])
def test_ending_in_the_middle_of_it_leaves_no_process(state, number, code):
    settings = one_project(state, now=NOW, articles=400_000, prepare=48)
    with serve(settings) as process:
        # in the middle of an export, which takes minutes; `os.walk` does not mind folders that come and go
        wait_until(lambda: "buffer_" in str([names for *_, names in os.walk(settings.state)]))
        started = workers(process.pid)
        assert started
        process.send_signal(number)
        out, err = process.communicate(timeout=BOUND_SECONDS)
    assert (process.returncode, out) == (code, "")
    assert all(re.fullmatch(r"Prepared \d+ of \d+ archives\. .*", line) for line in err.splitlines())
    wait_until(lambda: not any(map(is_alive, started)))
    assert not list(settings.state.rglob("whole.*.tar.gz"))
    # what was begun is taken away by the next start
    begun = set(settings.state.glob("s*/*/*/*/*.part"))
    assert begun
    with running(settings, interrupted=lambda: True):
        assert not begun & set(settings.state.glob("s*/*/*/*/*.part"))
