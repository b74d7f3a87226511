"""Lake files listed in the ledger, and checks for files that contradict the ledger.

A file is faulty if it is missing, has the wrong size, has no valid footer, or is recorded as damaged. Every publication
checks all files, so the check must be fast. The check reads the status of each file, and footers only of files that
have changed since the last check. Data pages are not read. A reader that finds a damaged page records the file
(`note_damage`).
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any, Final

import duckdb
from pydantic import TypeAdapter

from resources import files
from resources.datasets import Dataset
from resources.datasets.paths import with_bodies, with_rows
from resources.errors import clause
from resources.formatting import counted
from resources.storage import UNREADABLE, is_damage, read_footer, verify
from resources.warehouse.database.connect import answer, records
from resources.warehouse.database.sql import statement
from resources.warehouse.records import Row, WarehouseDamagedError

#: Queries for the lake files in use, by table. The queries select uncompacted and compacted files.
_NAMED = {
    "loads": "SELECT lake_path, lake_bytes, false FROM loads WHERE compaction_id IS NULL",
    "compacted_files": "SELECT lake_path, lake_bytes, true FROM compacted_files",
}
#: Maximum number of files listed in a message.
_SHOWN = 5
#: Number of ledger rows per batch.
_ROWS = 10_000


class Ledger:
    """The ledgers of the build file and the published file, while both are open, or None for a missing file."""

    def __init__(self, build: duckdb.DuckDBPyConnection, published: duckdb.DuckDBPyConnection | None) -> None:
        self._build, self._published = build, published

    def versions(self, dataset: Dataset) -> tuple[tuple[str, str, datetime], ...]:
        """Return the retained versions of a dataset's snapshots as (identifier, version, loaded_at) tuples."""
        query = "SELECT snapshot_id, snapshot_version, loaded_at FROM snapshots WHERE table_name = ? ORDER BY ALL"
        return tuple(answer(self._build, query, [dataset.name]))

    def files(self, dataset: Dataset, day: date | None = None) -> tuple[list[Row], set[str]]:
        """Return a dataset's lake files, for the hours of a day (UTC) or for all snapshots.

        The rows describe the files loaded in the build file, each with its `lake_path`, `identifier`, `version` and
        `loaded_at`, and with `is_compacted`, which is True if compacted files contain the rows. The set contains the
        paths of the other files that the build file or the published file uses. Paths are relative to the lake.
        """
        condition, parameters = "table_name = ?", list[Any]([dataset.name])
        if day is not None:
            start = datetime.combine(day, time(), UTC)
            condition += " AND batch_hour >= ? AND batch_hour < ?"
            parameters += [start, start + timedelta(days=1)]
        query = (
            "SELECT lake_path, identifier, version, loaded_at, compaction_id IS NOT NULL AS is_compacted "  # noqa: S608
            f"FROM loads WHERE {condition} ORDER BY ALL"
        )
        rows = records(self._build, query, parameters)
        paths = {row.lake_path for row in rows if not row.is_compacted}
        if self._published is not None:
            query = f"SELECT lake_path FROM loads WHERE {condition} AND compaction_id IS NULL"  # noqa: S608  constant
            paths |= {path for (path,) in answer(self._published, query, parameters)}
        return rows, paths

    def compacted(self, dataset: Dataset) -> frozenset[str]:
        """Return the paths of a dataset's compacted files, including files with page text, relative to the lake."""
        query = "SELECT lake_path FROM compacted_files WHERE table_name = ?"
        held = [self._build] if self._published is None else [self._build, self._published]
        return frozenset(
            path
            for file in held
            for (rows,) in answer(file, query, [dataset.name])
            for path in (rows, with_bodies(rows))
        )


