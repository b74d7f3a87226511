"""Snapshots: whole projects as the service held them, underneath the changes.

Belongs here: taking in the files of one version, all or nothing; which versions are kept. Does not belong here: reading their
rows (`snapshot_rows`); which of them are the current articles (`current`).

The rows stay in the lake: a version holds every page of its project with all columns, several versions are kept, and
`articles` holds the rows that count natively anyhow. DuckDB knows of each version what the files are, which of their rows
are repeated, and its boundary: the greatest `event_at` of its rows less ten minutes. What happened before is in the snapshot.

All rows that stem from a version have one `batch_hour`: the boundary and a part of a second that is taken from the version.
It is no full hour and no other version's, so that `batch_hour` tells one source, and the join of pages with their bodies is
the same for all rows. Nothing depends on the order in which versions were loaded.
"""

from __future__ import annotations

import hashlib
import time
from datetime import timedelta
from typing import TYPE_CHECKING

import duckdb

from resources.tables import LOADS, REJECTS, SNAPSHOT_ARTICLES
from resources.warehouse.connect import answer, is_exhausted, raise_revision, transaction
from resources.warehouse.errors import LakeFileError
from resources.warehouse.load.hours import check_counts, checked_row_count
from resources.warehouse.load.snapshot_rows import Version
from resources.warehouse.records import SnapshotLoad
from resources.warehouse.schema import column_list

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime
    from pathlib import Path

    from resources.warehouse.records import Snapshot, SnapshotFile

#: How far before its newest row a snapshot may still lack a change.
MARGIN = timedelta(minutes=10)
_MICROSECOND = timedelta(microseconds=1)
#: Over how many microseconds the versions are spread.
_SPREAD = 999_000
#: Digits of the version that stand in the name of its folder.
_FOLDER_DIGITS = 8
#: Damaged files that are named.
_SHOWN = 5
#: Columns of its rejects that every line of a snapshot shares.
_OF_THE_SNAPSHOT = ("batch_hour", "project_id", "namespace_id")


def load_snapshot(
    connection: duckdb.DuckDBPyConnection,
    lake_root: Path,
    snapshot: Snapshot,
    now: datetime,
    *,
    keep_replaced: int,
    reload: bool,
) -> SnapshotLoad:
    """Take in one version, whole or not at all, and let go of the versions that are too many.

    Raises:
        LakeFileError: a file is absent or does not hold what was said about it; nothing was changed.
        ValueError: the arguments contradict one another.
    """
    started = time.perf_counter()
    _check_arguments(snapshot, keep_replaced)
    with transaction(connection):
        known = answer(
            connection,
            "SELECT boundary_at, row_count, duplicate_count, batch_hour FROM snapshots WHERE snapshot_id = ? AND snapshot_version = ?",
            [snapshot.snapshot_id, snapshot.snapshot_version],
        )
        held = dict(
            connection.execute(
                "SELECT identifier, digest FROM loads WHERE table_name = ? AND project_id = ? AND namespace_id = ? "
                "AND batch_hour = ?",
                [SNAPSHOT_ARTICLES.name, snapshot.project_id, snapshot.namespace_id, known[0][3] if known else None],
            ).fetchall()
        )
        changed = reload or not known or held != {file.identifier: file.digest for file in snapshot.files}
        before = _base(connection, snapshot)
        dropped: list[str] = []
        released: list[str] = []
        if changed:
            if known:
                released += _drop(connection, snapshot.project_id, snapshot.namespace_id, snapshot.snapshot_version)
            boundary, row_count, duplicates = _take_in(connection, lake_root, snapshot, now)
            for version in _too_many(connection, snapshot, 1 + keep_replaced):
                released += _drop(connection, snapshot.project_id, snapshot.namespace_id, version)
                dropped.append(version)
            kept = {path for (path,) in connection.execute("SELECT lake_path FROM loads").fetchall()}
            released = [path for path in released if path not in kept]
            raise_revision(connection)
        else:
            boundary, row_count, duplicates, _ = known[0]
        base = _base(connection, snapshot)
        is_base = base == snapshot.snapshot_version
        if changed and not is_base:
            _mark(connection, snapshot, snapshot.snapshot_version, now)
        if base != before:
            _mark(connection, snapshot, base, None)
    return SnapshotLoad(
        snapshot_id=snapshot.snapshot_id,
        snapshot_version=snapshot.snapshot_version,
        changed=changed,
        is_base=is_base,
        boundary_at=boundary,
        file_count=len(snapshot.files),
        row_count=row_count,
        duplicate_count=duplicates,
        reject_count=sum(file.reject_count for file in snapshot.files),
        dropped_versions=tuple(dropped),
        released_lake_paths=tuple(released),
        seconds=time.perf_counter() - started,
    )


