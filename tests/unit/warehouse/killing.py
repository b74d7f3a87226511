"""Runs the warehouse's steps in children that are killed at random moments; started by `test_kills.py`.

This process never opens DuckDB itself, so that its children can be forked cheaply from a clean state. Two editions of
the same hours alternate, so that every child has something to redo. A child tells each phase as it begins; the parent
aims at one phase after the other, waits a random part of the time that phase has taken so far, and kills.

Before that, each child kills itself before a later statement of the same operation, and checks that the one before it
left nothing half done.
"""

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

import duckdb

from resources import datasets
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


def check_build(warehouse):
    """The build file holds complete operations only: rows of every hour and snapshot as the ledger says."""
    with warehouse._connector.build("check") as connection:
        hours = "loads WHERE batch_hour IS NOT NULL"
        # the build file shows repeated rows of a snapshot until the next publication
        for ledger, count, rows, source, key in (
            (hours, "row_count - duplicate_count", "*", "article_changes", "batch_hour"),
            (hours, "reject_count", "*", "rejects", "batch_hour"),
            ("snapshots", "row_count - duplicate_count", "DISTINCT article_id", "snapshot_articles", "snapshot_id"),
        ):
            if not connection.execute(
                "SELECT (SELECT count(*) FROM duckdb_views() WHERE view_name = $1) + "
                "(SELECT count(*) FROM duckdb_tables() WHERE table_name = $1)",
                [source],
            ).fetchall()[0][0]:
                # views may lack only until the next publication after DuckDB refused the build file
                assert warehouse._connector.build_path.with_name("build.duckdb.damaged").exists(), source
                assert connection.execute("SELECT prepared_version FROM internal.meta").fetchall() == [(None,)], source
                continue
            promised = f"SELECT {key} AS key, sum({count})::BIGINT AS rows FROM {ledger} GROUP BY ALL"
            found = f"SELECT {key} AS key, count({rows}) AS rows FROM {source} GROUP BY ALL"
            different = connection.sql(
                f"FROM ({promised}) AS promised FULL JOIN ({found}) AS found USING (key) "
                "WHERE coalesce(promised.rows, 0) <> coalesce(found.rows, 0)"
            ).fetchall()
            assert not different, (source, different)


def kill_before(number):
    """Have this process kill itself before its DuckDB statement of this number."""
    left = number

    def counted(method):
        def execute(*args, **options):
            nonlocal left
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return method(*args, **options)

        return execute

    for name in ("execute", "executemany", "sql"):
        setattr(duckdb.DuckDBPyConnection, name, counted(getattr(duckdb.DuckDBPyConnection, name)))


def operate(data, files, operation, number):
    """Check what the process before left, then run one operation up to a statement."""
    warehouse = Warehouse(data, lock_timeout=30.0)
    check_build(warehouse)
    kill_before(number)
    if operation == "load":
        warehouse.load_hour(files.hours[0].batch_hour, files.hours[:1], dataset=datasets.ARTICLE_CHANGES)
    elif operation == "snapshot":
        warehouse.load_snapshot(files.snapshot, keep_replaced=0, reload=True)
    else:
        warehouse.apply_changes()


def ended(function, *args):
    """Run a function, and end this process with 0 if it succeeded."""
    code = 1
    try:
        function(*args)
        code = 0
    except BaseException:
        traceback.print_exc()
        raise
    finally:
        os._exit(code)


def forked(function, *args):
    """Run a function in a child; return its exit code, or None if it was killed."""
    pid = os.fork()
    if pid == 0:
        ended(function, *args)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        return None
    if os.WEXITSTATUS(status) != 0:
        raise SystemExit("a child failed")
    return 0


def each_statement(data, files, step):
    """Kill every operation before each `step`-th of its statements; return the number of kills."""
    kills = {}
    for operation in ("load", "snapshot", "apply"):
        kills[operation] = 0
        while forked(operate, data, files, operation, 2 + step * kills[operation]) is None:
            kills[operation] += 1
    return kills


def work(data, files, tell):
    """The steps of a run."""
    warehouse = Warehouse(data, lock_timeout=30.0)
    tell("start")
    check(warehouse)
    if warehouse.published_path.exists():
        check_build(warehouse)
    if not warehouse.is_complete():
        tell("replaced")
        warehouse.note_complete()
    tell("load")
    for file in files.hours:
        warehouse.load_hour(file.batch_hour, [file], dataset=datasets.ARTICLE_CHANGES)
    tell("snapshot")
    warehouse.load_snapshot(files.snapshot, keep_replaced=0, reload=True)
    tell("apply")
    warehouse.apply_changes()
    tell("publish")
    warehouse.publish({"service": "kills"})
    tell("merge")
    Warehouse(data, clock=lambda: datetime.now(UTC) + timedelta(days=os.getpid())).merge_row_groups()
    tell("end")


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
        ended(work, data, files, lambda phase: os.write(output, phase.encode() + b"\n"))
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


def main(data, pickled, step, kills, seed):
    editions = pickle.loads(Path(pickled).read_bytes())
    chance = random.Random(seed)
    times = {}
    hits = dict.fromkeys(("start", "replaced", *PHASES, "end"), 0)
    run(data, editions[1], "end", times, chance)
    before_statements = each_statement(data, editions[0], step)
    for number in range(_MOST * kills):
        # where the machine is busy, a short phase may be over before the kill
        if number >= kills and all(hits[phase] for phase in PHASES):
            break
        hits[run(data, editions[(number + 1) % 2], PHASES[number % len(PHASES)], times, chance)] += 1
    run(data, editions[0], "end", times, chance)
    sys.stdout.write(json.dumps([before_statements, hits]))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:]))
