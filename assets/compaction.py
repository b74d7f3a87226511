"""The compacted lake: hourly files written together into few, sorted ones, so that a body costs one file however long the history is.

Each span of time is a step of its own: rewritten without a lock, then taken in by one short transaction. A kill leaves what was taken
in, and unfinished files that the next run sweeps.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from resources import datasets
from resources.formatting import hour_text, size_text
from resources.lake import CompactionJob, DiskFull, LakeError, Source, compact, sweep
from resources.tables.compacted import COMPACTED
from resources.warehouse import LakeFileError, NewFile
from resources.warehouse.compaction.spans import FILE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from resources.datasets import Dataset
    from resources.engine import Engine
    from resources.lake import Layout
    from resources.warehouse import Merge, Prepared, Warehouse

#: What the rows of a span may take in memory, whatever the machine has: an hour may be converted beside it. More is sorted in pieces.
MEMORY_BYTES = 512 << 20
#: Disk that a byte of lake files may take while it is compacted: what does not fit into the memory lies there lightly packed, twice
#: while pieces are merged, and the new file beside it.
_DISK_FACTOR = 6.0
#: zstd's level: files of an hour live for hours, those of a day and longer for years.
_LEVELS = {"hour": 3, "quarter": 3}
_LASTING_LEVEL = 9


@dataclass(frozen=True)
class Compacted:
    """One span that was compacted: what was read and written, and how many parts were loaded again meanwhile."""

    merge: Merge
    read_files: int
    read_bytes: int
    written_files: int
    written_bytes: int
    row_count: int
    part_count: int
    given_up_count: int


def planned(warehouse: Warehouse) -> list[tuple[Dataset, Merge]]:
    """What is to be compacted now, newest hours first."""
    found = [
        (one, merge) for one in datasets.datasets() if one.name in COMPACTED for merge in warehouse.compactions(one)
    ]
    return sorted(found, key=lambda one: one[1].first_hour, reverse=True)


def compact_lake(
    layout: Layout,
    warehouse: Warehouse,
    engine: Engine,
    *,
    memory_bytes: int = MEMORY_BYTES,
    threads: int | None = None,
    min_free_gb: float = 0.0,
    say: Callable[[Compacted], None] = lambda _: None,
) -> list[Compacted]:
    """Compact what is due, one span after the other; each is there for readers with the next publication. `min_free_gb` of disk stay free.

    Raises:
        WarehouseBusyError: Another process is compacting; nothing was done.
        LakeError: Files cannot be read or written; their span is as it was, all others are compacted.
        LakeFileError: Files do not hold what the ledger says; likewise.
    """
    done: list[Compacted] = []
    failed: list[LakeError | LakeFileError] = []
    with warehouse.compacting():
        sweep(layout)
        plan = planned(warehouse)
        with engine.task("compact", sum(merge.lake_bytes for _, merge in plan), "B") as advance:
            for dataset, merge in plan:
                try:
                    _check_disk(layout, merge, min_free_gb)
                    one = _compact(
                        layout, warehouse, engine, dataset, merge, memory_bytes, threads or os.cpu_count() or 1, advance
                    )
                except (LakeError, LakeFileError) as error:
                    failed.append(error)
                else:
                    done.append(one)
                    say(one)
    if failed:
        if len(failed) > 1:
            failed[0].add_note(f"{len(failed) - 1} further spans could not be compacted either.")
        raise failed[0]
    return done


def _check_disk(layout: Layout, merge: Merge, min_free_gb: float) -> None:
    needed, floor = int(merge.lake_bytes * _DISK_FACTOR), int(min_free_gb * 1e9)
    free = shutil.disk_usage(layout.root).free
    if needed + floor > free:
        raise DiskFull(
            f"Compacting the {merge.span.name.replace('_', ' ')} from {hour_text(merge.first_hour)} UTC on may take {size_text(needed)} of disk for the time being "
            f"and leaves {size_text(floor)} free, and {layout.root} has {size_text(free)}. Its files stay as they are. Free some space, or lower the floor "
            "with WME_MIN_FREE_GB."
        )


def _compact(
    layout: Layout,
    warehouse: Warehouse,
    engine: Engine,
    dataset: Dataset,
    merge: Merge,
    memory_bytes: int,
    threads: int,
    advance: Callable[[int], None],
) -> Compacted:
    """Rewrite the files of a span, and take the new ones in."""
    prepared = warehouse.prepare_compaction(merge, dataset)
    job = _job(layout, dataset, prepared, memory_bytes, threads)
    [outcome] = engine.map(partial(compact, progress=advance), [job])
    compaction = outcome.unwrap()
    files = [
        NewFile(
            lake_path=file.path.relative_to(layout.lake).as_posix(),
            row_count=file.row_count,
            lake_bytes=file.lake_bytes,
            first_project_id=file.first_project_id,
            last_project_id=file.last_project_id,
        )
        for file in compaction.files
    ]
    committed = warehouse.commit_compaction(prepared, files, compaction.row_counts, dataset)
    return Compacted(
        merge=merge,
        read_files=len(prepared.inputs),
        read_bytes=merge.lake_bytes,
        written_files=len(files),
        written_bytes=sum(file.lake_bytes for file in files),
        row_count=sum(file.row_count for file in files),
        part_count=committed.part_count,
        given_up_count=committed.given_up_count,
    )


def _job(layout: Layout, dataset: Dataset, prepared: Prepared, memory_bytes: int, threads: int) -> CompactionJob:
    merge = prepared.merge
    return CompactionJob(
        table_name=dataset.name,
        sources=tuple(
            Source(layout.lake / one.lake_path, one.row_count, one.dropped_rows, one.dropped_parts)
            for one in prepared.inputs
        ),
        folder=layout.compacted_folder(dataset.name),
        name=f"{merge.span.name}_{merge.first_hour:%Y-%m-%dT%H}",
        digest=prepared.digest,
        file_bytes=FILE_BYTES,
        memory_bytes=memory_bytes,
        level=_LEVELS.get(merge.span.name, _LASTING_LEVEL),
        threads=threads,
    )
