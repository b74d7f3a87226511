"""A compaction that kills itself at a phase: `python -m tests.unit.warehouse.killing_compactions DATA PHASE`."""

import os
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path

from assets import compaction
from resources.engine import Engine
from resources.lake import Layout
from resources.lake.compaction import sorting
from resources.lake.parquet import writer
from resources.warehouse import Warehouse
from resources.warehouse.compaction import ledger


def die(*_args, **_more):
    os.kill(os.getpid(), signal.SIGKILL)


def before(owner, name):
    setattr(owner, name, die)


def after(owner, name):
    real = getattr(owner, name)
    setattr(owner, name, lambda *args, **more: (real(*args, **more), die()))


if __name__ == "__main__":
    data, phase = Path(sys.argv[1]), sys.argv[2]
    warehouse = Warehouse(data, clock=lambda: datetime(2026, 11, 9, tzinfo=UTC))
    {
        "spilling": lambda: after(sorting.pa.ipc, "new_file"),
        "writing": lambda: before(writer.ParquetFile, "finish"),
        "written": lambda: after(writer.ParquetFile, "finish"),
        "taking in": lambda: after(ledger, "retire"),
        "taken in": lambda: after(ledger, "commit"),
    }[phase]()
    compaction.compact_lake(Layout(data), warehouse, Engine(workers=1), memory_bytes=1 << 14, threads=1)