def named_in(copy: Path) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yield the lake files that a copy of the build file uses, with their sizes in bytes.

    Paths are relative to the lake. Files for which the ledger records only a total size are yielded as one item. Raises
    WarehouseDamagedError if DuckDB cannot read the copy.
    """
    try:
        # the copy is untrusted: its tables could be views that read other files
        with duckdb.connect(copy, read_only=True, config={"enable_external_access": False}) as connection:
            # a missing table is created when the copy is opened, so it must not hide the other table's files
            held = {table for table, *_ in connection.execute("SHOW TABLES").fetchall()}
            there = [query for table, query in _NAMED.items() if table in held]
            found = connection.execute("\nUNION ALL\n".join(there) or "SELECT 1 LIMIT 0")
            while rows := found.fetchmany(_ROWS):
                for path, size, is_compacted in rows:
                    yield tuple(dict.fromkeys((path, with_bodies(path)))) if is_compacted else (path,), size
    except duckdb.Error as error:
        raise WarehouseDamagedError(
            f"DuckDB cannot read {copy} ({clause(error)}). Nothing was changed. Use another copy, or rebuild the "
            "warehouse from the archive: `wme rebuild`."
        ) from error


#: Names of publication facts: start time of the lake file check, and the faulty files that the check found.
LOOKED_AT: Final = "lake_looked_at_ns"
MISSING: Final = "missing_lake_files"
#: Name of the publication fact that contains digests of the internal views that list lake files.
VIEWS: Final = "views"
# Lake file sizes and row counts according to the ledger. A compacted file's size includes its page text file.
_EXPECTED = """
SELECT lake_path, lake_bytes, row_count
FROM (SELECT DISTINCT unnest(CAST($paths AS VARCHAR[])) AS lake_path)
JOIN (
  SELECT lake_path, lake_bytes, row_count FROM loads WHERE compaction_id IS NULL
  UNION ALL
  SELECT lake_path, lake_bytes, row_count FROM compacted_files
) USING (lake_path)
"""
#: Tolerance for a shared file system's slow clock, in nanoseconds.
_MARGIN_NS = 600 * 10**9
#: File in a data folder that records damaged files. A record expires when the damaged file is replaced.
_DAMAGED: Final = Path("state/damaged.json")
_NOTES: Final = TypeAdapter(dict[str, tuple[list[int], str]])
#: Faults of files that do not exist.
_NO_NAME, _GONE = "is not the name of a lake file", "is gone"
#: Characters in a path that DuckDB interprets as a pattern.
_PATTERN: Final = frozenset("*?[]{}")


@dataclass(frozen=True)
class FaultyFile:
    """A lake file that is treated as missing. `why` is a verb phrase that describes the fault."""

    lake_path: str
    why: str
    is_gone: bool
    parts: tuple[Part, ...] = ()

    def __str__(self) -> str:
        return f"{self.lake_path} {self.why}"


@dataclass(frozen=True)
class Part:
    """A load (of an hour, a snapshot version or lookups) whose rows are in a lake file."""

    table_name: str
    batch_hour: datetime | None
    source_at: datetime
    project_id: str
    namespace_id: int
    snapshot_id: str | None = None
    snapshot_version: str | None = None


def named(faulty: Sequence[FaultyFile]) -> str:
    """List the first files with their faults, and count the remaining files."""
    more = [f"{counted(len(faulty) - _SHOWN, 'more file')}"] if len(faulty) > _SHOWN else []
    return "; ".join([*map(str, faulty[:_SHOWN]), *more])


def publication(connection: duckdb.DuckDBPyConnection) -> dict[str, Any]:
    """Return the facts of the last publication in a build or published file."""
    rows = connection.execute("SELECT name, value FROM internal.publication").fetchall()
    return {name: json.loads(value) for name, value in rows}


def damaged(data: Path) -> dict[str, tuple[list[int], str]]:
    """Return a mapping from the path of a damaged lake file (relative to the lake) to its recorded mark and damage."""
    return files.read_cache(data / _DAMAGED, _NOTES) or {}


def note_damage(data: Path, lake_path: str, why: str) -> None:
    """Record that a lake file's data pages are damaged, and delete the records of replaced or removed files."""
    kept = {}
    for path, (mark, told) in (damaged(data) | {lake_path: ([], why)}).items():
        with contextlib.suppress(OSError):
            now = mark_of((data / "lake" / path).stat())
            if path == lake_path or mark == now:
                kept[path] = (now, told)
    files.write(data / _DAMAGED, json.dumps(kept).encode())


def mark_of(found: os.stat_result) -> list[int]:
    """Return a mark that changes when a file is replaced."""
    return [found.st_ino, found.st_size, found.st_mtime_ns]


