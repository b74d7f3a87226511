"""The warehouse as one object: what assets and the command line call.

Belongs here: which connection, lock and clock each operation gets. Does not belong here: the operations themselves.
"""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from resources.datasets import ARTICLE_CHANGES
from resources.warehouse.connect import Connector, locked, raise_revision, transaction
from resources.warehouse.load import coverage, snapshots
from resources.warehouse.load import hours as loads
from resources.warehouse.load.lists import load_list
from resources.warehouse.publish.publisher import Publisher
from resources.warehouse.read import ledger, reading
from resources.warehouse.read.audit import HourAudit, audit
from resources.warehouse.state import current

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    import duckdb

    from resources.datasets import Dataset
    from resources.warehouse.read.ledger import Ledger
    from resources.warehouse.records import (
        Applied,
        CoverageRow,
        HourLoad,
        HourStatus,
        LakeFile,
        ProjectState,
        Publication,
        Published,
        QueryResult,
        Snapshot,
        SnapshotLoad,
        SummaryRow,
    )


def _now() -> datetime:
    return datetime.now(UTC)


class Warehouse:
    """DuckDB under a data folder: `warehouse/build.duckdb` of the pipeline, `warehouse.duckdb` for analysts.

    Each writing method opens the build file under the lock `state/warehouse.lock`, does its work in one transaction and
    closes it. `storage_version`: of DuckDB's files, for example v2.0.0; None: as they are, and v1.5.0 for new ones, which DuckDB 1.5 reads
    as well. It can be raised and never lowered. `lock_timeout`: seconds to wait for another process. `memory_limit`: what DuckDB may hold in
    memory while it writes (`2GB`); more goes to disk for the time being. `clock`: aware moments. Nothing is read, written or
    opened before a method is called.
    """

    def __init__(
        self,
        data: Path,
        *,
        storage_version: str | None = None,
        lock_timeout: float = 600.0,
        memory_limit: str = "2GB",
        clock: Callable[[], datetime] = _now,
    ) -> None:
        self.data = data
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

    def load_list(self, dataset: Dataset, path: Path) -> int:
        """Replace the table of a list by the rows of a lake file.

        Returns:
            The number of rows.

        Raises:
            LakeFileError: the file is gone or of other columns; the table is as it was.
        """
        with self._connector.build(f"load {dataset.name}") as connection:
            return load_list(connection, dataset, path)

    def load_hour(
        self,
        hour: datetime,
        files: Sequence[LakeFile],
        statuses: Sequence[HourStatus] = (),
        *,
        dataset: Dataset = ARTICLE_CHANGES,
        reload: bool = False,
    ) -> HourLoad:
        """Load a dataset's files of one hour in one transaction, and note what is known of its other projects and namespaces.

        Files that are loaded under the same digest are left alone unless `reload`; when nothing is left to do the answer
        says so (`changed` is False). For a project and namespace with a file, the file decides its state.

        Raises:
            LakeFileError: a file is gone or does not hold what was announced; the hour is as it was.
        """
        with self._connector.build(f"load the hour {hour:%Y-%m-%dT%H}") as connection:
            return loads.load_hour(
                connection, self._lake_root, dataset, hour, files, statuses, self._clock(), reload=reload
            )

    def load_snapshot(self, snapshot: Snapshot, *, keep_replaced: int = 2, reload: bool = False) -> SnapshotLoad:
        """Load one version of a snapshot, whole, in one transaction.

        The version that is loaded under the same digests already is left alone unless `reload`; the answer says so
        (`changed` is False). Of the articles, `apply_changes` then puts the newest version underneath `articles`, and besides it
        `keep_replaced` older ones stay, for the pages as they were. Of another dataset the version replaces the one before.

        Raises:
            LakeFileError: a file is gone, missing or does not hold what was announced; everything is as it was.
        """
        with self._connector.build(f"load the snapshot {snapshot.snapshot_id}") as connection:
            return snapshots.load_snapshot(
                connection, self._lake_root, snapshot, self._clock(), keep_replaced=keep_replaced, reload=reload
            )

    def record_statuses(self, statuses: Sequence[HourStatus], dataset: Dataset = ARTICLE_CHANGES) -> int:
        """Note what is known of hours that were not loaded; what is loaded stays so. Returns rows that say something new."""
        with self._connector.build("note the coverage") as connection, transaction(connection):
            return self._raised(connection, coverage.record(connection, dataset, statuses, self._clock()))

    def fill_coverage(
        self,
        projects: Sequence[str],
        namespaces: Sequence[int],
        now: datetime | None = None,
        *,
        until: datetime | None = None,
        dataset: Dataset = ARTICLE_CHANGES,
    ) -> int:
        """Give each hour between the first loaded and the last known one a row: `missing`, or `past_retention` after 48 hours.

        Per project and namespace from its own first hour, to the last known hour of all, or to `until` where that hour is
        later. Returns the rows changed.
        """
        with self._connector.build("fill the coverage") as connection, transaction(connection):
            changed = coverage.fill(connection, dataset, projects, namespaces, now or self._clock(), until)
            return self._raised(connection, changed)

    def apply_changes(self) -> Applied:
        """Advance `articles` by all pending hours and snapshots, in one transaction.

        A project with a new snapshot is made anew, which takes time in proportion to its pages.
        """
        with self._connector.build("bring articles up to date") as connection:
            return current.apply_changes(connection, self._lake_root, self._clock())

    def rebuild_articles(self) -> Applied:
        """Make `articles` anew from all changes and snapshots, in one transaction: the same table that `apply_changes` leads to."""
        with self._connector.build("rebuild articles") as connection:
            return current.rebuild_articles(connection, self._lake_root, self._clock())

    def drop_project(self, project_id: str, namespace_id: int | None = None) -> Applied:
        """Forget a project that is no longer mirrored, or one of its namespaces, and bring `articles` up to date.

        A project that is merely left out of the configuration stays as it was last known, and `project_state` says until
        when it is exact; this removes its rows, hours and snapshots. Its lake files stay, so it can be loaded again.
        """
        with self._connector.build(f"forget {project_id}") as connection:
            return current.drop_rows(connection, self._lake_root, self._clock(), project_id, namespace_id)

    def project_rows(self, project_id: str) -> dict[str, int]:
        """Rows of a project by table, of those tables that have some."""
        with self._connector.build("count rows") as connection:
            return reading.project_rows(connection, project_id)

    def hours_of_others(self, project_id: str, dataset: Dataset = ARTICLE_CHANGES) -> frozenset[datetime]:
        """Hours of a dataset of which anything is known for another project."""
        with self._connector.build("read the coverage") as connection:
            return reading.hours_of_others(connection, dataset, project_id)

    def publish(self, about: Mapping[str, str] | None = None) -> Published:
        """Publish what is loaded as a new `warehouse.duckdb`; nothing is written when it is published already.

        `about` adds rows to the table `about`, for example which service the data came from.
        """
        return self._publisher().publish(about or {}, self._clock())

    def publish_is_due(self, every: timedelta | None = timedelta(0)) -> bool:
        """Whether to publish now: at every run (0, the default), `every` so often at the most, or never (None).

        A publication costs a copy of the narrow tables, a few seconds per GB.
        """
        return self._publisher().is_due(every, self._clock())

    def publication(self) -> Publication | None:
        """What was published last, and when; None: nothing so far. Reads no DuckDB file and takes no lock."""
        return self._publisher().last()

    def unpublished_revision(self) -> int | None:
        """The revision that is built and not published yet; None: everything is published."""
        return self._publisher().unpublished()

    def relocate(self) -> int | None:
        """After the data folder was moved, make the published file's views find the lake where it lies now.

        Only `warehouse.duckdb` and the lake are needed; publishing does the same. Returns the lake files found, or None where
        nothing was to be done.

        Raises:
            NotPublishedError: nothing was published yet.
            LakeFileError: no file of the lake is there; nothing was changed.
        """
        return self._publisher().relocate()

    def _publisher(self) -> Publisher:
        return Publisher(
            connector=self._connector,
            lake_root=self._lake_root,
            receipt_path=self.data / "state" / "published.json",
            publish_lock_path=self.data / "state" / "publish.lock",
        )

    @contextlib.contextmanager
    def ledger(self) -> Iterator[Ledger]:
        """What is named now; while it is held nobody loads or publishes, so that what it does not name may be removed."""
        timeout, purpose = self._connector.lock_timeout, "look at the ledger"
        with (
            locked(self.data / "state" / "publish.lock", timeout, purpose),
            self._connector.build(purpose) as build,
            self._connector.published() if self.published_path.exists() else contextlib.nullcontext() as published,
        ):
            yield ledger.Ledger(build, published)

    def pending_hours(self) -> list[datetime]:
        """Hours that are loaded and not yet in `articles`, in order."""
        with self._connector.build("read the ledger") as connection:
            return reading.pending_hours(connection)

    def pending_snapshots(self) -> list[str]:
        """Snapshots that are loaded and not yet in `articles`, in order."""
        with self._connector.build("read the ledger") as connection:
            return reading.pending_snapshots(connection)

    def loaded_digests(self, hour: datetime, dataset: Dataset = ARTICLE_CHANGES) -> dict[tuple[str, int], str]:
        """Digest of the loaded file of each (project, namespace) of an hour."""
        with self._connector.build("read the ledger") as connection:
            return reading.digests(connection, dataset, hour)

    def summary(
        self, hours: Iterable[datetime], *, published: bool = True, dataset: Dataset = ARTICLE_CHANGES
    ) -> list[SummaryRow]:
        """Figures of the hours, per hour, project and namespace; from the published file, or from the build under the lock."""
        with self._reading(published=published) as connection:
            return reading.summary(connection, dataset, hours)

    def coverage(
        self,
        since: datetime | None = None,
        until: datetime | None = None,
        *,
        published: bool = True,
        dataset: Dataset = ARTICLE_CHANGES,
    ) -> list[CoverageRow]:
        """Rows of `hours` of a dataset with since <= batch_hour < until, in order."""
        with self._reading(published=published) as connection:
            return reading.coverage(connection, dataset, since, until)

    def project_states(self, *, published: bool = True) -> list[ProjectState]:
        """From when until when `articles` is exact, per project and namespace."""
        with self._reading(published=published) as connection:
            return reading.project_states(connection)

    def audit(self, hours: Iterable[datetime], dataset: Dataset = ARTICLE_CHANGES) -> list[HourAudit]:
        """Count the rows of loaded hours anew and compare them with the ledger; an hour that is not loaded is left out."""
        with self._connector.build("look at the loaded hours again") as connection:
            return audit(connection, dataset, hours)

    def sql(self, query: str, parameters: Sequence[Any] = ()) -> QueryResult:
        """Ask the published file; `parameters` fill the `?` of the query.

        Raises:
            NotPublishedError: nothing was published yet.
            QueryError: DuckDB cannot answer the query.
        """
        with self.connect_published() as connection:
            return reading.query(connection, query, parameters)

    def connect_published(self) -> duckdb.DuckDBPyConnection:
        """A read-only connection to the published file, which never locks anyone out; close it, or use it in a `with`."""
        return self._connector.published()

    def _reading(self, *, published: bool) -> contextlib.AbstractContextManager[duckdb.DuckDBPyConnection]:
        return self._connector.published() if published else self._connector.build("read the warehouse")

    @staticmethod
    def _raised(connection: duckdb.DuckDBPyConnection, changed: int) -> int:
        if changed:
            raise_revision(connection)
        return changed
