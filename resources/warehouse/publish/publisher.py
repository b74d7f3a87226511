"""Publishing: a new file beside the old one, then one rename; nobody waits and nobody sees half of it.

The build file is checkpointed and copied under the lock, which is the only time in which no load can run. All the
rest happens on the copy: what is internal is dropped, the views over the lake are made, the file is synced and takes
the place of the old one. A reader that has the old file open keeps it; a kill at any point leaves the old file
whole, and what it left over is swept by the next publication; after a failure nothing is left over.

The views name each lake file by its absolute path, so that they work from any working directory. When the data folder
was moved, publishing again mends them, and so does `relocate`, which needs neither the build file nor a run.

Does not belong here: what is published when.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import time
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from resources import files, tables
from resources.warehouse.connect import locked
from resources.warehouse.errors import LakeFileError
from resources.warehouse.load.snapshot_rows import versions
from resources.warehouse.records import Publication, Published
from resources.warehouse.schema import (
    INTERNAL_COLUMNS,
    LAKE_VIEWS,
    comments,
    create_table,
    identifier,
    quoted,
    sql_type,
    statement,
)
from resources.warehouse.state.questions import questions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from resources.warehouse.connect import Connector
    from resources.warehouse.load.snapshot_rows import Version

_log = logging.getLogger(__name__)

_ATTRIBUTION = (
    "Texts are by the contributors of the projects, under the licences that the column `license` names (CC BY-SA 4.0 for "
    "most). Keep the attribution: project, title, revision."
)


#: What the build file holds for itself.
_INTERNAL = (
    "VIEW internal.candidates",
    "VIEW internal.bases",
    "TABLE internal.titles",
    "TABLE internal.pages",
    "TABLE internal.meta",
)


@dataclass(frozen=True)
class _Sources:
    """The lake files behind the views: those of hours, those of each kept snapshot, and those that are gone."""

    files: tuple[str, ...]
    snapshots: tuple[Version, ...]
    missing: tuple[str, ...]

    @property
    def count(self) -> int:
        """Files that the views read."""
        return len(self.files) + sum(len(version.paths) for version in self.snapshots)


@dataclass(frozen=True)
class _Edition:
    """What is about to be published: the build file's state, and the lake files that are there."""

    schema_version: str
    revision: int
    ledger: str
    storage_version: str
    lake_root: str
    about: dict[str, str]
    sources: _Sources

    def receipt(self) -> dict[str, Any]:
        """The words by which it is recognised later. Revision and ledger stand for everything in the build file."""
        known = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "sources"}
        known["lake_files"] = self.sources.count
        known["missing_lake_files"] = list(self.sources.missing)
        known["snapshots"] = [[version.snapshot_id, version.snapshot_version] for version in self.sources.snapshots]
        return known


