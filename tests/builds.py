"""Build files of a warehouse without data, made once for all tests, and queries of any build file.

A new one takes a thousand statements, half of them for its first publication, and hundreds of tests are about something
else. The tests of processes begin without one, as users do.
"""

import atexit
import contextlib
import inspect
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
from filelock import FileLock

from resources import datasets
from resources.datasets import Dataset
from resources.warehouse import Warehouse
from resources.warehouse.database.connect import Connector, answer
from resources.warehouse.database.schema import search_internal
from resources.warehouse.database.sql import transaction
from resources.warehouse.views import analysts
from resources.warehouse.views.lake import make_views, sources

#: Begins a program for `python -c` that asks DuckDB and prints the answers: where Python was started without a file, a
#: bar is drawn among them as soon as a question takes two seconds.
NO_BAR = "__file__ = 'program'\n"


#: A folder of all workers of a run of the tests, once `tests/conftest.py` has found it.
shared: Path | None = None


@cache
def _new(of: tuple[Dataset, ...]) -> bytes:
    if shared is None:
        return _made()
    path = shared / f"empty-build-{analysts._script(of)[1]}.duckdb"
    with FileLock(f"{path}.lock"):
        if not path.exists():
            begun = path.with_suffix(".begun")
            begun.write_bytes(_made())
            begun.replace(path)
        return path.read_bytes()


def _made() -> bytes:
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


#: Open files: what tells whether the file was replaced, its closing, and a connection.
_kept: dict[Path, tuple[object, ExitStack, duckdb.DuckDBPyConnection]] = {}


def close(path: Path) -> None:
    """Close a file that is kept open, as the operation that opened it would have done."""
    if path in _kept:
        _kept.pop(path)[1].close()


def close_all() -> None:
    """Close all files that are kept open."""
    for path in [*_kept]:
        close(path)


def drop_all(folder: Path) -> None:
    """Close those below a folder that nobody reads any more, without their checkpoints, which cost most of closing."""
    for path in [*_kept]:
        if path.is_relative_to(folder):
            _kept[path][2].execute("PRAGMA disable_checkpoint_on_shutdown")
            close(path)


class Keeping(Connector):
    """Keep both files open between operations: to open and close them costs more than most operations of tests.

    Each operation has a connection of its own. An operation that fails closes the build file, as in the product.
    """

    @contextlib.contextmanager
    def build_unlocked(self, purpose: str) -> Iterator[duckdb.DuckDBPyConnection]:
        path = self.build_path
        connection = self._open(path, None, lambda: Connector.build_unlocked(self, purpose))
        try:
            with connection.cursor() as own:
                _begin(own)
                search_internal(own)
                yield own
        except BaseException:
            if path not in _kept or not _kept.pop(path)[1].__exit__(*sys.exc_info()):
                raise

    @contextlib.contextmanager
    def published(self) -> Iterator[duckdb.DuckDBPyConnection]:
        path, stamp = self.published_path, None
        with contextlib.suppress(OSError):
            found = path.stat()
            stamp = found.st_ino, found.st_size, found.st_mtime_ns
        with self._open(path, stamp, lambda: Connector.published(self)).cursor() as own:
            _begin(own)
            yield own

    @staticmethod
    def _open(
        path: Path, stamp: object, opening: Callable[[], AbstractContextManager[duckdb.DuckDBPyConnection]]
    ) -> duckdb.DuckDBPyConnection:
        if path in _kept and _kept[path][0] != stamp:
            close(path)
        if path not in _kept:
            stack = contextlib.ExitStack()
            _kept[path] = stamp, stack, stack.enter_context(opening())
        return _kept[path][2]


def _begin(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute("USE warehouse; SET TimeZone = 'UTC'")


def _of_articles(name: str) -> Callable[..., Any]:
    """The method of a warehouse, for the changes of articles unless a dataset is named."""
    original = getattr(Warehouse, name)
    signature = inspect.signature(original)

    def method(*args: Any, **more: Any) -> Any:
        if "dataset" not in signature.bind_partial(*args, **more).arguments:
            more["dataset"] = datasets.ARTICLE_CHANGES
        return original(*args, **more)

    return method


class OpenWarehouse(Warehouse):
    """A warehouse whose files stay open in this process until `close_all`, or until a test asks for `build_path`."""

    load_hour, record_statuses, fill_coverage, coverage, audit, summary = map(
        _of_articles, ("load_hour", "record_statuses", "fill_coverage", "coverage", "audit", "summary")
    )

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._connector = Keeping(**vars(self._connector))
        self._asking = self._connector.published

    @property
    def build_path(self) -> Path:
        close(super().build_path)
        return super().build_path


_open_file = Connector.open_file


@contextlib.contextmanager
def _open_alone(self: Connector, path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """Close the file first: two instances of DuckDB in one process do not notice each other's changes."""
    close(path)
    with _open_file(self, path) as connection:
        connection.execute("PRAGMA enable_checkpoint_on_shutdown")  # `drop_all` may have disabled the instance's
        yield connection


Connector.open_file = _open_alone  # type: ignore[method-assign]


@contextlib.contextmanager
def looking(warehouse: Warehouse) -> Iterator[duckdb.DuckDBPyConnection]:
    """The build file, to be read. All closed files share an instance of DuckDB, which is slow to make."""
    path = warehouse._connector.build_path
    with contextlib.ExitStack() as stack:
        if path in _kept:
            instance = _kept[path][2]
        else:
            instance = _instance()
            instance.execute(f"ATTACH '{path}' AS warehouse (READ_ONLY)")
            stack.callback(instance.execute, "DETACH warehouse")
        connection = stack.enter_context(instance.cursor())
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("SET search_path = 'warehouse.internal,warehouse.main'")
        yield connection


def ask(warehouse: Warehouse, query: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """What the build file answers."""
    with looking(warehouse) as connection:
        return answer(connection, query, parameters)


@contextlib.contextmanager
def shown(warehouse: Warehouse) -> Iterator[duckdb.DuckDBPyConnection]:
    """The build file with the views of a publication now, without the time that the file takes."""
    with warehouse._connector.build("look") as connection:
        with transaction(connection):
            make_views(connection, sources(connection, warehouse._lake_root))
        connection.execute("SET search_path = 'main'")
        yield connection


def replaced_file(data: Path) -> Path:
    """Lay a file of 21 bytes beside a loaded one of the lake, as if that had replaced it long ago."""
    loaded = next(data.glob("lake/article_changes/**/enwiki_namespace_0.*.parquet"))
    old = loaded.with_name("enwiki_namespace_0.00000000.parquet")
    old.write_bytes(b"an earlier conversion")
    os.utime(old, (0, 0))
    return old


def loaded_digests(warehouse: Warehouse, hour: datetime, table: str = "article_changes") -> dict[tuple[str, int], str]:
    """The digests of an hour's loaded files, by project and namespace."""
    query = "SELECT project_id, namespace_id, digest FROM loads WHERE table_name = ? AND batch_hour = ?"
    return {tuple(place): digest for *place, digest in ask(warehouse, query, [table, hour])}
