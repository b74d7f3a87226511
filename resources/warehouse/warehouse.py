"""The `Warehouse` class, which provides the connection, lock and clock for each operation."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from resources.files import StrPath
from resources.warehouse.compaction import commit, plan, window
from resources.warehouse.database.connect import Build, Connector, locked
from resources.warehouse.database.connect import merge_row_groups as _merge_row_groups
from resources.warehouse.database.recovery import copy_file, put_in_place
from resources.warehouse.load import files, hours, lookups, snapshots
from resources.warehouse.publisher import Publisher
from resources.warehouse.read import comparison
from resources.warehouse.read.ledger import Ledger, note_damage
from resources.warehouse.state import articles, entities
from resources.warehouse.state.auditor import Auditor

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def _operation(
    function: Callable[Concatenate[Build, _Arguments], _Result], purpose: str
) -> Callable[Concatenate[Warehouse, _Arguments], _Result]:
    """Return a method that opens the build file under the lock and passes it to a function.

    `purpose` completes the sentence "This run could not ..." in errors, and can contain arguments in braces.
    """
    signature = inspect.signature(function)

    @functools.wraps(function)
    def method(self: Warehouse, /, *args: _Arguments.args, **more: _Arguments.kwargs) -> _Result:
        named = signature.bind(None, *args, **more).arguments
        with self._connector.build(purpose.format_map(named)) as connection:
            return function(Build(connection, self._lake_root, self._clock()), *args, **more)

    return method


class Warehouse(Publisher):
    """The DuckDB files in a data folder: `warehouse/build.duckdb` for the pipeline and `warehouse.duckdb` for analysts.

    Each method that writes holds the `state/warehouse.lock` lock, opens the build file, and uses one transaction.
    `storage_version` is the version of DuckDB's file format, for example v2.0.0. The storage version of a file can be
    raised but never lowered. By default, existing files keep their version, and new files use v1.5.0, which DuckDB 1.5
    can read. `lock_timeout` is in seconds. `memory_limit` applies to writing; larger data spills to disk. `clock`
    returns time-zone-aware timestamps. Files are opened only when a method is called.
    """

    def __init__(
        self,
        data: StrPath,
        *,
        storage_version: str | None = None,
        lock_timeout: float = 600.0,
        memory_limit: str = "2GB",
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.data = data = Path(data)
        self._clock = clock
        self._lake_root = data / "lake"
        self._connector = Connector(
            build_path=data / "warehouse" / "build.duckdb",
            published_path=data / "warehouse.duckdb",
            lock_path=data / "state" / "warehouse.lock",
            storage_version=storage_version,
            lock_timeout=lock_timeout,
            memory_limit=memory_limit,
        )

    @property
    def build_path(self) -> Path:
        """Path of the pipeline's own file."""
        return self._connector.build_path

    @property
    def published_path(self) -> Path:
        """Path of the file that analysts open."""
        return self._connector.published_path

    load_list = _operation(files.load_list, "load {dataset.name}")
    load_hour = _operation(hours.load_hour, "load the hour {hour:%Y-%m-%dT%H}")
    load_snapshot = _operation(snapshots.load_snapshot, "load the snapshot {snapshot.snapshot_id}")
    load_lookups = _operation(lookups.load_lookups, "load the lookups")
    lookup_digests = _operation(lookups.lookup_digests, "read the lookups")
    last_lookup_at = _operation(lookups.last_lookup_at, "read the lookups")
    lookups_since = _operation(lookups.lookups_since, "read the lookups")
    lookups_due = _operation(lookups.lookups_due, "find pages to look up")
    uncertain_pages = _operation(lookups.uncertain_pages, "find pages to look up")
    sampled_pages = _operation(lookups.sampled_pages, "find pages to look up")
    record_statuses = _operation(hours.record_statuses, "record the coverage")
    fill_coverage = _operation(hours.fill_coverage, "fill the coverage")
    apply_changes = _operation(articles.apply_changes, "update articles")
    rebuild_articles = _operation(articles.rebuild_articles, "rebuild articles")
    apply_entity_changes = _operation(entities.RULE.apply, "update entities")
    rebuild_entities = _operation(entities.RULE.rebuild, "rebuild entities")
    drop_project = _operation(articles.drop_project, "forget {project_id}")
    merge_row_groups = _operation(_merge_row_groups, "merge small row groups")
    compactions = _operation(plan.compactions, "plan the compaction")
    prepare_compaction = _operation(commit.prepare_compaction, "prepare the compaction")
    commit_compaction = _operation(commit.commit_compaction, "commit the compaction")
    movable_changes = _operation(window.movable_changes, "read the window")
    move_window = _operation(window.move_window, "move the change window")
    compare_stream = _operation(comparison.compare_stream, "compare the stream with the hourly files")
    keep_visibility_changes = _operation(comparison.keep_visibility_changes, "store visibility changes")

    def compacting(self) -> contextlib.AbstractContextManager[None]:
        """Prevent compactions by other processes. Raises WarehouseBusyError if another process is compacting files."""
        return locked(self.data / "state" / "compact.lock", 0.0, "compact the lake")

    def is_complete(self) -> bool:
        """Return False if a damaged build file was replaced and some data has not yet been reloaded."""
        with self._connector.build("find missing data") as connection:
            [(found,)] = connection.execute("SELECT is_complete FROM internal.meta").fetchall()
        return bool(found)

    def create(self) -> None:
        """Create an empty build file if none exists, to prevent the next operation from copying the published file."""
        with self.writing("create the build file"):
            if not self.build_path.exists():
                put_in_place(self.build_path, None, self._connector.open_file)

    def note_complete(self) -> None:
        """Record that all archived data has been reloaded."""
        with self._connector.build("record that nothing is missing") as connection:
            connection.execute("UPDATE internal.meta SET is_complete = true")

    def note_damage(self, lake_path: str, why: str) -> None:
        """Treat a lake file with damaged data pages as missing until the file is replaced."""
        note_damage(self.data, lake_path, why)

    def copy_to(self, target: StrPath) -> None:
        """Write a copy of the build file with all committed data."""
        with self.writing("copy the warehouse"):
            with self._connector.build_unlocked("copy the warehouse") as connection:
                connection.execute("CHECKPOINT")
            copy_file(self.build_path, Path(target))

    def writing(self, purpose: str) -> contextlib.AbstractContextManager[None]:
        """Prevent other processes from writing to the build file, even if the file does not exist."""
        return locked(self._connector.lock_path, self._connector.lock_timeout, purpose)

    @contextlib.contextmanager
    def auditing(self) -> Iterator[Auditor]:
        """Hold the lock and open the build file once for all checks."""
        with self._connector.build("check the loaded data") as connection:
            yield Auditor(connection, self._lake_root)

    @contextlib.contextmanager
    def ledger(self) -> Iterator[Ledger]:
        """Hold the lock and keep the ledger open, to allow safe deletion of unlisted files."""
        timeout, purpose = self._connector.lock_timeout, "read the ledger"
        with (
            locked(self.data / "state" / "publish.lock", timeout, purpose),
            self._connector.build(purpose) as build,
            self._connector.published() if self.published_path.exists() else contextlib.nullcontext() as published,
        ):
            yield Ledger(build, published)
