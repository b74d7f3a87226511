"""Snapshots and chunks from the sandbox: planned within the quota, fetched as one set, and what ends that set."""

import contextlib
import json
import signal
import subprocess
import sys
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from resources.engine import Engine
from resources.enterprise import EnterpriseClient, FetchOptions, Limits, Sidecar, errors, superseded
from resources.files import md5_of
from resources.sandbox import Settings, running
from tests.integration.conftest import NOW
from tests.integration.daemon import PASSWORD, QUICK
from tests.unit.enterprise.fake_service import FakeService

ROOT = Path(__file__).resolve().parents[2]
NAME = "enwiki_namespace_0"
CHUNKS = FetchOptions(chunks=True)
WHOLE = FetchOptions(whole=True)


@pytest.fixture(scope="module")
def _shared_sandbox(tmp_path_factory):
    world = {"changes_per_hour": 150, "body_bytes": 2000, "chunk_bytes": 250_000}
    state = tmp_path_factory.mktemp("sandbox")
    with running(Settings(state=state, now=NOW, projects=("enwiki",), namespaces=(0,), **world)) as sandbox:
        yield sandbox


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "archive" / NAME


@pytest.fixture
def plan(client, folder):
    plan = client.snapshots.plan(NAME, folder, CHUNKS)
    assert len(plan.files) >= 6  # enough for something to happen half way
    return plan


def used(client):
    quotas = client.account.user().quotas
    return quotas["snapshot"].used, quotas["chunk"].used


def asked(sandbox):
    return sum(s.path.endswith("/download") and s.method == "GET" and s.status == 307 for s in sandbox.requests)


def landed(plan):
    return [piece for piece in plan.files if piece.target.exists()]


def unfinished(plan):
    return sorted(p.name for p in plan.folder.glob("*.part*")) if plan.folder.exists() else []


def test_in_chunks_it_costs_one_unit_for_each_and_nothing_again(client, sandbox, plan, folder):
    seen = []
    done, count = client.snapshots.download(plan, progress=seen.append), len(plan.files)
    assert used(client) == (0, count)
    assert asked(sandbox) == sum(d.unit_count for d in done) == count
    assert [d.path for d in done] == [p.target for p in plan.files]
    assert all(md5_of(d.path) == Sidecar.read(d.path).version == d.version for d in done)
    assert (unfinished(plan), sum(seen)) == ([], sum(d.size_bytes for d in done))
    told = json.loads(plan.manifest.read_text())
    assert told["snapshot"]["version"] == plan.snapshot.version
    assert [f["identifier"] for f in told["files"]] == [p.identifier for p in plan.files]

    again = client.snapshots.plan(NAME, folder)
    assert (again.form, again.unit_count, again.missing_bytes) == ("chunks", 0, 0)
    assert not any(d.fetched for d in client.snapshots.download(again))
    assert (used(client), superseded(again)) == ((0, count), ())


def test_a_version_that_changes_half_way_is_noticed(client, sandbox, plan, folder):
    sandbox.exports.export(NAME, after_downloads=4)
    # the first file is complete only after another was found replaced
    sandbox.faults.add(path="*chunk_0/download", kind="slow", bytes_per_second=50_000)
    with pytest.raises(errors.StaleSnapshot) as caught:
        client.snapshots.download(plan, workers=4)
    error = caught.value
    assert used(client)[1] <= 3 + 4  # those under way at that moment, and none after it
    assert (plan.manifest.exists(), unfinished(plan)) == (False, [])
    kept = landed(plan)
    assert all(md5_of(p.target) == Sidecar.read(p.target).version for p in kept)
    fresh = client.snapshots.plan(NAME, folder, CHUNKS)
    assert not error.retryable
    assert f"The service replaced {NAME} after it was planned" in error.message
    assert f"instead of {plan.snapshot.version[:8]}" in error.message or "_chunk_" in error.message
    assert f"{len(kept)} complete file" in error.message
    assert str(folder) in error.message
    assert f"costs {fresh.unit_count} chunk units" in error.message
    assert "Signature" not in error.message

    client.snapshots.download(fresh)
    assert fresh.manifest.exists()
    assert {p.target for p in kept} <= set(superseded(fresh))


def test_a_change_in_mid_body_is_noticed(client, sandbox, plan):
    sandbox.faults.add(path="*/chunks/*", kind="cut", after=20_000)
    waiting = [sandbox.exports.export]

    def export_once(count):
        if count and waiting:
            waiting.pop()(NAME)

    with pytest.raises(errors.StaleSnapshot, match=r"after it was planned: .*_chunk_0 has version .* instead of"):
        client.snapshots.fetch(plan, plan.files[0], export_once)
    assert (used(client), landed(plan), unfinished(plan)) == ((0, 1), [], [])
    with pytest.raises(errors.StaleSnapshot):
        client.snapshots.download(plan, workers=1)
    assert not [seen for seen in sandbox.requests if seen.path.endswith("_chunk_1")], "others are not begun"


