"""Trying rejected lines again with the current reader, and reprocessing the hours and snapshots that gain rows.

Lake files are never replaced: their name holds a digest over archive, tables and converter. A line becomes a row only when
its archive is converted again by another converter than the one that rejected it, and the hour or the snapshot is loaded from
the new file.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from assets.partitions import HOUR
from assets.steps import hour as batches
from assets.steps import snapshot as snapshot_sets
from assets.steps.converting import NotArchivedError
from pipelines.operations import run as runs
from pipelines.wiring import build_resources
from resources.datasets import Family, datasets, named
from resources.datasets.paths import ARCHIVE, DIGITS, short
from resources.formatting import counted, hour_text, listed
from resources.lake import Archive, SnapshotArchive, digest_of
from resources.lake.decode.examine import read_record
from resources.lake.decode.records import RecordReader
from resources.lake.decode.strict_json import Bad
from resources.lake.rejects import whole_line
from resources.warehouse import Warehouse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pipelines.operations.rejects import Selection
    from pipelines.settings import Settings
    from resources.adapters import LakeResource
    from resources.datasets import Dataset
    from resources.lake import Layout

#: The archives with rejected lines, as the ledger knows them. An archive of a snapshot is told by its own name.
_REJECTED = f"""\
SELECT table_name, source_at, project_id, namespace_id, archive, identifier, version, digest, snapshot_id, snapshot_version, exported_at
FROM (SELECT DISTINCT table_name, source_at, project_id, namespace_id, archive FROM rejects WHERE {{where}}) AS rejected
JOIN loads USING (table_name, source_at, project_id, namespace_id)
LEFT JOIN (SELECT table_name, source_at, project_id, namespace_id, snapshot_id, snapshot_version, exported_at FROM snapshots) AS snapshots
  USING (table_name, source_at, project_id, namespace_id)
WHERE snapshot_id IS NULL OR ends_with(archive, concat('/', identifier, '.', version[1:{DIGITS}], '.{ARCHIVE}'))
ORDER BY snapshot_id IS NOT NULL, source_at, archive"""  # noqa: S608

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
        part: What is done again of its dataset: an hour, or a snapshot by its identifier.
    """

    dataset: Dataset
    part: datetime | str
    archive: str
    line_count: int
    row_count: int
    outcome: Outcome
    converted: bool = False
    why: str = ""

    @property
    def kind(self) -> str:
        """What its part is."""
        return "snapshot" if isinstance(self.part, str) else "hour"


@dataclass(frozen=True)
class _Source:
    """An archive with rejected lines, as the ledger knows it. `why`: why it cannot be converted and loaded again."""

    archive: Archive
    name: str
    source_at: datetime
    digest: str
    why: str


