"""Writer that stores stream events in small files, each of which records the stream position.

Each step writes one Parquet file, with events as rows and every partition's next offset as metadata. A single rename
makes events and offsets durable. Each event is stored exactly once, even if the process is killed. After a restart,
events after the newest file are received again, and known events are skipped. The file with the highest number is the
newest, regardless of the clock. During an hour, files with the same number of steps are replaced by a merged file.
"""

import logging
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
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
from resources.lake.decode.records import RecordReader
from resources.lake.decode.rejected import REASON_MAX
from resources.lake.errors import LakeError, landing_failed
from resources.lake.parquet.sorting import row_groups
from resources.lake.parquet.writer import COMPRESSION_LEVEL, ParquetFile, encode
from resources.lake.rejects import packer
from resources.lake.stream_events import Continuity, events_in, pieces
from resources.tables import Table

_log = logging.getLogger(__name__)

#: Maximum number of rows in a row group.
_GROUP_ROWS = 8_192
#: Number of files to merge (all with the same number of steps), and their maximum total size. Full steps, which a
#: stream writes while it catches up, exceed this size; merging these steps would only compress them twice.
_MERGED, _MERGED_BYTES = 8, 32 << 20
#: zstd level for single-step files. This level takes three quarters of the default's time, and most such files are soon
#: merged.
_STEP_LEVEL = 1
#: Seconds before replaced files are deleted, because running queries might have listed these files.
_KEEP_SECONDS = 3600.0
#: Maximum number of runs in a file's metadata.
_RUNS = 24
#: Maximum size of a merged file's row group.
_MERGED_GROUP_BYTES = 32 << 20


class _Rejects:
    """Rejected lines and their reasons, compressed on arrival because a step can have millions of small lines."""

    def __init__(self) -> None:
        self.count = 0
        self.first_reason = ""
        self._packers = packer(), packer()
        self._packed: tuple[list[bytes], list[bytes]] = [], []

    def add(self, some: pa.RecordBatch) -> None:
        if not len(some):
            return
        for name, zipped, packed in zip(("raw", "reason"), self._packers, self._packed, strict=True):
            texts = some[name].dictionary_decode().cast(pa.binary())
            lines = pc.binary_join(pa.ListArray.from_arrays([0, len(texts)], texts), b"\n")
            packed.append(zipped.compress(lines[0].as_buffer()) + zipped.compress(b"\n"))
        self.first_reason = self.first_reason or some["reason"][0].as_py()
        self.count += len(some)

    def packed(self) -> tuple[bytes, ...]:
        """Return the contents of two gzip files, one with the lines and one with a reason per line."""
        return tuple(
            b"".join((*packed, zipped.flush())) for packed, zipped in zip(self._packed, self._packers, strict=True)
        )


