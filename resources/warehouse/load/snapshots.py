"""Snapshot loads, which store either all files of a version or none, and the removal of expired versions.

In most datasets, a new version replaces the previous version's rows. Article snapshots are different: they are the base
of the current state. Rows from article snapshots stay in the lake, several versions are retained, and `articles` stores
the current rows. For each version, DuckDB stores the list of files, the repeated rows and the boundary. The boundary is
the rows' greatest `event_at` minus ten minutes; the snapshot contains all earlier changes. All rows of a version have
the same `source_at`, which is the boundary plus a fraction of a second derived from the version. This `source_at`
identifies the version, because it is never a full hour and differs between versions. The loading order of versions
never affects the result.
"""

import hashlib
import time
from collections.abc import Sequence
from datetime import datetime, timedelta

import duckdb

from resources.datasets.paths import short
from resources.tables import SNAPSHOTS
from resources.warehouse.database.connect import Build, answer, raise_revision, records
from resources.warehouse.database.sql import FORMULAS, column_list, identifier, temporary_table, transaction
from resources.warehouse.load.files import (
    announce,
    enter,
    hide_repeated,
    insert_once,
    lost_in,
    retire,
    unreadable,
)
from resources.warehouse.read.lake_parts import LakePart, derived
from resources.warehouse.records import LakeFileError, Row, Snapshot, SnapshotLoad

#: Default number of older article snapshot versions to retain for historical page states.
KEEP_REPLACED = 2
#: Length of the period before a snapshot's newest row in which changes might be missing.
MARGIN = timedelta(minutes=10)
_MICROSECOND = timedelta(microseconds=1)
#: Range, in microseconds, over which the versions' `source_at` values are spread.
_SPREAD = 999_000
_OF_SCOPE = "(table_name, project_id, namespace_id) = (?, ?, ?)"


def load_snapshot(
    build: Build, snapshot: Snapshot, *, keep_replaced: int = KEEP_REPLACED, reload: bool = False
) -> SnapshotLoad:
    """Load one complete snapshot version in one transaction, and drop expired versions.

    A version that was already loaded with the same digests is skipped, and `changed` is False. The version is loaded
    again if `reload` is set, or if a compacted file with its rows is missing or damaged. If the dataset has a current
    state, the newest version is its base, and `keep_replaced` older versions are retained for historical page states.
    In other datasets, the new version replaces the previous version. Raises LakeFileError if a file is missing or
    contradicts the announced counts. In this case, nothing is changed.
    """
    started, (connection, lake_root, now) = time.perf_counter(), build
    digests = {file.identifier: file.digest for file in snapshot.files}
    if len(digests) != snapshot.file_count:
        raise LakeFileError(
            f"Snapshot {snapshot.snapshot_id} is incomplete: it has {len(digests)} of its {snapshot.file_count} files. "
            "Nothing was changed; the previously loaded version stays in use. Fetch and convert the other files, then "
            "load the snapshot again."
        )
    with transaction(connection):
        versions = _versions(connection, snapshot)
        known, base = _own(versions, snapshot), versions[0].snapshot_version if versions else None
        source_at = known.source_at if known else None
        loaded = f"SELECT identifier, digest FROM loads WHERE {_OF_SCOPE} AND source_at = ?"  # noqa: S608  constant
        held = dict(answer(connection, loaded, [*_scope(snapshot), source_at]))
        lost = lost_in(connection, lake_root, snapshot.dataset, source_at)
        changed = reload or not known or tuple(_scope(snapshot)[1:]) in lost or held != digests
        has_state = snapshot.dataset.state is not None
        dropped: list[Row] = []
        if changed:
            if known:
                _drop(connection, snapshot, known)
            _take_in(build, snapshot)
            versions = _versions(connection, snapshot)
            known = _own(versions, snapshot)
            dropped = versions[1 + keep_replaced :] if has_state else [one for one in versions if one is not known]
            for one in dropped:
                _drop(connection, snapshot, one)
            retire(connection)
            raise_revision(connection)
        is_base = versions[0] is known or not has_state
        assert known is not None  # it is loaded now
        if changed and not is_base:
            _mark(connection, snapshot, known, now)
        if has_state and versions[0].snapshot_version != base:
            _mark(connection, snapshot, versions[0], None)
    return SnapshotLoad(
        snapshot_id=snapshot.snapshot_id,
        snapshot_version=snapshot.snapshot_version,
        changed=changed,
        is_base=is_base,
        boundary_at=known.boundary_at,
        file_count=len(snapshot.files),
        row_count=known.row_count,
        duplicate_count=known.duplicate_count,
        reject_count=sum(file.reject_count for file in snapshot.files),
        dropped_versions=tuple(one.snapshot_version for one in dropped),
        seconds=time.perf_counter() - started,
    )


