"""Loading: files of the lake become rows, hour by hour, each hour in one transaction.

Belongs here: `article_changes`, `rejects`, the reference tables and the ledger. Does not belong here: which page
lives (`current`), which hours exist (`coverage`).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from resources.tables import ARTICLE_CHANGES, LOADS, REFERENCE_TABLES, REJECTS
from resources.warehouse.connect import is_exhausted, leave_row_groups, raise_revision, transaction
from resources.warehouse.errors import LakeFileError
from resources.warehouse.load import coverage
from resources.warehouse.records import HourLoad, utc_text
from resources.warehouse.schema import column_list, create_table, identifier, statement

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from resources.tables import Table
    from resources.warehouse.records import HourStatus, LakeFile, SnapshotFile

#: What is announced of the files to load: their ledger rows, and what only the load itself needs to know.
_INCOMING = pa.schema([*LOADS.schema, ("path", pa.string()), ("redone", pa.bool_())])


def load_reference(connection: duckdb.DuckDBPyConnection, table_name: str, path: Path) -> int:
    """Replace a reference table by the rows of a lake file; returns their number.

    Raises:
        ValueError: no such reference table.
        LakeFileError: the file is absent or of other columns.
    """
    table = next((table for table in REFERENCE_TABLES if table.name == table_name), None)
    if table is None:
        names = ", ".join(table.name for table in REFERENCE_TABLES)
        raise ValueError(f"There is no reference table {table_name}; there are {names}.")
    row_count = checked_row_count(path, table)
    columns = column_list(table)
    source = f"SELECT {columns} FROM read_parquet($path, hive_partitioning := false)"  # noqa: S608  declared names
    target = f"SELECT {columns} FROM {identifier(table.name)}"  # noqa: S608
    with transaction(connection):
        difference = connection.execute(
            f"SELECT count(*) FROM ((({source}) EXCEPT ALL ({target})) UNION ALL (({target}) EXCEPT ALL ({source})))",  # noqa: S608
            {"path": str(path)},
        ).fetchall()[0][0]
        if difference:
            connection.execute(f"DELETE FROM {identifier(table.name)}")  # noqa: S608
            connection.execute(f"INSERT INTO {identifier(table.name)} BY NAME {source}", {"path": str(path)})
            raise_revision(connection)
    return row_count


def load_hour(
    connection: duckdb.DuckDBPyConnection,
    lake_root: Path,
    hour: datetime,
    files: Sequence[LakeFile],
    statuses: Sequence[HourStatus],
    now: datetime,
    *,
    reload: bool,
) -> HourLoad:
    """Bring one hour in: rows, rejects, ledger and coverage, all or nothing.

    A file whose digest the ledger holds already is left as it is unless `reload`. Rows of other projects and
    namespaces of the hour stay.

    Raises:
        LakeFileError: a file is absent or does not hold what was said about it; nothing was changed.
        ValueError: the arguments contradict one another.
    """
    started = time.perf_counter()
    _check_arguments(hour, files, statuses)
    if hour.hour:
        leave_row_groups(connection)
    with transaction(connection):
        known = {
            (project, namespace): digest
            for project, namespace, digest in connection.execute(
                "SELECT project_id, namespace_id, digest FROM loads WHERE table_name = ? AND batch_hour = ?",
                [ARTICLE_CHANGES.name, hour],
            ).fetchall()
        }
        fresh = [file for file in files if reload or known.get((file.project_id, file.namespace_id)) != file.digest]
        rows = _replace_rows(connection, lake_root, hour, fresh, known, now) if fresh else 0
        pairs = {(file.project_id, file.namespace_id) for file in files}
        told = [status for status in statuses if (status.project_id, status.namespace_id) not in pairs]
        noted = coverage.record(connection, told, now)
        if fresh or noted:
            raise_revision(connection)
        held = connection.execute(
            "SELECT sum(row_count - duplicate_count), sum(duplicate_count) FROM loads WHERE table_name = ? AND batch_hour = ?",
            [ARTICLE_CHANGES.name, hour],
        ).fetchall()[0]
    return HourLoad(
        hour=hour,
        changed=bool(fresh or noted),
        loaded_file_count=len(fresh),
        unchanged_file_count=len(files) - len(fresh),
        row_count=rows,
        duplicate_count=sum(file.row_count for file in fresh) - rows,
        reject_count=sum(file.reject_count for file in fresh),
        held_row_count=int(held[0] or 0),
        held_duplicate_count=int(held[1] or 0),
        seconds=time.perf_counter() - started,
    )


def _check_arguments(hour: datetime, files: Sequence[LakeFile], statuses: Sequence[HourStatus]) -> None:
    if hour.tzinfo is None or (hour.minute, hour.second, hour.microsecond) != (0, 0, 0):
        raise ValueError(f"{hour} is not the start of an hour with a time zone.")
    items: list[LakeFile | HourStatus] = [*files, *statuses]
    for item in items:
        if item.batch_hour != hour:
            raise ValueError(
                f"{item.project_id} {item.namespace_id} is of hour {item.batch_hour}, not of {utc_text(hour)}."
            )
    pairs = [(file.project_id, file.namespace_id) for file in files]
    if len(set(pairs)) < len(pairs):
        raise ValueError(f"Hour {utc_text(hour)} has two files of one project and namespace.")


def checked_row_count(path: Path, table: Table, besides: Sequence[str] = ()) -> int:
    """Rows of a Parquet file, after comparing its columns with the declaration; `besides` are not looked at.

    Raises:
        LakeFileError: it is gone, no Parquet, or of other columns.
    """
    try:
        metadata = pq.read_metadata(path)
        found = {field.name: field.type for field in metadata.schema.to_arrow_schema()}
    except FileNotFoundError as error:
        raise LakeFileError(
            f"The lake file {path.name} is gone; nothing was loaded from it. Convert its archive again."
        ) from error
    except (OSError, ValueError) as error:
        raise LakeFileError(
            f"The lake file {path.name} is not readable Parquet ({error}); nothing was loaded from it. Remove it and "
            "convert its archive again."
        ) from error
    wrong = [c.name for c in table if c.name not in besides and found.get(c.name) != c.type]
    if wrong:
        raise LakeFileError(
            f"The lake file {path.name} lacks the declared columns {', '.join(wrong)} or holds them as another type; nothing "
            "was loaded from it. Remove it and convert its archive again."
        )
    return int(metadata.num_rows)


def _replace_rows(
    connection: duckdb.DuckDBPyConnection,
    lake_root: Path,
    hour: datetime,
    files: Sequence[LakeFile],
    known: Mapping[tuple[str, int], str],
    now: datetime,
) -> int:
    """Rows, rejects, ledger and coverage of an hour's files instead of those that were there; returns the rows inserted.

    All files go through each statement together: an hour has about 150, and a statement costs more than a small file.
    """
    for file in files:
        check_counts(file, checked_row_count(file.path, ARTICLE_CHANGES))
    _announce(connection, lake_root, files, known, now)
    for table in ("article_changes", "rejects", "loads") if known else ():
        connection.execute(
            f"DELETE FROM {table} USING incoming WHERE ({table}.batch_hour, {table}.project_id, {table}.namespace_id) "  # noqa: S608  constant names
            "= (incoming.batch_hour, incoming.project_id, incoming.namespace_id)"
        )
    try:
        inserted = _insert_changes(connection, files)
        _insert_rejects(connection, files)
    except duckdb.Error as error:
        if is_exhausted(error):
            raise
        raise _unreadable(lake_root, files, known, now, error) from error
    columns = column_list(LOADS)
    connection.execute(f"INSERT INTO loads ({columns}) SELECT {columns} FROM incoming")  # noqa: S608  declared names
    coverage.record_loads(connection)
    hide_shadowed(connection, hour, sorted({file.project_id for file in files}))
    return inserted


def hide_shadowed(connection: duckdb.DuckDBPyConnection, hour: datetime, projects: Sequence[str]) -> None:
    """Note, inside a transaction, which rows of the hour's lake files `article_bodies` passes over."""
    for name in ("shadow_delete", "shadow_insert"):
        connection.execute(statement(name), {"hour": hour, "projects": list(projects)})


