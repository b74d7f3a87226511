"""Loading steps shared by all datasets: file checks, rejects, repeated rows and ledger rows."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from resources.datasets import Dataset, Family
from resources.errors import clause
from resources.files import StrPath
from resources.lake_files import ConvertedFile
from resources.storage import UNREADABLE, read_footer
from resources.tables import LOADS, REJECTED_LINES, Table
from resources.warehouse.database.connect import Build, answer, raise_revision
from resources.warehouse.database.schema import INTERNAL_COLUMNS
from resources.warehouse.database.sql import (
    FORMULAS,
    column_list,
    filled,
    identifier,
    quoted,
    temporary_table,
    transaction,
)
from resources.warehouse.database.workarounds import is_exhausted
from resources.warehouse.read.ledger import faulty
from resources.warehouse.records import LakeFileError

#: Columns of the `incoming` table: each file's ledger row, and values that only the load needs.
_INCOMING = pa.schema([*LOADS.schema, ("path", pa.string()), ("rejects_path", pa.string()), ("redone", pa.bool_())])
#: Columns of `rejects` whose values come from the ledger.
_SHARED = ("table_name", "source_at", "batch_hour", "project_id", "namespace_id")
_SUPERSEDE = """
INSERT INTO internal.hidden_rows
SELECT DISTINCT file.lake_path, NULL, {reason}, loads.batch_hour, loads.project_id, loads.namespace_id
FROM loads
JOIN compacted_files AS file ON loads.compaction_id = file.compaction_id
WHERE loads.batch_hour IS NOT NULL AND ({condition})
"""
#: Maximum number of unreadable files listed in an error message.
_SHOWN = 5


def checked_row_count(path: Path, table: Table, besides: Sequence[str] = ()) -> int:
    """Return a lake file's row count.

    Raises LakeFileError if the file is missing or is not a Parquet file, or if a declared column is missing or has the
    wrong type. Columns in `besides` are not checked.
    """
    try:
        metadata = read_footer(path)
        found = {field.name: field.type for field in metadata.schema.to_arrow_schema()}
    except FileNotFoundError as error:
        raise LakeFileError(
            f"The lake file {path} is missing, so nothing was loaded from it. Convert its archive again."
        ) from error
    except UNREADABLE as error:
        raise LakeFileError(
            f"The lake file {path} is not readable Parquet ({clause(error)}), so nothing was loaded from it. Remove "
            "the file and convert its archive again."
        ) from error
    wrong = [c.name for c in table if c.name not in besides and found.get(c.name) != c.type]
    if wrong:
        raise LakeFileError(
            f"The lake file {path} does not contain the declared columns {', '.join(wrong)}, or stores them with "
            "another type. Nothing was loaded from it. Remove the file and convert its archive again."
        )
    return int(metadata.num_rows)


def check_counts(file: ConvertedFile, table: Table) -> None:
    """Raise LakeFileError if a file or its rejects cannot be read or contradict the announced counts."""
    row_count = checked_row_count(file.path, table)
    by_change = file.update_count + file.delete_count + file.visibility_change_count
    if "change_type" not in table.schema.names:
        by_change = file.row_count
    if row_count != file.row_count or by_change != file.row_count:
        raise LakeFileError(
            f"The lake file {file.path} contains {row_count} rows, but {file.row_count} were expected ({by_change} by "
            "type of change). Nothing was loaded. Remove the file and convert its archive again."
        )
    rejects = 0 if file.rejects_path is None else checked_row_count(file.rejects_path, REJECTED_LINES, besides=_SHARED)
    if rejects != file.reject_count:
        raise LakeFileError(
            f"The rejects file for {file.path} contains {rejects} lines, but {file.reject_count} were expected. "
            "Nothing was loaded. Remove the rejects and convert the archive again."
        )


def lake_path(lake_root: Path, folder: str, path: Path) -> str:
    """Return the path relative to the lake. Raises LakeFileError if the file is outside its partition's folder."""
    root = lake_root.resolve()
    found = path.resolve()
    if found.parent != root / folder:
        raise LakeFileError(
            f"The lake file {path} is not in the folder of its partition ({folder}), so nothing was loaded. Convert "
            "its archive again."
        )
    return found.relative_to(root).as_posix()


