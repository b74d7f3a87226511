"""The warehouse as one object, which provides the connection, lock and clock of each operation."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from resources.datasets import ARTICLE_CHANGES
from resources.datasets.live import LIVE_CHANGES, files_of
from resources.warehouse.compaction import ledger as compactions
from resources.warehouse.compaction import window as windows
from resources.warehouse.database.connect import Connector, locked, merge_row_groups
from resources.warehouse.database.recovery import copy_file
from resources.warehouse.load import coverage
from resources.warehouse.load.files import load_list
from resources.warehouse.load.hours import load_hour
from resources.warehouse.load.lookups import load_lookups
from resources.warehouse.load.snapshots import load_snapshot
from resources.warehouse.publisher import Publisher
from resources.warehouse.read.comparison import compare, keep_visibility_changes
from resources.warehouse.read.faults import Damaged
from resources.warehouse.read.ledger import Ledger
from resources.warehouse.read.reading import Reader
from resources.warehouse.state import articles as current
from resources.warehouse.state import entities
from resources.warehouse.state.auditor import Auditor

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    import duckdb

    from resources.datasets import Dataset
    from resources.files import StrPath
    from resources.lake_files import ConvertedFile
    from resources.tables.compacted import CompactedFile
    from resources.warehouse.compaction.ledger import Committed, Prepared
    from resources.warehouse.compaction.spans import Merge
    from resources.warehouse.compaction.versions import VersionMerge
    from resources.warehouse.compaction.window import Moved
    from resources.warehouse.read.comparison import Comparison
    from resources.warehouse.records import (
        Applied,
        AppliedEntities,
        HourLoad,
        HourStatus,
        Publication,
        Published,
        Snapshot,
        SnapshotLoad,
    )


#: Versions of a snapshot of articles that stay besides the newest, for the pages as they were.
KEEP_REPLACED = 2


def _now() -> datetime:
    return datetime.now(UTC)


class Warehouse(Reader):
    """DuckDB under a data folder: `warehouse/build.duckdb` of the pipeline, `warehouse.duckdb` for analysts.

    Each writing method opens the build file under the lock `state/warehouse.lock`, does its work in one transaction and
    closes it. `storage_version`: of DuckDB's files, for example v2.0.0; None: as they are, and v1.5.0 for new ones,
    which DuckDB 1.5 reads as well. It can be raised and never lowered. `lock_timeout`: seconds to wait for another
    process. `memory_limit`: what DuckDB may hold in memory while it writes (`2GB`); more goes to disk for the time
    being. `clock`: aware moments. Nothing is read, written or opened before a method is called.
    """

    def __init__(
        self,
        data: StrPath,
        *,
        storage_version: str | None = None,
        lock_timeout: float = 600.0,
        memory_limit: str = "2GB",
        clock: Callable[[], datetime] = _now,
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
        """The pipeline's own file."""
        return self._connector.build_path

    @property
    def published_path(self) -> Path:
        """The file that analysts open."""
        return self._connector.published_path

    def load_list(self, dataset: Dataset, path: StrPath) -> int:
        """Replace the table of a list by the rows of a lake file; returns their number.

        Raises:
            LakeFileError: the file is gone or of other columns; the table is as it was.
        """
        with self._connector.build(f"load {dataset.name}") as connection:
            return load_list(connection, dataset, Path(path))

    def load_hour(
        self,
        hour: datetime,
        files: Sequence[ConvertedFile],
        statuses: Sequence[HourStatus] = (),
        *,
        dataset: Dataset = ARTICLE_CHANGES,
        reload: bool = False,
    ) -> HourLoad:
        """Load a dataset's files of one hour, and note the states of its other scopes, in one transaction.

        Files that are loaded under the same digest are left alone unless `reload`, or the compacted file with their
        rows is gone. If nothing is left to do, `changed` is False. For a project and namespace with a file, the file
        decides its state.

        Raises:
            LakeFileError: a file is gone or does not hold what was announced; the hour is as it was.
        """
        with self._connector.build(f"load the hour {hour:%Y-%m-%dT%H}") as connection:
            return load_hour(connection, self._lake_root, dataset, hour, files, statuses, self._clock(), reload=reload)

    def load_snapshot(
        self, snapshot: Snapshot, *, keep_replaced: int = KEEP_REPLACED, reload: bool = False
    ) -> SnapshotLoad:
        """Load one complete version of a snapshot in one transaction.

        A version that is loaded under the same digests is skipped (`changed` is False) unless `reload`. For articles,
        `apply_changes` puts the newest version underneath `articles`, and `keep_replaced` older ones stay, for the
        pages as they were. In other datasets the version replaces the one before.

        Raises:
            LakeFileError: a file is gone, missing or does not hold what was announced; everything is as it was.
        """
        with self._connector.build(f"load the snapshot {snapshot.snapshot_id}") as connection:
            return load_snapshot(
                connection, self._lake_root, snapshot, self._clock(), keep_replaced=keep_replaced, reload=reload
            )

    def load_lookups(self, files: Sequence[ConvertedFile], *, reload: bool = False) -> int:
        """Load lookup responses about single pages in one transaction; return the rows of the new files.

        Files that were loaded before are skipped unless `reload`.

        Raises:
            LakeFileError: a file is gone or does not hold what was announced; everything is as it was.
        """
        with self._connector.build("load the lookups") as connection:
            return load_lookups(connection, self._lake_root, files, self._clock(), reload=reload)

    def record_statuses(self, statuses: Sequence[HourStatus], dataset: Dataset = ARTICLE_CHANGES) -> int:
        """Note states of hours that are not loaded; return the number of rows that changed."""
        with self._connector.build("note the coverage") as connection:
            return coverage.record_all(connection, dataset, statuses, self._clock())

    def fill_coverage(
        self,
        projects: Sequence[str],
        namespaces: Sequence[int],
        now: datetime | None = None,
        *,
        until: datetime | None = None,
        dataset: Dataset = ARTICLE_CHANGES,
    ) -> int:
        """Add missing rows for hours (`missing`, or `past_retention` after 48 hours); return the rows changed.

        They run from the first hour of each project and namespace to the last known hour of all, or a later `until`.
        """
        with self._connector.build("fill the coverage") as connection:
            return coverage.fill(connection, dataset, projects, namespaces, now or self._clock(), until)

    def apply_changes(self) -> Applied:
        """Advance `articles` by all pending hours and snapshots, in one transaction.

        A project with a new snapshot is made anew, which takes time in proportion to its pages.
        """
        with self._connector.build("bring articles up to date") as connection:
            return current.apply_changes(connection, self._lake_root, self._clock())

    def rebuild_articles(self) -> Applied:
        """Rebuild `articles` from all changes and snapshots; the result equals that of `apply_changes`."""
        with self._connector.build("rebuild articles") as connection:
            return current.rebuild_articles(connection, self._lake_root, self._clock())

    def apply_entity_changes(self) -> AppliedEntities:
        """Advance `entities` by all pending hours and snapshots of Wikidata, in one transaction."""
        with self._connector.build("bring entities up to date") as connection:
            return entities.apply_changes(connection, self._clock())

    def rebuild_entities(self) -> AppliedEntities:
        """Rebuild `entities` from all its changes and snapshots, with the result of `apply_entity_changes`."""
        with self._connector.build("rebuild entities") as connection:
            return entities.rebuild(connection, self._clock())

    def merge_row_groups(self) -> bool:
        """Let DuckDB merge the small row groups that hours have added, at most once a day; return True if it did.

        It affects only speed and space. It holds the lock for about 20 µs of processor time per row of the day.
        """
        with self._connector.build("merge small row groups") as connection:
            return merge_row_groups(connection, self._clock())

    def drop_project(self, project_id: str, namespace_id: int | None = None) -> Applied:
        """Drop a project that is no longer mirrored, or one of its namespaces, and bring `articles` up to date.

        A project that is only left out of the configuration stays as last known; `project_state` says until when it is
        exact. This method removes its rows, hours and snapshots. Its lake files stay, so it can be loaded again.
        """
        with self._connector.build(f"forget {project_id}") as connection:
            return current.drop_rows(connection, self._lake_root, self._clock(), project_id, namespace_id)

    @contextlib.contextmanager
    def compacting(self) -> Iterator[None]:
        """Keep other processes from compacting the same files. Nobody else waits for this.

        Raises:
            WarehouseBusyError: Another process is compacting.
        """
        with locked(self.data / "state" / "compact.lock", 0.0, "compact the lake"):
            yield

    def compactions(self, *of: Dataset) -> list[tuple[Dataset, Merge | VersionMerge]]:
        """Return the due compactions of datasets, newest first in each."""
        with self._connector.build("plan the compaction") as connection:
            return [(one, merge) for one in of for merge in compactions.planned(connection, one, self._clock())]

    def prepare_compaction(self, merge: Merge | VersionMerge, dataset: Dataset = ARTICLE_CHANGES) -> Prepared:
        """Return the current files of a compaction, and their rows to leave out."""
        with self._connector.build("prepare the compaction") as connection:
            return compactions.prepare(connection, dataset, merge)

    def commit_compaction(
        self,
        prepared: Prepared,
        files: Sequence[CompactedFile],
        row_counts: Mapping[tuple[Any, ...], int],
        dataset: Dataset = ARTICLE_CHANGES,
    ) -> Committed:
        """Switch loaded rows to compacted files, in one transaction; parts loaded again meanwhile keep theirs.

        Raises:
            LakeFileError: The files are gone, or do not hold the rows that are loaded; nothing was changed.
        """
        with self._connector.build("take in the compaction") as connection:
            return compactions.commit(connection, self._lake_root, dataset, prepared, files, row_counts, self._clock())

    def movable_changes(self, before: datetime | None = None) -> Moved | None:
        """Return the hours before a moment (default: settled months) that may leave the build file, or None."""
        with self._connector.build("look at the window") as connection:
            now = self._clock()
            before = before or windows.settled(now)
            return windows.together(windows.movable(connection, before, compactions.waiting(connection, now)))

    def move_window(self, before: datetime | None = None) -> Moved | None:
        """Remove changes of hours before a moment from the build file, in one transaction.

        The default moment is the end of the settled months. From then on these changes are read from compacted files.
        At most some hundred thousand rows leave at a time, unless a single hour has more, so that no hourly load waits
        long. None: no changes may leave. Changes that `articles` has not applied stay, and so do hours that wait for a
        compaction and all hours after them.

        Raises:
            LakeFileError: A compacted file is gone, or does not hold what the ledger says; nothing was changed.
        """
        with self._connector.build("move the window of the changes") as connection:
            now = self._clock()
            waiting = compactions.waiting(connection, now)
            return windows.move(connection, self._lake_root, before or windows.settled(now), waiting)

    def publish(self, about: Mapping[str, str] | None = None) -> Published:
        """Publish what is loaded as a new `warehouse.duckdb`; nothing is written when it is published already.

        Pending data is applied first, under the same lock: another run may have loaded data since, and a page must not
        be published with a row that no longer exists. `about` adds rows to the table `about`, for example the service.
        """
        return self._publisher().publish(about or {}, self._clock(), self._take_in)

    def _take_in(self, connection: duckdb.DuckDBPyConnection) -> None:
        current.apply_changes(connection, self._lake_root, self._clock())
        entities.apply_changes(connection, self._clock())

    def compare_stream(self, hours: Collection[datetime]) -> list[Comparison]:
        """Compare the stream with the files of loaded hours, as far as it covers them; none where no stream is kept.

        Raises:
            LakeFileError: A file cannot be read.
        """
        if not files_of(self._lake_root / LIVE_CHANGES):
            return []
        with self._connector.build("compare the stream with the hours' files") as connection:
            return compare(connection, self._lake_root, hours, self._clock())

    def keep_visibility_changes(self) -> int:
        """Store the stream's changes of visibility of loaded hours, which their files lack; returns how many are new.

        Raises:
            LakeFileError: A file of the stream cannot be read; nothing was changed.
        """
        if not files_of(self._lake_root / LIVE_CHANGES):
            return 0
        with self._connector.build("store changes of visibility") as connection:
            return keep_visibility_changes(connection, self._lake_root, self._clock())

    def publish_is_due(self, every: timedelta | None = timedelta(0)) -> bool:
        """Return True if a publication is due: at every run (0, the default), after `every`, or never (None)."""
        return self._publisher().is_due(every, self._clock())

    def is_published(self, about: Mapping[str, str] | None = None) -> bool:
        """Return True if nothing is pending and `publish` would change nothing."""
        return self._publisher().is_current(about or {})

    def publication(self) -> Publication | None:
        """Return the last publication; None: nothing was published so far. Takes no lock."""
        return self._publisher().last()

    def unpublished_revision(self) -> int | None:
        """The revision that is built and not published yet; None: everything is published."""
        return self._publisher().unpublished()

    def relocate(self) -> int | None:
        """Update the paths of the published file's views after the data folder was moved, as publishing does.

        Only `warehouse.duckdb` and the lake are needed. Return the lake files found; None: there was nothing to do.

        Raises:
            NotPublishedError: nothing was published yet.
            LakeFileError: no file of the lake is there; nothing was changed.
        """
        return self._publisher().relocate()

    def is_complete(self) -> bool:
        """Return False after the build file has replaced a damaged one, until all data is loaded again."""
        with self._connector.build("look for what is missing") as connection:
            [(found,)] = connection.execute("SELECT is_complete FROM internal.meta").fetchall()
        return bool(found)

    def create(self) -> None:
        """Create an empty build file where there is none; otherwise the next opening copies the published file."""
        self._connector.create_build()

    def note_complete(self) -> None:
        """Note that everything that is archived was loaded again."""
        with self._connector.build("note that nothing is missing") as connection:
            connection.execute("UPDATE internal.meta SET is_complete = true")

    def note_damage(self, lake_path: str, why: str) -> None:
        """Treat a lake file with damaged pages like a missing one, until it is replaced."""
        Damaged(self.data).note(lake_path, why)

    def _publisher(self) -> Publisher:
        return Publisher(self._connector, self._lake_root, self.data / "state" / "publish.lock")

    def copy_to(self, target: StrPath) -> None:
        """Write a copy of the build file with everything that is committed."""
        with self.writing("copy the warehouse"):
            with self._connector.build_unlocked("copy the warehouse") as connection:
                connection.execute("CHECKPOINT")
            copy_file(self.build_path, Path(target))

    @contextlib.contextmanager
    def writing(self, purpose: str) -> Iterator[None]:
        """Keep others from writing the build file, which need not be there."""
        with locked(self._connector.lock_path, self._connector.lock_timeout, purpose):
            yield

    @contextlib.contextmanager
    def auditing(self) -> Iterator[Auditor]:
        """Open the build file once for the checks; nobody writes meanwhile."""
        with self._connector.build("check what is loaded") as connection:
            yield Auditor(connection, self._lake_root)

    @contextlib.contextmanager
    def ledger(self) -> Iterator[Ledger]:
        """Hold the ledger open; nobody loads or publishes meanwhile, so files it does not name may be deleted."""
        timeout, purpose = self._connector.lock_timeout, "look at the ledger"
        with (
            locked(self.data / "state" / "publish.lock", timeout, purpose),
            self._connector.build(purpose) as build,
            self._connector.published() if self.published_path.exists() else contextlib.nullcontext() as published,
        ):
            yield Ledger(build, published)
