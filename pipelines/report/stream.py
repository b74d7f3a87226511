"""The realtime stream, as `wme status` shows it: whether it agrees with the hourly files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from resources.formatting import counted, hour_text
from resources.tables import STREAM_COMPARISONS

if TYPE_CHECKING:
    from datetime import datetime

    from resources.warehouse.read.reading import Reader

#: Hours with differences that are named.
_SHOWN = 3


class Told(NamedTuple):
    """Facts (names and values), and what needs attention, in sentences."""

    facts: list[tuple[str, Any]]
    troubles: list[str]


def compared(warehouse: Reader, since: datetime) -> Told:
    """How the stream and the files of the hours from a moment on compare; nothing where they were not."""
    query = "SELECT count(*) FROM duckdb_tables() WHERE table_name = ?"
    if warehouse.sql(query, [STREAM_COMPARISONS.name]).rows == [(0,)]:
        return Told([], [])  # an older version published the file
    differences = "only_in_stream_count + only_in_file_count + different_count"
    rows = warehouse.sql(
        f"SELECT batch_hour, project_id, namespace_id, {differences}, only_in_stream_count, only_in_file_count, different_count, stream_count "  # noqa: S608
        "FROM stream_comparisons WHERE batch_hour >= ? ORDER BY batch_hour DESC, project_id, namespace_id",
        [since],
    ).rows
    if not rows:
        return Told([], [])
    hours, events = len({row[0] for row in rows}), sum(row[-1] for row in rows)
    wrong = [row for row in rows if row[3]]
    count = sum(row[3] for row in wrong)
    said = f"{count:,} differ" if wrong else "no difference"
    facts = [("stream and files", f"{counted(hours, 'hour')} compared, {counted(events, 'event')}, {said}")]
    troubles = [
        f"{project} namespace {namespace}, {hour_text(hour)} UTC: {counted(total, 'event')} of the stream and the hour's file differ "
        f"({streamed:,} only in the stream, {filed:,} only in the file, {different:,} different). `stream_comparisons` has examples."
        for hour, project, namespace, total, streamed, filed, different, _ in wrong[:_SHOWN]
    ]
    if len(wrong) > _SHOWN:
        troubles.append(f"The stream and the files differ in {counted(len(wrong) - _SHOWN, 'more hour')}.")
    return Told(facts, troubles)
