"""Files outlive a process that is killed, and a loss of power: their bytes and sidecars are safe before their names."""

import datetime as dt
import json
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from resources.enterprise import FetchOptions, Sidecar, models
from tests.unit.enterprise.fake_service import PASSWORD, USERNAME
from tests.unit.test_files import done

__all__ = ["done"]  # a fixture

ROOT = Path(__file__).resolve().parents[3]
NAME = "enwiki_namespace_0"

#: Downloads into the folder of each call that it is told, in a process that is killed there, and prints how that ended.
VICTIM = """
import datetime, json, os, pathlib, signal, sys
from resources.enterprise import EnterpriseClient, Limits, Service, models

def dying(real, left):
    def call(*args, **options):
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*args, **options)
    return call

url, username, password, folder, limits, record, *calls = sys.argv[1:]
hour = datetime.datetime(2026, 11, 1, 5, tzinfo=datetime.UTC)
for number, call in enumerate(calls):
    child = os.fork()
    if child == 0:
        site, turn = call.split(":")
        setattr(os, site, dying(getattr(os, site), [int(turn)]))
        own = pathlib.Path(folder, str(number))
        client = EnterpriseClient(
            Service(url, url, url, username, password), own / "state", limits=Limits(**json.loads(limits)),
            clock=lambda: hour + datetime.timedelta(hours=1, minutes=10),
        )
        client.hours.download(hour, models.Batch.model_validate_json(record), own / "archive" / "NAME.tar.gz")
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
""".replace("NAME", NAME)


def killed(fake, folder, *calls, **limits):
    """How a download into a folder ended for each call."""
    given = [fake.url, USERNAME, PASSWORD, str(folder), json.dumps(limits), json.dumps(fake.records[NAME])]
    command = [sys.executable, "-c", VICTIM, *given, *calls]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()


def test_a_process_killed_while_landing_is_made_good(fake, make_client, tmp_path, hour, content):
    """Killed at the n-th call of each system function that a landing makes."""
    calls = ["fsync:1", "fsync:2", "fsync:3", "replace:1", "replace:2"]
    record = fake.add(NAME, content)
    for number in range(len(calls)):
        make_client(state=tmp_path / str(number) / "state").account.login()  # the calls counted are of the download
    codes = killed(fake, tmp_path, *calls)
    assert dict(zip(calls, codes, strict=True)) == dict.fromkeys(calls, str(-signal.SIGKILL))  # each call was reached
    for number, call in enumerate(calls):
        target = tmp_path / str(number) / "archive" / f"{NAME}.tar.gz"
        # never a file that does not say what it is
        assert Sidecar.read(target) is not None or not target.exists(), call
        client = make_client(state=tmp_path / str(number) / "state")
        client.hours.download(hour, models.Batch.model_validate(record), target)
        assert target.read_bytes() == content, call
        assert sorted(path.name for path in target.parent.iterdir()) == [target.name, target.name + ".json"], call


@pytest.fixture
def named(client, done):
    """Names of the files that were written since the login; each has safe bytes, and a safe place in its folder."""
    client.account.login()
    done.clear()

    def names():
        found = []
        for place, (inode, path) in [(n, one) for n, one in enumerate(done) if isinstance(one, tuple)]:
            assert inode in done[:place], f"{path.name} took its name before its bytes were safe"
            assert path.parent.stat().st_ino in done[place:], f"the name {path.name} was not made safe"
            found.append(path.name)
        return found

    return names


def test_a_download_and_a_list_are_safe_before_they_take_their_names_and_behind_their_sidecars(
    client, named, fake, hour, batch, tmp_path
):
    target, listed = tmp_path / "archive" / "x.tar.gz", tmp_path / "lists" / "batches.json"
    client.hours.download(hour, batch, target)
    client.lists.land(client.hours.listing(hour), listed)
    assert named() == ["x.tar.gz.json", "x.tar.gz", "batches.json.json", "batches.json"]
    assert Sidecar.read(listed) is not None
    Sidecar.path(target).unlink()
    client.hours.download(hour, batch, target)
    assert named()[4:] == ["x.tar.gz.json"]


def test_tokens_and_the_manifest_of_a_snapshot_are_safe(client, named, fake, clock, tmp_path):
    clock.advance(days=2)
    client.lists.reference("codes")
    assert named() == ["tokens.json"]
    assert client.account.status().access_expires_at == clock() + dt.timedelta(days=1)
    fake.add_snapshot("frwiki_namespace_0", b"a" * 1000, b"b" * 1000)
    plan = client.snapshots.plan("frwiki_namespace_0", tmp_path / "snapshots", FetchOptions(chunks=True))
    workers = set()
    client.snapshots.download(plan, workers=1, progress=lambda _: workers.add(threading.current_thread()))
    assert len(workers) == 1
    names = named()
    assert names[-1] == plan.manifest.name
    for piece in plan.files:
        assert names.index(piece.target.name + ".json") < names.index(piece.target.name)
