"""The events of the stream as small files, each of which records the stream's position.

A step lands one Parquet file: rows are the events, and metadata the next offset of every partition, so one rename makes
both durable. Each event is stored exactly once, even if the process is killed: events after the newest file are
received again, and those that a file already has are skipped. The highest number is the newest, whatever the clock
says. As the hour grows, files of equally many steps are merged into one that replaces them.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from resources import files
from resources.data_folder import removing
from resources.datasets import AHEAD
from resources.datasets import live as stream_files
from resources.datasets.live import Run, Step
from resources.datasets.paths import hour_folders
from resources.errors import clause
from resources.formatting import counted, legible
from resources.lake.archives import Layout
from resources.lake.conversion import bodies_kept
from resources.lake.decode.native import trim
from resources.lake.decode.records import RecordReader
from resources.lake.decode.rejected import REASON_MAX, Rejects
from resources.lake.errors import LakeError, landing_failed
from resources.lake.parquet.writer import COMPRESSION_LEVEL, ParquetFile, encode
from resources.lake.rejects import packer
from resources.lake.stream_events import Continuity, events_in, pieces
from resources.tables import Table

_log = logging.getLogger(__name__)

#: Records are rows of one row group; a step of more has several.
_GROUP_ROWS = 8_192
#: Files of equally many steps that are merged, up to this size: a stream that is catching up has full steps, which are
#: larger together. They are not small, and merging would compress them twice.
_MERGED, _MERGED_BYTES = 8, 32 << 20
#: Level for files of single steps. It takes three quarters of the time, and most of these files are soon merged.
_STEP_LEVEL = 1
#: Seconds for which merged files stay, for queries that have listed them.
_KEEP_SECONDS = 3600.0
#: Runs that a file describes.
_RUNS = 24
#: Most bytes of memory for the rows of files that are being merged.
_READ_BYTES = 32 << 20


class _Rejects:
    """Lines that are no events, and why, compressed as they come: there may be millions of small ones."""

    def __init__(self) -> None:
        self.count = 0
        self.first_reason = ""
        self._packers = packer(), packer()
        self._packed: tuple[list[bytes], list[bytes]] = [], []

    def add(self, some: Rejects) -> None:
        """Add those of a block."""
        if not some:
            return
        for texts, zipped, packed in zip((some.lines(), some.reason_lines()), self._packers, self._packed, strict=True):
            packed.append(zipped.compress(texts))
        self.first_reason = self.first_reason or some.reasons[0].as_py()
        self.count += len(some)

    def packed(self) -> tuple[bytes, ...]:
        """The files of all of them: their lines, and a reason for each line (gzip)."""
        return tuple(
            b"".join((*packed, zipped.flush())) for packed, zipped in zip(self._packed, self._packers, strict=True)
        )


class LiveLake:
    """The files of one stream, in a folder `name` of the lake. The caller ensures that one process writes at a time.

    `bodies`: body columns to keep. `scope`: the projects and namespaces whose events are stored. Default of both: all.
    """

    def __init__(
        self,
        layout: Layout,
        name: str,
        table: Table,
        bodies: frozenset[str] | None = None,
        scope: Collection[tuple[str, int]] | None = None,
    ) -> None:
        self._root = layout.root
        self.folder = layout.lake / name
        self._rejects = layout.lake / f"{name}_rejects"
        self._table = table
        self._reader = RecordReader(table, {}, bodies_kept(table, bodies))
        self._scope = None if scope is None else sorted(scope)
        self._last: Step | None = None
        self._closed: Path | None = None
        self._continuity = Continuity(self.folder)

    def last(self) -> Step | None:
        """The newest file; None: nothing is kept so far. Raises LakeError: it cannot be read."""
        if self._last is None and (files := stream_files.files_of(self.folder)):
            self._last = _read(files[-1].last, files[-1].path)
        return self._last

    def begin(self, since: datetime, now: datetime) -> Step:
        """Return the newest file; if there is none, write the first, empty one. Raises LakeError: that failed."""
        if (last := self.last()) is not None:
            return last
        first = Step(1, self._path(now, 1, 1), since, kept_since=dict.fromkeys(self._scope or (), since))
        self._land(first, self._table.schema.empty_table(), _Rejects())
        return first

    def add(
        self,
        blocks: Iterable[bytes],
        now: datetime,
        *,
        always: bool = False,
        run: Run | None = None,
        service_now: datetime | None = None,
    ) -> Step | None:
        """Store new events in one file; write none if no event is new and in scope.

        Args:
            blocks: Records, one a line; those of a partition in order. Only one block is held at a time.
            now: The aware time of the file.
            always: Write a file for the position of the stream even if no event is stored.
            run: Run of the step, without the counts of its events.
            service_now: The moment by the service's clock, if known: event dates are checked by both clocks.

        Raises:
            LakeError: The file could not be written (DiskFull among the reasons); none of these events was stored.
        """
        before = self.begin(now, now)
        service_now = service_now or now
        dates = min(now, service_now) - stream_files.PAST, max(now, service_now) + AHEAD
        rejects = _Rejects()
        batches = []
        for piece in pieces(blocks):
            events, bad = events_in(piece, self._reader, *dates)
            batches.append(events)
            rejects.add(bad)
        if not batches:
            return None
        rows = pa.Table.from_batches(batches)
        continued = self._continuity.judge(rows, before, now)
        fresh = _filtered(rows, continued.is_new)
        kept = fresh if self._scope is None else _filtered(fresh, _is_of(fresh, self._scope))
        if not len(kept) and not rejects.count and not (always and len(fresh)):
            return None
        step = Step(
            before.number + 1,
            self._path(now, before.number + 1, before.number + 1),
            before.since,
            row_count=len(kept),
            duplicate_count=continued.duplicate_count,
            other_count=len(fresh) - len(kept),
            reject_count=rejects.count,
            reset_count=continued.reset_count,
            offsets=continued.offsets,
            highest=continued.highest,
            published_at=continued.published_at,
            kept_since=self._kept_since(before),
            event_counts=_counted(kept, before),
        )
        self._land(step := replace(step, runs=_runs(step, before, run)), kept, rejects)
        self._continuity.landed(continued)
        return step

    def _kept_since(self, before: Step) -> dict[tuple[str, int], datetime]:
        """Return the moment from which events of each pair are stored; of a new pair, the stream's position."""
        # where nothing is said, all were kept
        reached = max(before.published_at.values(), default=before.since) if before.kept_since else before.since
        return {place: before.kept_since.get(place, reached) for place in self._scope or ()}

    def _path(self, now: datetime, first: int, last: int) -> Path:
        return stream_files.path_of(
            self.folder, now.astimezone(UTC).replace(minute=0, second=0, microsecond=0), first, last
        )

    def files(self) -> Iterator[Path]:
        """All files that count, the oldest first."""
        return (file.path for file in stream_files.files_of(self.folder))

    def merge(self) -> Path | None:
        """Merge the newest files if several of equally many steps follow one another, else those of the hour before.

        Returns the new file; None if there was nothing to merge. The merged files stay for at least an hour, for
        queries that have listed them, and are then deleted together. Raises LakeError: one cannot be read, or the new
        one not be written; all stay as they are.
        """
        if (last := self.last()) is None:
            return None
        newest = stream_files.counting(stream_files.files_in(last.path.parent))[-_MERGED:]
        if len(newest) == _MERGED and len({file.last - file.first for file in newest}) == 1:
            if (step := self._merged(newest)) is not None:
                self._last = step
                return step.path
        elif self._closed != last.path.parent:
            # once an hour: a query opens few files, and none that is about to be deleted
            self._delete_replaced()
            self._closed = last.path.parent
            before = [folder for _, folder in hour_folders(self.folder) if folder != last.path.parent]
            if before and (step := self._merged(stream_files.counting(stream_files.files_in(before[-1])))) is not None:
                return step.path
        return None

    def _merged(self, files: Sequence[stream_files.LiveFile]) -> Step | None:
        """Write files as one; None where they do not belong together."""
        if len(files) < 2 or sum(one.path.stat().st_size for one in files) > _MERGED_BYTES:
            return None
        # after the clock was set back, another hour may have the steps between these files: they must not be replaced
        is_gapless = all(file.first == before.last + 1 for before, file in pairwise(files))
        if not is_gapless or any(_columns(file.path) != self._table.schema.names for file in files):
            return None  # others were written before a column was declared
        steps = [_read(file.last, file.path) for file in files]
        sums = {name: sum(getattr(step, name) for step in steps) for name in stream_files.COUNTS}
        target = files[0].path.with_name(stream_files.name_of(files[0].first, files[-1].last))
        step = replace(steps[-1], path=target, **sums)
        self._write(step, _rows_of([file.path for file in files], self._table))
        return step

    def _delete_replaced(self) -> None:
        with removing(self._root) as may_remove:
            for path in stream_files.replaced(self.folder, _KEEP_SECONDS) if may_remove else ():
                path.unlink(missing_ok=True)

    def trim(self) -> None:
        """Return memory to the system that allocators would retain. This takes about 15 ms for 100 MB."""
        trim()

    def _land(self, step: Step, rows: pa.Table, rejects: _Rejects) -> None:
        if rejects.count:
            beside = self._rejects / step.path.relative_to(self.folder).with_suffix(".ndjson.gz")
            lines, reasons = rejects.packed()
            try:
                beside.parent.mkdir(parents=True, exist_ok=True)
                files.write(beside, lines)
                files.write(beside.with_name(f"{step.path.stem}.reasons.gz"), reasons)
            except OSError as error:
                raise landing_failed(error, beside) from error
            _log.warning(
                "%s of the stream cannot be read (%s first) and lie in %s, with the reason of each beside.",
                *(counted(rejects.count, "line"), legible(rejects.first_reason, REASON_MAX), beside),
            )
        self._write(step, (rows.slice(first, _GROUP_ROWS) for first in range(0, len(rows), _GROUP_ROWS)), _STEP_LEVEL)
        self._last = step

    def _write(self, step: Step, groups: Iterable[pa.Table], level: int = COMPRESSION_LEVEL) -> None:
        with ParquetFile(step.path, self._table) as file:
            for rows in groups:
                file.add(encode(rows, self._table, level=level))
            file.finish({stream_files.METADATA_KEY: stream_files.facts_of(step)})
        files.sync(step.path.parent)


