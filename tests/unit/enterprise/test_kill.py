"""A download whose process is killed while it lands its file: the next one finishes it, and no other file is left."""

import json
import signal
import subprocess
import sys
from pathlib import Path

from resources.enterprise import Sidecar, models
from tests.unit.enterprise.loopback import PASSWORD, USERNAME

ROOT = Path(__file__).resolve().parents[3]
NAME = "enwiki_namespace_0"

#: Downloads into the folder of each call that it is told, in a process that is killed there, and prints how that ended.
VICTIM = """
import datetime, os, pathlib, signal, sys
from resources.enterprise import EnterpriseClient, Service, models

def dying(real, left):
    def call(*args, **options):
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*args, **options)
    return call

url, username, password, folder, record, *calls = sys.argv[1:]
hour = datetime.datetime(2026, 11, 1, 5, tzinfo=datetime.UTC)
for number, call in enumerate(calls):
    child = os.fork()
    if child == 0:
        site, turn = call.split(":")
        setattr(os, site, dying(getattr(os, site), [int(turn)]))
        own = pathlib.Path(folder, str(number))
        client = EnterpriseClient(
            Service(url, url, url, username, password), own / "state",
            clock=lambda: hour + datetime.timedelta(hours=1, minutes=10),
        )
        client.hours.download(hour, models.Batch.model_validate_json(record), own / "archive" / "NAME.tar.gz")
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
""".replace("NAME", NAME)


#: System functions that a landing calls, and how often at least.
CALLS = {"fsync": 3, "replace": 2}


def test_a_process_killed_while_landing_is_made_good(fake, make_client, tmp_path, hour, content):
    """Killed at the n-th call of each system function that a landing makes."""
    calls = [f"{site}:{turn + 1}" for site, turns in CALLS.items() for turn in range(turns)]
    record = fake.add(NAME, content)
    for number in range(len(calls)):
        make_client(state=tmp_path / str(number) / "state").account.login()  # the calls counted are of the download
    command = [sys.executable, "-c", VICTIM, fake.url, USERNAME, PASSWORD, str(tmp_path), json.dumps(record), *calls]
    codes = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    assert dict(zip(calls, codes, strict=True)) == dict.fromkeys(calls, str(-signal.SIGKILL))  # each call was reached
    for number, call in enumerate(calls):
        target = tmp_path / str(number) / "archive" / f"{NAME}.tar.gz"
        # never a file that does not say what it is
        assert Sidecar.read(target) is not None or not target.exists(), call
        make_client(state=tmp_path / str(number) / "state").hours.download(
            hour, models.Batch.model_validate(record), target
        )
        assert target.read_bytes() == content, call
        assert sorted(path.name for path in target.parent.iterdir()) == [target.name, target.name + ".json"], call
