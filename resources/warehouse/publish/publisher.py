"""Publishing: a new file beside the old one, then one rename; nobody waits and nobody sees half of it.

The new file is made of the standby, the file that was published before the present one: the blocks of the build file that differ are written
over it. Where there is no standby, or a reader still has it open, the build file is copied whole. Then what is internal is dropped,
the views find the files of the lake, the file is synced and takes the place of the published one, which becomes the standby.

A reader that has an old file open keeps it. A kill at any point leaves the published file whole; what it left over is swept by the
next publication, and after a failure nothing is left over. A standby is always a file that was published once: while it is
written it has another name, under which it is swept.

After the data folder was moved, publishing again makes the views find the lake, and so does `relocate`, which needs neither
the build file nor a run.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import time
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import duckdb

from resources import files
from resources.datasets.live import LIVE_CHANGES
from resources.errors import clause
from resources.formatting import counted
from resources.tables import ARTICLE_CHANGES
from resources.warehouse.database.connect import is_exhausted, locked
from resources.warehouse.database.schema import INTERNAL_COLUMNS
from resources.warehouse.database.sql import transaction
from resources.warehouse.errors import LakeFileError, NotPublishedError, QueryError, WarehouseFullError
from resources.warehouse.faulty import named
from resources.warehouse.live.beside import FOLDER, folder_of
from resources.warehouse.publish.copying import copy_build
from resources.warehouse.read.faults import Looked
from resources.warehouse.records import Published, copied_text
from resources.warehouse.views.lake import make_views, mend_views, sources

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import datetime
    from pathlib import Path

    from resources.warehouse.database.connect import Connector
    from resources.warehouse.live.beside import Beside
    from resources.warehouse.publish.receipt import Receipt
    from resources.warehouse.publish.standby import Standby
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
    "TABLE internal.row_groups",
    "TABLE internal.meta",
)


@dataclass(frozen=True)
class Publisher:
    """Publishes one build file."""

    connector: Connector
    lake_root: Path
    receipt: Receipt
    standby: Standby
    beside: Beside
    publish_lock_path: Path

    def publish(
        self, about: Mapping[str, str], now: datetime, take_in: Callable[[duckdb.DuckDBPyConnection], None]
    ) -> Published:
        """Publish the build file's content and what `take_in` adds to it, unless it is what was published last.

        Raises:
            WarehouseFullError: disk or memory ran out; what was published before still is.
        """
        started = time.perf_counter()
        target = self.connector.published_path
        whole_because: str | None = None
        unchanged: Sources | None = None

        def read(connection: duckdb.DuckDBPyConnection) -> dict[str, Any]:
            return self._words(connection, about, now)

        def is_wanted(words: dict[str, Any]) -> bool:
            nonlocal unchanged, whole_because
            unchanged = self._published_sources(words)
            if unchanged is None:
                whole_because = self.standby.take(temporary)
            return unchanged is None

        with self._replacing("publish") as temporary:
            copied = copy_build(self.connector, temporary, take_in, read, is_wanted)
            looked_at_ns = time.time_ns()
            found = unchanged or self._finish(temporary, copied.state, now)
            if unchanged is None:
                _make_durable(temporary)
                self.standby.keep()
                _put(temporary, target)
                said = {
                    "copied": copied_text(copied.written_bytes or 0, whole_because),
                    "lake_looked_at_ns": looked_at_ns,
                }
                self.receipt.write(copied.state | _lake_words(found) | said, now)
        return Published(
            path=target,
            changed=unchanged is None,
            revision=copied.state["revision"],
            size_bytes=target.stat().st_size,
            copied_bytes=copied.written_bytes or 0,
            whole_because=whole_because,
            lake_file_count=found.count,
            faulty_lake_files=found.faulty,
            locked_seconds=copied.locked_seconds,
            seconds=time.perf_counter() - started,
        )

    def is_current(self, about: Mapping[str, str], now: datetime) -> bool:
        """Whether nothing is pending and everything is published, so that `publish` would have nothing to do."""
        with self.connector.build("read the ledger") as connection:
            [(pending,)] = connection.execute(
                "SELECT EXISTS (FROM loads WHERE applied_at IS NULL) OR EXISTS (FROM snapshots WHERE applied_at IS NULL)"
            ).fetchall()
            words = self._words(connection, about, now)
        return not pending and self._published_sources(words) is not None

    def is_due(self, every: timedelta | None, now: datetime) -> bool:
        """Whether the last publication is as old as `every` says, or there is none; None: never."""
        if every is None:
            return False
        last = self.receipt.last()
        # one of the future was made before the clock was put back
        return last is None or not timedelta(0) <= now - last.published_at < every

    def unpublished(self) -> int | None:
        """Revision of the build file that is not published yet; None: there is none."""
        with self.connector.build("read the ledger") as connection:
            state = _state(connection)
        # 0: nothing was loaded so far; a build file that is made anew is no news
        return None if self.receipt.says(state) else state["revision"] or None

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
                about = dict(connection.execute("SELECT name, value FROM about").fetchall())
                found = self._with_live(sources(connection, self.lake_root), about)
            if about.get("lake_root") == str(root):
                return None
            if found.missing and not found.count:
                raise LakeFileError(
                    f"None of the {len(found.missing)} lake files that {target.name} names lies under {root}. Nothing was "
                    "changed. Bring the folder lake there as well, then try again."
                )
            shutil.copyfile(target, temporary)
            temporary.chmod(0o644)
            with self.connector.open_file(temporary) as connection:
                mend_views(connection, found)
                for name, value in _lake_facts(root, found).items():
                    connection.execute("UPDATE about SET value = ? WHERE name = ?", [value, name])
                connection.execute("CHECKPOINT")
            _make_durable(temporary)
            _put(temporary, target)
        return found.count

    def _with_live(self, found: Sources, about: Mapping[str, str]) -> Sources:
        """With the folders of the stream that a publication has according to its facts, if it has any."""
        root = self.lake_root.resolve()
        folder = folder_of(root.parent, about)
        if folder is None:
            return found
        return replace(found, live=str(folder), streamed=str(root / LIVE_CHANGES))

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
            except (OSError, duckdb.Error) as error:
                if not (is_exhausted(error) if isinstance(error, duckdb.Error) else files.is_full(error)):
                    raise
                raise WarehouseFullError(
                    f"Disk or memory ran out, so this run could not {purpose} ({clause(error)}). Analysts keep the file that was published "
                    f"before. Make room under {target.parent} (a publication needs space for a copy of {target.name}) or give the "
                    "process more memory, and run it again."
                ) from error
            finally:
                _sweep(target)

    def _words(self, connection: duckdb.DuckDBPyConnection, about: Mapping[str, str], now: datetime) -> dict[str, Any]:
        """What is to be published, in words by which it is recognised later. Revision and ledger stand for everything in the build file."""
        [(version,)] = connection.execute("SELECT schema_version FROM internal.meta").fetchall()
        [(storage,)] = connection.execute(
            "SELECT tags['storage_version'] FROM duckdb_databases() WHERE database_name = 'warehouse'"
        ).fetchall()
        return {
            "schema_version": version,
            **_state(connection),
            "storage_version": storage.rstrip("+"),
            "lake_root": str(self.lake_root.resolve()),
            **({"stream": True} if self.beside.is_used(now) else {}),
            "about": dict(about),
        }

    def _published_sources(self, words: dict[str, Any]) -> Sources | None:
        """The lake files behind the published file, if it is recognised by `words` and none of them has come or gone."""
        if not self.receipt.holds(words):
            return None
        try:
            with self.connector.published() as connection:
                found = sources(connection, self.lake_root, Looked.last(self.lake_root.parent))
            if not self.beside.is_whole():
                return None
        except (NotPublishedError, QueryError):
            return None
        return found if self.receipt.holds(_lake_words(found)) else None

    def _finish(self, copy: Path, words: dict[str, Any], now: datetime) -> Sources:
        """Make the copy what analysts open; returns the lake files behind it."""
        live: dict[str, str] = {}
        if words.get("stream"):
            self.beside.set_damaged_aside()
            live[FOLDER] = self.beside.begin(words["revision"], now)
        facts = {
            "attribution": _ATTRIBUTION,
            **words["about"],
            "published_at": now.isoformat(timespec="seconds"),
            **{name: str(words[name]) for name in ("revision", "schema_version", "storage_version")},
            "duckdb_version": duckdb.__version__,
            **live,
        }
        with self.connector.open_file(copy) as connection:
            found = self._with_live(sources(connection, self.lake_root, Looked.last(self.lake_root.parent)), live)
            try:
                self._dress(connection, found, facts)
            except duckdb.Error:
                # a file may be damaged whose times do not show it: then its footer does
                known, found = found.missing, self._with_live(sources(connection, self.lake_root), live)
                if found.missing == known:
                    raise
                self._dress(connection, found, facts)
            connection.execute("CHECKPOINT")
        if found.faulty:
            _log.warning(
                "%s cannot be read, and their rows are left out of the bodies and of older hours of article_changes: %s. They are made again from "
                "the archive where it has them.",
                counted(len(found.faulty), "lake file"),
                named(found.faulty),
            )
        return found

    def _dress(self, connection: duckdb.DuckDBPyConnection, found: Sources, facts: Mapping[str, str]) -> None:
        """Drop what is internal, and make the views and `about`, in one transaction: each by itself would wait for the disk."""
        facts = {**facts, **_lake_facts(self.lake_root.resolve(), found)}
        with transaction(connection):
            for internal in _INTERNAL:
                connection.execute(f"DROP {internal}")
            for table, columns in INTERNAL_COLUMNS.items():
                # the view over the changes leaves them out
                for column in columns if table != ARTICLE_CHANGES.name else ():
                    connection.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
            make_views(connection, found)
            connection.executemany("INSERT INTO about VALUES (?, ?)", [[name, value] for name, value in facts.items()])


def _lake_facts(root: Path, found: Sources) -> dict[str, str]:
    """What `about` says of the lake."""
    return {
        "lake_root": str(root),
        "lake_file_count": str(found.count),
        "missing_lake_file_count": str(len(found.missing)),
    }


def _lake_words(found: Sources) -> dict[str, Any]:
    """What the receipt says of the lake."""
    return {"lake_files": found.count, "missing_lake_files": list(found.missing), "snapshots": found.versions}


def _state(connection: duckdb.DuckDBPyConnection) -> dict[str, Any]:
    """The revision of the build file, and a digest of its ledger: one that was made anew counts from the beginning."""
    [(revision, ledger)] = connection.execute(
        "SELECT revision, (SELECT CAST(bit_xor(hash(lake_path, loaded_at)) AS VARCHAR) FROM loads) FROM internal.meta"
    ).fetchall()
    return {"revision": int(revision), "ledger": str(ledger)}


def _sweep(target: Path) -> None:
    for leftover in target.parent.glob(f"{target.name}.*.tmp*"):
        if leftover.is_dir():  # what did not fit into the memory
            shutil.rmtree(leftover, ignore_errors=True)
        else:
            leftover.unlink(missing_ok=True)


def _make_durable(finished: Path) -> None:
    """Make a finished file read-only and outlast a loss of power, before it gets its name."""
    finished.chmod(0o444)
    files.sync(finished)


def _put(finished: Path, target: Path) -> None:
    """Put a finished file in place, durably."""
    finished.replace(target)
    # Left by somebody who opened the old file for writing; it does not belong to the new one and would break it.
    target.with_name(target.name + ".wal").unlink(missing_ok=True)
    files.sync(target.parent)