def _check_arguments(snapshot: Snapshot, keep_replaced: int) -> None:
    if keep_replaced < 0:
        raise ValueError(f"{keep_replaced} replaced versions cannot be kept; 0 is the least.")
    identifiers = [file.identifier for file in snapshot.files]
    if len(set(identifiers)) < len(identifiers):
        raise ValueError(f"Snapshot {snapshot.snapshot_id} has two files of one identifier.")
    if len(identifiers) != snapshot.file_count:
        raise LakeFileError(
            f"Snapshot {snapshot.snapshot_id} is not whole: {len(identifiers)} of its {snapshot.file_count} files are there. "
            "Nothing was changed, the version loaded before still counts. Fetch and convert the rest, and load it again."
        )


def _take_in(
    connection: duckdb.DuckDBPyConnection, lake_root: Path, snapshot: Snapshot, now: datetime
) -> tuple[datetime, int, int]:
    """Ledger, rejects and repeated rows of a version; returns its boundary, rows and duplicates."""
    relatives = [_lake_path(lake_root, snapshot, file) for file in snapshot.files]
    for file in snapshot.files:
        check_counts(file, checked_row_count(file.path, SNAPSHOT_ARTICLES))
    row_count = sum(file.row_count for file in snapshot.files)
    if not row_count:
        raise LakeFileError(
            f"Snapshot {snapshot.snapshot_id} holds no page, which cannot be: the service leaves empty ones out. Nothing was "
            "changed. Look at its rejects, then convert its archives again."
        )
    full = [str(file.path.resolve()) for file in snapshot.files if file.row_count]
    try:
        newest = _newest(connection, snapshot, full)
        boundary = newest - MARGIN
        hour = _batch_hour(connection, snapshot, boundary)
        version = Version(
            snapshot_id=snapshot.snapshot_id,
            snapshot_version=snapshot.snapshot_version,
            project_id=snapshot.project_id,
            namespace_id=snapshot.namespace_id,
            batch_hour=hour,
            paths=tuple(full),
        )
        duplicates = int(connection.execute(version.shadow()).fetchall()[0][0])
    except duckdb.Error as error:
        if is_exhausted(error):
            raise
        raise _unreadable(snapshot, error) from error
    for file, relative in zip(snapshot.files, relatives, strict=True):
        _insert_rejects(connection, snapshot, file, hour)
        values = {
            "table_name": SNAPSHOT_ARTICLES.name,
            "batch_hour": hour,
            "project_id": snapshot.project_id,
            "namespace_id": snapshot.namespace_id,
            "lake_path": relative,
            "duplicate_count": _shadowed_in(connection, snapshot, file),
            "loaded_at": now,
            "applied_at": None,
        }
        row = [values[c.name] if c.name in values else getattr(file, c.name) for c in LOADS]
        marks = ", ".join("?" * len(row))
        connection.execute(f"INSERT INTO loads ({column_list(LOADS)}) VALUES ({marks})", row)  # noqa: S608  declared names
    connection.execute(
        "INSERT INTO snapshots VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULL)",
        [
            *(snapshot.snapshot_id, snapshot.snapshot_version, snapshot.project_id, snapshot.namespace_id),
            *(boundary, hour, newest, snapshot.exported_at, len(snapshot.files), row_count, duplicates, now),
        ],
    )
    return boundary, row_count, duplicates


