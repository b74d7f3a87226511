"""Archives that are listed were made beforehand, by separate processes: counted in archives, not in seconds."""

import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import requests

from resources.sandbox import Settings, preparation, running
from resources.sandbox.options import command_line
from resources.sandbox.store.archived_world import ArchivedWorld
from tests.unit.sandbox.conftest import BOUND_SECONDS, NOW, Client, logged_in, prepared_state, wait_until

ROOT = Path(__file__).resolve().parents[3]
HOUR = timedelta(hours=1)
NEWEST = datetime(2025, 3, 9, 6, tzinfo=UTC)


def small(folder, signing_key, **options):
    shape = {"projects": ("enwiki",), "namespaces": (0,), "changes_per_hour": 4, "body_bytes": 200, "entities": 0}
    return Settings(**{"state": prepared_state(folder, signing_key), "now": NOW, **shape, **options})


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


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def listed(client, *paths):
    answers = [client.call(path) for path in paths]
    assert [answer.status_code for answer in answers] == [200] * len(paths)
    return [answer.json() for answer in answers]


@pytest.fixture(autouse=True)
def few_processes(monkeypatch):
    """One process for what is asked for: each takes half a second of a processor to begin."""
    monkeypatch.setattr(preparation, "_MOST_WORKERS", 1)


LISTS = ("/v2/batches/2025-03-09/06", "/v2/snapshots", "/v2/snapshots/enwiki_namespace_0/chunks")


def test_what_is_listed_was_made_by_processes_that_may_die_and_stays_for_the_next_start(tmp_path, signing_key):
    settings = small(tmp_path, signing_key, prepare=1)
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
        assert first
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
    alone = ArchivedWorld(small(tmp_path / "state", signing_key))
    assert [piece.record for piece in alone.batches(NEWEST)] == hour


def test_once_it_is_ready_no_listing_makes_an_archive(tmp_path, signing_key):
    told = []
    settings = small(tmp_path, signing_key, projects=("enwiki", "frwiki"), entities=125, prepare=2)
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


def test_it_goes_on_with_what_comes_next_and_keeps_no_export_that_nobody_sees(tmp_path, signing_key):
    name = "enwiki_namespace_0"
    with prepared(small(tmp_path, signing_key), 2) as client:
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


@contextmanager
def serve(settings):
    words = [sys.executable, "-m", "resources.sandbox", *command_line(settings)]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()  # whatever failed: nothing is waited for that goes on


def is_exporting(state):
    """Return whether a part of an export lies there; folders come and go meanwhile, which `os.walk` does not mind."""
    return any(name.startswith("buffer_") for _, _, names in os.walk(state) for name in names)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 0), (signal.SIGKILL, -9)])
def test_ending_in_the_middle_of_it_leaves_no_process(tmp_path, signing_key, number, code):
    settings = small(tmp_path, signing_key, articles=400_000, prepare=48)
    with serve(settings) as process:
        # in the middle of an export, which takes minutes
        wait_until(lambda: is_exporting(settings.state))
        started = workers(process.pid)
        assert started
        process.send_signal(number)
        out, err = process.communicate(timeout=BOUND_SECONDS)
    assert (process.returncode, out) == (code, "")
    assert all(re.fullmatch(r"Prepared \d+ of \d+ archives\. .*", line) for line in err.splitlines())
    wait_until(lambda: not any(map(is_alive, started)))
    assert not list(settings.state.rglob("whole.*.tar.gz"))
    # what was begun is taken away by the next start
    begun = set(settings.state.glob("snapshots/*/*/*/*.part"))
    assert begun
    with running(settings, interrupted=lambda: True):
        assert not begun & set(settings.state.glob("snapshots/*/*/*/*.part"))