def _counted(kept: pa.Table, before: Step) -> dict[int, int]:
    """The events of each partition that are kept by now."""
    counts = dict(before.event_counts)
    for one in pc.value_counts(kept["event_partition"]).to_pylist():
        if one["values"] is not None:
            counts[one["values"]] = counts.get(one["values"], 0) + one["counts"]
    return counts


def _runs(step: Step, before: Step, run: Run | None) -> tuple[Run, ...]:
    """Return the newest runs; the run of this step includes its counts."""
    if run is None:
        return before.runs
    is_same = before.runs and before.runs[-1].began_at == run.began_at
    earlier, so_far = (before.runs[:-1], before.runs[-1]) if is_same else (before.runs, run)
    run = replace(
        run,
        event_count=so_far.event_count + step.row_count,
        **{name: getattr(so_far, name) + getattr(step, name) for name in stream_files.COUNTS if name != "row_count"},
    )
    return (*earlier[1 - _RUNS :], run)


def _columns(path: Path) -> list[str]:
    """The columns of a file; a LakeError says that it cannot be read."""
    try:
        return list(pq.read_schema(path).names)
    except (OSError, ValueError) as error:
        raise _not_merged(path, error) from error


def _not_merged(path: Path, error: Exception) -> LakeError:
    return LakeError(
        f"The file {path} of the stream cannot be read ({clause(error)}), so it was not merged with others; all of "
        "them stay. Remove it: its events are then missing until the files of their hours are loaded."
    )


