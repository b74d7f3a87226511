"""Trying rejected lines again with the current reader, and reprocessing the hours and snapshots that gain rows.

Lake files are never replaced: their name holds a digest over archive, tables and converter. A line becomes a row only when
its archive is converted again by another converter than the one that rejected it, and the hour or the snapshot is loaded from
the new file.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from assets.families import hour as batches
from assets.families import snapshot as snapshot_sets
from assets.families.converting import NotArchivedError
from assets.partitions import HOUR
from pipelines.operations import rejects as rejected
from pipelines.operations import run as runs
from resources.datasets.paths import ARCHIVE, DIGITS, short
from resources.formatting import counted, hour_text, listed
from resources.lake import Archive, Layout, SnapshotArchive, digest_of
from resources.lake.decode.examine import read_record
from resources.lake.decode.records import RecordReader
from resources.lake.decode.strict_json import Bad
from resources.lake.rejects import whole_line
from resources.warehouse import Warehouse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime

    from pipelines.operations.rejects import Selection
    from pipelines.settings import Settings

#: The archives with rejected lines, as the ledger knows them. An archive of a snapshot is told by its own name.
_REJECTED = (
    "(SELECT DISTINCT table_name, batch_hour, project_id, namespace_id, archive FROM rejects WHERE {where}) AS rejected"
)
_OF_HOURS = f"""\
SELECT batch_hour, project_id, namespace_id, archive, identifier, version, digest FROM {_REJECTED}
JOIN (FROM loads WHERE table_name = 'article_changes') AS loads USING (table_name, batch_hour, project_id, namespace_id)"""  # noqa: S608
_OF_SNAPSHOTS = f"""\
SELECT batch_hour, project_id, namespace_id, archive, identifier, version, digest, snapshot_id, snapshot_version
FROM {_REJECTED}
JOIN (FROM loads WHERE table_name = 'snapshot_articles') AS loads USING (table_name, batch_hour, project_id, namespace_id)
JOIN (SELECT table_name, batch_hour, project_id, namespace_id, snapshot_id, snapshot_version FROM snapshots) AS snapshots
  USING (table_name, batch_hour, project_id, namespace_id)
WHERE ends_with(archive, concat('/', identifier, '.', version[1:{DIGITS}], '.{ARCHIVE}'))"""  # noqa: S608

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
    GONE = "gone"  # some would be rows, but its hour or snapshot cannot be made from the archive


@dataclass(frozen=True)
class Tried:
    """The rejected lines of one archive, read again.

    Attributes:
        archive: Path relative to the archive's folder.
        line_count: Lines that were tried.
        row_count: How many of them would be rows today.
        converted: Today's converter has made its file already; it only has to be loaded.
        why: For `GONE`: what is missing.
        snapshot: Identifier of its snapshot; None: it is of an hour.
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
    snapshot: str | None = None


