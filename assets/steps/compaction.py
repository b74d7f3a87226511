"""Compaction of the lake: hourly files and chunks merged into a few sorted files.

Reading page text then opens one file, however long the history is. Each compaction window, and each version of a
snapshot, is a separate step: it is rewritten without a lock, then committed by one short transaction. After a kill,
committed steps remain, and the next run removes unfinished files.
"""

from __future__ import annotations

import os
import shutil
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

from resources import datasets
from resources.datasets import Dataset
from resources.engine import Engine, Outcome
from resources.engine.mapping import EngineError
from resources.formatting import size_text
from resources.lake import Compaction, CompactionJob, DamagedFileError, DiskFull, LakeError, Layout, compact, sweep
from resources.lake_files import COMPACTED
from resources.remote import RemoteCompactor
from resources.warehouse import LakeFileError, Merge, Moved, Prepared, Warehouse
from resources.warehouse.compaction.plan import FILE_BYTES, VersionMerge

#: Memory limit for the rows of a step, on every machine, because an hour may be converted at the same time. Larger
#: steps are sorted in parts.
MEMORY_BYTES = 512 << 20
#: Disk space that compaction may need for each byte of lake files: rows that exceed the memory are spilled with light
#: compression, twice while parts are merged, and the new file is written next to them.
_DISK_FACTOR = 6.0
#: Transactions of a run that move hours out of the DuckDB files; the remaining hours wait for the next run.
_STEPS = 200
#: zstd levels: files of an hour live for hours, files of a day or longer for years, and files of a snapshot until the
#: next versions.
_LEVELS = {"hour": 3, "quarter": 3, VersionMerge.span: 3}
_LASTING_LEVEL = 9
#: Uncompressed bytes of a row group. Reading a page's text decompresses its row group and skips all others by the
#: footer; longer windows have more row groups.
_GROUP_BYTES = {"month": 32 << 20}
_SMALL_GROUP_BYTES = 16 << 20
_LAST = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Compacted:
    """Result of one step: files read and written, and the number of parts that were reloaded in the meantime."""

    merge: Merge | VersionMerge
    read_files: int
    read_bytes: int
    written_files: int
    written_bytes: int
    row_count: int
    part_count: int
    given_up_count: int


def planned(warehouse: Warehouse) -> list[tuple[Dataset, Merge | VersionMerge]]:
    """Return the pending steps: newest hours first, then versions of snapshots, which take longer."""
    found = warehouse.compactions(*(one for one in datasets.datasets() if one.name in COMPACTED))
    return sorted(found, key=lambda one: one[1].first_hour or _LAST, reverse=True)


def compact_lake(
    layout: Layout,
    warehouse: Warehouse,
    engine: Engine,
    *,
    compactor: RemoteCompactor | None = None,
    memory_bytes: int = MEMORY_BYTES,
    threads: int | None = None,
    min_free_gb: float = 0.0,
    say: Callable[[Compacted | Moved], None] = lambda _: None,
) -> list[Compacted | Moved]:
    """Compact every pending window and snapshot; readers see each step after the next publication.

    At least `min_free_gb` of disk stays free. Without `compactor`, steps run one after another within `memory_bytes`.
    With `compactor`, each worker rewrites one step at a time, and all steps in progress together fit on the disk; their
    results are committed here. Afterwards, the changes of compacted months are moved out of the DuckDB files.

    Raises:
        WarehouseBusyError: Another process is compacting; nothing was done.
        LakeError: Files cannot be read or written. Their steps are unchanged; all other steps are compacted.
        LakeFileError: Files differ from the ledger. Their steps are unchanged; all other steps are compacted.
        EngineError: The workers cannot be used or were lost; steps that were committed remain.
    """
    with warehouse.compacting():
        sweep(layout)
        plan = deque(planned(warehouse))
        with engine.task("compact", sum(merge.lake_bytes for _, merge in plan), "B") as advance:
            run = _Run(layout, warehouse, memory_bytes, threads or os.cpu_count() or 1, say)
            while plan:
                jobs = run.prepared(plan, 1 if compactor is None else len(plan), min_free_gb)
                if compactor is None:
                    for outcome in engine.map(partial(compact, layout=layout, progress=advance), jobs):
                        run.take_in(outcome)
                elif jobs:
                    compactor.compact_all(jobs, lambda outcome: advance(run.take_in(outcome)))
        run.move_window()
    if run.failed:
        if len(run.failed) > 1:
            run.failed[0].add_note(f"{len(run.failed) - 1} further steps failed as well.")
        raise run.failed[0]
    return run.done


