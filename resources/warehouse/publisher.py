"""Publication, which replaces the published file with a copy of the build file in a single rename.

While holding the warehouse lock, a publication applies pending data, updates the lake views, writes `about`,
checkpoints, and copies the build file. After releasing the lock, the publication syncs the copy, makes the copy
read-only, renames the copy, and syncs the folder. A reader that has the old file open keeps reading the old file. If
the process is killed at any point, the published file stays complete; the next publication removes leftovers.
`relocate` updates the views in the same way after the data folder has been moved.
"""

import contextlib
import json
import logging
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb

from resources import files
from resources.datasets.live import LIVE_CHANGES
from resources.errors import clause
from resources.formatting import counted, moment_text
from resources.warehouse.database.connect import Build, locked
from resources.warehouse.database.recovery import ASIDE, copy_file
from resources.warehouse.database.sql import transaction
from resources.warehouse.database.workarounds import is_exhausted
from resources.warehouse.read.ledger import LOOKED_AT, MISSING, VIEWS, FaultyFile, named, publication
from resources.warehouse.read.reading import Reader
from resources.warehouse.records import LakeFileError, NotPublishedError, QueryError, WarehouseFullError
from resources.warehouse.state import articles, entities
from resources.warehouse.views.analysts import prepare
from resources.warehouse.views.lake import Sources, make_views, sources

_log = logging.getLogger(__name__)

_ATTRIBUTION = (
    "The text was written by contributors to the projects and is available under the licences in the `license` column "
    "(mostly CC BY-SA 4.0). Attribution requires the project, title and revision."
)


@dataclass(frozen=True)
class Publication:
    """Publication time and build file revision of the published file."""

    published_at: datetime
    revision: int


def next_text(last: Publication | None, every: timedelta | None) -> str:
    """Describe when the next publication is due. `every` is 0 if every run publishes, or None if no run does."""
    if every is None:
        return "only on request, with `wme publish` (WME_PUBLISH=off)"
    if not every or last is None:
        return "by the next run"
    due = (last.published_at + every).replace(second=0, microsecond=0)
    return f"by the first run after {moment_text(due)} UTC (WME_PUBLISH={every / timedelta(minutes=1):g})"


@dataclass(frozen=True)
class Published:
    """Outcome of a publication. `locked_seconds` is the time during which no load could run."""

    path: Path
    changed: bool
    revision: int
    size_bytes: int
    lake_file_count: int
    faulty_lake_files: tuple[FaultyFile, ...]
    locked_seconds: float
    seconds: float

    @property
    def missing_lake_file_count(self) -> int:
        """Number of missing or damaged lake files, which the views omit."""
        return len(self.faulty_lake_files)

    def __str__(self) -> str:
        if not self.changed:
            return f"The published file is up to date (revision {self.revision}). Nothing was written."
        missing = (
            f" Missing or damaged: {counted(count, 'lake file')}." if (count := self.missing_lake_file_count) else ""
        )
        return (
            f"Published revision {self.revision}: {self.size_bytes / 1e6:,.1f} MB and "
            f"{counted(self.lake_file_count, 'lake file')} in {self.seconds:.2f} s, including "
            f"{self.locked_seconds:.2f} s with the lock held.{missing}"
        )