def _announce(
    connection: duckdb.DuckDBPyConnection,
    lake_root: Path,
    files: Sequence[LakeFile],
    known: Mapping[tuple[str, int], str],
    now: datetime,
) -> None:
    """Make the table `incoming`: a row per file."""
    rows = []
    for file in files:
        told = {
            "table_name": ARTICLE_CHANGES.name,
            "lake_path": _lake_path(lake_root, file),
            "duplicate_count": 0,
            "loaded_at": now,
            "applied_at": None,
            "path": str(file.path),
            "redone": known.get((file.project_id, file.namespace_id)) not in (None, file.digest),
        }
        rows.append({name: told[name] if name in told else getattr(file, name) for name in _INCOMING.names})
    connection.register("announced", pa.Table.from_pylist(rows, schema=_INCOMING))
    connection.execute("CREATE OR REPLACE TEMP TABLE incoming AS FROM announced")
    connection.unregister("announced")


def _insert_changes(connection: duckdb.DuckDBPyConnection, files: Sequence[LakeFile]) -> int:
    """Insert the rows of the files into `article_changes`, each event and title of a file once; returns their number."""
    paths = {"paths": [str(file.path) for file in files]}
    strangers = connection.execute(statement("load_strangers"), paths).fetchall()
    if strangers:
        path, count = strangers[0]
        file = next(file for file in files if str(file.path) == path)
        raise LakeFileError(
            f"The lake file {file.path.name} holds {count} rows of another hour, project or namespace than "
            f"{utc_text(file.batch_hour)} {file.project_id} {file.namespace_id}; nothing was loaded. Remove it "
            "and convert its archive again."
        )
    connection.execute(statement("load_suspects"), paths)
    if connection.execute("SELECT count(*) FROM suspects").fetchall()[0][0]:
        connection.execute(_with_columns("load_repeated"), paths)
        connection.execute(
            "UPDATE incoming SET duplicate_count = copies.number "
            "FROM (SELECT path, count(*) AS number FROM repeated GROUP BY path) AS copies WHERE incoming.path = copies.path"
        )
    else:
        connection.execute("CREATE OR REPLACE TEMP TABLE repeated AS FROM suspects")
    return int(connection.execute(_with_columns("insert_changes"), paths).fetchall()[0][0])


