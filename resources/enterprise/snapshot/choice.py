"""Choice of a snapshot's download form: one file or chunks.

The choice is a pure function of data from the service and the disk. Each chunk costs one chunk unit. A complete
snapshot file costs one snapshot unit, and accounts have far fewer snapshot units. Chunks can be fetched and processed
in parallel, and fetching a failed chunk again costs only one chunk unit. The better form depends on the remaining units
of both counters and on the size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from resources.datasets import Dataset
from resources.enterprise import errors
from resources.enterprise.models import Chunk, Quota, Snapshot
from resources.enterprise.snapshot.plan import Disk, FetchOptions, Form, PlannedFile, SnapshotPlan, archive_name
from resources.formatting import counted, size_text

#: Minimum size in bytes at which chunks can be faster than a single file.
_SMALL_BYTES: Final = 64_000_000
#: Maximum fraction of the remaining units that chunks may cost if one file is cheaper.
_DEAR: Final = 0.5
#: Fraction of the remaining units below which a cost is negligible.
_CHEAP: Final = 0.01
_DIFFERENT: Final = "the snapshot's record and its chunk list differ, perhaps because an export is running"


def plan_snapshot(
    snapshot: Snapshot,
    chunks: Sequence[Chunk],
    folder: Path,
    *,
    quotas: Mapping[str, Quota],
    disk: Disk,
    options: FetchOptions,
    dataset: Dataset,
) -> SnapshotPlan:
    """Choose between one file and chunks, and plan the download. Sends no requests and changes no files.

    `chunks` can be in any order. A counter absent from `quotas` has no limit. Raises InvalidRequest if chunks are
    required, but do not match the snapshot's record.
    """
    agree = {chunk.identifier for chunk in chunks} == set(snapshot.chunks)
    offered = snapshot.chunks if dataset.is_chunked else ()

    def way_of(form: Form, records: Sequence[Snapshot | Chunk], product: str | None) -> SnapshotPlan:
        return SnapshotPlan(
            dataset=dataset,
            snapshot=snapshot,
            form=form,
            files=tuple(_planned_file(record, folder, disk) for record in records),
            folder=folder,
            reason="",
            quota=None if product is None else quotas.get(product),
            free_bytes=disk.free_bytes,
            options=options,
        )

    whole = way_of("whole", (snapshot,), dataset.quota)
    split = way_of("chunks", sorted(chunks, key=_number), dataset.chunk_quota)
    if options.form == "chunks" and (not chunks or not agree):
        problem = _DIFFERENT if offered else "the service has no chunks of this snapshot"
        raise errors.InvalidRequest(
            f"{snapshot.identifier} cannot be fetched in chunks: {problem}. Nothing was fetched. Plan the snapshot as "
            "one file, or try again later."
        )
    if options.form is not None:
        way, reason = (whole if options.form == "whole" else split), "this form was requested"
    elif not offered:
        way, reason = whole, "the service has no chunks of this snapshot"
    elif not agree:
        way, reason = whole, _DIFFERENT
    else:
        way, reason = _better(whole, split)
    return replace(way, reason=reason)


def _better(whole: SnapshotPlan, split: SnapshotPlan) -> tuple[SnapshotPlan, str]:
    if not split.missing or not whole.missing:
        way = whole if split.missing else split
        return way, f"the complete snapshot already exists {_in_form(way)}"
    if whole.fits_quota != split.fits_quota:
        way, other = (whole, split) if whole.fits_quota else (split, whole)
        return way, f"{_in_form(other)} the download would cost {_price(other)}"
    if not whole.fits_quota:
        return split, f"one file would cost {_price(whole)}, but chunks can be fetched in part"
    if _there_bytes(whole) != _there_bytes(split) and whole.missing_bytes != split.missing_bytes:
        way = min(whole, split, key=lambda w: w.missing_bytes)
        return way, f"{size_text(_there_bytes(way))} already exist {_in_form(way)}"
    return _cheaper(whole, split)


def _cheaper(whole: SnapshotPlan, split: SnapshotPlan) -> tuple[SnapshotPlan, str]:
    """Return the preferred form if both forms fit within the quota and neither download has been started."""
    size = max(whole.missing_bytes, split.missing_bytes)
    if len(split.files) > 1 and size >= _SMALL_BYTES:
        if _share(split) <= max(_DEAR, _share(whole)):
            gain = "chunks can be fetched and processed in parallel, and each chunk can be fetched again separately"
            return split, f"{gain}, for {_price(split)}"
        return whole, f"chunks would cost {_price(split)}, but one file costs {_price(whole)}"
    if _share(split) < _share(whole) and _share(whole) > _CHEAP:
        return split, f"chunks cost {_price(split)}, but one file would cost {_price(whole)}"
    return whole, f"chunks have no advantage for {size_text(size)}"


def _share(way: SnapshotPlan) -> float:
    """Return the cost as a fraction of the remaining units. The result exceeds 1 if the quota is too small."""
    if way.units_left is None or way.unit_count == 0:
        return 0.0
    return way.unit_count / way.units_left if way.units_left else float("inf")


def _there_bytes(way: SnapshotPlan) -> int:
    return sum(file.there_bytes for file in way.files)


def _price(way: SnapshotPlan) -> str:
    if way.product is None:
        return "no quota"
    if way.units_left is None:
        return counted(way.unit_count, f"{way.product} unit")
    if way.fits_quota:
        return f"{way.unit_count:,} of the {counted(way.units_left, f'{way.product} unit')} left"
    left = "none is" if way.units_left == 0 else f"only {way.units_left:,} {'is' if way.units_left == 1 else 'are'}"
    return f"{counted(way.unit_count, f'{way.product} unit')}, of which {left} left"


def _in_form(way: SnapshotPlan) -> str:
    return "as one file" if way.form == "whole" else "in chunks"


def _planned_file(record: Snapshot | Chunk, folder: Path, disk: Disk) -> PlannedFile:
    name = archive_name(record)
    landed = disk.landed.get(name)
    return PlannedFile(
        record=record,
        target=folder / name,
        size_bytes=record.approximate_bytes if landed is None else landed,
        there_bytes=disk.left.get(name, 0) if landed is None else landed,
        is_landed=landed is not None,
    )


def _number(chunk: Snapshot | Chunk) -> tuple[int, str]:
    """Return a chunk's number as a sort key, because the service lists chunks in the order of their creation."""
    tail = chunk.identifier.rpartition("_")[2]
    return (int(tail) if tail.isdecimal() else -1), chunk.identifier