def _take_in(build: Build, snapshot: Snapshot) -> None:
    """Insert a version's rows, masks, rejects and ledger entries."""
    (connection, _, now), dataset = build, snapshot.dataset
    folder = f"{dataset.name}/{snapshot.snapshot_id}/{short(snapshot.snapshot_version)}"
    files = ((file, folder) for file in snapshot.files)
    announce(build, dataset, files, batch_hour=None, project_id=snapshot.project_id, namespace_id=snapshot.namespace_id)
    row_count = sum(file.row_count for file in snapshot.files)
    if dataset.rows_stay_in_lake and not row_count:
        raise LakeFileError(
            f"Snapshot {snapshot.snapshot_id} has no pages. This is an error, because the service omits empty "
            "snapshots. Nothing was changed. Check the snapshot's rejects, then convert its archives again."
        )
    full = [str(file.path.resolve()) for file in snapshot.files if file.row_count]
    try:
        newest = _newest(connection, snapshot, full) if full else None
        boundary = None if newest is None else newest - MARGIN
        source = _source_at(connection, snapshot, boundary or snapshot.exported_at or now)
        connection.execute("UPDATE incoming SET source_at = ?", [source])
        duplicates = hide_repeated(connection, dataset, full)
        if not dataset.rows_stay_in_lake:
            insert_once(connection, dataset, full)
        _insert_derived(build, snapshot, source, full)
        enter(connection)
    except duckdb.Error as error:
        raise unreadable(f"snapshot {snapshot.snapshot_id}", snapshot.files, dataset.table, error) from error
    version = vars(snapshot) | {
        "table_name": dataset.name,
        "source_at": source,
        "row_count": row_count,
        "duplicate_count": duplicates,
        "boundary_at": boundary,
        "newest_event_at": newest,
        "loaded_at": now,
        "applied_at": None if dataset.state is not None else now,
    }
    temporary_table(connection, "version", [version], SNAPSHOTS.schema)
    connection.execute("INSERT INTO snapshots BY NAME FROM version")


def _insert_derived(build: Build, snapshot: Snapshot, source: datetime, paths: Sequence[str]) -> None:
    """Replace the rows derived from page parts for the snapshot's project and namespace."""
    scope, root = (snapshot.project_id, snapshot.namespace_id), f"{build.lake_root.resolve()}/"
    version = (*scope, snapshot.snapshot_id, snapshot.snapshot_version, source)
    part = LakePart(snapshot.dataset, root, tuple(paths), *version)
    for table in snapshot.dataset.native:
        name, columns = identifier(table.name), column_list(table)
        build.connection.execute(f"DELETE FROM {name} WHERE (project_id, namespace_id) = (?, ?)", scope)  # noqa: S608
        if paths:
            query = derived(table.name, f"({part.bodies()})")
            build.connection.execute(f"INSERT INTO {name} SELECT {columns} FROM ({query})")  # noqa: S608  declared names


