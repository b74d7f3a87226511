"""Steps of the warehouse in children that are killed before statements, then amid phases; see `test_kills.py`.

This process never opens DuckDB, so its children are forked cheaply from a clean state. Two editions of the same hours
alternate, so that each child has something to redo; it first checks that the one before left nothing half done. Phases
are killed in turn, a random part of the time that they have taken so far after they began.
"""

import json
import os
import pickle
import random
import signal
import sys
import time
import traceback
from itertools import pairwise
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
    for table, ledger in (
        ("article_changes", "loads WHERE table_name = 'article_changes'"),
        ("snapshot_articles", "snapshots"),
    ):
        promised = f"SELECT coalesce(sum(row_count - duplicate_count), 0)::BIGINT FROM {ledger}"
        [(rows, wanted)] = warehouse.sql(f"SELECT (SELECT count(*) FROM {table}), ({promised})").rows
        assert rows == wanted, (table, rows, wanted)
    bodies = "article_bodies JOIN articles USING (project_id, article_id, version_id)"
    warehouse.sql(f"SELECT count(*), max(html) FROM {bodies}")


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


def forked(function, *args):
    """Run a function in a child; return True if it was killed."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            function(*args)
            code = 0
        except BaseException:
            traceback.print_exc()
            raise
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code > 0:
        raise SystemExit("a child failed")
    return code < 0


def each_statement(data, files, step):
    """Kill every operation before each `step`-th of its statements; return the number of kills."""
    kills = {}
    for operation in ("load", "snapshot", "apply"):
        kills[operation] = 0
        while forked(operate, data, files, operation, 2 + step * kills[operation]):
            kills[operation] += 1
    return kills


def work(data, files, told, aimed, delay):
    """The steps of a run, killed some time after one of them has begun."""

    def begin(phase):
        with told.open("a") as file:
            file.write(f"{phase} {time.perf_counter()}\n")
        if phase == aimed:
            signal.setitimer(signal.ITIMER_REAL, delay)  # nobody handles its signal, so it ends the process

    begin("start")
    warehouse = Warehouse(data, lock_timeout=30.0)
    check(warehouse)
    if warehouse.published_path.exists():
        check_build(warehouse)
    if not warehouse.is_complete():
        begin("replaced")
        warehouse.note_complete()
    begin("load")
    for file in files.hours:
        warehouse.load_hour(file.batch_hour, [file], dataset=datasets.ARTICLE_CHANGES)
    begin("snapshot")
    warehouse.load_snapshot(files.snapshot, keep_replaced=0, reload=True)
    begin("apply")
    warehouse.apply_changes()
    begin("publish")
    warehouse.publish({"service": "kills"})
    begin("merge")
    warehouse.merge_row_groups(after=0)
    begin("end")


def main(data, pickled, step, kills, seed):
    editions = pickle.loads(pickled.read_bytes())
    chance, told, seconds = random.Random(seed), pickled.with_name("phases"), {}
    hits = dict.fromkeys(("start", "replaced", *PHASES, "end"), 0)

    def run(files, aimed=None):
        """One child; returns the phase in which it was killed, or `end`."""
        told.write_text("")
        forked(work, data, files, told, aimed, 1e-6 + chance.random() * seconds.get(aimed, 0.0))
        begun = [line.split() for line in told.read_text().splitlines()]
        for (phase, at), (_, next_at) in pairwise(begun):
            seconds[phase] = float(next_at) - float(at)
        return begun[-1][0]

    run(editions[1])
    before_statements = each_statement(data, editions[0], step)
    for number in range(_MOST * kills):
        # where the machine is busy, a short phase may be over before the kill
        if number >= kills and all(hits[phase] for phase in PHASES):
            break
        hits[run(editions[(number + 1) % 2], PHASES[number % len(PHASES)])] += 1
    run(editions[0])
    sys.stdout.write(json.dumps([before_statements, hits]))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), *map(int, sys.argv[3:]))
