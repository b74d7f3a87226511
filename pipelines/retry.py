"""Trying rejected lines again with the reader of today, and doing again the hours that gain rows by it.

Belongs here: which archives gain rows, why others cannot be done again, what is told of it.
Does not belong here: reading lines (see `resources.lake`), running jobs (see `run`).

Lake files are never replaced: their name holds a digest over archive, tables and converter. A line becomes a row only when
its archive is converted again by another converter than the one that rejected it, and the hour is loaded from the new file.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from assets import batches
from assets.converting import NotArchivedError
from assets.partitions import HOUR, hour_text
from pipelines import run as runs
from resources.lake import Archive, Layout, digest_of
from resources.lake.examine import Bad, read_record
from resources.lake.records import RecordReader
from resources.tables import ARTICLE_CHANGES
from resources.warehouse import Warehouse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime

    from pipelines.rejects import Selection
    from pipelines.settings import Settings

#: Bytes of lines that are read at once.
_BLOCK_BYTES = 8 << 20
#: Lines taken out of the warehouse at once.
_BATCH_ROWS = 256
_SHOWN = 5


class Outcome(enum.StrEnum):
    """What became of the rejected lines of one archive when they were read again."""

    GAINS = "gains"  # some would be rows, by another converter than the one that rejected them
    NONE = "none"  # none would be a row today
    SAME = "same"  # some would be rows, but its file bears the digest of today's converter
    GONE = "gone"  # some would be rows, but an archive of the hour is not on disk


@dataclass(frozen=True)
class Tried:
    """The rejected lines of one archive, read again.

    Attributes:
        archive: Path relative to the archive's folder.
        line_count: Lines that were tried.
        row_count: How many of them would be rows today.
        converted: Today's converter has made its file already; it only has to be loaded.
        why: For `GONE`: what is missing.
    """

    batch_hour: datetime
    project_id: str
    namespace_id: int
    archive: str
    line_count: int
    row_count: int
    outcome: Outcome
    converted: bool = False
    why: str = ""


@dataclass(frozen=True)
class Trial:
    """All that was tried, and which projects and namespaces each hour holds that would be done again."""

    tried: tuple[Tried, ...]
    scopes: Mapping[datetime, tuple[tuple[str, ...], tuple[int, ...]]]

    @property
    def line_count(self) -> int:
        """Lines that were tried."""
        return sum(one.line_count for one in self.tried)

    @property
    def row_count(self) -> int:
        """Lines that would be rows today."""
        return sum(one.row_count for one in self.tried)

    @property
    def hours(self) -> tuple[datetime, ...]:
        """The hours that gain rows when they are done again, oldest first."""
        return tuple(sorted({one.batch_hour for one in self.of(Outcome.GAINS)}))

    def of(self, outcome: Outcome) -> tuple[Tried, ...]:
        """The archives with one outcome."""
        return tuple(one for one in self.tried if one.outcome is outcome)

    def sentences(self) -> list[str]:
        """What was found, for people."""
        if not self.tried:
            return ["No rejected line is there to be tried again."]
        lines = f"{self.line_count:,} rejected lines of {len(self.tried):,} archives were read again"
        if not self.row_count:
            return [f"{lines}: none of them would be a row today. Nothing is to be done again."]
        told = [f"{lines}: {self.row_count:,} of them would be rows today."]
        if gains := self.of(Outcome.GAINS):
            rows = sum(one.row_count for one in gains)
            hours = ", ".join(hour_text(hour) for hour in self.hours[:_SHOWN])
            more = f" and {len(self.hours) - _SHOWN:,} more" if len(self.hours) > _SHOWN else ""
            told.append(
                f"{rows:,} of them become rows when their hours are done again from the archive: {hours}{more} (UTC)."
            )
        if done := [one for one in gains if one.converted]:
            told.append(
                f"{len(done):,} of these {len(gains):,} archives have been converted again already and only need loading."
            )
        return told

    def obstacles(self) -> list[str]:
        """Why lines that would be rows cannot become rows now, a sentence for each cause."""
        told = []
        if same := self.of(Outcome.SAME):
            told.append(
                f"{sum(one.row_count for one in same):,} lines of {_named(same)} would be rows, but the files they were "
                "rejected from bear the digest of the present converter: the reader was changed and its version was not. "
                "A file of a known digest is never made again, so nothing was changed. Raise CONVERTER_VERSION in "
                "resources/lake/conversion.py (a release does) and try again."
            )
        by_why: dict[str, list[Tried]] = defaultdict(list)
        for one in self.of(Outcome.GONE):
            by_why[one.why].append(one)
        told += [
            f"{sum(one.row_count for one in gone):,} lines of {_named(gone)} would be rows, but their hour cannot be converted "
            f"again. {why} Until then the lines stay in `rejects`, whole, and the hour stays as it is loaded."
            for why, gone in by_why.items()
        ]
        return told


def _named(tried: Iterable[Tried]) -> str:
    names = [one.archive for one in tried]
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def attempt(settings: Settings, selection: Selection) -> Trial:
    """Read the rejected lines again with the reader of today. Nothing is changed.

    Raises:
        NotPublishedError: Nothing was published yet.
    """
    layout = Layout(settings.data)
    bodies = frozenset(settings.bodies)
    where, parameters = selection.where()
    scopes: dict[datetime, tuple[tuple[str, ...], tuple[int, ...]]] = {}
    missing: dict[datetime, str] = {}
    tried = []
    with Warehouse(settings.data).connect_published() as connection:
        found = connection.execute(
            "SELECT batch_hour, project_id, namespace_id, archive, identifier, version, digest "  # noqa: S608
            f"FROM (SELECT DISTINCT batch_hour, project_id, namespace_id, archive FROM rejects WHERE {where}) "
            "JOIN (FROM loads WHERE table_name = 'article_changes') AS loads USING (batch_hour, project_id, namespace_id) "
            "ORDER BY batch_hour, archive",
            parameters,
        ).fetchall()
        for hour, project, namespace, name, identifier, version, digest in found:
            archive = Archive(layout.archive / name, identifier, version, hour, project, namespace)
            if hour not in scopes:
                loaded = connection.execute(
                    "SELECT DISTINCT project_id, namespace_id FROM loads WHERE table_name = 'article_changes' AND batch_hour = ? ORDER BY ALL",
                    [hour],
                ).fetchall()
                scopes[hour] = (
                    tuple(dict.fromkeys(place[0] for place in loaded)),
                    tuple(sorted({place[1] for place in loaded})),
                )
                missing[hour] = _missing(hour, layout, scopes[hour])
            lines = connection.sql(
                "SELECT raw FROM rejects WHERE (batch_hour, project_id, namespace_id, archive) = (?, ?, ?, ?) "  # noqa: S608
                f"AND {where} ORDER BY member, line_number",
                params=[hour, project, namespace, name, *parameters],
            ).to_arrow_reader(_BATCH_ROWS)
            line_count, row_count = _count(
                RecordReader(ARTICLE_CHANGES, archive, bodies),
                _texts(lines),
            )
            one = Tried(hour, project, namespace, name, line_count, row_count, Outcome.NONE)
            wanted = digest_of(archive, bodies)
            if row_count and wanted == digest:
                one = replace(one, outcome=Outcome.SAME)
            elif row_count and missing[hour]:
                one = replace(one, outcome=Outcome.GONE, why=missing[hour])
            elif row_count:
                there = layout.lake_file(ARTICLE_CHANGES.name, hour, identifier, wanted).exists()
                one = replace(one, outcome=Outcome.GAINS, converted=there)
            tried.append(one)
    return Trial(tuple(tried), scopes)


def _missing(hour: datetime, layout: Layout, scope: tuple[tuple[str, ...], tuple[int, ...]]) -> str:
    """What of an hour's loaded archives is not on disk, in a sentence; empty where all of it is."""
    projects, namespaces = scope
    try:
        batches.archived_hour(hour, layout, [(project, number) for project in projects for number in namespaces])
    except NotArchivedError as error:
        return f"{error} Put it back from a backup if the service no longer keeps it."
    return ""