def _unreadable(snapshot: Snapshot, error: duckdb.Error) -> LakeFileError:
    """The failure to read the files of a version together, as a sentence that names those at fault: each is read alone."""
    source = f"SELECT {column_list(SNAPSHOT_ARTICLES.narrow)} FROM read_parquet($1, hive_partitioning := false)"  # noqa: S608
    query = f"SELECT bit_xor(hash(page)) FROM ({source}) AS page"  # noqa: S608
    damaged = []
    with duckdb.connect() as alone:
        for file in snapshot.files:
            try:
                alone.execute(query, [str(file.path)]).fetchall()
            except duckdb.Error:
                damaged.append(file.path.name)
    which = f"{len(damaged)} of them are damaged: {', '.join(damaged[:_SHOWN])}. " if damaged else ""
    return LakeFileError(
        f"The {len(snapshot.files)} files of snapshot {snapshot.snapshot_id} could not be read ({error}); nothing was loaded. "
        f"{which}Remove {'these' if damaged else 'them'} and convert the archives again; what is converted is kept."
    )


def _newest(connection: duckdb.DuckDBPyConnection, snapshot: Snapshot, paths: Sequence[str]) -> datetime:
    """Greatest event_at of the rows, after looking whether all of them are of this version."""
    newest, strangers = answer(
        connection,
        "SELECT max(event_at), count_if(snapshot_id IS DISTINCT FROM $identifier OR snapshot_version IS DISTINCT FROM $version "
        "OR project_id IS DISTINCT FROM $project OR namespace_id IS DISTINCT FROM $namespace) "
        "FROM read_parquet($paths, hive_partitioning = false)",
        {
            "paths": list(paths),
            "identifier": snapshot.snapshot_id,
            "version": snapshot.snapshot_version,
            "project": snapshot.project_id,
            "namespace": snapshot.namespace_id,
        },
    )[0]
    if strangers:
        raise LakeFileError(
            f"The files of snapshot {snapshot.snapshot_id} hold {strangers} rows of another snapshot, version, project or "
            "namespace; nothing was loaded. Remove them and convert the archives again."
        )
    found: datetime = newest
    return found


def _batch_hour(connection: duckdb.DuckDBPyConnection, snapshot: Snapshot, boundary: datetime) -> datetime:
    """What stands as `batch_hour` with the rows: within a second of the boundary, no full hour, no other version's."""
    digest = hashlib.md5(
        f"{snapshot.snapshot_id}\n{snapshot.snapshot_version}".encode(), usedforsecurity=False
    ).digest()
    hour = boundary + _MICROSECOND * (1 + int.from_bytes(digest[:8]) % _SPREAD)
    taken = {
        found
        for (found,) in answer(
            connection, "SELECT batch_hour FROM snapshots WHERE project_id = ?", [snapshot.project_id]
        )
    }
    while hour in taken or (hour.minute, hour.second, hour.microsecond) == (0, 0, 0):
        hour += _MICROSECOND
    return hour


def _base(connection: duckdb.DuckDBPyConnection, snapshot: Snapshot) -> str | None:
    """The version underneath the articles of the snapshot's project and namespace."""
    found = connection.execute(
        "SELECT snapshot_version FROM internal.bases WHERE project_id = ? AND namespace_id = ?",
        [snapshot.project_id, snapshot.namespace_id],
    ).fetchall()
    return found[0][0] if found else None


def _mark(connection: duckdb.DuckDBPyConnection, snapshot: Snapshot, version: str | None, now: datetime | None) -> None:
    """Note that a version leaves `articles` nothing to take in, or (None) that it does.

    One that does not lie underneath leaves nothing. One that does again, because the version above it was loaded anew with
    older rows, leaves everything.
    """
    key = [snapshot.project_id, snapshot.namespace_id, version]
    of_version = "project_id = ? AND namespace_id = ? AND snapshot_version = ?"
    connection.execute(
        "UPDATE loads SET applied_at = ? WHERE table_name = 'snapshot_articles' AND "  # noqa: S608  constant words
        "(project_id, namespace_id, batch_hour) IN "
        f"(SELECT (project_id, namespace_id, batch_hour) FROM snapshots WHERE {of_version})",
        [now, *key],
    )
    connection.execute(f"UPDATE snapshots SET applied_at = ? WHERE {of_version}", [now, *key])  # noqa: S608


