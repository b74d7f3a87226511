"""Publishing: a new file beside the old one, then one rename; nobody waits and nobody sees half of it.

The build file is checkpointed and copied under the lock, which is the only time in which no load can run. All the
rest happens on the copy: what is internal is dropped, the views over the lake are made, the file is synced and takes
the place of the old one. A reader that has the old file open keeps it; a kill at any point leaves the old file
whole, and what was left over is swept by the next publication.

The views name each lake file by its absolute path, so that they work from any working directory. When the data folder
was moved, publishing again mends them.

Does not belong here: what is published when.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import shutil
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from resources import tables
from resources.warehouse import snapshots
from resources.warehouse.connect import locked
from resources.warehouse.questions import questions
from resources.warehouse.records import Published
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

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from resources.warehouse.connect import Connector
    from resources.warehouse.snapshots import Version

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
class _Edition:
    """What is about to be published: the build file's state, and the lake files that are there."""

    schema_version: str
    revision: int
    storage_version: str
    lake_root: str
    about: dict[str, str]
    lake_files: tuple[str, ...]
    missing_lake_files: tuple[str, ...]
    snapshots: tuple[Version, ...]

    @property
    def lake_file_count(self) -> int:
        """Files that the views read."""
        return len(self.lake_files) + sum(len(version.paths) for version in self.snapshots)

    def receipt(self) -> dict[str, Any]:
        """The words by which it is recognised later. The revision stands for everything in the build file."""
        known = asdict(self)
        known["lake_files"] = len(self.lake_files)
        known["snapshots"] = [[version.snapshot_id, version.snapshot_version] for version in self.snapshots]
        known["missing_lake_files"] = list(self.missing_lake_files)
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
        with locked(self.publish_lock_path, self.connector.lock_timeout, "publish"):
            for leftover in _leftovers(target):
                leftover.unlink(missing_ok=True)
            temporary = target.with_name(f"{target.name}.{os.getpid()}.tmp")
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
                self._remember(edition)
        return Published(
            path=target,
            changed=changed,
            revision=edition.revision,
            size_bytes=target.stat().st_size,
            lake_file_count=edition.lake_file_count,
            missing_lake_file_count=len(edition.missing_lake_files),
            locked_seconds=locked_seconds,
            seconds=time.perf_counter() - started,
        )

    def _edition(self, about: Mapping[str, str]) -> _Edition:
        """Read the build file's state, and leave everything in that one file, nothing in its write-ahead log."""
        root = self.lake_root.resolve()
        with self.connector.build_unlocked("publish") as connection:
            version, revision = connection.execute("SELECT schema_version, revision FROM internal.meta").fetchall()[0]
            named = connection.execute(
                "SELECT lake_path FROM loads WHERE table_name = 'article_changes' AND row_count > 0 "
                "ORDER BY batch_hour, lake_path"
            ).fetchall()
            kept = snapshots.versions(connection, self.lake_root)
            connection.execute("CHECKPOINT")
        paths = {relative: root / relative for (relative,) in named}
        missing = [relative for relative, path in paths.items() if not path.exists()]
        for snapshot in kept:
            missing += [str(Path(path).relative_to(root)) for path in snapshot.paths if not Path(path).exists()]
        return _Edition(
            schema_version=version,
            revision=revision,
            storage_version=self.connector.storage_version,
            lake_root=str(root),
            about=dict(about),
            lake_files=tuple(str(path) for path in paths.values() if path.exists()),
            missing_lake_files=tuple(missing),
            snapshots=tuple(
                replace(snapshot, paths=tuple(path for path in snapshot.paths if Path(path).exists()))
                for snapshot in kept
            ),
        )

    def _is_published(self, edition: _Edition) -> bool:
        try:
            last = json.loads(self.receipt_path.read_bytes())
            return bool(last == edition.receipt() | {"file": self._file_mark()})
        except (FileNotFoundError, ValueError):
            return False

    def _remember(self, edition: _Edition) -> None:
        temporary = self.receipt_path.with_suffix(".tmp")
        temporary.write_text(json.dumps(edition.receipt() | {"file": self._file_mark()}), encoding="utf-8")
        temporary.replace(self.receipt_path)

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
            for view, parts in _lake_views(edition).items():
                connection.execute(f"CREATE VIEW {view.name} AS\n" + "\nUNION ALL\n".join(parts))
            connection.execute(create_table(tables.ABOUT))
            for question in questions(edition.snapshots):
                connection.execute(question)
            described = [*(comments(view, "VIEW") for view in LAKE_VIEWS), comments(tables.ABOUT)]
            for comment in itertools.chain.from_iterable(described):
                connection.execute(comment)
            facts = {
                "attribution": _ATTRIBUTION,
                **edition.about,
                "published_at": now.isoformat(timespec="seconds"),
                "revision": str(edition.revision),
                "schema_version": str(tables.SCHEMA_VERSION),
                "storage_version": edition.storage_version,
                "duckdb_version": duckdb.__version__,
                "lake_root": edition.lake_root,
                "lake_file_count": str(edition.lake_file_count),
                "missing_lake_file_count": str(len(edition.missing_lake_files)),
            }
            connection.executemany("INSERT INTO about VALUES (?, ?)", [[name, value] for name, value in facts.items()])
            connection.execute("CHECKPOINT")
        finally:
            connection.close()
        if edition.missing_lake_files:
            _log.warning(
                "%d lake files are gone, %s among them; their bodies are left out of article_bodies. Convert their "
                "archives again and publish.",
                len(edition.missing_lake_files),
                edition.missing_lake_files[0],
            )


def _leftovers(target: Path) -> Iterator[Path]:
    for pattern in ("*.tmp", "*.tmp.wal"):
        yield from target.parent.glob(f"{target.name}.{pattern}")


def _lake_views(edition: _Edition) -> dict[tables.Table, list[str]]:
    """What each view over the lake puts together; a part without files would not be a query."""
    present = [version for version in edition.snapshots if version.paths]
    bodies, pages = [version.bodies() for version in present], [version.pages() for version in present]
    if edition.lake_files:
        names = ", ".join(quoted(name) for name in edition.lake_files)
        bodies.insert(0, statement("article_bodies").replace("{files}", f"[{names}]"))
    views = {tables.ARTICLE_BODIES: bodies, tables.SNAPSHOT_ARTICLES.narrow: pages}
    return {table: parts or [_nothing(table)] for table, parts in views.items()}


def _nothing(table: tables.Table) -> str:
    """A query of the table's columns without rows."""
    columns = ", ".join(f"CAST(NULL AS {sql_type(c.type)}) AS {identifier(c.name)}" for c in table)
    return f"SELECT {columns} WHERE false"


def _replace(temporary: Path, target: Path) -> None:
    """Put the finished file in place, durably."""
    temporary.chmod(0o444)
    _sync(temporary)
    temporary.replace(target)
    # Left by somebody who opened the old file for writing; it does not belong to the new one and would break it.
    target.with_name(target.name + ".wal").unlink(missing_ok=True)
    _sync(target.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