class Publisher(Reader):
    """Warehouse methods for publishing data."""

    def publish(self, about: Mapping[str, str] | None = None) -> Published:
        """Publish the loaded data as a new `warehouse.duckdb`, unless the data is already published.

        Pending data is applied first, under the same lock. Otherwise, another run could load data in between, and a
        published page could refer to a deleted row. `about` adds rows to the `about` table. Raises WarehouseBusyError,
        or WarehouseFullError if disk space or memory ran out. After either error, the previous published file remains.
        """
        started, now = time.perf_counter(), self._clock()
        target = self._connector.published_path
        with self._replacing("publish") as temporary:
            with locked(self._connector.lock_path, self._connector.lock_timeout, "publish"):
                locked_at = time.perf_counter()
                with self._connector.build_unlocked("publish") as connection:
                    build = Build(connection, self._lake_root, now)
                    articles.apply_changes(build)
                    entities.RULE.apply(build)
                    prepare(connection)
                    looked_at_ns = time.time_ns()
                    last = publication(connection)
                    found = sources(connection, self._lake_root, last)
                    facts = self._facts(connection, found, about or {})
                    # the published file is not opened if the build file alone shows that something has changed
                    if changed := not (last.items() >= facts.items() and self._holds(facts)):
                        facts |= {LOOKED_AT: looked_at_ns}
                        try:
                            self._write(connection, found, facts, now)
                        except duckdb.Error:
                            # damage can leave a file's timestamps unchanged, so all footers are read
                            known, found = found.missing, sources(connection, self._lake_root)
                            if found.missing == known:
                                raise
                            self._write(connection, found, facts, now)
                        connection.execute("CHECKPOINT")
                # copy after the connection is closed: closing another file descriptor would release DuckDB's lock
                if changed:
                    copy_file(self._connector.build_path, temporary)
                locked_seconds = time.perf_counter() - locked_at
            if changed:
                _put(temporary, target)
                if found.faulty:
                    _log.warning(
                        "%s cannot be read, so their rows are missing from page text and from older hours of "
                        "article_changes: %s. Files whose archives still exist will be created again.",
                        counted(len(found.faulty), "lake file"),
                        named(found.faulty),
                    )
                for aside in self._connector.build_path.parent.glob(f"{self._connector.build_path.name}.{ASIDE}*"):
                    aside.unlink(missing_ok=True)
        return Published(
            path=target,
            changed=changed,
            revision=facts["revision"],
            size_bytes=target.stat().st_size,
            lake_file_count=found.count,
            faulty_lake_files=found.faulty,
            locked_seconds=locked_seconds,
            seconds=time.perf_counter() - started,
        )

    def is_published(self, about: Mapping[str, str] | None = None) -> bool:
        """Return True if nothing is pending and `publish` would change nothing."""
        with self._connector.build("read the ledger") as connection:
            [(pending,)] = connection.execute(
                "SELECT EXISTS (FROM loads WHERE applied_at IS NULL) OR EXISTS (FROM snapshots WHERE applied_at IS "
                "NULL) "
                "OR NOT is_complete FROM internal.meta"
            ).fetchall()
            found = sources(connection, self._lake_root, publication(connection))
            facts = self._facts(connection, found, about or {})
        return not pending and self._holds(facts)

    def publish_is_due(self, every: timedelta | None = timedelta(0)) -> bool:
        """Return True if a publication is due: at every run (0, the default), after `every`, or never (None)."""
        if every is None:
            return False
        last, now = self.publication(), self._clock()
        # a time in the future was recorded before the clock was set back
        return last is None or not timedelta(0) <= now - last.published_at < every

    def publication(self) -> Publication | None:
        """Return the current publication without locking, or None if no readable published file exists."""
        try:
            with self._connector.published() as connection:
                query = "SELECT name, value FROM about WHERE name IN ('published_at', 'revision')"
                about = dict(connection.execute(query).fetchall())
            return Publication(datetime.fromisoformat(about["published_at"]), int(about["revision"]))
        except (NotPublishedError, QueryError, duckdb.Error, KeyError, ValueError):
            return None

    def unpublished_revision(self) -> int | None:
        """Return the build file's revision if it is unpublished, or None if everything is published."""
        with self._connector.build("read the ledger") as connection:
            state = _state(connection)
            [(is_complete,)] = connection.execute("SELECT is_complete FROM internal.meta").fetchall()
        if not is_complete:
            return int(state["revision"])
        # revision 0 means that nothing has ever been loaded; a rebuilt build file is not new data
        return None if self._holds(state) else state["revision"] or None

    def relocate(self) -> int | None:
        """Update the paths in the published file's views after the data folder was moved.

        Only `warehouse.duckdb` and the lake are needed. Return the number of lake files found, or None if the paths
        were already correct. Raises NotPublishedError, or LakeFileError if the lake contains none of the files. Neither
        error changes anything.
        """
        target, root = self._connector.published_path, str(self._lake_root.resolve())
        # the lock would create a mistyped folder
        with self._connector.published():
            pass
        with self._replacing("update the published file") as temporary:
            with self._connector.published() as connection:
                about = dict(connection.execute("SELECT name, value FROM about").fetchall())
                found = sources(connection, self._lake_root)
            if about.get("lake_root") == root:
                return None
            if found.missing and not found.count:
                raise LakeFileError(
                    f"None of the {len(found.missing)} lake files listed in {target.name} exists under {root}. Nothing "
                    "was changed. Move or copy the `lake` folder there as well, then try again."
                )
            copy_file(target, temporary)
            with self._connector.open_file(temporary) as connection:
                with transaction(connection):
                    make_views(connection, found, found.root / LIVE_CHANGES)
                    for name, value in _lake_facts(root, found).items():
                        connection.execute("UPDATE about SET value = ? WHERE name = ?", [value, name])
                connection.execute("CHECKPOINT")
            _put(temporary, target)
        return found.count

    @contextlib.contextmanager
    def _replacing(self, purpose: str) -> Iterator[Path]:
        """Yield the path of a temporary file that will replace the published file. Hold a lock and delete leftovers."""
        target = self._connector.published_path
        with locked(self.data / "state" / "publish.lock", self._connector.lock_timeout, purpose):
            _sweep(target)
            try:
                yield target.with_name(f"{target.name}.{os.getpid()}.tmp")
            except (OSError, duckdb.Error) as error:
                if not (is_exhausted(error) if isinstance(error, duckdb.Error) else files.is_full(error)):
                    raise
                raise WarehouseFullError(
                    f"Disk space or memory ran out, so this run could not {purpose} ({clause(error)}). The previously "
                    f"published file is unchanged. Free disk space under {target.parent} (a publication needs space "
                    f"for a copy of {target.name}) or give the process more memory, then try again."
                ) from error
            finally:
                _sweep(target)

    def _facts(self, connection: duckdb.DuckDBPyConnection, found: Sources, about: Mapping[str, str]) -> dict[str, Any]:
        """Return the facts that identify a publication. The revision and the ledger digest cover all loaded data."""
        [(version, views)] = connection.execute("SELECT schema_version, prepared_version FROM internal.meta").fetchall()
        [(storage,)] = connection.execute(
            "SELECT tags['storage_version'] FROM duckdb_databases() WHERE database_name = 'warehouse'"
        ).fetchall()
        return {
            "schema_version": version,
            "views_version": views,
            **_state(connection),
            "storage_version": storage.rstrip("+"),
            "lake_root": str(self._lake_root.resolve()),
            "lake_files": found.count,
            MISSING: list(found.missing),
            "snapshots": [[one.snapshot_id, one.snapshot_version] for one in found.parts if one.source_at is not None],
            "about": dict(about),
        }

    def _holds(self, facts: Mapping[str, Any]) -> bool:
        """Return True if the published file can be read and contains these facts."""
        try:
            with self._connector.published() as connection:
                held = publication(connection)
            return held.items() >= facts.items()
        except (NotPublishedError, QueryError, duckdb.Error):
            return False

    def _write(
        self, connection: duckdb.DuckDBPyConnection, found: Sources, facts: Mapping[str, Any], now: datetime
    ) -> None:
        """Write views, facts and `about` in one transaction, because each transaction waits for the disk."""
        facts = {**facts, MISSING: list(found.missing), "lake_files": found.count}
        shown = {
            "attribution": _ATTRIBUTION,
            **facts["about"],
            "published_at": now.isoformat(timespec="seconds"),
            **{name: str(facts[name]) for name in ("revision", "schema_version", "storage_version")},
            "duckdb_version": duckdb.__version__,
            **_lake_facts(facts["lake_root"], found),
        }
        with transaction(connection):
            make_views(connection, found, found.root / LIVE_CHANGES)
            connection.execute("DELETE FROM about")
            connection.executemany("INSERT INTO about VALUES (?, ?)", [*shown.items()])
            connection.execute("DELETE FROM internal.publication WHERE name <> ?", [VIEWS])
            connection.executemany(
                "INSERT INTO internal.publication VALUES (?, ?)",
                [[name, json.dumps(value)] for name, value in facts.items()],
            )