def _too_many(connection: duckdb.DuckDBPyConnection, snapshot: Snapshot, kept: int) -> Iterator[str]:
    """Versions beyond the newest `kept` of a snapshot."""
    found = connection.execute(
        "SELECT snapshot_version FROM snapshots WHERE project_id = ? AND namespace_id = ? "
        "ORDER BY boundary_at DESC, exported_at DESC NULLS LAST, snapshot_version DESC OFFSET ?",
        [snapshot.project_id, snapshot.namespace_id, kept],
    ).fetchall()
    yield from (version for (version,) in found)


def _drop(connection: duckdb.DuckDBPyConnection, project_id: str, namespace_id: int, version: str) -> list[str]:
    """Remove a version, inside a transaction; returns its files, relative to the lake."""
    key = {"project": project_id, "namespace": namespace_id, "version": version}
    hour = answer(
        connection,
        "SELECT batch_hour FROM snapshots WHERE project_id = $project AND namespace_id = $namespace "
        "AND snapshot_version = $version",
        key,
    )[0][0]
    of_source = "WHERE project_id = $project AND namespace_id = $namespace AND batch_hour = $hour"
    source = {"project": project_id, "namespace": namespace_id, "hour": hour}
    paths = connection.execute(f"SELECT lake_path FROM loads {of_source}", source).fetchall()  # noqa: S608
    for table in ("loads", "rejects"):
        connection.execute(f"DELETE FROM {table} {of_source}", source)  # noqa: S608  constant names
    connection.execute(
        "DELETE FROM internal.shadowed_snapshots WHERE snapshot_version = $version AND snapshot_id IN "
        "(SELECT snapshot_id FROM snapshots WHERE project_id = $project AND namespace_id = $namespace)",
        key,
    )
    connection.execute(
        "DELETE FROM snapshots WHERE project_id = $project AND namespace_id = $namespace AND snapshot_version = $version",
        key,
    )
    return [path for (path,) in paths]


def _shadowed_in(connection: duckdb.DuckDBPyConnection, snapshot: Snapshot, file: SnapshotFile) -> int:
    found = connection.execute(
        "SELECT count(*) FROM internal.shadowed_snapshots WHERE snapshot_id = ? AND snapshot_version = ? AND file_name = ?",
        [snapshot.snapshot_id, snapshot.snapshot_version, file.path.name],
    ).fetchall()
    return int(found[0][0])


def _insert_rejects(
    connection: duckdb.DuckDBPyConnection, snapshot: Snapshot, file: SnapshotFile, hour: datetime
) -> None:
    found = 0
    if file.rejects_path is not None:
        found = checked_row_count(file.rejects_path, REJECTS, besides=_OF_THE_SNAPSHOT)
        columns = ", ".join(c.name for c in REJECTS if c.name not in _OF_THE_SNAPSHOT)
        own = {"hour": hour, "project": snapshot.project_id, "namespace": snapshot.namespace_id}
        try:
            connection.execute(
                f"INSERT INTO rejects BY NAME SELECT {columns}, $hour AS batch_hour, $project AS project_id, "  # noqa: S608
                "$namespace AS namespace_id FROM read_parquet($path, hive_partitioning := false)",
                {"path": str(file.rejects_path), **own},
            )
        except duckdb.Error as error:
            if is_exhausted(error):
                raise
            raise LakeFileError(
                f"The file of rejects {file.rejects_path.name} of snapshot {snapshot.snapshot_id} could not be read ({error}); "
                "nothing was loaded. Remove it and convert its archive again."
            ) from error
    if found != file.reject_count:
        raise LakeFileError(
            f"The rejects of {file.path.name} hold {found} lines; {file.reject_count} were announced. Nothing was loaded. "
            "Remove them and convert its archive again."
        )


def _lake_path(lake_root: Path, snapshot: Snapshot, file: SnapshotFile) -> str:
    """The file's path relative to the lake, which must be in the folder of its version."""
    root = lake_root.resolve()
    folder = root / SNAPSHOT_ARTICLES.name / snapshot.snapshot_id / snapshot.snapshot_version[:_FOLDER_DIGITS]
    path = file.path.resolve()
    if path.parent != folder:
        raise LakeFileError(
            f"The lake file {path.name} does not lie in the folder of its version ({folder.relative_to(root)}); nothing was "
            "loaded. Convert its archive again."
        )
    return path.relative_to(root).as_posix()
