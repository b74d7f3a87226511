"""A download whose process is killed in mid-body: the next run goes on, and leaves nothing lying about."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from resources.enterprise import Ranges, Sidecar, models
from tests.unit.enterprise.loopback import PASSWORD, USERNAME

ROOT = Path(__file__).resolve().parents[3]
NAME = "enwiki_namespace_0"
PATH = f"/v2/batches/2026-11-01/05/{NAME}"

VICTIM = """
import datetime, json, pathlib, sys
from resources.enterprise import EnterpriseClient, Ranges, Service, models

url, username, password, state, target, record, parallel = sys.argv[1:]
hour = datetime.datetime(2026, 11, 1, 5, tzinfo=datetime.UTC)
client = EnterpriseClient(
    Service(url, url, url, username, password), pathlib.Path(state),
    clock=lambda: hour + datetime.timedelta(hours=1, minutes=10),
    ranges=Ranges(parallel_bytes=int(parallel), smallest_bytes=20_000),
)
client.hours.download(hour, models.Batch.model_validate_json(record), pathlib.Path(target))
"""


def bytes_there(target):
    try:
        state = json.loads((target.parent / (target.name + ".part.json")).read_bytes())
    except (FileNotFoundError, ValueError):
        return 0
    return sum(done for _, _, done in state["ranges"])


@pytest.mark.parametrize(
    ("parallel", "place", "there"),
    [(10**9, 0, 0), (10**9, 1, 1), (10**9, 150_000, 150_000), (100_000, 30_000, 120_000)],
    ids=["before the first byte", "after one byte", "in mid-body", "in four ranges"],
)
def test_a_killed_download_goes_on(fake, make_client, tmp_path, hour, content, parallel, place, there):
    record = fake.add(NAME, content)
    target = tmp_path / "archive" / f"{NAME}.tar.gz"
    stall = threading.Event()
    fake.cut(*[place] * 4, stall=stall)
    command = [sys.executable, "-c", VICTIM, fake.url, USERNAME, PASSWORD, tmp_path / "state", target]
    process = subprocess.Popen([*map(str, command), json.dumps(record), str(parallel)], cwd=ROOT)
    try:
        deadline = time.monotonic() + 120
        while not fake.store.requests or bytes_there(target) < there:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        assert process.wait(120) == -signal.SIGKILL
    finally:
        process.kill()
        stall.set()
    fake._scripted.clear()
    asked = len(fake.api.seen(PATH + "/download"))
    ranges = Ranges(parallel_bytes=parallel, smallest_bytes=20_000)
    done = make_client(ranges=ranges).hours.download(hour, models.Batch.model_validate(record), target)
    assert target.read_bytes() == content
    assert done.resumed_bytes == there  # not a byte was lost
    assert len(fake.api.seen(PATH + "/download")) == asked + 1
    assert len(fake.api.seen("/v1/login")) == 1  # the tokens of the killed process were used
    files = sorted(p.name for p in target.parent.iterdir())
    assert files == [target.name, target.name + ".json"]


#: System functions that a landing calls, and how often at least.
CALLS = {"fsync": 3, "replace": 3, "unlink": 3, "ftruncate": 3, "fchmod": 2}


@pytest.mark.parametrize("call", [f"{site}:{turn + 1}" for site, turns in CALLS.items() for turn in range(turns)])
def test_a_process_killed_while_landing_is_made_good(fake, make_client, tmp_path, hour, content, call):
    """Killed at the n-th call of each system function that a landing makes."""
    site, turn = call.split(":")
    record = fake.add(NAME, content)
    target = tmp_path / "archive" / f"{NAME}.tar.gz"
    make_client().account.login()  # so that the calls counted are those of the download
    killer = f"""
import os, signal
def dying(real, left=[{turn}]):
    def call(*args, **options):
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*args, **options)
    return call
os.{site} = dying(os.{site})
"""
    command = [sys.executable, "-c", killer + VICTIM, fake.url, USERNAME, PASSWORD, tmp_path / "state", target]
    code = subprocess.run([*map(str, command), json.dumps(record), "1000000000"], cwd=ROOT, check=False).returncode
    assert code == -signal.SIGKILL  # the call was reached
    assert Sidecar.read(target) is not None or not target.exists()  # never a file that does not say what it is
    make_client().hours.download(hour, models.Batch.model_validate(record), target)
    assert target.read_bytes() == content
    files = sorted(p.name for p in target.parent.iterdir())
    assert files == [target.name, target.name + ".json"]
