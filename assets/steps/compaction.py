"""Lake compaction, which merges hourly files and snapshot chunks into a few sorted files.

After compaction, a page's text can be read from a single file. Each compaction window and each snapshot version is a
separate step. A step rewrites files without a lock and commits them in one short transaction. If the process is killed,
committed steps remain, and the next run removes unfinished files.
"""

import os
import shutil
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from resources import datasets
from resources.datasets import Dataset
from resources.engine import Engine, Outcome
from resources.engine.mapping import EngineError
from resources.formatting import counted, size_text
from resources.lake import Compaction, CompactionJob, DamagedFileError, DiskFull, LakeError, Layout, compact, sweep
from resources.lake_files import COMPACTED
from resources.remote import RemoteWorkers
from resources.warehouse import LakeFileError, Merge, Moved, Prepared, Warehouse
from resources.warehouse.compaction.plan import FILE_BYTES

#: Memory limit for the rows of one step. Larger steps are sorted in parts. The limit is fixed, because a conversion can
#: run at the same time.
MEMORY_BYTES = 512 << 20
#: Maximum disk space that compaction needs per byte of lake files. Rows that exceed the memory limit are written to
#: disk up to twice with light compression, in addition to the new file.
_DISK_FACTOR = 6.0
#: Maximum number of transactions per run that remove compacted changes from the DuckDB files.
_STEPS = 200
#: zstd levels for files that exist for hours, or until the next snapshot version. All other files use `_LASTING_LEVEL`.
_LEVELS = {"hour": 3, "quarter": 3, "snapshot": 3}
_LASTING_LEVEL = 9
#: Uncompressed size of a row group in bytes. Reading a page's text decompresses one row group.
_GROUP_BYTES = {"month": 32 << 20}
_SMALL_GROUP_BYTES = 16 << 20
_LAST = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Compacted:
    """Result of one step. `given_up_count` counts parts that were reloaded or dropped during the step."""

    merge: Merge
    read_files: int
    read_bytes: int
    written_files: int
    written_bytes: int
    row_count: int
    given_up_count: int


def planned(warehouse: Warehouse) -> list[tuple[Dataset, Merge]]:
    """Return the pending steps: newest hours first, then snapshot versions, which take longer."""
    found = warehouse.compactions(*(one for one in datasets.datasets() if one.name in COMPACTED))
    return sorted(found, key=lambda one: one[1].first_hour or _LAST, reverse=True)


def compact_lake(
    layout: Layout,
    warehouse: Warehouse,
    engine: Engine,
    *,
    compactor: RemoteWorkers | None = None,
    memory_bytes: int = MEMORY_BYTES,
    threads: int | None = None,
    min_free_gb: float = 0.0,
    say: Callable[[Compacted | Moved], None] = lambda _: None,
) -> list[Compacted | Moved]:
    """Compact every pending window and snapshot. Readers see the result after the next publication.

    Without `compactor`, steps run sequentially within `memory_bytes`. With `compactor`, each remote worker runs one
    step at a time, and this process commits the results. Then, changes in compacted months are removed from DuckDB.

    Raises:
        WarehouseBusyError: Another process is compacting. Nothing was done.
        LakeError, LakeFileError: Files cannot be read or written, or differ from the ledger. All other steps finished.
        EngineError: The workers are unavailable or were lost. Committed steps remain.
    """
    under_way: dict[str, tuple[Dataset, Prepared]] = {}
    done: list[Compacted | Moved] = []
    failed: list[Exception] = []

    def prepared(plan: deque[tuple[Dataset, Merge]]) -> list[CompactionJob]:
        """Remove steps from `plan`, and return the steps that fit on the disk. Steps that are too large fail."""
        jobs: list[CompactionJob] = []
        reserve, most = int(min_free_gb * 1e9), 1 if compactor is None else len(plan)
        room = shutil.disk_usage(layout.root).free - reserve
        while plan and len(jobs) < most:
            dataset, merge = plan[0]
            needed = int(merge.lake_bytes * _DISK_FACTOR)
            if needed > room and jobs:
                break
            plan.popleft()
            if needed > room:
                free = shutil.disk_usage(layout.root).free
                failed.append(
                    DiskFull(
                        f"Compacting the {merge.label} can temporarily need {size_text(needed)} of disk space and must "
                        f"leave {size_text(reserve)} free (WME_MIN_FREE_GB), but only {size_text(free)} is free in "
                        f"{layout.root}. The files are unchanged. Free some space, or lower WME_MIN_FREE_GB."
                    )
                )
                continue
            room -= needed
            step = warehouse.prepare_compaction(merge, dataset)
            under_way[step.digest] = dataset, step
            jobs.append(
                CompactionJob(
                    table_name=dataset.name,
                    sources=step.inputs,
                    name=merge.name,
                    digest=step.digest,
                    file_bytes=FILE_BYTES,
                    group_bytes=_GROUP_BYTES.get(merge.span, _SMALL_GROUP_BYTES),
                    memory_bytes=memory_bytes,
                    level=_LEVELS.get(merge.span, _LASTING_LEVEL),
                    threads=threads or os.cpu_count() or 1,
                )
            )
        return jobs

    def commit(outcome: Outcome[CompactionJob, Compaction]) -> int:
        """Commit the rewritten files in place of the old files, and return the old files' size in bytes."""
        dataset, step = under_way.pop(outcome.item.digest)
        merge = step.merge
        try:
            files, row_counts = outcome.unwrap()
            part_count = warehouse.commit_compaction(step, files, row_counts, dataset)
        except (LakeError, LakeFileError, EngineError) as error:
            failed.append(error)
            if isinstance(error, DamagedFileError):
                warehouse.note_damage(error.lake_path, error.why)
            return merge.lake_bytes
        compacted = Compacted(
            merge=merge,
            read_files=len(step.inputs),
            read_bytes=merge.lake_bytes,
            written_files=len(files),
            written_bytes=sum(file.lake_bytes for file in files),
            row_count=sum(file.row_count for file in files),
            given_up_count=len(step.parts) - part_count,
        )
        done.append(compacted)
        say(compacted)
        return merge.lake_bytes

    with warehouse.compacting():
        sweep(layout)
        plan = deque(planned(warehouse))
        with engine.task("compact", sum(merge.lake_bytes for _, merge in plan), "B") as advance:
            while plan:
                jobs = prepared(plan)
                if compactor is None:
                    for outcome in engine.map(partial(compact, layout=layout, progress=advance), jobs):
                        commit(outcome)
                elif jobs:
                    compactor.compact_all(jobs, lambda outcome: advance(commit(outcome)))
        try:
            for _ in range(_STEPS):
                if (moved := warehouse.move_window()) is None:
                    break
                done.append(moved)
                say(moved)
        except LakeFileError as error:
            failed.append(error)
    if failed:
        if len(failed) > 1:
            failed[0].add_note(f"{counted(len(failed) - 1, 'other step')} also failed.")
        raise failed[0]
    return done