@dataclass(frozen=True)
class _Source:
    """An archive with rejected lines, as the ledger knows it. `why`: why it cannot be converted and loaded again."""

    archive: Archive
    name: str
    batch_hour: datetime
    digest: str
    why: str


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
        return tuple(sorted({one.batch_hour for one in self.of(Outcome.GAINS) if one.snapshot is None}))

    @property
    def snapshots(self) -> tuple[str, ...]:
        """The snapshots that gain rows when they are done again."""
        return tuple(sorted({one.snapshot for one in self.of(Outcome.GAINS) if one.snapshot is not None}))

    def of(self, outcome: Outcome) -> tuple[Tried, ...]:
        """The archives with one outcome."""
        return tuple(one for one in self.tried if one.outcome is outcome)

    def sentences(self) -> list[str]:
        """What was found, for people."""
        if not self.tried:
            return ["No rejected line is there to be tried again."]
        lines = (
            f"{counted(self.line_count, 'rejected line')} of {counted(len(self.tried), 'archive')} "
            f"{'was' if self.line_count == 1 else 'were'} read again"
        )
        if not self.row_count:
            return [f"{lines}: none of them would be a row today. Nothing is to be done again."]
        told = [f"{lines}: {self.row_count:,} of them would be rows today."]
        if gains := self.of(Outcome.GAINS):
            rows = sum(one.row_count for one in gains if one.snapshot is None)
            hours = listed([hour_text(hour) for hour in self.hours], _SHOWN)
        if gains and self.hours:
            told.append(
                f"{rows:,} of them become rows when their hours are done again from the archive: {hours} (UTC)."
            )
        if gains and self.snapshots:
            rows = sum(one.row_count for one in gains if one.snapshot is not None)
            told.append(
                f"{rows:,} of them become rows when their snapshots are done again from the archive, whole: "
                f"{', '.join(self.snapshots)}."
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
        by_why: dict[tuple[str, str], list[Tried]] = defaultdict(list)
        for one in self.of(Outcome.GONE):
            by_why["hour" if one.snapshot is None else "snapshot", one.why].append(one)
        told += [
            f"{sum(one.row_count for one in gone):,} lines of {_named(gone)} would be rows, but their {kind} cannot be converted "
            f"again. {why} Until then the lines stay in `rejects`, whole, and the {kind} stays as it is loaded."
            for (kind, why), gone in by_why.items()
        ]
        return told


def _named(tried: Iterable[Tried]) -> str:
    return listed([one.archive for one in tried], _SHOWN)


def attempt(settings: Settings, selection: Selection) -> Trial:
    """Read the rejected lines again with the reader of today. Nothing is changed.

    Raises:
        NotPublishedError: Nothing was published yet.
    """
    layout = Layout(settings.data)
    bodies, longest = frozenset(settings.bodies), settings.max_record_mb << 20
    where, parameters = selection.where()
    tried = []
    warehouse = Warehouse(settings.data)
    table = rejected.source(warehouse)
    with warehouse.connect_published() as connection:
        of_hours, of_snapshots = (
            connection.execute(f"{query.format(where=where)} ORDER BY batch_hour, archive", parameters).fetchall()
            for query in (_OF_HOURS, _OF_SNAPSHOTS)
        )
        scopes: dict[datetime, tuple[tuple[str, ...], tuple[int, ...]]] = {}
        for hour in dict.fromkeys(row[0] for row in of_hours):
            loaded = connection.execute(
                "SELECT DISTINCT project_id, namespace_id FROM loads WHERE table_name = 'article_changes' AND batch_hour = ? ORDER BY ALL",
                [hour],
            ).fetchall()
            scopes[hour] = (
                tuple(dict.fromkeys(place[0] for place in loaded)),
                tuple(sorted({place[1] for place in loaded})),
            )
        for source in (*_hourly(of_hours, scopes, layout), *_of_snapshots(of_snapshots, layout)):
            archive = source.archive
            lines = connection.sql(
                f"SELECT raw, raw_bytes, raw_path, raw_offset FROM {table} WHERE (batch_hour, project_id, namespace_id, archive) = (?, ?, ?, ?) "  # noqa: S608
                f"AND {where} ORDER BY member, line_number",
                params=[source.batch_hour, archive.project_id, archive.namespace_id, source.name, *parameters],
            ).to_arrow_reader(_BATCH_ROWS)
            line_count, row_count = _count(
                RecordReader(archive.table, archive.given, bodies), _texts(lines, layout, longest)
            )
            tried.append(_judged(source, line_count, row_count, layout, digest_of(archive, bodies, longest)))
    return Trial(tuple(tried), scopes)


def _hourly(
    rows: Iterable[tuple[Any, ...]],
    scopes: Mapping[datetime, tuple[tuple[str, ...], tuple[int, ...]]],
    layout: Layout,
) -> Iterator[_Source]:
    missing = {hour: _missing(hour, layout, scope) for hour, scope in scopes.items()}
    for hour, project, namespace, name, identifier, version, digest in rows:
        archive = Archive(layout.archive / name, identifier, version, hour, project, namespace)
        yield _Source(archive, name, hour, digest, missing[hour])


def _of_snapshots(rows: Iterable[tuple[Any, ...]], layout: Layout) -> Iterator[_Source]:
    known: dict[tuple[str, str], str] = {}
    for hour, project, namespace, name, identifier, version, digest, snapshot, of in rows:
        if (snapshot, of) not in known:
            known[snapshot, of] = _stale(snapshot, of, layout)
        path = layout.archive / name
        archive = SnapshotArchive(path, identifier, version, hour, project, namespace, snapshot, of)
        yield _Source(archive, name, hour, digest, known[snapshot, of])


def _judged(source: _Source, line_count: int, row_count: int, layout: Layout, wanted: str) -> Tried:
    """What becomes of the lines of a source, of which `row_count` would be rows in a file of the digest `wanted`."""
    archive = source.archive
    one = Tried(
        batch_hour=source.batch_hour,
        project_id=archive.project_id,
        namespace_id=archive.namespace_id,
        archive=source.name,
        line_count=line_count,
        row_count=row_count,
        outcome=Outcome.NONE,
        snapshot=archive.snapshot_id if isinstance(archive, SnapshotArchive) else None,
    )
    if not row_count:
        return one
    if wanted == source.digest:
        return replace(one, outcome=Outcome.SAME)
    if source.why:
        return replace(one, outcome=Outcome.GONE, why=source.why)
    there = archive.lake_file(layout, archive.table.name, wanted).exists()
    return replace(one, outcome=Outcome.GAINS, converted=there)


def _stale(identifier: str, version: str, layout: Layout) -> str:
    """Why a snapshot's version cannot be made again from the archive, in a sentence; empty where it can."""
    try:
        newest = snapshot_sets.archived_snapshot(identifier, layout)
    except NotArchivedError as error:
        return f"{error} Put it back from a backup if the service no longer offers it."
    if newest.version != version:
        return (
            f"Version {short(version)} of {identifier} is not the newest in the archive, and only the newest is done again. "
            "Materialize warehouse/snapshot_articles of it to have the newer one."
        )
    return ""


def _missing(hour: datetime, layout: Layout, scope: tuple[tuple[str, ...], tuple[int, ...]]) -> str:
    """What of an hour's loaded archives is not on disk, in a sentence; empty where all of it is."""
    projects, namespaces = scope
    try:
        batches.archived_hour(hour, layout, [(project, number) for project in projects for number in namespaces])
    except NotArchivedError as error:
        return f"{error} Put it back from a backup if the service no longer keeps it."
    return ""


def _texts(batches_of_lines: Iterable[Any], layout: Layout, longest: int) -> Iterator[bytes]:
    """The lines, whole; of one that is not there, or still too long, the beginning, which is no record."""
    for batch in batches_of_lines:
        for beginning, size, path, offset in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            if path is None or size > longest:
                yield beginning
                continue
            try:
                yield b"".join(whole_line(layout, path, offset))
            except OSError:
                yield beginning


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
    """Do the hours and snapshots that gain rows again from the archive, whole, and publish. The service is not asked for anything.

    Each hour is converted and loaded as by any other run: a load is one transaction, and what a run that was killed had
    finished is found again. Hours are taken with the projects they are loaded with, whatever is mirrored now.
    """
    return runs.from_archive(settings, grouped(settings, trial), trial.snapshots, **overrides)


def grouped(settings: Settings, trial: Trial) -> list[tuple[Settings, list[datetime]]]:
    """The hours that gain rows as ranges, each of consecutive hours that are loaded with the same projects and namespaces."""
    groups: list[tuple[Settings, list[datetime]]] = []
    for hour in trial.hours:
        projects, namespaces = trial.scopes[hour]
        wanted = settings.model_copy(update={"projects": projects, "namespaces": namespaces})
        if groups and groups[-1][0] == wanted and groups[-1][1][-1] + HOUR == hour:
            groups[-1][1].append(hour)
        else:
            groups.append((wanted, [hour]))
    return groups
