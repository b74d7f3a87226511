"""Build files of a warehouse in which nothing is loaded, made once for all tests of a process.

A new one takes a thousand statements, half of them for its first publication: hundreds of tests are not about that. Those of
processes begin without one, as people do.
"""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

from resources.warehouse import Warehouse


@cache
def _new() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        made = Warehouse(Path(folder))
        made.publish()
        return made.build_path.read_bytes()


def lay(data: Path) -> Path:
    """Put one into a data folder that has none; returns the folder."""
    path = data / "warehouse" / "build.duckdb"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_new())
    return data