def _lake_facts(root: str, found: Sources) -> dict[str, str]:
    """Return the rows of `about` that describe the lake."""
    return {"lake_root": root, "lake_file_count": str(found.count), "missing_lake_file_count": str(len(found.missing))}


def _state(connection: duckdb.DuckDBPyConnection) -> dict[str, Any]:
    """Return the build file's revision and ledger digest. The revision is not enough, because a rebuild resets it."""
    [(revision, ledger)] = connection.execute(
        "SELECT revision, (SELECT CAST(bit_xor(hash(lake_path, loaded_at)) AS VARCHAR) FROM loads) FROM internal.meta"
    ).fetchall()
    return {"revision": int(revision), "ledger": ledger}


def _sweep(target: Path) -> None:
    for leftover in target.parent.glob(f"{target.name}.*.tmp*"):
        if leftover.is_dir():  # DuckDB's spill folder
            shutil.rmtree(leftover, ignore_errors=True)
        else:
            leftover.unlink(missing_ok=True)


def _put(finished: Path, target: Path) -> None:
    """Make a finished file read-only, and move it into place so that the change survives a power failure."""
    finished.chmod(0o444)
    files.sync(finished)
    finished.replace(target)
    # A reader that opened the old file for writing can leave a log, which would damage the new file.
    target.with_name(target.name + ".wal").unlink(missing_ok=True)
    files.sync(target.parent)