def _rows_of(paths: Sequence[Path], table: Table) -> Iterator[pa.Table]:
    """The rows of some files in row groups of their own. Raises LakeError: a file cannot be read."""
    held: list[pa.Table] = []
    rows = size = 0
    for path in paths:
        try:
            with pq.ParquetFile(path, page_checksum_verification=True) as file:
                for number in range(file.num_row_groups):
                    read = file.read_row_group(number).cast(table.schema)
                    # before it is too much: else groups would grow whenever files are merged that were merged before
                    if held and (rows + len(read) > _GROUP_ROWS or size + read.nbytes > _READ_BYTES):
                        yield pa.concat_tables(held)
                        held, rows, size = [], 0, 0
                    held.append(read)
                    rows, size = rows + len(read), size + read.nbytes
        except (OSError, ValueError) as error:
            raise _not_merged(path, error) from error
    if rows:
        yield pa.concat_tables(held)


def _filtered(rows: pa.Table, mask: pa.ChunkedArray) -> pa.Table:
    """The rows of a mask; nothing is copied where that is all of them."""
    return rows if pc.all(mask, min_count=0).as_py() else rows.filter(mask)


def _is_of(rows: pa.Table, scope: Sequence[tuple[str, int]]) -> pa.ChunkedArray:
    """Return a mask of the events of these projects and namespaces."""
    known = pa.array([f"{project} {namespace}" for project, namespace in scope])
    own = pc.binary_join_element_wise(rows["project_id"], pc.cast(rows["namespace_id"], pa.string()), " ")
    return pc.is_in(own, known)


def _read(number: int, path: Path) -> Step:
    """Read the step that a file's metadata describe. Raises LakeError if the file cannot be read or describes none."""
    try:
        return stream_files.step_of(number, path)
    except (OSError, ValueError) as error:
        raise LakeError(
            f"The file {path} of the stream cannot be read ({clause(error)}). Nothing was changed. Remove it: if it is "
            "the newest, the stream then goes on behind the file before, as far as the service still has it; else its "
            "events are missing until the files of their hours are loaded."
        ) from error