def lost_in(
    connection: duckdb.DuckDBPyConnection, lake_root: Path, dataset: Dataset, source_at: datetime | None
) -> set[tuple[str, int]]:
    """Return the projects and namespaces whose rows of a `source_at` might be in a faulty compacted file."""
    found = answer(
        connection,
        "SELECT loads.project_id, namespace_id, file.lake_path FROM loads "
        "JOIN compacted_files AS file USING (table_name, compaction_id) WHERE table_name = ? AND source_at = ? "
        "AND loads.project_id BETWEEN first_project_id AND last_project_id",
        [dataset.name, source_at],
    )
    gone = faulty(connection, lake_root, {path for *_, path in found})
    return {(project, namespace) for project, namespace, path in found if path in gone}


def announce(
    build: Build,
    dataset: Dataset,
    files: Iterable[tuple[ConvertedFile, str]],
    known: Mapping[tuple[str, int], str] | None = None,
    **shared: Any,
) -> None:
    """Create the temporary `incoming` table from files and their folders in the lake, with one file per row.

    `known` contains the loaded digests by project and namespace. `shared` contains values of all rows. Raises
    LakeFileError if a file contradicts its announced counts or is outside its folder.
    """
    rows = []
    for file, folder in files:
        found = lake_path(build.lake_root, folder, file.path)
        check_counts(file, dataset.table)
        own = {
            "table_name": dataset.name,
            "lake_path": found,
            "path": str(file.path),
            "rejects_path": None if file.rejects_path is None else str(file.rejects_path),
            "duplicate_count": 0,
            "loaded_at": build.now,
            "applied_at": None if dataset.state is not None else build.now,
            "redone": (known or {}).get((file.project_id, file.namespace_id), file.digest) != file.digest,
        }
        rows.append(vars(file) | own | shared)
    temporary_table(build.connection, "incoming", rows, _INCOMING)


def forget_incoming(connection: duckdb.DuckDBPyConnection, table: str) -> None:
    """Remove rows of the hours, projects and namespaces in `incoming` from the table, the rejects and the ledger."""
    supersede(
        connection,
        "reloaded",
        "(loads.table_name, loads.batch_hour, loads.project_id, loads.namespace_id) IN "
        "(SELECT (table_name, batch_hour, project_id, namespace_id) FROM incoming)",
    )
    hour = ("batch_hour", "project_id", "namespace_id")
    shared = ("table_name", *hour)
    connection.execute(
        "DELETE FROM internal.hidden_rows WHERE reason = 'repeated' AND lake_path IN "
        "(SELECT loads.lake_path FROM loads JOIN incoming USING (table_name, batch_hour, project_id, namespace_id))"
    )
    for name, columns in ((table, hour), ("rejects", shared), ("loads", shared)):
        ours, theirs = (", ".join(f"{side}.{column}" for column in columns) for side in (name, "incoming"))
        connection.execute(f"DELETE FROM {name} USING incoming WHERE ({ours}) = ({theirs})")  # noqa: S608  declared names
    retire(connection)


def supersede(
    connection: duckdb.DuckDBPyConnection, reason: str, condition: str, parameters: Mapping[str, Any] | None = None
) -> None:
    """Mask the compacted rows of the loads that `condition` selects, before the ledger drops these loads.

    Compacted snapshot files are excluded, because each file contains one version and is deleted with that version.
    """
    connection.execute(filled(_SUPERSEDE, reason=quoted(reason), condition=condition), parameters or {})


def retire(connection: duckdb.DuckDBPyConnection) -> None:
    """Delete from the ledger all compactions that no longer have loaded rows, along with their masks.

    A later compaction of the same files gets the same name, so the earlier compaction must not leave masks behind.
    """
    connection.execute(
        "DELETE FROM compacted_files WHERE compaction_id NOT IN "
        "(SELECT compaction_id FROM loads WHERE compaction_id IS NOT NULL)"
    )
    connection.execute(
        "DELETE FROM internal.hidden_rows WHERE file_row IS NULL "
        "AND lake_path NOT IN (SELECT lake_path FROM compacted_files)"
    )


