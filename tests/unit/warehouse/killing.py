"""Runs the warehouse's steps in children that are killed at random moments; started by `test_kills.py`.

This process never opens DuckDB itself, so that its children can be forked cheaply from a clean state. Two editions of
the same hours alternate, so that every child has something to redo. A child tells each phase as it begins; the parent
aims at one phase after the other, waits a random part of the time that phase has taken so far, and kills.
"""

from __future__ import annotations

import json
import os
import pickle
import random
import select
import signal
import sys
import time
import traceback
from datetime import UTC, datetime, timedelta
from pathlib import Path

from resources.warehouse import Warehouse

#: Kills, as a multiple of those asked for, after which it is given up to hit each phase.
_MOST = 5
PHASES = ("load", "snapshot", "apply", "publish", "merge")


def check(warehouse):
    """What is published is whole: rows as the ledger says, articles as the changes say, no hour half."""
    if not warehouse.published_path.exists():
        return
    rows, promised = warehouse.sql(
        "SELECT (SELECT count(*) FROM article_changes), (SELECT sum(row_count - duplicate_count)::BIGINT FROM loads "
        "WHERE table_name = 'article_changes')"
    ).rows[0]
    assert rows == (promised or 0), (rows, promised)
    rows, promised = warehouse.sql(
        "SELECT (SELECT count(*) FROM snapshot_articles), (SELECT sum(row_count - duplicate_count)::BIGINT FROM "
        "snapshots)"
    ).rows[0]
    assert rows == (promised or 0), (rows, promised)
    warehouse.sql(
        "SELECT count(*), max(html) FROM article_bodies JOIN articles USING (project_id, article_id, version_id)"
    )


def work(data, files, tell):
    """The steps of a run."""
    warehouse = Warehouse(data, lock_timeout=30.0)
    tell("start")
    check(warehouse)
    if not warehouse.is_complete():
        tell("replaced")
        warehouse.note_complete()
    tell("load")
    for file in files.hours:
        warehouse.load_hour(file.batch_hour, [file])
    tell("snapshot")
    warehouse.load_snapshot(files.snapshot, keep_replaced=0, reload=True)
    tell("apply")
    warehouse.apply_changes()
    tell("publish")
    warehouse.publish({"service": "kills"})
    tell("merge")
    Warehouse(data, clock=lambda: datetime.now(UTC) + timedelta(days=os.getpid())).merge_row_groups()
    tell("end")


def child(data, files, output):
    code = 1
    try:
        work(data, files, lambda phase: os.write(output, phase.encode() + b"\n"))
        code = 0
    except BaseException:
        traceback.print_exc()
        raise
    finally:
        os._exit(code)


def wait_for(source, phase, times):
    """Reads the child's phases until `phase` begins; notes how long each took. Returns the last phase told."""
    last, began, buffered = "start", time.perf_counter(), b""
    while last not in (phase, "end"):
        content = os.read(source, 4096)
        if not content:
            return "died"
        buffered += content
        *lines, buffered = buffered.split(b"\n")
        for line in lines:
            times[last], last, began = time.perf_counter() - began, line.decode(), time.perf_counter()
    return last


def run(data, files, phase, times, chance):
    """One child, killed in or after `phase`; returns the phase in which it was, or `end`."""
    source, output = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(source)
        child(data, files, output)
    os.close(output)
    last = wait_for(source, phase, times)
    if last == phase:
        ready, _, _ = select.select([source], [], [], chance.random() * times.get(phase, 0.1))
        told = os.read(source, 4096).decode().split() if ready else []
        last = told[-1] if told else last
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    os.close(source)
    if last == "died" or (os.WIFEXITED(status) and os.WEXITSTATUS(status) != 0):
        raise SystemExit(f"a child failed in phase {last} with status {status}")
    return last


def main(data, pickled, kills, seed):
    editions = pickle.loads(Path(pickled).read_bytes())
    chance = random.Random(seed)
    times = {}
    hits = dict.fromkeys(("start", "replaced", *PHASES, "end"), 0)
    run(Path(data), editions[1], "end", times, chance)
    for number in range(_MOST * kills):
        # where the machine is busy, a short phase may be over before the kill
        if number >= kills and all(hits[phase] for phase in PHASES):
            break
        hits[run(Path(data), editions[number % 2], PHASES[number % len(PHASES)], times, chance)] += 1
    run(Path(data), editions[0], "end", times, chance)
    sys.stdout.write(json.dumps(hits))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