@dataclass(frozen=True)
class Trial:
    """All that was tried, and which projects and namespaces each hour of a dataset holds that would be done again."""

    tried: tuple[Tried, ...]
    scopes: Mapping[tuple[Dataset, datetime], tuple[tuple[str, ...], tuple[int, ...]]]

    @property
    def line_count(self) -> int:
        """Lines that were tried."""
        return sum(one.line_count for one in self.tried)

    @property
    def row_count(self) -> int:
        """Lines that would be rows today."""
        return sum(one.row_count for one in self.tried)

    @property
    def hours(self) -> dict[Dataset, list[datetime]]:
        """The hours that gain rows when they are done again, by dataset, oldest first."""
        return self._parts("hour")

    @property
    def snapshots(self) -> dict[Dataset, list[str]]:
        """The snapshots that gain rows when they are done again, by dataset."""
        return self._parts("snapshot")

    def _parts(self, kind: str) -> dict[Dataset, list[Any]]:
        found: dict[Dataset, set[Any]] = defaultdict(set)
        for one in self.of(Outcome.GAINS):
            if one.kind == kind:
                found[one.dataset].add(one.part)
        return {dataset: sorted(parts) for dataset, parts in found.items()}

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
        gains = self.of(Outcome.GAINS)
        for kind, whole in (("hour", ""), ("snapshot", ", whole")):
            if its := [one for one in gains if one.kind == kind]:
                parts = sorted({hour_text(one.part) if isinstance(one.part, datetime) else one.part for one in its})
                told.append(
                    f"{sum(one.row_count for one in its):,} of them become rows when their {kind}s are done again from the "
                    f"archive{whole}: {listed(parts, _SHOWN)}{' (UTC)' if kind == 'hour' else ''}."
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
            by_why[one.kind, one.why].append(one)
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
    lake: LakeResource = build_resources(settings)["lake"]
    layout, longest = lake.layout, lake.record_bytes_max
    where, parameters = selection.where()
    tried = []
    warehouse = Warehouse(settings.data)
    with warehouse.connect_published() as connection:
        rows = connection.execute(_REJECTED.format(where=where), parameters).fetchall()
        # lookups are converted again by their next run
        known = {one.name for one in datasets() if one.family is not Family.LOOKUP}
        of_declared = [(named(row[0]), *row[1:]) for row in rows if row[0] in known]
        scopes = {
            part: _loaded(connection, *part) for part in dict.fromkeys(row[:2] for row in of_declared if not row[8])
        }
        for source in _sources(of_declared, scopes, layout):
            archive, bodies = source.archive, lake.bodies_of(source.archive.dataset)
            reader = RecordReader(archive.table, archive.given, bodies, archive.latest)
            of_source = f"FROM rejects WHERE (source_at, project_id, namespace_id, archive) = (?, ?, ?, ?) AND {where}"
            known_as = [source.source_at, archive.project_id, archive.namespace_id, source.name, *parameters]
            # what is too short for a record is counted alone: there may be millions of such lines
            size = "coalesce(raw_bytes, octet_length(raw))"
            count = f"SELECT count(*) FILTER ({size} < {reader.shape.least_bytes}) {of_source}"
            [(short_count,)] = connection.execute(count, known_as).fetchall()
            lines = connection.sql(
                f"SELECT raw, raw_bytes, raw_path, raw_offset {of_source} AND {size} >= {reader.shape.least_bytes} ORDER BY member, line_number",
                params=known_as,
            ).to_arrow_reader(_BATCH_ROWS)
            line_count, row_count = _count(reader, _texts(lines, layout, longest))
            line_count += short_count
            tried.append(_judged(source, line_count, row_count, layout, digest_of(archive, bodies, longest)))
    return Trial(tuple(tried), scopes)


def _loaded(connection: Any, dataset: Dataset, hour: datetime) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The projects and namespaces that an hour is loaded with."""
    found = connection.execute(
        "SELECT DISTINCT project_id, namespace_id FROM loads WHERE table_name = ? AND batch_hour = ? ORDER BY ALL",
        [dataset.name, hour],
    ).fetchall()
    return tuple(dict.fromkeys(place[0] for place in found)), tuple(sorted({place[1] for place in found}))


def _sources(
    rows: Iterable[tuple[Any, ...]],
    scopes: Mapping[tuple[Dataset, datetime], tuple[tuple[str, ...], tuple[int, ...]]],
    layout: Layout,
) -> Iterator[_Source]:
    why: dict[tuple[Dataset, Any], str] = {part: _missing(*part, layout, scope) for part, scope in scopes.items()}
    for dataset, source_at, project, namespace, name, identifier, version, digest, snapshot, of, exported_at in rows:
        path = layout.archive / name
        if snapshot is None:
            archive = Archive(path, identifier, version, source_at, project, namespace, dataset=dataset)
            yield _Source(archive, name, source_at, digest, why[dataset, source_at])
            continue
        if (dataset, (snapshot, of)) not in why:
            why[dataset, (snapshot, of)] = _stale(dataset, snapshot, of, layout)
        archive = SnapshotArchive(
            path, identifier, version, project, namespace, snapshot, of, exported_at=exported_at, dataset=dataset
        )
        yield _Source(archive, name, source_at, digest, why[dataset, (snapshot, of)])


def _judged(source: _Source, line_count: int, row_count: int, layout: Layout, wanted: str) -> Tried:
    """What becomes of the lines of a source, of which `row_count` would be rows in a file of the digest `wanted`."""
    archive = source.archive
    one = Tried(
        dataset=archive.dataset,
        part=archive.snapshot_id if isinstance(archive, SnapshotArchive) else source.source_at,
        archive=source.name,
        line_count=line_count,
        row_count=row_count,
        outcome=Outcome.NONE,
    )
    if not row_count:
        return one
    if wanted == source.digest:
        return replace(one, outcome=Outcome.SAME)
    if source.why:
        return replace(one, outcome=Outcome.GONE, why=source.why)
    there = archive.lake_file(layout, archive.table.name, wanted).exists()
    return replace(one, outcome=Outcome.GAINS, converted=there)


def _stale(dataset: Dataset, identifier: str, version: str, layout: Layout) -> str:
    """Why a snapshot's version cannot be made again from the archive, in a sentence; empty where it can."""
    try:
        newest = snapshot_sets.archived_snapshot(identifier, layout, dataset=dataset)
    except NotArchivedError as error:
        return f"{error} Put it back from a backup if the service no longer offers it."
    if newest.version != version:
        return (
            f"Version {short(version)} of {identifier} is not the newest in the archive, and only the newest is done again. "
            f"Materialize warehouse/{dataset.name} of it to have the newer one."
        )
    return ""


def _missing(dataset: Dataset, hour: datetime, layout: Layout, scope: tuple[tuple[str, ...], tuple[int, ...]]) -> str:
    """What of an hour's loaded archives is not on disk, in a sentence; empty where all of it is."""
    places = [(project, number) for project in scope[0] for number in scope[1]]
    try:
        batches.archived_hour(hour, layout, places, dataset)
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


def grouped(settings: Settings, trial: Trial) -> list[tuple[Dataset, Settings, list[datetime]]]:
    """The hours that gain rows as ranges, each of consecutive hours that are loaded with the same projects and namespaces."""
    groups: list[tuple[Dataset, Settings, list[datetime]]] = []
    for dataset, hour in ((dataset, hour) for dataset, hours in trial.hours.items() for hour in hours):
        projects, namespaces = trial.scopes[dataset, hour]
        wanted = settings.model_copy(update={"projects": projects, "namespaces": namespaces})
        if groups and groups[-1][:2] == (dataset, wanted) and groups[-1][2][-1] + HOUR == hour:
            groups[-1][2].append(hour)
        else:
            groups.append((dataset, wanted, [hour]))
    return groups