def test_new_bytes_that_came_for_the_old_version_are_kept_for_the_next_plan(client, sandbox, plan, folder):
    late = sandbox.faults.add(path="*/chunks/*/download", kind="delay", seconds=3.0)
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(client.snapshots.fetch, plan, plan.files[0])
        deadline = time.monotonic() + 120
        while not late.hits:  # the versions were read again, the address is not there yet
            assert time.monotonic() < deadline
            time.sleep(0.002)
        sandbox.exports.export(NAME)
        error = future.exception()
    assert (type(error), used(client), landed(plan)) == (errors.StaleSnapshot, (0, 1), [])
    fresh = client.snapshots.plan(NAME, folder, CHUNKS)
    assert [p.identifier for p in fresh.files if p.is_landed] == [plan.files[0].identifier]
    assert f"costs {fresh.unit_count} chunk units" in error.message
    assert fresh.unit_count == len(fresh.files) - 1


def test_a_change_between_the_chunks_or_after_the_last_is_noticed_and_costs_no_unit(client, sandbox, plan):
    client.snapshots.fetch(plan, plan.files[0])
    with pytest.raises(errors.StateError, match="Plan the snapshot again"):
        client.snapshots.confirm(plan)
    assert client.snapshots.plan(NAME, plan.folder, CHUNKS).unit_count == len(plan.files) - 1
    sandbox.exports.export(NAME)
    outcomes = Engine(workers=2).map(lambda piece: client.snapshots.fetch(plan, piece), plan.files)
    assert [type(o.error) for o in outcomes[1:]] == [errors.StaleSnapshot] * (len(plan.files) - 1)
    assert outcomes[0].result is not None  # it is there: nothing is asked
    assert used(client) == (0, 1)
    again = client.snapshots.plan(NAME, plan.folder, CHUNKS)
    for piece in again.files:
        client.snapshots.fetch(again, piece)
    sandbox.exports.export(NAME)
    with pytest.raises(errors.StaleSnapshot, match=f"{len(again.files)} complete files .* are kept in"):
        client.snapshots.confirm(again)
    assert not again.manifest.exists()
    sandbox.faults.add(path=f"/v2/snapshots/{NAME}*", kind="status", status=404, count=None)
    with pytest.raises(errors.StaleSnapshot, match=r"no longer exists.*is unknown, because"):
        client.snapshots.fetch(plan, plan.files[1])


def test_one_file_that_came_whole_stays_whole(client, sandbox, folder):
    plan = client.snapshots.plan(NAME, folder, WHOLE)
    client.snapshots.fetch(plan, plan.files[0])
    sandbox.exports.export(NAME)
    assert client.snapshots.confirm(plan).exists()
    other = client.snapshots.plan(NAME, folder, WHOLE)
    assert other.unit_count == 1
    sandbox.exports.export(NAME)
    with pytest.raises(errors.StaleSnapshot, match="costs 1 snapshot unit"):
        client.snapshots.fetch(other, other.files[0])


VICTIM = """
import datetime, pathlib, sys
from resources.enterprise import EnterpriseClient, Service, FetchOptions

url, username, password, state, folder, now, form, workers = sys.argv[1:]
moment = datetime.datetime.fromisoformat(now)
client = EnterpriseClient(Service(url, url, url, username, password), pathlib.Path(state), clock=lambda: moment)
plan = client.snapshots.plan("enwiki_namespace_0", pathlib.Path(folder), FetchOptions(**{form: True}))
client.snapshots.download(plan, workers=int(workers))
"""


def in_flight(folder):
    found = {}
    for path in folder.glob("*.part"):
        with contextlib.suppress(FileNotFoundError):  # just landed
            found[path.name] = path.stat().st_size
    return found