def _newest(connection: duckdb.DuckDBPyConnection, snapshot: Snapshot, paths: Sequence[str]) -> datetime | None:
    """Return the rows' greatest event_at, or None. Raises LakeFileError if a row belongs to another version."""
    # an unknown time is the earliest datetime (year 1), from which ten minutes cannot be subtracted
    newest = "greatest(max(event_at), to_timestamp(0))" if "event_at" in snapshot.dataset.table.schema.names else "NULL"
    version = snapshot.snapshot_id, snapshot.snapshot_version, snapshot.project_id, snapshot.namespace_id
    [(found, strangers)] = answer(
        connection,
        f"SELECT {newest}, count_if((snapshot_id, snapshot_version, project_id, namespace_id) "  # noqa: S608
        "IS DISTINCT FROM ($2, $3, $4, $5)) FROM read_parquet($1, hive_partitioning = false)",
        [list(paths), *version],
    )
    if strangers:
        raise LakeFileError(
            f"The files of snapshot {snapshot.snapshot_id} contain {strangers} rows of another snapshot, version, "
            "project or namespace. Nothing was loaded. Remove the files and convert their archives again."
        )
    known: datetime | None = found
    return known


def _source_at(connection: duckdb.DuckDBPyConnection, snapshot: Snapshot, moment: datetime) -> datetime:
    """Return the rows' `source_at`: unique among versions, less than a second after `moment`, and never a full hour."""
    digest = hashlib.md5(
        f"{snapshot.snapshot_id}\n{snapshot.snapshot_version}".encode(), usedforsecurity=False
    ).digest()
    hour = moment + _MICROSECOND * (1 + int.from_bytes(digest[:8]) % _SPREAD)
    others = answer(connection, "SELECT source_at FROM snapshots WHERE project_id = ?", [snapshot.project_id])
    while (hour,) in others or (hour.minute, hour.second, hour.microsecond) == (0, 0, 0):
        hour += _MICROSECOND
    return hour


def _mark(connection: duckdb.DuckDBPyConnection, snapshot: Snapshot, version: Row, now: datetime | None) -> None:
    """Set a version's `applied_at`. None means that the version is pending for the current state.

    If the newest version is reloaded with older rows, an older version can become the base again. In this case, the
    older version is applied completely.
    """
    for table in ("loads", "snapshots"):
        query = f"UPDATE {table} SET applied_at = ? WHERE {_OF_SCOPE} AND source_at = ?"  # noqa: S608  constant words
        connection.execute(query, [now, *_scope(snapshot), version.source_at])


def _versions(connection: duckdb.DuckDBPyConnection, snapshot: Snapshot) -> list[Row]:
    """Return a snapshot's loaded versions, starting with the newest, which is the base of the current state."""
    query = f"FROM snapshots WHERE {_OF_SCOPE} ORDER BY {FORMULAS['newest_snapshot_first']}"
    return records(connection, query, _scope(snapshot))


def _own(versions: Sequence[Row], snapshot: Snapshot) -> Row | None:
    return next((one for one in versions if one.snapshot_version == snapshot.snapshot_version), None)


def _drop(connection: duckdb.DuckDBPyConnection, snapshot: Snapshot, version: Row) -> None:
    """Remove a snapshot version, inside a transaction."""
    of_version, source = f"WHERE {_OF_SCOPE} AND source_at = ?", [*_scope(snapshot), version.source_at]
    of_files = f"SELECT lake_path FROM loads {of_version}"  # noqa: S608  constant words
    connection.execute(f"DELETE FROM internal.hidden_rows WHERE lake_path IN ({of_files})", source)  # noqa: S608
    for table in ("loads", "rejects", "snapshots"):
        connection.execute(f"DELETE FROM {table} {of_version}", source)  # noqa: S608
    if not snapshot.dataset.rows_stay_in_lake:
        name = identifier(snapshot.dataset.name)
        connection.execute(
            f"DELETE FROM {name} WHERE (project_id, namespace_id, snapshot_version) = (?, ?, ?)",  # noqa: S608
            [snapshot.project_id, snapshot.namespace_id, version.snapshot_version],
        )


def _scope(snapshot: Snapshot) -> list[str | int]:
    return [snapshot.dataset.name, snapshot.project_id, snapshot.namespace_id]
