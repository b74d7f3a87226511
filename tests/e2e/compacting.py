"""A compaction as a process of its own, which tells how far it is, so that it can be killed there: `compacting.py DATA NOW`."""

import sys
from datetime import datetime
from pathlib import Path

from assets.compaction import compact_lake
from resources.engine import Engine
from resources.lake import Layout
from resources.warehouse import Warehouse


class Telling(Engine):
    """Says when a span begins to be rewritten, and when it is and has not been taken in yet."""

    def map(self, *args, **more):
        print("rewriting", flush=True)  # noqa: T201
        outcomes = super().map(*args, **more)
        print("rewritten", flush=True)  # noqa: T201
        return outcomes


if __name__ == "__main__":
    data, now = Path(sys.argv[1]), datetime.fromisoformat(sys.argv[2])
    compact_lake(Layout(data), Warehouse(data, clock=lambda: now), Telling(workers=1), memory_bytes=1 << 16)
