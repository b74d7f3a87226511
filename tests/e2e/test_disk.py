"""Disks that nothing can be written to: a sentence that fits, before anything is made."""

import json
import os
import re
from contextlib import suppress

import pytest

from tests.e2e.conftest import until
from tests.e2e.programs import PATIENCE_SECONDS

FULL = (
    "The disk that contains {data} is full: 4.2 MB is free, but a run needs 8 MB. Nothing was changed. "
    "Free up disk space"
)
READ_ONLY = (
    "The folder {data} is not writable (Read-only file system). Nothing was changed. Mount the file system "
    "read-write, or set WME_DATA to another folder."
)


def fill(disk):
    """Leave no byte free."""
    with (disk / "ballast").open("ab", buffering=0) as ballast:
        for size in (1 << 20, 4096):
            with suppress(OSError):
                while True:
                    ballast.write(bytes(size))


@pytest.mark.parametrize("words", [("run", "--hours", "1"), ("lookups",), ("auth", "login")], ids=lambda one: one[0])
@pytest.mark.parametrize(("options", "sentence"), [("size=4m", FULL), ("ro", READ_ONLY)], ids=["full", "read-only"])
def test_a_disk_that_takes_nothing_is_said_before_anything_is_made(account, call, mounted, words, options, sentence):
    disk = mounted(options)
    told = call(*words, environ=account.environ(disk / "data"), history=True).fails()
    said = told.err.splitlines()[-1].replace(f"{disk}/data/dagster", f"{disk}/data")
    assert said.startswith(sentence.format(data=f"{disk}/data"))
    assert not [path for path in disk.rglob("*") if path.is_file()]


def test_what_only_reads_answers_on_a_full_disk_and_on_one_mounted_for_reading(account, call, mounted):
    disk = mounted("size=16m")
    environ = account.environ(disk / "data")
    assert call("auth", "login", environ=environ).code == 0
    stored = disk / "data" / "state" / "tokens.json"
    before = stored.read_bytes()
    fill(disk)

    def answers():
        told = call("auth", "status", environ=environ)
        assert (told.code, told.err) == (0, "")
        assert f"Logged in as {account.username}." in told.out
        assert "Groups: group_3." in told.out
        assert "enwiki" in call("lists", "projects", "enwiki", environ=environ).out
        told = call("status", environ=environ)
        assert f"Logged in as {account.username}." in told.out
        assert "is not writable" not in told.out

    answers()
    # a token that has to be renewed cannot be stored, and what is stored is told
    tokens = json.loads(before)
    stale = json.dumps(tokens | {"access_expires_at": tokens["access_obtained_at"]})
    os.truncate(disk / "ballast", 8 << 20)
    stored.write_text(stale)
    fill(disk)
    told = call("auth", "status", "--json", environ=environ)
    assert (told.code, json.loads(told.out)["logged_in"], json.loads(told.out)["quotas"]) == (0, True, None)
    assert "The account's groups and quota are unknown. The disk is full, so tokens cannot be stored" in told.err
    assert stored.read_text() == stale
    os.truncate(disk / "ballast", 0)
    stored.write_bytes(before)
    mounted("remount,ro")
    answers()


def test_a_disk_that_fills_up_on_the_way_is_a_sentence_too(account, forked, hours, mounted):
    disk = mounted("size=16m")
    # it is not through before the disk is full
    account.sandbox.faults.add(path="*/download", kind="slow", bytes_per_second=2_000, count=None)
    words = ("run", "--no-reference", "--from", f"{hours[0]:%Y-%m-%dT%H}")
    process = forked(*words, environ=account.environ(disk / "data"))
    until(lambda: list(disk.glob("data/dagster/history/*.db")))
    fill(disk)
    _, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 1
    assert "Traceback" not in err, err
    # by whichever part met it: the history, the download, the lake or the warehouse
    told = r"The disk is full|No space left|Disk space or memory ran out|[Mm]ake room|[Ff]ree (?:\w+ )*space"
    assert re.search(told, err), err