def enter(connection: duckdb.DuckDBPyConnection) -> None:
    """Insert the rejects of the files in `incoming` and add the files to the ledger."""
    found = connection.execute("SELECT rejects_path FROM incoming WHERE rejects_path IS NOT NULL").fetchall()
    if found:
        shared = ", ".join(f"incoming.{column}" for column in _SHARED)
        own = ", ".join(f"file.{identifier(c.name)}" for c in REJECTED_LINES if c.name not in _SHARED)
        connection.execute(
            f"INSERT INTO rejects BY NAME SELECT {shared}, {own} "  # noqa: S608  declared names
            "FROM read_parquet($paths, filename := true, hive_partitioning := false) AS file "
            "JOIN incoming ON file.filename = incoming.rejects_path",
            {"paths": [path for (path,) in found]},
        )
    columns = column_list(LOADS)
    connection.execute(f"INSERT INTO loads ({columns}) SELECT {columns} FROM incoming")  # noqa: S608  declared names


def unreadable(
    of: str, files: Sequence[ConvertedFile], table: Table, error: duckdb.Error
) -> duckdb.Error | LakeFileError:
    """Read each file of a failed load separately, and return an error that names the damaged files.

    If disk space or memory ran out, no file is at fault, and the error is returned unchanged.
    """
    if is_exhausted(error):
        return error
    damaged = []
    with duckdb.connect() as alone:
        for file in files:
            rejects = [("rejects file", file.rejects_path, REJECTED_LINES, _SHARED)] if file.rejects_path else []
            for kind, path, declared, besides in (("lake file", file.path, table.narrow, ()), *rejects):
                if (found := _fault(alone, path, declared, besides)) is not None:
                    damaged.append(f"{kind} {path} ({found})")
    if not damaged:
        return LakeFileError(
            f"The files of {of} could not be loaded into the warehouse ({clause(error)}), and nothing was changed. Try "
            "again. If the load fails again, remove the files and convert their archives again."
        )
    more = f" and {len(damaged) - _SHOWN} more" if len(damaged) > _SHOWN else ""
    return LakeFileError(
        f"{len(damaged)} of the files of {of} could not be loaded into the warehouse: "
        f"{', '.join(damaged[:_SHOWN])}{more}. Nothing was loaded. Remove these files and convert their archives "
        "again; other converted files are kept."
    )


def _fault(alone: duckdb.DuckDBPyConnection, path: Path, table: Table, besides: Sequence[str]) -> str | None:
    """Return the reason why a file cannot be loaded, or None if the file is loadable."""
    columns = [c for c in table if c.name not in besides]
    required = [c.name for c in columns if c.required]
    names = ", ".join(identifier(c.name) for c in columns)
    nulls = "".join(f", count_if({identifier(name)} IS NULL)" for name in required)
    try:
        [(_, *counts)] = alone.execute(
            f"SELECT bit_xor(hash({names})){nulls} FROM read_parquet($1, hive_partitioning := false)",  # noqa: S608  declared names
            [str(path)],
        ).fetchall()
    except duckdb.Error as error:
        return str(error)
    missing = [name for name, count in zip(required, counts, strict=True) if count]
    return f"no value in {', '.join(missing)}" if missing else None


def load_list(build: Build, dataset: Dataset, path: StrPath) -> int:
    """Replace a list's rows with a lake file's rows and return the row count. Raises LakeFileError."""
    connection, table = build.connection, dataset.table
    row_count = checked_row_count(Path(path), table)
    name, columns = identifier(table.name), column_list(table.narrow)
    source = f"SELECT {columns} FROM read_parquet($path, hive_partitioning := false)"  # noqa: S608  declared names
    target = f"SELECT {columns} FROM {name}"  # noqa: S608
    with transaction(connection):
        difference = connection.execute(
            f"SELECT count(*) FROM ((({source}) EXCEPT ALL ({target})) UNION ALL (({target}) EXCEPT ALL ({source})))",  # noqa: S608
            {"path": str(path)},
        ).fetchall()[0][0]
        if difference:
            connection.execute(f"DELETE FROM {name}")  # noqa: S608
            connection.execute(f"INSERT INTO {name} BY NAME {source}", {"path": str(path)})
            raise_revision(connection)
    return row_count