@dataclass
class _Run:
    """Steps in progress, by digest, and their results."""

    layout: Layout
    warehouse: Warehouse
    memory_bytes: int
    threads: int
    say: Callable[[Compacted | Moved], None]
    under_way: dict[str, tuple[Dataset, Prepared]] = field(default_factory=dict)
    done: list[Compacted | Moved] = field(default_factory=list)
    failed: list[Exception] = field(default_factory=list)

    def prepared(
        self, plan: deque[tuple[Dataset, Merge | VersionMerge]], most: int, min_free_gb: float
    ) -> list[CompactionJob]:
        """Take the next steps from `plan` that fit on the disk together; a step that never fits has failed."""
        jobs: list[CompactionJob] = []
        room = shutil.disk_usage(self.layout.root).free - int(min_free_gb * 1e9)
        while plan and len(jobs) < most:
            dataset, merge = plan[0]
            needed = int(merge.lake_bytes * _DISK_FACTOR)
            if needed > room and jobs:
                break
            plan.popleft()
            if needed > room:
                self.failed.append(_too_large(self.layout, merge, needed, min_free_gb))
                continue
            room -= needed
            prepared = self.warehouse.prepare_compaction(merge, dataset)
            self.under_way[prepared.digest] = dataset, prepared
            jobs.append(
                CompactionJob(
                    table_name=dataset.name,
                    sources=prepared.inputs,
                    name=merge.name,
                    digest=prepared.digest,
                    file_bytes=FILE_BYTES,
                    group_bytes=_GROUP_BYTES.get(str(merge.span), _SMALL_GROUP_BYTES),
                    memory_bytes=self.memory_bytes,
                    level=_LEVELS.get(str(merge.span), _LASTING_LEVEL),
                    threads=self.threads,
                )
            )
        return jobs

    def move_window(self) -> None:
        """Move changes of compacted months out of the DuckDB files, a bounded number of rows in each transaction."""
        try:
            for _ in range(_STEPS):
                if (step := self.warehouse.move_window()) is None:
                    return
                self.done.append(step)
                self.say(step)
        except LakeFileError as error:
            self.failed.append(error)

    def take_in(self, outcome: Outcome[CompactionJob, Compaction]) -> int:
        """Commit the rewritten files in place of the old ones; return the bytes of the old files."""
        dataset, prepared = self.under_way.pop(outcome.item.digest)
        merge = prepared.merge
        try:
            compaction = outcome.unwrap()
            files = compaction.files
            committed = self.warehouse.commit_compaction(prepared, files, compaction.row_counts, dataset)
        except (LakeError, LakeFileError, EngineError) as error:
            self.failed.append(error)
            if isinstance(error, DamagedFileError):
                self.warehouse.note_damage(error.lake_path, error.why)
            return merge.lake_bytes
        done = Compacted(
            merge=merge,
            read_files=len(prepared.inputs),
            read_bytes=merge.lake_bytes,
            written_files=len(files),
            written_bytes=sum(file.lake_bytes for file in files),
            row_count=sum(file.row_count for file in files),
            part_count=committed.part_count,
            given_up_count=committed.given_up_count,
        )
        self.done.append(done)
        self.say(done)
        return merge.lake_bytes


def _too_large(layout: Layout, merge: Merge | VersionMerge, needed: int, min_free_gb: float) -> DiskFull:
    free = shutil.disk_usage(layout.root).free
    return DiskFull(
        f"Compacting the {merge.label} may temporarily need {size_text(needed)} of disk and must leave "
        f"{size_text(int(min_free_gb * 1e9))} free (WME_MIN_FREE_GB); {layout.root} has {size_text(free)} free. Its "
        "files are unchanged. Free some space, or lower WME_MIN_FREE_GB."
    )