def _texts(batches_of_lines: Iterable[Any]) -> Iterator[bytes]:
    for batch in batches_of_lines:
        yield from batch.column(0).to_pylist()


def _count(reader: RecordReader, lines: Iterator[bytes]) -> tuple[int, int]:
    """How many lines there are, and how many of them the reader makes rows of."""
    line_count = row_count = 0
    for block in _blocks(lines):
        line_count += len(block)
        # what is not one whole object by itself is left out, lest two such lines make one side by side
        whole = [line for line in block if _is_record(line)]
        if whole:
            data = b"\n".join(whole) + b"\n"
            rows = reader.read(memoryview(data), "", 1, 0, len(whole))
            row_count += len(whole) - len(rows.rejects)
    return line_count, row_count


def _blocks(lines: Iterator[bytes]) -> Iterator[list[bytes]]:
    block: list[bytes] = []
    size = 0
    for line in lines:
        block.append(line)
        size += len(line)
        if size >= _BLOCK_BYTES:
            yield block
            block, size = [], 0
    if block:
        yield block


def _is_record(line: bytes) -> bool:
    try:
        read_record(line)
    except Bad:
        return False
    return True


def redo(settings: Settings, trial: Trial, **overrides: Any) -> runs.RunReport:
    """Do the hours that gain rows again from the archive, whole, and publish. The service is not asked for anything.

    Each hour is converted and loaded as by any other run: a load is one transaction, and what a run that was killed had
    finished is found again. Hours are taken with the projects they are loaded with, whatever is mirrored now.
    """
    groups: list[tuple[Settings, list[datetime]]] = []
    for hour in trial.hours:
        projects, namespaces = trial.scopes[hour]
        wanted = settings.model_copy(update={"projects": projects, "namespaces": namespaces})
        if groups and groups[-1][0] == wanted and groups[-1][1][-1] + HOUR == hour:
            groups[-1][1].append(hour)
        else:
            groups.append((wanted, [hour]))
    return runs.from_archive(settings, groups, **overrides)
