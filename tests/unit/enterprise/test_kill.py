"""A download whose process is killed while it lands its file: the next one finishes it, and no other file is left."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from resources.enterprise import Sidecar, models
from tests.unit.enterprise.loopback import PASSWORD, USERNAME

ROOT = Path(__file__).resolve().parents[3]
NAME = "enwiki_namespace_0"

VICTIM = """
import datetime, json, pathlib, sys
from resources.enterprise import EnterpriseClient, Service, models

url, username, password, state, target, record = sys.argv[1:]
hour = datetime.datetime(2026, 11, 1, 5, tzinfo=datetime.UTC)
client = EnterpriseClient(
    Service(url, url, url, username, password), pathlib.Path(state),
    clock=lambda: hour + datetime.timedelta(hours=1, minutes=10),
)
client.hours.download(hour, models.Batch.model_validate_json(record), pathlib.Path(target))
"""


#: System functions that a landing calls, and how often at least.
CALLS = {"fsync": 3, "replace": 3, "unlink": 1, "ftruncate": 1}


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
    code = subprocess.run([*map(str, command), json.dumps(record)], cwd=ROOT, check=False).returncode
    assert code == -signal.SIGKILL  # the call was reached
    assert Sidecar.read(target) is not None or not target.exists()  # never a file that does not say what it is
    make_client().hours.download(hour, models.Batch.model_validate(record), target)
    assert target.read_bytes() == content
    files = sorted(p.name for p in target.parent.iterdir())
    assert files == [target.name, target.name + ".json"]