@dataclass(frozen=True)
class Publisher:
    """Publishes one build file. `receipt_path` remembers what was published last."""

    connector: Connector
    lake_root: Path
    receipt_path: Path
    publish_lock_path: Path

    def publish(self, about: Mapping[str, str], now: datetime) -> Published:
        """Publish the build file's content, unless it is what was published last."""
        started = time.perf_counter()
        target = self.connector.published_path
        with (
            locked(self.publish_lock_path, self.connector.lock_timeout, "publish"),
            _beside(target) as temporary,
        ):
            with locked(self.connector.lock_path, self.connector.lock_timeout, "copy the warehouse for publishing"):
                lock_started = time.perf_counter()
                edition = self._edition(about)
                changed = not self._is_published(edition)
                if changed:
                    shutil.copyfile(self.connector.build_path, temporary)
                locked_seconds = time.perf_counter() - lock_started
            if changed:
                self._finish(temporary, edition, now)
                _replace(temporary, target)
                self._remember(edition, now)
        return Published(
            path=target,
            changed=changed,
            revision=edition.revision,
            size_bytes=target.stat().st_size,
            lake_file_count=edition.sources.count,
            missing_lake_file_count=len(edition.sources.missing),
            locked_seconds=locked_seconds,
            seconds=time.perf_counter() - started,
        )

    def _edition(self, about: Mapping[str, str]) -> _Edition:
        """Read the build file's state, and leave everything in that one file, nothing in its write-ahead log."""
        root = self.lake_root.resolve()
        with self.connector.build_unlocked("publish") as connection:
            [(version,)] = connection.execute("SELECT schema_version FROM internal.meta").fetchall()
            revision, ledger = _state(connection)
            sources = _sources(connection, self.lake_root)
            connection.execute("CHECKPOINT")
            [(storage,)] = connection.execute(
                "SELECT tags['storage_version'] FROM duckdb_databases() WHERE database_name = 'warehouse'"
            ).fetchall()
        return _Edition(
            schema_version=version,
            revision=revision,
            ledger=ledger,
            storage_version=storage.rstrip("+"),
            lake_root=str(root),
            about=dict(about),
            sources=sources,
        )

    def is_due(self, every: timedelta | None, now: datetime) -> bool:
        """Whether the last publication is as old as `every` says, or there is none; None: never."""
        if every is None:
            return False
        last = self.last()
        # one of the future was made before the clock was put back
        return last is None or not timedelta(0) <= now - last.published_at < every

    def last(self) -> Publication | None:
        """The publication that analysts open now; None: there is none, or its receipt is lost."""
        receipt = self._receipt()
        try:
            last = Publication(datetime.fromisoformat(receipt["published_at"]), int(receipt["revision"]))
        except (ValueError, KeyError, TypeError):
            return None
        return last if self.connector.published_path.exists() else None

    def unpublished(self) -> int | None:
        """Revision of the build file that is not published yet; None: there is none."""
        with self.connector.build("read the ledger") as connection:
            revision, ledger = _state(connection)
        is_last = (
            self.last() is not None and self._receipt().items() >= {"revision": revision, "ledger": ledger}.items()
        )
        # 0: nothing was loaded so far; a build file that is made anew is no news
        return revision if revision and not is_last else None

    def relocate(self) -> int | None:
        """Make the views of the published file find the lake where it lies now; None where they do already.

        Only the published file and the lake are needed. Returns the number of lake files found.

        Raises:
            NotPublishedError: nothing was published yet.
            LakeFileError: no file of the lake is there; nothing was changed.
        """
        target, root = self.connector.published_path, self.lake_root.resolve()
        with (
            locked(self.publish_lock_path, self.connector.lock_timeout, "mend the published file"),
            _beside(target) as temporary,
        ):
            with self.connector.published() as connection:
                told = connection.execute("SELECT value FROM about WHERE name = 'lake_root'").fetchall()
                sources = _sources(connection, self.lake_root)
            if told == [(str(root),)]:
                return None
            if sources.missing and not sources.count:
                raise LakeFileError(
                    f"None of the {len(sources.missing)} lake files that {target.name} names lies under {root}. Nothing was "
                    "changed. Bring the folder lake there as well, then try again."
                )
            shutil.copyfile(target, temporary)
            temporary.chmod(0o644)
            connection = self.connector.open_file(temporary)
            try:
                _make_views(connection, sources)
                facts = {
                    "lake_root": str(root),
                    "lake_file_count": str(sources.count),
                    "missing_lake_file_count": str(len(sources.missing)),
                }
                for name, value in facts.items():
                    connection.execute("UPDATE about SET value = ? WHERE name = ?", [value, name])
                connection.execute("CHECKPOINT")
            finally:
                connection.close()
            _replace(temporary, target)
        return sources.count

    def _is_published(self, edition: _Edition) -> bool:
        receipt = self._receipt()
        receipt.pop("published_at", None)
        try:
            return receipt == edition.receipt() | {"file": self._file_mark()}
        except FileNotFoundError:
            return False

    def _receipt(self) -> dict[str, Any]:
        """What was written down of the last publication; nothing where that is lost."""
        try:
            receipt = json.loads(self.receipt_path.read_bytes())
        except (FileNotFoundError, ValueError):
            return {}
        return receipt if isinstance(receipt, dict) else {}

    def _remember(self, edition: _Edition, now: datetime) -> None:
        receipt = edition.receipt() | {"file": self._file_mark(), "published_at": now.isoformat()}
        files.write(self.receipt_path, json.dumps(receipt).encode())

    def _file_mark(self) -> list[int]:
        """Tells whether the published file is still the one that was put there."""
        found = self.connector.published_path.stat()
        return [found.st_ino, found.st_size, found.st_mtime_ns]

    def _finish(self, copy: Path, edition: _Edition, now: datetime) -> None:
        """Make the copy what analysts open."""
        connection = self.connector.open_file(copy)
        try:
            for internal in _INTERNAL:
                connection.execute(f"DROP {internal}")
            for table, columns in INTERNAL_COLUMNS.items():
                for column in columns:
                    connection.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
            _make_views(connection, edition.sources)
            connection.execute(create_table(tables.ABOUT))
            for statement_of_question in questions():
                connection.execute(statement_of_question)
            for comment in comments(tables.ABOUT):
                connection.execute(comment)
            facts = {
                "attribution": _ATTRIBUTION,
                **edition.about,
                "published_at": now.isoformat(timespec="seconds"),
                "revision": str(edition.revision),
                "schema_version": edition.schema_version,
                "storage_version": edition.storage_version,
                "duckdb_version": duckdb.__version__,
                "lake_root": edition.lake_root,
                "lake_file_count": str(edition.sources.count),
                "missing_lake_file_count": str(len(edition.sources.missing)),
            }
            connection.executemany("INSERT INTO about VALUES (?, ?)", [[name, value] for name, value in facts.items()])
            connection.execute("CHECKPOINT")
        finally:
            connection.close()
        if edition.sources.missing:
            _log.warning(
                "%d lake files are gone, %s among them; their bodies are left out of article_bodies. Convert their "
                "archives again and publish.",
                len(edition.sources.missing),
                edition.sources.missing[0],
            )


