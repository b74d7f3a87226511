"""The compacted lake: hourly files and chunks merged into few, sorted files.

Reading page text then costs one file, however long the history is. Each compaction window, and each version of a
snapshot, is a separate step: rewritten without a lock, then applied by one short transaction. A kill leaves the applied
steps, and unfinished files that the next run removes.
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

#: What the rows of a step may take in memory, whatever the machine has: an hour may be converted beside it. More is
#: sorted in pieces.
MEMORY_BYTES = 512 << 20
#: Disk that a byte of lake files may take while it is compacted: what does not fit into the memory is there lightly
#: packed, twice while pieces are merged, and the new file beside it.
_DISK_FACTOR = 6.0
#: Transactions of a run that let hours leave DuckDB's files; the rest waits for the next run.
_STEPS = 200
#: zstd's level: files of an hour live for hours, those of a day and longer for years, those of a snapshot until the
#: next versions of it.
_LEVELS = {"hour": 3, "quarter": 3, VersionMerge.span: 3}
_LASTING_LEVEL = 9
#: Unpacked bytes of a row group. Whoever reads a body unpacks its row group, and passes over all others by the footer:
#: the longer the span, the more of them there are.
_GROUP_BYTES = {"month": 32 << 20}
_SMALL_GROUP_BYTES = 16 << 20
_LAST = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Compacted:
    """One step: what was read and written, and how many parts of it were loaded again meanwhile."""

    merge: Merge | VersionMerge
    read_files: int
    read_bytes: int
    written_files: int
    written_bytes: int
    row_count: int
    part_count: int
    given_up_count: int


def planned(warehouse: Warehouse) -> list[tuple[Dataset, Merge | VersionMerge]]:
    """The pending steps: the newest hours first, then versions of snapshots, which take longer."""
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
    """Compact what is due; each step is there for readers with the next publication. `min_free_gb` of disk stay free.

    Here it is one step after the other, so that several take no more memory than one (`memory_bytes`). The workers of
    `compactor` are given as many as the disk can hold, and have one each at a time. What they have rewritten is taken
    in here. Then the changes of months that are compacted leave DuckDB's files.

    Raises:
        WarehouseBusyError: Another process is compacting; nothing was done.
        LakeError: Files cannot be read or written; what they belong to is as it was, all others are compacted.
        LakeFileError: Files do not hold what the ledger says; likewise.
        EngineError: The workers cannot be used or were lost; what was taken in before is.
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
    """The steps in progress, by their digest, and their results."""

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
        """The next steps that the disk can hold at once, taken from the plan; one too large alone has failed."""
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
        """Let changes of compacted months leave DuckDB's files, a bounded number of rows in each transaction."""
        try:
            for _ in range(_STEPS):
                if (step := self.warehouse.move_window()) is None:
                    return
                self.done.append(step)
                self.say(step)
        except LakeFileError as error:
            self.failed.append(error)

    def take_in(self, outcome: Outcome[CompactionJob, Compaction]) -> int:
        """Let what was rewritten be read from its new files; returns the bytes of the old ones."""
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
        f"Compacting the {merge.label} may take {size_text(needed)} of disk for the time being "
        f"and must leave {size_text(int(min_free_gb * 1e9))} free (WME_MIN_FREE_GB); {layout.root} has "
        f"{size_text(free)} free. Its files stay as they are. Free some space, or lower WME_MIN_FREE_GB."
    )