def faults(
    connection: duckdb.DuckDBPyConnection,
    lake_root: Path,
    wanted: Iterable[Path],
    facts: Mapping[str, Any] | None = None,
) -> dict[Path, FaultyFile]:
    """Return the faulty files among `wanted` (absolute paths), according to a build or published file's ledger.

    The footers of unchanged files that passed the check of the last publication (`facts`) are not read. If `facts` is
    None, all footers are read.
    """
    root, facts = lake_root.resolve(), facts or {}
    known_ns, was_faulty = facts.get(LOOKED_AT, 0) - _MARGIN_NS, facts.get(MISSING, ())
    # path relative to the lake, or the full path of a file outside the lake
    relative = {path: path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path) for path in wanted}
    paths = sorted({with_rows(path) for path in relative.values()})
    known = {path: (size, count) for path, size, count in answer(connection, _EXPECTED, {"paths": paths})}
    notes = damaged(lake_root.parent)

    def fault(path: Path, name: str) -> str | None:
        # DuckDB would read every file that matches a pattern
        if not files.is_name(name) or _PATTERN.intersection(name):
            return _NO_NAME
        try:
            status = path.stat()
        except FileNotFoundError:
            return _GONE
        except OSError as error:
            return f"cannot be read: {clause(error)}"
        if (kind := files.not_a_file(status.st_mode)) is not None:
            return f"cannot be read: {kind}"
        mark, why = notes.get(name, (None, ""))
        if mark == mark_of(status):
            return f"is damaged: {why}"
        size, row_count = known.get(with_rows(name), (None, None))
        total, other = status.st_size, with_rows(name) if name != with_rows(name) else with_bodies(name)
        if size is not None and other != name:
            # the ledger stores the total size of both files; the other file's fault is reported separately
            with contextlib.suppress(OSError):
                size -= (root / other).stat().st_size
        if size not in (None, total) and other == name:
            return f"has {total} bytes, but the ledger says {size}"
        is_known = size in (None, total) and name not in was_faulty
        if is_known and max(status.st_mtime_ns, status.st_ctime_ns) < known_ns:
            return None
        try:
            count = read_footer(path).num_rows
        except UNREADABLE as error:
            return f"cannot be read as Parquet: {clause(error)}"
        return None if row_count in (None, count) else f"has {count} rows, but the ledger says {row_count}"

    found = {path: (name, why) for path, name in relative.items() if (why := fault(path, name)) is not None}
    return {path: FaultyFile(name, why, is_gone=why in (_NO_NAME, _GONE)) for path, (name, why) in found.items()}


def faulty_files(connection: duckdb.DuckDBPyConnection, lake_root: Path) -> list[FaultyFile]:
    """Return a ledger's faulty files with their loads, newest first. Publications use the same check (`faults`)."""
    query = (
        "SELECT lake_path FROM loads WHERE compaction_id IS NULL AND row_count > 0 "
        "UNION SELECT lake_path FROM compacted_files"
    )
    root, names = lake_root.resolve(), [path for (path,) in answer(connection, f"{query} ORDER BY 1")]
    halves = [root / half for name in names for half in dict.fromkeys((name, with_bodies(name)))]
    found = faults(connection, lake_root, halves, publication(connection)).values()
    asked = {"paths": sorted({with_rows(file.lake_path) for file in found})}
    parts: dict[str, list[Part]] = {}
    for path, *values in answer(connection, statement("read/parts"), asked) if found else ():
        parts.setdefault(path, []).append(Part(*values))
    return [replace(file, parts=tuple(parts.get(with_rows(file.lake_path), ()))) for file in found]


def faulty(connection: duckdb.DuckDBPyConnection, lake_root: Path, lake_paths: Iterable[str]) -> dict[str, FaultyFile]:
    """Return the faulty files by ledger path, after checking all footers, including those of files with page text."""
    root, names = lake_root.resolve(), dict.fromkeys(lake_paths)
    halves = {root / half for name in names for half in (name, with_bodies(name))}
    found = faults(connection, lake_root, halves) if halves else {}
    return {with_rows(file.lake_path): file for file in found.values()}


def note_damaged(
    connection: duckdb.DuckDBPyConnection, lake_root: Path, wanted: Sequence[Path], columns: Sequence[str] | None = None
) -> list[FaultyFile]:
    """Read the data pages of `columns`, record any damage, and return the faulty files among `wanted`."""
    if not (found := faults(connection, lake_root, wanted)):
        for path in wanted:
            try:
                verify(path, columns)
            except UNREADABLE as error:
                if is_damage(error):
                    note_damage(lake_root.parent, path.relative_to(lake_root.resolve()).as_posix(), str(error))
        found = faults(connection, lake_root, wanted)
    return [*found.values()]