@pytest.mark.parametrize(
    ("form", "workers", "after", "blow"),
    [("chunks", 3, 3, signal.SIGKILL), ("whole", 1, 0, signal.SIGKILL), ("chunks", 3, 1, signal.SIGINT)],
)
def test_a_process_that_is_ended_costs_one_unit_for_each_file_in_flight(
    make_client, sandbox, account, tmp_path, folder, form, workers, after, blow
):
    client = make_client()
    plan = client.snapshots.plan(NAME, folder, FetchOptions(**{form: True}))
    product, size = 1 if form == "chunks" else 0, plan.files[after].size_bytes
    for slow in plan.files[after:]:
        path = f"*/chunks/{slow.identifier}/download" if form == "chunks" else f"/v2/snapshots/{NAME}/download"
        sandbox.faults.add(path=path, kind="slow", bytes_per_second=size // 30, count=None)
    command = [sys.executable, "-c", VICTIM, sandbox.url, account, PASSWORD, tmp_path / "state", folder]
    command += [sandbox.clock.now().isoformat(), form, workers]
    process = subprocess.Popen([*map(str, command)], cwd=ROOT, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 120
        while len(landed(plan)) < after or sum(there > 0 for there in in_flight(folder).values()) < workers:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.005)
        process.send_signal(blow)
        assert process.wait(120) == -blow  # an interrupt does not wait for the files to be complete
    finally:
        process.kill()
    sandbox.faults.clear()
    there, left, spent = landed(plan), in_flight(folder), used(client)[product]
    flying = spent - len(there)
    assert len(left) <= flying <= workers
    assert all(md5_of(piece.target) == Sidecar.read(piece.target).version for piece in there)

    again = client.snapshots.plan(NAME, folder)
    assert (again.form, again.unit_count) == (form, len(plan.files) - len(there))
    assert sum(p.there_bytes for p in again.missing) == sum(left.values()) > 0
    done = client.snapshots.download(again)
    assert used(client)[product] <= len(plan.files) + flying
    assert sum(d.resumed_bytes for d in done) == sum(left.values())
    assert all(md5_of(piece.target) == Sidecar.read(piece.target).version for piece in again.files)
    assert (again.manifest.exists(), unfinished(again)) == (True, [])


@pytest.mark.parametrize(
    ("faults", "rounds", "raised", "attempts"),
    [
        # a passing fault alone is tried once more; one for good is not, and neither is what failed beside it
        ({2: 500}, 1, None, 2),
        ({2: 500}, 2, errors.ServiceUnavailable, 2),
        ({2: 422}, 1, errors.InvalidRequest, 1),
        ({2: 500, 4: 422}, 1, errors.ServiceUnavailable, 1),
    ],
)
def test_files_are_tried_again_when_all_that_failed_may_pass(client, sandbox, plan, faults, rounds, raised, attempts):
    paths = {n: f"/v2/snapshots/{NAME}/chunks/{plan.files[n].identifier}/download" for n in faults}
    for n, status in faults.items():
        sandbox.faults.add(path=paths[n], kind="status", status=status, count=rounds * (QUICK.retries + 1))
    come = []
    with contextlib.nullcontext() if raised is None else pytest.raises(raised):
        done = client.snapshots.download(plan, workers=3, progress=come.append)
        assert [d.path for d in done] == [p.target for p in plan.files]
    assert plan.manifest.exists() is (raised is None)
    assert len(landed(plan)) == len(plan.files) - (0 if raised is None else len(faults))  # the others are kept
    assert sum(come) == sum(piece.target.stat().st_size for piece in landed(plan))
    for n, status in faults.items():
        once = 1 if status == 422 else QUICK.retries + 1
        assert sum(request.path == paths[n] for request in sandbox.requests) == once * rounds + attempts - rounds


def test_a_file_that_is_tried_again_goes_on_and_counts_once(client, sandbox, plan):
    sandbox.faults.add(path=f"*/chunks/{plan.files[1].identifier}*", kind="cut", after=1_000, count=QUICK.retries + 1)
    come = []
    done = client.snapshots.download(plan, workers=2, progress=come.append)
    assert done[1].resumed_bytes > 0
    assert (sum(come), used(client)) == (sum(d.size_bytes for d in done), (0, len(plan.files) + 1))


def test_memory_does_not_grow_with_the_files(tmp_path):
    with (
        FakeService(lambda: NOW.replace(month=12)) as fake,
        EnterpriseClient(fake.service(), tmp_path / "state", clock=lambda: NOW, retry=QUICK) as client,
    ):
        fake.add_snapshot(NAME, *[bytes(24 << 20)] * 3)
        plan = client.snapshots.plan(NAME, tmp_path / "archive", CHUNKS)
        tracemalloc.start()
        client.snapshots.download(plan, workers=3)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 12 << 20


def test_a_disk_that_is_full_ends_a_snapshot_at_once(make_client, sandbox, folder):
    client = make_client(limits=Limits(keep_free_bytes=10**18))
    plan = client.snapshots.plan(NAME, folder, CHUNKS)
    with pytest.raises(errors.DiskFull, match="must stay free"):
        client.snapshots.download(plan, workers=3)
    assert asked(sandbox) <= 3 < len(plan.files)
    assert landed(plan) == []