class LiveLake:
    """Files of one stream, in the `name` folder of the lake. The caller must ensure that only one process writes.

    `bodies` contains the body columns to store, and `scope` contains the projects and namespaces whose events are
    stored. By default, all columns and events are stored.
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
        """Return the newest file, or None if no file exists. Raises LakeError if the file cannot be read."""
        if self._last is None and (files := stream_files.files_of(self.folder)):
            self._last = _read(files[-1].last, files[-1].path)
        return self._last

    def begin(self, since: datetime, now: datetime) -> Step:
        """Return the newest file, or write and return an empty first file. Raises LakeError on failure."""
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
        """Store new events in one file. Write no file if no event is both new and in scope.

        Args:
            blocks: Records, one per line, with each partition's events in order. Only one block is in memory at a time.
            now: Timezone-aware timestamp of the file.
            always: If True, write a file to record the position even if all new events are out of scope.
            run: Run that the step belongs to, without event counts.
            service_now: Current time on the service's clock, if known. Event dates are checked against both clocks.

        Raises:
            LakeError: The file could not be written (DiskFull if the disk is full). No events are stored.
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
        is_new, position = self._continuity.judge(rows, before, now)
        fresh = _filtered(rows, is_new)
        kept = fresh
        if self._scope is not None:
            known = pa.array([f"{project} {namespace}" for project, namespace in self._scope])
            namespaces = pc.cast(fresh["namespace_id"], pa.string())
            own = pc.binary_join_element_wise(fresh["project_id"], namespaces, " ")
            kept = _filtered(fresh, pc.is_in(own, known))
        if not len(kept) and not rejects.count and not (always and len(fresh)):
            return None
        # the time since which a new project and namespace is stored; files without these times contain all events
        reached = max(before.published_at.values(), default=before.since) if before.kept_since else before.since
        step = replace(
            position,
            number=before.number + 1,
            path=self._path(now, before.number + 1, before.number + 1),
            row_count=len(kept),
            other_count=len(fresh) - len(kept),
            reject_count=rejects.count,
            kept_since={place: before.kept_since.get(place, reached) for place in self._scope or ()},
            event_counts=dict(Counter(before.event_counts) + Counter(kept["event_partition"].to_pylist())),
        )
        self._land(step := replace(step, runs=_runs(step, before, run)), kept, rejects)
        self._continuity.landed(step)
        return step

    def _path(self, now: datetime, first: int, last: int) -> Path:
        return stream_files.path_of(
            self.folder, now.astimezone(UTC).replace(minute=0, second=0, microsecond=0), first, last
        )

    def files(self) -> Iterator[Path]:
        """Yield the files that no merged file replaces, oldest first."""
        return (file.path for file in stream_files.files_of(self.folder))

    def merge(self) -> Path | None:
        """Merge the newest files if enough of them have the same number of steps, otherwise the previous hour's files.

        Return the new file, or None if no merge was due. The replaced files are deleted after at least an hour, because
        running queries might have listed them. Raises LakeError, without changing any file, if a file cannot be read or
        the new file cannot be written.
        """
        if (last := self.last()) is None:
            return None
        newest = stream_files.counting(stream_files.files_in(last.path.parent))[-_MERGED:]
        if len(newest) == _MERGED and len({file.last - file.first for file in newest}) == 1:
            if (step := self._merged(newest)) is not None:
                self._last = step
                return step.path
        elif self._closed != last.path.parent:
            # merge once an hour, so that queries open few files and no file that is about to be deleted
            with removing(self._root) as may_remove:
                for path in stream_files.replaced(self.folder, _KEEP_SECONDS) if may_remove else ():
                    path.unlink(missing_ok=True)
            self._closed = last.path.parent
            before = [folder for _, folder in hour_folders(self.folder) if folder != last.path.parent]
            if before and (step := self._merged(stream_files.counting(stream_files.files_in(before[-1])))) is not None:
                return step.path
        return None

    def _merged(self, files: Sequence[stream_files.LiveFile]) -> Step | None:
        """Merge files into one file, or return None if the files must not be merged."""
        if len(files) < 2 or sum(one.path.stat().st_size for one in files) > _MERGED_BYTES:
            return None
        # If the clock was set back, steps between these files can be in another hour and must not be replaced.
        if any(file.first != before.last + 1 for before, file in pairwise(files)):
            return None
        for file in files:
            with _merging(file.path):
                if pq.read_schema(file.path).names != self._table.schema.names:
                    return None  # the file was written before a column was declared
        steps = [_read(file.last, file.path) for file in files]
        sums = {name: sum(getattr(step, name) for step in steps) for name in stream_files.COUNTS}
        target = files[0].path.with_name(stream_files.name_of(files[0].first, files[-1].last))
        step = replace(steps[-1], path=target, **sums)
        self._write(step, row_groups(_rows_of([file.path for file in files], self._table), _MERGED_GROUP_BYTES))
        return step

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
                "%s of the stream cannot be read (first reason: %s). The rejected lines were stored in %s, and the "
                "reasons in the .reasons.gz file in the same folder.",
                *(counted(rejects.count, "line"), legible(rejects.first_reason, REASON_MAX), beside),
            )
        self._write(step, (rows.slice(first, _GROUP_ROWS) for first in range(0, len(rows), _GROUP_ROWS)), _STEP_LEVEL)
        self._last = step

    def _write(self, step: Step, groups: Iterable[pa.Table | pa.RecordBatch], level: int = COMPRESSION_LEVEL) -> None:
        with ParquetFile(step.path, self._table) as file:
            for rows in groups:
                file.add(encode(rows, self._table, level=level))
            file.finish({stream_files.METADATA_KEY: stream_files.facts_of(step)})
        files.sync(step.path.parent)


def _runs(step: Step, before: Step, run: Run | None) -> tuple[Run, ...]:
    """Return the newest runs. The step's run includes the step's counts."""
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


@contextmanager
def _merging(path: Path) -> Iterator[None]:
    """Convert errors from reading a file in the context to a LakeError with the file's path."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise LakeError(
            f"The stream file {path} cannot be read ({clause(error)}), so no files were merged. All files are kept. "
            "Remove this file. Its events will be missing until their hourly files are loaded."
        ) from error


def _rows_of(paths: Sequence[Path], table: Table) -> Iterator[pa.Table]:
    """Yield the row groups of several files. Raises LakeError if a file cannot be read."""
    for path in paths:
        with _merging(path), pq.ParquetFile(path, page_checksum_verification=True) as file:
            for number in range(file.num_row_groups):
                yield file.read_row_group(number).cast(table.schema)


def _filtered(rows: pa.Table, mask: pa.ChunkedArray) -> pa.Table:
    """Return the rows that the mask selects, without copying if the mask selects all rows."""
    return rows if pc.all(mask, min_count=0).as_py() else rows.filter(mask)


def _read(number: int, path: Path) -> Step:
    """Read the step from a file's metadata. Raises LakeError if the file cannot be read or has no step metadata."""
    try:
        return stream_files.step_of(number, path)
    except (OSError, ValueError) as error:
        raise LakeError(
            f"The stream file {path} cannot be read ({clause(error)}). Nothing was changed. Remove this file. If this "
            "was the newest file, the stream then resumes after the previous file, with the events that the service "
            "still has. Otherwise, the events will be missing until their hourly files are loaded."
        ) from error
