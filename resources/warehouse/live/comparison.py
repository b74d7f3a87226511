"""The stream and the files of hours, compared: whatever one of them lacks, or says otherwise, is counted and shown by examples.

An hour is compared once its file is loaded, or the service's list lacks it: over the time of it in which the stream was kept, and of the
projects and namespaces whose events were. The files of both are read, so that nothing in between can hide a difference. Events that come later
by the stream, or a file that is loaded again, make the comparison again. Once the stream's files are gone, what was found stays.

Changes of visibility, which files lack, are kept for good then, in a table of their own: files that are loaded again replace the rows of their
hour, and these have none.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from resources import files
from resources.datasets import RETENTION
from resources.datasets.live import LIVE_CHANGES, files_of, repaired, step_of
from resources.errors import clause
from resources.formatting import counted, hour_text
from resources.tables import ARTICLE_CHANGES, COVERED, STREAM_COMPARISONS, Difference
from resources.warehouse.database.connect import answer, is_exhausted, raise_revision
from resources.warehouse.database.sql import column_list, identifier, quoted, statement, transaction
from resources.warehouse.errors import LakeFileError
from resources.warehouse.live.rows import rows_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from pathlib import Path

    from resources.datasets.live import Step

_COVERED = ", ".join(quoted(state) for state in sorted(COVERED))
_HOUR = timedelta(hours=1)
#: After its beginning an hour that differs is no longer compared at each load: a difference that is there to stay would cost every hour of two days.
_LATE = "INTERVAL 4 HOUR"
#: Examples of each kind of difference.
_EXAMPLES = "5"
#: Columns that are of one side alone.
_OWN = ("batch_hour", "event_partition", "event_offset")
_CONTENT = [identifier(column.name) for column in ARTICLE_CHANGES.narrow if column.name not in _OWN]
_COLUMNS = column_list(ARTICLE_CHANGES.narrow)
_DIFFERING = ", ".join(
    [
        *(f"CASE WHEN streamed.{n} IS DISTINCT FROM filed.{n} THEN {quoted(n[1:-1])} END" for n in _CONTENT),
        *(f"CASE WHEN streamed.{n} <> filed.{n} THEN {quoted(n)} END" for n in sorted(ARTICLE_CHANGES.bodies)),
    ]
)
_WORDS = {
    "only_in_stream": Difference.ONLY_IN_STREAM,
    "only_in_file": Difference.ONLY_IN_FILE,
    "different": Difference.DIFFERENT,
}
_NAMES = ("project_id", "namespace_id", "digest", "compared_from", "compared_until")
_COMPARING = pa.schema([STREAM_COMPARISONS.schema.field(name) for name in _NAMES])


@dataclass(frozen=True)
class Comparison:
    """The stream and the file of an hour, project and namespace. The counts are those of `stream_comparisons`; `is_news`: this is not what was found before."""

    is_news: bool
    batch_hour: datetime
    project_id: str
    namespace_id: int
    stream_count: int
    file_count: int
    only_in_stream_count: int
    only_in_file_count: int
    different_count: int
    superseded_count: int

    @property
    def difference_count(self) -> int:
        """Events in which the two differ."""
        return self.only_in_stream_count + self.only_in_file_count + self.different_count

    def __str__(self) -> str:
        """What differs, in one sentence."""
        place = f"{self.project_id} namespace {self.namespace_id}, {hour_text(self.batch_hour)} UTC"
        if not self.difference_count:
            return f"{place}: the stream and the file agree in {counted(self.stream_count, 'event')}."
        counts = (
            (self.only_in_stream_count, "only in the stream"),
            (self.only_in_file_count, "only in the file"),
            (self.different_count, "different in the two"),
        )
        told = ", ".join(f"{count:,} {what}" for count, what in counts if count)
        return f"{place}: the stream and the file differ in {counted(self.difference_count, 'event')} ({told}). `stream_comparisons` has examples."


def compare(connection: duckdb.DuckDBPyConnection, lake_root: Path, now: datetime) -> list[Comparison]:
    """Compare the hours that are due, each in a transaction; returns what was compared.

    Memory is that of the hour's keys and digests; DuckDB puts on disk what is more than it may hold.

    Raises:
        LakeFileError: A file of the stream or of an hour is damaged or gone; nothing was changed for its hour; the others were compared.
    """
    folder = lake_root.resolve() / LIVE_CHANGES
    if not (found := files_of(folder)):
        return []
    try:
        step = repaired(step_of(found[-1].last, found[-1].path), now)
    except (OSError, ValueError) as error:
        raise LakeFileError(
            f"The file {found[-1].path} of the stream cannot be read ({clause(error)}), so the stream was not compared with the hours' files. Nothing was changed."
        ) from error
    made: list[Comparison] = []
    damaged: LakeFileError | None = None
    for hour, places in _due(connection, lake_root, step, now).items():
        # an event may come before its hour by the clock of this machine
        streamed = [file.path for file in files_of(folder, hour - _HOUR)]
        filed = [path for path, _ in places if path is not None]
        try:
            with transaction(connection):
                made += _compare(connection, hour, [row for _, row in places], streamed, filed, now)
        except duckdb.Error as error:
            if is_exhausted(error):
                raise
            damaged = LakeFileError(
                f"The stream and the files of {hour_text(hour)} UTC were not compared, because one of them cannot be read ({clause(error)}). Nothing was changed; "
                "the next load of an hour tries again. Remove the damaged file, and convert its archive again if it is one of the hour's."
            )
            damaged.__cause__ = error
    if damaged is not None:
        raise damaged
    return made


def _due(
    connection: duckdb.DuckDBPyConnection, lake_root: Path, step: Step, now: datetime
) -> dict[datetime, list[tuple[Path | None, dict[str, Any]]]]:
    """By hour, the places that are to be compared, each with its file."""
    # of hours that begin earlier the service may not have had all events when the stream was read again
    rows = answer(
        connection, statement("live/due", covered=_COVERED, late=_LATE), {"earliest": now - RETENTION, "now": now}
    )
    due: dict[datetime, list[tuple[Path | None, dict[str, Any]]]] = defaultdict(list)
    for hour, project, namespace, lake_path, digest, before_from, before_until, is_settled in rows:
        since = step.kept_since.get((project, namespace), None if step.kept_since else step.since)
        begin, end = max(hour, since or hour + _HOUR), min(hour + _HOUR, step.kept_until)
        path = None if lake_path is None else files.within(lake_root.resolve(), lake_path)
        if begin >= end or (is_settled and (begin, end) == (before_from, before_until)):
            continue
        # a compacted hour keeps the comparison that it has
        if path is None or path.exists():
            due[hour].append((path, dict(zip(_NAMES, (project, namespace, digest, begin, end), strict=True))))
    return due


def _compare(
    connection: duckdb.DuckDBPyConnection,
    hour: datetime,
    places: Sequence[dict[str, Any]],
    streamed: Sequence[Path],
    filed: Sequence[Path],
    now: datetime,
) -> list[Comparison]:
    connection.register("announced", pa.Table.from_pylist(list(places), schema=_COMPARING))
    connection.execute("CREATE OR REPLACE TEMP TABLE comparing AS FROM announced")
    connection.unregister("announced")
    sides = {"streamed": _rows(streamed), "filed": _rows(filed)}
    for side, rows in sides.items():
        text = statement("live/side", side=side, rows=rows, content=", ".join(_CONTENT))
        connection.execute(text, {"hour": hour})
    connection.execute(statement("live/differences", **_WORDS))
    if not answer(connection, f"SELECT 1 FROM compared WHERE difference = '{Difference.DIFFERENT}' LIMIT 1"):  # noqa: S608
        sides = dict.fromkeys(sides, _rows(()))  # no file has to be opened again
    connection.execute(statement("live/columns", columns=_DIFFERING, examples=_EXAMPLES, **_WORDS, **sides))
    connection.execute(statement("live/comparisons", examples=_EXAMPLES, **_WORDS), {"hour": hour, "now": now})
    news = "* EXCLUDE (compared_at)"
    fresh = answer(connection, f"SELECT {news} FROM comparisons EXCEPT SELECT {news} FROM stream_comparisons")  # noqa: S608
    kept = statement("live/visibility", columns=_COLUMNS, rows=_rows(streamed))
    [(kept_count,)] = connection.execute(kept, {"hour": hour}).fetchall()
    # should a file have them after all, they are its rows
    connection.execute(
        "DELETE FROM visibility_changes AS kept USING article_changes AS filed WHERE kept.batch_hour = $hour AND filed.batch_hour = $hour "
        "AND filed.change_type = 'visibility-change' AND kept.project_id = filed.project_id AND kept.namespace_id = filed.namespace_id "
        "AND kept.event_id = filed.event_id AND kept.name = filed.name",
        {"hour": hour},
    )
    if fresh:
        connection.execute(
            "DELETE FROM stream_comparisons AS old USING comparisons AS new WHERE old.batch_hour = new.batch_hour "
            "AND old.project_id = new.project_id AND old.namespace_id = new.namespace_id"
        )
        connection.execute("INSERT INTO stream_comparisons BY NAME FROM comparisons")
    if fresh or kept_count:
        raise_revision(connection)
    own = ", ".join(name for field in fields(Comparison) if (name := field.name) != "is_news")
    counts = answer(connection, f"SELECT {own} FROM comparisons ORDER BY ALL")  # noqa: S608  our own names
    told = {one[:3] for one in fresh}
    return [Comparison(row[:3] in told, *row) for row in counts]


def _rows(paths: Sequence[Path]) -> str:
    return rows_of([str(path) for path in paths], ARTICLE_CHANGES)