# Repeated rows are rare, so their keys are found in the key columns before complete rows are sorted or compared.
_SUSPECTS = """
CREATE OR REPLACE TEMP TABLE suspects AS
SELECT {numbered}
FROM (SELECT *, {title} AS title FROM read_parquet($paths, filename := true, hive_partitioning := false))
GROUP BY ALL
HAVING count(*) > 1
"""
_REPEATED = """
CREATE OR REPLACE TEMP TABLE repeated AS
SELECT filename AS path, file_row_number AS file_row
FROM (
  SELECT *, {title} AS title
  FROM read_parquet($paths, filename := true, file_row_number := true, hive_partitioning := false)
) AS file
SEMI JOIN suspects ON {is_suspect}
QUALIFY row_number() OVER (PARTITION BY {full_key} ORDER BY {newest_first}filename, file_row_number) > 1
"""
_NONE_REPEATED = "CREATE OR REPLACE TEMP TABLE repeated (path VARCHAR, file_row BIGINT)"
_COUNT = """
UPDATE incoming SET duplicate_count = copies.number
FROM (SELECT path, count(*) AS number FROM repeated GROUP BY path) AS copies
WHERE incoming.path = copies.path
"""
_HIDE = """
INSERT INTO internal.hidden_rows
SELECT lake_path, file_row, 'repeated', batch_hour, project_id, namespace_id
FROM repeated JOIN incoming USING (path)
"""
_INSERT = """
INSERT INTO {table} BY NAME
SELECT {columns}
FROM read_parquet($paths, filename := true, file_row_number := true, hive_partitioning := false) AS file
ANTI JOIN repeated ON file.filename = repeated.path AND file.file_row_number = repeated.file_row
"""
#: SQL expressions that compute the internal columns from a lake file's row.
_INTERNAL = {"event_key": FORMULAS["event_key"], "file_row": "file_row_number"}


def hide_repeated(connection: duckdb.DuckDBPyConnection, dataset: Dataset, paths: Sequence[str]) -> int:
    """Mask repeated rows of the files in `incoming`, record the count per file, and return the total.

    The dataset's rule selects the row to keep. An hourly file is compared only with itself, because hourly files
    overlap by design. A snapshot file is compared with all files of its version. Afterwards, the temporary `repeated`
    table contains the masked rows.
    """
    rule, files = dataset.uniqueness, {"paths": list(paths)}
    connection.execute(_NONE_REPEATED)
    if not rule.key or not paths:
        return 0
    key = ["filename", *rule.key] if dataset.family is Family.HOURLY else [*rule.key]
    parts = {
        "numbered": ", ".join(f"{one} AS key_{number}" for number, one in enumerate(key)),
        "is_suspect": " AND ".join(f"{one} = suspects.key_{number}" for number, one in enumerate(key)),
        "full_key": ", ".join([*key, *rule.further]),
        "newest_first": "".join(f"{one}, " for one in rule.newest_first),
        "title": "replace(name, '_', ' ')" if "name" in dataset.table.schema.names else "NULL",
    }
    connection.execute(filled(_SUSPECTS, **parts), files)
    if not connection.execute("SELECT count(*) FROM suspects").fetchall()[0][0]:
        return 0
    connection.execute(filled(_REPEATED, **parts), files)
    connection.execute(_COUNT)
    return int(connection.execute(_HIDE).fetchall()[0][0])


def insert_once(connection: duckdb.DuckDBPyConnection, dataset: Dataset, paths: Sequence[str]) -> int:
    """Insert the rows that `hide_repeated` has not masked, without page text, and return the row count."""
    table = dataset.table.narrow
    more = "".join(f", {_INTERNAL[name]} AS {name}" for name in INTERNAL_COLUMNS.get(table.name, ()))
    query = filled(_INSERT, table=identifier(table.name), columns=column_list(table) + more)
    return int(connection.execute(query, {"paths": list(paths)}).fetchall()[0][0]) if paths else 0