def _with_columns(name: str) -> str:
    """A statement with the columns of `article_changes` written in; `content`: those that the service told."""
    narrow = ARTICLE_CHANGES.narrow
    content = ", ".join(identifier(column.name) for column in narrow if column.name != "batch_hour")
    return statement(name).replace("{columns}", column_list(narrow)).replace("{content}", content)


def _unreadable(
    lake_root: Path,
    files: Sequence[LakeFile],
    known: Mapping[tuple[str, int], str],
    now: datetime,
    error: duckdb.Error,
) -> LakeFileError:
    """The failure to load files together, as a sentence that names the one at fault: each is tried alone, in memory."""
    for file in files:
        with duckdb.connect() as alone:
            for table in (ARTICLE_CHANGES.narrow, REJECTS):
                alone.execute(create_table(table))
            _announce(alone, lake_root, [file], known, now)
            for path, insert in ((file.path, _insert_changes), (file.rejects_path or file.path, _insert_rejects)):
                try:
                    insert(alone, [file])
                except duckdb.Error as found:
                    kind = "lake file" if path == file.path else "file of rejects"
                    return LakeFileError(
                        f"The {kind} {path.name} could not be read into the warehouse ({found}); nothing was loaded. Remove "
                        "it and convert its archive again."
                    )
    return LakeFileError(
        f"The lake files of {utc_text(files[0].batch_hour)} could not be read into the warehouse ({error}); nothing was "
        "loaded. Run it again; if it fails again, remove them and convert the hour's archives again."
    )


def check_counts(file: LakeFile | SnapshotFile, row_count: int) -> None:
    """Compare the rows of a file with what was announced.

    Raises:
        LakeFileError: they differ.
    """
    by_change = file.update_count + file.delete_count + file.visibility_change_count
    if row_count != file.row_count or by_change != file.row_count:
        raise LakeFileError(
            f"The lake file {file.path.name} holds {row_count} rows; {file.row_count} were announced, {by_change} of them by "
            "change. Nothing was loaded. Remove it and convert its archive again."
        )


def _insert_rejects(connection: duckdb.DuckDBPyConnection, files: Sequence[LakeFile]) -> None:
    paths = []
    for file in files:
        found = 0
        if file.rejects_path is not None:
            found = checked_row_count(file.rejects_path, REJECTS)
            paths.append(str(file.rejects_path))
        if found != file.reject_count:
            raise LakeFileError(
                f"The rejects of {file.path.name} hold {found} lines; {file.reject_count} were announced. Nothing was loaded. "
                "Remove them and convert its archive again."
            )
    if paths:
        columns = column_list(REJECTS)
        connection.execute(
            f"INSERT INTO rejects BY NAME SELECT {columns} FROM read_parquet($paths, hive_partitioning := false)",  # noqa: S608
            {"paths": paths},
        )


def _lake_path(lake_root: Path, file: LakeFile) -> str:
    """The file's path relative to the lake; its hour's folder is what `article_bodies` tells the hour by."""
    folder = (
        lake_root.resolve() / ARTICLE_CHANGES.name / f"date={file.batch_hour:%Y-%m-%d}" / f"hour={file.batch_hour:%H}"
    )
    path = file.path.resolve()
    if path.parent != folder:
        raise LakeFileError(
            f"The lake file {path.name} does not lie in the folder of its hour ({folder.relative_to(lake_root.resolve())}); "
            "nothing was loaded. Convert its archive again."
        )
    return path.relative_to(lake_root.resolve()).as_posix()
