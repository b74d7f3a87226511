"""Compactions and publications that kill themselves, one in a child for each phase that this process reads.

It never opens DuckDB, so children are forked cheaply from a clean state. It reports how each of them ended.
"""

import os
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path

from assets.steps import compaction
from resources.engine import Engine
from resources.lake import Layout
from resources.lake.parquet import sorting, writer
from resources.warehouse import Warehouse, publisher
from resources.warehouse.compaction import commit as ledger
from resources.warehouse.compaction import window

PUBLISHING = ("amid the views", "copied", "read-only", "in place")


def die(*_args, **_more):
    os.kill(os.getpid(), signal.SIGKILL)


def before(owner, name):
    setattr(owner, name, die)


def after(owner, name):
    real = getattr(owner, name)
    setattr(owner, name, lambda *args, **more: (real(*args, **more), die()))


def operate(data, now, phase):
    warehouse = Warehouse(data, clock=lambda: now)
    {
        "spilling": lambda: after(sorting.pa.ipc, "new_file"),
        "writing": lambda: before(writer.ParquetFile, "finish"),
        "written": lambda: after(writer.ParquetFile, "finish"),
        "taking in": lambda: after(ledger, "retire"),
        "held changes leaving": lambda: after(ledger, "leave"),
        "taken in": lambda: after(Warehouse, "commit_compaction"),
        "older changes leaving": lambda: after(window, "leave"),
        "older changes gone": lambda: after(Warehouse, "move_window"),
        "amid the views": lambda: after(publisher, "make_views"),
        "copied": lambda: after(publisher, "copy_file"),
        "read-only": lambda: after(Path, "chmod"),
        "in place": lambda: after(publisher, "_put"),
    }[phase]()
    if phase in PUBLISHING:
        warehouse.publish()
        return
    compaction.compact_lake(Layout(data), warehouse, Engine(workers=1), memory_bytes=1 << 14, threads=1)


if __name__ == "__main__":
    folder, moment = Path(sys.argv[1]), datetime.fromisoformat(sys.argv[2]).replace(tzinfo=UTC)
    for line in sys.stdin:
        if (pid := os.fork()) == 0:
            signal.alarm(400)
            try:
                operate(folder, moment, line.strip())
            finally:
                os._exit(1)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}\n")
        sys.stdout.flush()
