"""All changes: those of the window in the build file, older ones in compacted files of the lake.

Rows of an hour are in `article_changes` of the build file from the window's first hour on, and before it as long as
their lake file is not compacted. All others are in compacted files, and nowhere else but in the archive.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from resources.datasets import Family, datasets
from resources.formatting import hour_text
from resources.warehouse.database.connect import answer
from resources.warehouse.database.sql import FORMULAS, column_list, filled, moment
from resources.warehouse.errors import LakeFileError
from resources.warehouse.read.faults import faults
from resources.warehouse.read.lake_parts import LakePart

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import datetime
    from pathlib import Path

    import duckdb

    from resources.warehouse.errors import FaultyFile

#: The dataset whose older rows are in the lake alone.
(LEAVING,) = (dataset for dataset in datasets(Family.HOURLY) if dataset.leaves_warehouse)
#: What the pipeline knows of a change besides its columns, and how it follows from the row of a compacted file.
_KEYS = f"{FORMULAS['event_key']} AS event_key, file_row"


@dataclass(frozen=True)
class Window:
    """Range of the changes that the build file holds itself.

    Attributes:
        first_hour: Older hours are read from compacted files.
        events_until: No event of theirs is newer.
    """

    first_hour: datetime
    events_until: datetime

    def cold(self, root: Path, paths: Sequence[str], more: str = "") -> list[str]:
        """Return queries for the older changes in compacted files of the lake in `root`.

        Their columns are those of `article_changes` and `more`.

        The comparisons with constants let a query for newer hours or events open no file.
        """
        if not paths:
            return []
        rows = LakePart(LEAVING, f"{root}/", tuple(paths), is_compacted=True).rows(texts=False)
        columns = column_list(LEAVING.table.narrow) + more
        where = f"file.batch_hour < {moment(self.first_hour)} AND file.event_at <= {moment(self.events_until)}"
        return [f"SELECT {columns} FROM {rows} AS file WHERE {where}"]  # noqa: S608  declared names


def window(connection: duckdb.DuckDBPyConnection) -> Window | None:
    """The window of a build file or a published one; None: it holds all changes itself."""
    found = answer(connection, "SELECT first_hour, events_until FROM internal.hot_window")
    return Window(*found[0]) if found else None


def make_all_changes(
    connection: duckdb.DuckDBPyConnection,
    lake_root: Path,
    projects: Collection[str] | None = None,
    *,
    partly: bool = False,
) -> frozenset[str]:
    """Make the temporary view `all_changes` of a build file: the columns of its `article_changes`, of all hours.

    `projects`: those that it is asked for (None: all); others may be left out. `partly`: what is in files that are gone
    or damaged may be left out as well. Returns the compactions with such files.

    Raises:
        LakeFileError: A compacted file is gone or damaged.
    """
    native = f"SELECT {column_list(LEAVING.table.narrow)}, event_key, file_row FROM article_changes"  # noqa: S608
    parts = [native]
    gone: list[tuple[str, datetime, datetime, str]] = []
    if (known := window(connection)) is not None:
        root = lake_root.resolve()
        files = answer(
            connection,
            "SELECT lake_path, first_hour, end_hour, compaction_id FROM compacted_files "
            "WHERE table_name = $table AND first_hour < $first AND ($projects IS NULL OR len(list_filter("
            "$projects, lambda one: one BETWEEN first_project_id AND last_project_id)) > 0) "
            "ORDER BY first_hour, lake_path",
            {
                "table": LEAVING.name,
                "first": known.first_hour,
                "projects": None if projects is None else sorted(projects),
            },
        )
        lost = faults(connection, lake_root, [root / file[0] for file in files])
        gone = [file for file in files if root / file[0] in lost]
        if gone and not partly:
            raise _lost(lost[root / gone[0][0]], *gone[0][1:3], len(gone))
        parts += known.cold(root, [str(root / file[0]) for file in files if file not in gone], filled(f", {_KEYS}"))
    connection.execute("CREATE OR REPLACE TEMP VIEW all_changes AS\n" + "\nUNION ALL\n".join(parts))
    return frozenset(file[3] for file in gone)


def _lost(file: FaultyFile, first: datetime, end: datetime, count: int) -> LakeFileError:
    more = f" ({count} such files)" if count > 1 else ""
    return LakeFileError(
        f"The compacted file {file}{more}, and changes of the hours from {hour_text(first)} to {hour_text(end)} UTC "
        "are nowhere else in the lake, so what follows from all changes cannot be computed. Nothing was changed. Put "
        "the file back, or materialize lake/article_changes and warehouse/article_changes of these hours again: the "
        "archive is enough for that."
    )
