"""Disks that nothing can be written to: a sentence that fits, before anything is made."""

import json
import os
import re
import signal
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pytest

from tests.e2e.actors import whole
from tests.e2e.conftest import PATIENCE_SECONDS, unfinished, until

COMMANDS = [("run", "--hours", "1"), ("publish",), ("auth", "login")]


def fill(disk):
    """Leave no byte free."""
    with (disk / "ballast").open("ab", buffering=0) as ballast:
        for size in (1 << 20, 4096):
            with suppress(OSError):
                while True:
                    ballast.write(bytes(size))


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            "size=4m",
            (
                "The disk that contains {data} is full: 4.2 MB is free, but a run needs 8 MB. Nothing was changed. "
                "Free up disk space"
            ),
        ),
        (
            "ro",
            (
                "The folder {data} is not writable (Read-only file system). Nothing was changed. Mount the file system "
                "read-write, or set WME_DATA to another folder."
            ),
        ),
    ],
)
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
    process = forked(
        "run", "--no-reference", "--from", f"{hours[0]:%Y-%m-%dT%H}", environ=account.environ(disk / "data")
    )
    until(lambda: list(disk.glob("data/dagster/history/*.db")))
    fill(disk)
    _, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 1
    assert "Traceback" not in err, err
    # by whichever part met it: the history, the download, the lake or the warehouse
    assert re.search(
        r"The disk is full|No space left|Disk space or memory ran out|[Mm]ake room|[Ff]ree (?:\w+ )*space", err
    ), err


def test_a_disk_that_fills_up_amid_compaction_snapshot_and_publication_leaves_everything_as_it_was(
    filled, copy, runner, hours, mounted
):
    disk = mounted("size=160m")
    data = disk / "data"
    environ = copy(filled[0], data)
    unpublished = {**environ, "WME_PUBLISH": "off"}
    now, later = datetime.now(UTC), datetime.now(UTC) + timedelta(days=3)

    def work(*asked):
        run = runner.call("tests.e2e.actors", "work", asked=True)
        run.ask(json.dumps(asked))
        run.hush()
        return run

    def job(environ, hours=(), snapshots=()):
        request = {"environ": environ, "hours": [f"{hour:%Y-%m-%dT%H:00+00:00}" for hour in hours], "history": False}
        return work("bring_in", {**request, "snapshots": list(snapshots)})

    def found():
        with duckdb.connect(str(data / "warehouse.duckdb"), read_only=True) as connection:
            return whole(connection)

    def begin(*, stopped=False):
        """All three at once, each as far as the phase where it begins to write, if they are to be stopped."""
        at = {phase: {"STOP_AT": phase} if stopped else {} for phase in ("rewrite", "convert snapshot", "publish")}
        return {
            "rewrite": work("compact", environ | at["rewrite"], later.isoformat()),
            "convert snapshot": job(unpublished | at["convert snapshot"], snapshots=["enwiki_namespace_0"]),
            "publish": work("publish", environ | at["publish"], now.isoformat()),
        }

    def is_stopped(run):
        return Path(f"/proc/{run.pid}/stat").read_text().rpartition(") ")[2][0] == "T"

    assert job(unpublished, hours[2:]).finish() == []
    before = found()
    runs = begin(stopped=True)
    for phase, run in runs.items():
        assert run.wait_for(f"> {phase}")
        until(lambda run=run: is_stopped(run))
    fill(disk)
    os.truncate(disk / "ballast", (disk / "ballast").stat().st_size - (64 << 10))
    for run in runs.values():
        os.kill(run.pid, signal.SIGCONT)
    for phase, run in runs.items():
        said = refused(run)
        assert re.search(r"[Dd]isk (is full|space or memory ran out)|No space left", said), (phase, said)
        assert re.search(r"[Mm]ake room|[Ff]ree (?:\w+ )*space", said), (phase, said)
    assert found() == before
    # DuckDB keeps what it committed in its log until there is room for a checkpoint
    assert unfinished(data) <= {"warehouse/build.duckdb.wal"}
    (disk / "ballast").unlink()
    assert found() == before
    assert [run.finish() for run in begin().values()] == [[], [], []]
    assert work("publish", environ, now.isoformat()).finish() == []
    assert found()[0] > before[0]
    assert not unfinished(data)
    assert list(data.glob("lake/compacted/article_changes/*.parquet"))


def refused(run):
    """What a run that failed says of it."""
    try:
        return "\n".join(run.finish())
    except RuntimeError as error:
        return str(error)
