"""Build files of a warehouse without data, made once for all tests of a process, and queries of any build file.

A new one takes a thousand statements, half of them for its first publication, and hundreds of tests are about something
else. The tests of processes begin without one, as users do.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import tempfile
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import duckdb

from resources import datasets
from resources.warehouse import Warehouse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from resources.datasets import Dataset

#: Begins a program for `python -c` that asks DuckDB and prints the answers: where Python was started without a file, a
#: bar is drawn among them as soon as a question takes two seconds.
NO_BAR = "__file__ = 'program'\n"


@cache
def _new(_of: tuple[Dataset, ...]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        made = Warehouse(Path(folder))
        made.publish()
        return made.build_path.read_bytes()


def lay(data: Path) -> Path:
    """Put one into a data folder that has none; returns the folder."""
    path = data / "warehouse" / "build.duckdb"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_new(datasets.datasets()))
    return data


@cache
def _instance() -> duckdb.DuckDBPyConnection:
    # DuckDB's module may be gone before this one, and then says that something has leaked
    atexit.register(_instance.cache_clear)
    return duckdb.connect()


@contextlib.contextmanager
def looking(warehouse: Warehouse) -> Iterator[duckdb.DuckDBPyConnection]:
    """The build file, to be read.

    All looks share an instance of DuckDB: making one for each costs more than most questions.
    """
    _instance().execute(f"ATTACH '{warehouse.build_path}' AS warehouse (READ_ONLY)")
    try:
        with _instance().cursor() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            connection.execute("SET search_path = 'warehouse.internal,warehouse.main'")
            yield connection
    finally:
        _instance().execute("DETACH warehouse")


@contextlib.contextmanager
def open_once(warehouse: Warehouse) -> Iterator[None]:
    """Let several operations share one opening and checkpoint of the build file, half the cost of a small one."""
    connector = warehouse._connector
    with connector.build("load test data") as connection:
        warehouse._connector = SimpleNamespace(build=lambda _purpose: contextlib.nullcontext(connection))
        try:
            yield
        finally:
            warehouse._connector = connector


def replaced_file(data: Path) -> Path:
    """Lay a file of 21 bytes beside a loaded one of the lake, as if that had replaced it long ago."""
    loaded = next(data.glob("lake/article_changes/**/enwiki_namespace_0.*.parquet"))
    old = loaded.with_name("enwiki_namespace_0.00000000.parquet")
    old.write_bytes(b"an earlier conversion")
    os.utime(old, (0, 0))
    return old