def _state(connection: duckdb.DuckDBPyConnection) -> tuple[int, str]:
    """The revision of the build file, and a digest of its ledger: one that was made anew counts from the beginning."""
    [(revision, ledger)] = connection.execute(
        "SELECT revision, (SELECT CAST(bit_xor(hash(loads)) AS VARCHAR) FROM loads) FROM internal.meta"
    ).fetchall()
    return int(revision), str(ledger)


@contextlib.contextmanager
def _beside(target: Path) -> Iterator[Path]:
    """The name of the file that is to take the target's place, for whoever holds the lock of publishing.

    What lies there goes: what a kill left before, and what a failure leaves after, which would keep a full disk full.
    """
    _sweep(target)
    try:
        yield target.with_name(f"{target.name}.{os.getpid()}.tmp")
    finally:
        _sweep(target)


def _sweep(target: Path) -> None:
    for leftover in target.parent.glob(f"{target.name}.*.tmp*"):
        if leftover.is_dir():  # what did not fit into the memory
            shutil.rmtree(leftover, ignore_errors=True)
        else:
            leftover.unlink(missing_ok=True)


def _sources(connection: duckdb.DuckDBPyConnection, lake_root: Path) -> _Sources:
    """What the ledger names, by whether it is there."""
    root = lake_root.resolve()
    named = connection.execute(
        "SELECT lake_path FROM loads WHERE table_name = 'article_changes' AND row_count > 0 ORDER BY batch_hour, lake_path"
    ).fetchall()
    paths = [root / relative for (relative,) in named]
    kept = versions(connection, lake_root)
    wanted = [*paths, *(Path(path) for version in kept for path in version.paths)]
    missing = {path for path in wanted if not path.exists()}
    return _Sources(
        files=tuple(str(path) for path in paths if path not in missing),
        snapshots=tuple(
            replace(version, paths=tuple(path for path in version.paths if Path(path) not in missing))
            for version in kept
        ),
        missing=tuple(path.relative_to(root).as_posix() for path in wanted if path in missing),
    )


def _make_views(connection: duckdb.DuckDBPyConnection, sources: _Sources) -> None:
    """Make the views over the lake, or make them anew; a part without files would not be a query."""
    present = [version for version in sources.snapshots if version.paths]
    bodies = [version.bodies() for version in present]
    if sources.files:
        names = ", ".join(quoted(name) for name in sources.files)
        bodies.insert(0, statement("article_bodies").replace("{files}", f"[{names}]"))
    views = {
        "article_bodies": (tables.ARTICLE_BODIES, bodies),
        "snapshot_articles": (tables.SNAPSHOT_ARTICLES.narrow, [version.pages() for version in present]),
        "internal.snapshot_pages": (tables.ARTICLES, [version.articles() for version in present]),
        "internal.snapshot_states": (None, [version.states() for version in present]),
    }
    for name, (table, parts) in views.items():
        nothing = _nothing(table) if table is not None else statement("snapshot_states_empty")
        connection.execute(f"CREATE OR REPLACE VIEW {name} AS\n" + "\nUNION ALL\n".join(parts or [nothing]))
    for table in LAKE_VIEWS:
        for comment in comments(table, "VIEW"):
            connection.execute(comment)


def _nothing(table: tables.Table) -> str:
    """A query of the table's columns without rows."""
    columns = ", ".join(f"CAST(NULL AS {sql_type(c.type)}) AS {identifier(c.name)}" for c in table)
    return f"SELECT {columns} WHERE false"


def _replace(temporary: Path, target: Path) -> None:
    """Put the finished file in place, durably."""
    temporary.chmod(0o444)
    files.sync(temporary)
    temporary.replace(target)
    # Left by somebody who opened the old file for writing; it does not belong to the new one and would break it.
    target.with_name(target.name + ".wal").unlink(missing_ok=True)
    files.sync(target.parent)
