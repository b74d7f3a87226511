"""Publishing: a new file beside the old one, then one rename; nobody waits and nobody sees half of it.

The build file is checkpointed and copied under the lock, which is the only time in which no load can run. All the
rest happens on the copy: what is internal is dropped, the views over the lake are made, the file is synced and takes
the place of the old one. A reader that has the old file open keeps it; a kill at any point leaves the old file
whole, and what it left over is swept by the next publication; after a failure nothing is left over.

After the data folder was moved, publishing again makes the views find the lake, and so does `relocate`, which needs neither
the build file nor a run.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import duckdb

from resources import files
from resources.formatting import counted
from resources.tables import ABOUT
from resources.warehouse.database.connect import locked
from resources.warehouse.database.schema import INTERNAL_COLUMNS, comments, create_table
from resources.warehouse.errors import LakeFileError
from resources.warehouse.records import Publication, Published
from resources.warehouse.views.analysts import questions
from resources.warehouse.views.lake import make_views, sources

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from resources.warehouse.database.connect import Connector
    from resources.warehouse.views.lake import Sources

_log = logging.getLogger(__name__)

_ATTRIBUTION = (
    "Texts are by the contributors of the projects, under the licences that the column `license` names (CC BY-SA 4.0 for "
    "most). Keep the attribution: project, title, revision."
)
#: What the build file holds for itself.
_INTERNAL = (
    "VIEW internal.candidates",
    "VIEW internal.looked_up",
    "VIEW internal.bases",
    "TABLE internal.titles",
    "TABLE internal.pages",
    "TABLE internal.ended_entities",
    "TABLE internal.meta",
)


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
        with self._replacing("publish") as temporary:
            with locked(self.connector.lock_path, self.connector.lock_timeout, "copy the warehouse for publishing"):
                lock_started = time.perf_counter()
                receipt, found = self._checkpoint(about)
                changed = not self._is_published(receipt)
                if changed:
                    shutil.copyfile(self.connector.build_path, temporary)
                locked_seconds = time.perf_counter() - lock_started
            if changed:
                self._finish(temporary, receipt, found, now)
                _replace(temporary, target)
                self._remember(receipt, now)
        return Published(
            path=target,
            changed=changed,
            revision=receipt["revision"],
            size_bytes=target.stat().st_size,
            lake_file_count=found.count,
            missing_lake_file_count=len(found.missing),
            locked_seconds=locked_seconds,
            seconds=time.perf_counter() - started,
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
            state = _state(connection)
        is_last = self.last() is not None and self._receipt().items() >= state.items()
        # 0: nothing was loaded so far; a build file that is made anew is no news
        return None if is_last else state["revision"] or None

    def relocate(self) -> int | None:
        """Make the views of the published file find the lake where it is now; None where they do already.

        Only the published file and the lake are needed. Returns the number of lake files found.

        Raises:
            NotPublishedError: nothing was published yet.
            LakeFileError: no file of the lake is there; nothing was changed.
        """
        target, root = self.connector.published_path, self.lake_root.resolve()
        with self._replacing("mend the published file") as temporary:
            with self.connector.published() as connection:
                known = connection.execute("SELECT value FROM about WHERE name = 'lake_root'").fetchall()
                found = sources(connection, self.lake_root)
            if known == [(str(root),)]:
                return None
            if found.missing and not found.count:
                raise LakeFileError(
                    f"None of the {len(found.missing)} lake files that {target.name} names lies under {root}. Nothing was "
                    "changed. Bring the folder lake there as well, then try again."
                )
            shutil.copyfile(target, temporary)
            temporary.chmod(0o644)
            with self.connector.open_file(temporary) as connection:
                make_views(connection, found)
                for name, value in _lake_facts(root, found).items():
                    connection.execute("UPDATE about SET value = ? WHERE name = ?", [value, name])
                connection.execute("CHECKPOINT")
            _replace(temporary, target)
        return found.count

    @contextlib.contextmanager
    def _replacing(self, purpose: str) -> Iterator[Path]:
        """The name of the file that is to take the published one's place, under the lock of publishing.

        What lies there goes: what a kill left before, and what a failure leaves after, which would keep a full disk full.
        """
        target = self.connector.published_path
        with locked(self.publish_lock_path, self.connector.lock_timeout, purpose):
            _sweep(target)
            try:
                yield target.with_name(f"{target.name}.{os.getpid()}.tmp")
            finally:
                _sweep(target)

    def _checkpoint(self, about: Mapping[str, str]) -> tuple[dict[str, Any], Sources]:
        """What is to be published and the words by which it is recognised later; all of it is in the one file then.

        Revision and ledger stand for everything in the build file.
        """
        with self.connector.build_unlocked("publish") as connection:
            [(version,)] = connection.execute("SELECT schema_version FROM internal.meta").fetchall()
            state, found = _state(connection), sources(connection, self.lake_root)
            connection.execute("CHECKPOINT")
            [(storage,)] = connection.execute(
                "SELECT tags['storage_version'] FROM duckdb_databases() WHERE database_name = 'warehouse'"
            ).fetchall()
        receipt = {
            "schema_version": version,
            **state,
            "storage_version": storage.rstrip("+"),
            "lake_root": str(self.lake_root.resolve()),
            "about": dict(about),
            "lake_files": found.count,
            "missing_lake_files": list(found.missing),
            "snapshots": found.versions,
        }
        return receipt, found

    def _is_published(self, receipt: dict[str, Any]) -> bool:
        last = self._receipt()
        last.pop("published_at", None)
        try:
            return last == receipt | {"file": self._file_mark()}
        except FileNotFoundError:
            return False

    def _receipt(self) -> dict[str, Any]:
        """What was written down of the last publication; nothing where that is lost."""
        try:
            receipt = json.loads(self.receipt_path.read_bytes())
        except (FileNotFoundError, ValueError):
            return {}
        return receipt if isinstance(receipt, dict) else {}

    def _remember(self, receipt: dict[str, Any], now: datetime) -> None:
        known = receipt | {"file": self._file_mark(), "published_at": now.isoformat()}
        files.write(self.receipt_path, json.dumps(known).encode())

    def _file_mark(self) -> list[int]:
        """Tells whether the published file is still the one that was put there."""
        found = self.connector.published_path.stat()
        return [found.st_ino, found.st_size, found.st_mtime_ns]

    def _finish(self, copy: Path, receipt: dict[str, Any], found: Sources, now: datetime) -> None:
        """Make the copy what analysts open."""
        facts = {
            "attribution": _ATTRIBUTION,
            **receipt["about"],
            "published_at": now.isoformat(timespec="seconds"),
            **{name: str(receipt[name]) for name in ("revision", "schema_version", "storage_version")},
            "duckdb_version": duckdb.__version__,
            **_lake_facts(self.lake_root.resolve(), found),
        }
        with self.connector.open_file(copy) as connection:
            for internal in _INTERNAL:
                connection.execute(f"DROP {internal}")
            for table, columns in INTERNAL_COLUMNS.items():
                for column in columns:
                    connection.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
            make_views(connection, found)
            for statement in (create_table(ABOUT), *questions(), *comments(ABOUT)):
                connection.execute(statement)
            connection.executemany("INSERT INTO about VALUES (?, ?)", [[name, value] for name, value in facts.items()])
            connection.execute("CHECKPOINT")
        if found.missing:
            _log.warning(
                "Missing: %s (%s first), whose bodies are left out. Convert the archives again and publish.",
                counted(len(found.missing), "lake file"),
                found.missing[0],
            )


def _lake_facts(root: Path, found: Sources) -> dict[str, str]:
    """What `about` says of the lake."""
    return {
        "lake_root": str(root),
        "lake_file_count": str(found.count),
        "missing_lake_file_count": str(len(found.missing)),
    }


def _state(connection: duckdb.DuckDBPyConnection) -> dict[str, Any]:
    """The revision of the build file, and a digest of its ledger: one that was made anew counts from the beginning."""
    [(revision, ledger)] = connection.execute(
        "SELECT revision, (SELECT CAST(bit_xor(hash(loads)) AS VARCHAR) FROM loads) FROM internal.meta"
    ).fetchall()
    return {"revision": int(revision), "ledger": str(ledger)}


def _sweep(target: Path) -> None:
    for leftover in target.parent.glob(f"{target.name}.*.tmp*"):
        if leftover.is_dir():  # what did not fit into the memory
            shutil.rmtree(leftover, ignore_errors=True)
        else:
            leftover.unlink(missing_ok=True)


def _replace(temporary: Path, target: Path) -> None:
    """Put the finished file in place, durably."""
    temporary.chmod(0o444)
    files.sync(temporary)
    temporary.replace(target)
    # Left by somebody who opened the old file for writing; it does not belong to the new one and would break it.
    target.with_name(target.name + ".wal").unlink(missing_ok=True)
    files.sync(target.parent)
