"""All changes, wherever they are: those of the window in `article_changes` of the build file, older ones in compacted files of the lake.

Rows of an hour are in the build file from the window's first hour on, and before it as long as their lake file is not compacted. All
others are in compacted files, and nowhere else but in the archive.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from resources.datasets.paths import BODIES, ROWS
from resources.formatting import hour_text
from resources.tables import ARTICLE_CHANGES
from resources.tables.compacted import COMPACTED
from resources.tables.versions import version_of
from resources.warehouse.database.connect import answer, has_table
from resources.warehouse.database.formulas import FORMULAS
from resources.warehouse.database.sql import column_list, moment, nulls, quoted, statement
from resources.warehouse.errors import LakeFileError
from resources.warehouse.read.faults import faults

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import datetime
    from pathlib import Path

    import duckdb

    from resources.warehouse.faulty import FaultyFile

_COMPACTED = COMPACTED[ARTICLE_CHANGES.name]
#: Of the columns that compacted files have today.
COLUMNS_VERSION = str(version_of(_COMPACTED))
#: What the pipeline knows of a change besides its columns, and how it follows from the row of a compacted file.
_KEYS = f"{FORMULAS['event_key']} AS event_key, file_row"


class ColdFile(NamedTuple):
    """A compacted file, and the version of the columns that it has; None: it is not known, and an older one."""

    path: str
    columns_version: str | None


@dataclass(frozen=True)
class Window:
    """What the build file holds of the changes itself.

    Attributes:
        first_hour: Older hours are read from compacted files.
        events_until: No event of theirs is newer.
    """

    first_hour: datetime
    events_until: datetime

    def cold(self, files: Sequence[ColdFile], superseded_in: str, more: str = "") -> list[str]:
        """Queries for the older changes in compacted files, with the columns of `article_changes` and `more`: one for each version of columns.

        `superseded_in`: the folder of the lake, with its slash, where rows of these files are passed over; else empty.
        """
        by_version: dict[str | None, list[str]] = {}
        for file in files:
            by_version.setdefault(file.columns_version, []).append(quoted(file.path))
        return [
            statement(
                "read/cold_changes",
                columns=column_list(ARTICLE_CHANGES.narrow) + more,
                rows=statement(
                    "read/cold_rows" if version == COLUMNS_VERSION else "read/cold_rows_of_before",
                    nothing=nulls(_COMPACTED),
                ),
                files=f"[{', '.join(paths)}]",
                superseded=passed_over(superseded_in),
                first_hour=moment(self.first_hour),
                events_until=moment(self.events_until),
            )
            for version, paths in by_version.items()
        ]


def window(connection: duckdb.DuckDBPyConnection) -> Window | None:
    """The window of a build file or a published one; None: it holds all changes itself."""
    if not has_table(connection, "internal.hot_window"):
        return None
    found = answer(connection, "SELECT first_hour, events_until FROM internal.hot_window")
    return Window(*found[0]) if found else None


def passed_over(superseded_in: str, *, bodies: bool = False) -> str:
    """A join that leaves out the rows of compacted files which count no longer, or their `bodies`; empty where there is none.

    `superseded_in`: the folder of the lake, with its slash, where rows of these files are passed over; else empty.
    """
    if not superseded_in:
        return ""
    path = f"replace(old.lake_path, {quoted(f'.{ROWS}')}, {quoted(f'.{BODIES}')})" if bodies else "old.lake_path"
    return statement("read/superseded", root=quoted(superseded_in), path=path)


def has_superseded(connection: duckdb.DuckDBPyConnection) -> bool:
    """Whether rows of compacted files are passed over."""
    return bool(connection.execute("SELECT 1 FROM internal.hidden_rows WHERE file_row IS NULL LIMIT 1").fetchall())


def make_all_changes(
    connection: duckdb.DuckDBPyConnection,
    lake_root: Path,
    projects: Collection[str] | None = None,
    *,
    partly: bool = False,
) -> frozenset[str]:
    """Make the temporary view `all_changes` of a build file: the columns of its `article_changes`, of all hours.

    `projects`: those that it is asked for (None: all); others may be left out. `partly`: what is in files that are gone or damaged may be left out as
    well. Returns the compactions with such files.

    Raises:
        LakeFileError: A compacted file is gone or damaged.
    """
    native = f"SELECT {column_list(ARTICLE_CHANGES.narrow)}, event_key, file_row FROM article_changes"  # noqa: S608
    parts = [native]
    gone: list[tuple[str, datetime, datetime, str, str | None]] = []
    if (known := window(connection)) is not None:
        root = lake_root.resolve()
        files = answer(
            connection,
            "SELECT lake_path, first_hour, end_hour, compaction_id, columns_version FROM compacted_files WHERE table_name = $table AND first_hour < $first AND "
            "($projects IS NULL OR len(list_filter($projects, lambda one: one BETWEEN first_project_id AND last_project_id)) > 0) "
            "ORDER BY first_hour, lake_path",
            {
                "table": ARTICLE_CHANGES.name,
                "first": known.first_hour,
                "projects": None if projects is None else sorted(projects),
            },
        )
        lost = faults(connection, lake_root, [root / file[0] for file in files])
        gone = [file for file in files if root / file[0] in lost]
        if gone and not partly:
            raise _lost(lost[root / gone[0][0]], *gone[0][1:3], len(gone))
        there = [ColdFile(str(root / file[0]), file[4]) for file in files if file not in gone]
        parts += known.cold(there, f"{root}/" if has_superseded(connection) else "", f", {_KEYS}")
    connection.execute("CREATE OR REPLACE TEMP VIEW all_changes AS\n" + "\nUNION ALL\n".join(parts))
    return frozenset(file[3] for file in gone)


def _lost(file: FaultyFile, first: datetime, end: datetime, count: int) -> LakeFileError:
    more = f" ({count} such files)" if count > 1 else ""
    return LakeFileError(
        f"The compacted file {file}{more}, and changes of the hours from {hour_text(first)} to {hour_text(end)} UTC are nowhere else "
        "in the lake, so what follows from all changes cannot be computed. Nothing was changed. Put the file back, or materialize "
        "lake/article_changes and warehouse/article_changes of these hours again: the archive is enough for that."
    )
