"""Download plan for a snapshot, as one file or in chunks, with its cost in quota units and bytes.

The choice of form depends only on data from the service and the disk. Each chunk costs one chunk unit. A
complete snapshot file costs one snapshot unit, and accounts have far fewer snapshot units. Chunks can be fetched and
processed in parallel, and fetching a failed chunk again costs only one chunk unit. The better form depends on the
remaining units of both counters and on the size.

Source: the service's documentation on snapshots, chunks, downloads and account counters.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Final, Literal, Self

from pydantic import BaseModel, Field, model_validator

from resources.datasets import Dataset
from resources.datasets.paths import SET, is_of_snapshot, name_of
from resources.enterprise import errors
from resources.enterprise.models import Chunk, Quota, Snapshot
from resources.formatting import counted, size_text

Form = Literal["whole", "chunks"]
#: Minimum size in bytes at which chunks can be faster than a single file.
_SMALL_BYTES: Final = 64_000_000
#: Maximum fraction of the remaining units that chunks may cost if one file is cheaper.
_DEAR: Final = 0.5
#: Fraction of the remaining units below which a cost is negligible.
_CHEAP: Final = 0.01
_DIFFERENT: Final = "the snapshot's record and its chunk list differ, perhaps because an export is running"


class SnapshotOptions(BaseModel):
    """Options for a snapshot download.

    `wme snapshots` and the launchpad offer these options with the same names and descriptions.
    """

    whole: bool = Field(default=False, description="Always download each snapshot as one file.")
    chunks: bool = Field(default=False, description="Always download each snapshot in chunks.")
    beyond_quota: bool = Field(default=False, description="Start even if the quota is too small. Rerun for the rest.")
    most_units: int | None = Field(
        default=None,
        ge=0,
        le=1_000_000,
        description="Maximum cost in quota units. More expensive downloads are not started. Default: no limit.",
    )

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.whole and self.chunks:
            raise ValueError("whole and chunks are mutually exclusive.")
        return self

    @property
    def form(self) -> Form | None:
        """Requested form, or None to choose automatically."""
        return "whole" if self.whole else "chunks" if self.chunks else None


class FetchOptions(SnapshotOptions):
    """Options for a plan, including the disk space to leave free.

    `disk_factor` is the total disk space needed per archive byte, including the archive itself.
    """

    keep_free_bytes: int = 0
    disk_factor: float = 1.0


@dataclass(frozen=True)
class PlannedFile:
    """One planned file with a pinned version: a complete snapshot or one chunk.

    The name of `target` contains the first eight digits of the version. `size_bytes` is exact if the file exists.
    """

    record: Snapshot | Chunk
    target: Path
    size_bytes: int
    there_bytes: int
    is_landed: bool

    @property
    def identifier(self) -> str:
        return self.record.identifier

    @property
    def version(self) -> str:
        return self.record.version

    @property
    def missing_bytes(self) -> int:
        return max(0, self.size_bytes - self.there_bytes)


@dataclass(frozen=True)
class SnapshotPlan:
    """Files to fetch, in numeric order and with pinned versions, and their cost.

    `reason` explains the choice of form and is worded to follow "because". `units_left` is the account's remaining
    units for this download, or None if no limit is known. `free_bytes` is the free disk space when the plan was
    created.
    """

    dataset: Dataset = field(compare=False)
    snapshot: Snapshot
    form: Form
    files: tuple[PlannedFile, ...]
    folder: Path
    reason: str
    units_left: int | None
    free_bytes: int
    options: FetchOptions

    @property
    def identifier(self) -> str:
        return self.snapshot.identifier

    @property
    def product(self) -> str | None:
        """Counter for the files, for example `chunk`, or None if the files are free."""
        return self.dataset.quota if self.form == "whole" else self.dataset.chunk_quota

    @property
    def missing(self) -> tuple[PlannedFile, ...]:
        return tuple(file for file in self.files if not file.is_landed)

    @property
    def unit_count(self) -> int:
        """Quota units for all files. Resuming a partial file costs a unit, because a new signed URL is required."""
        return 0 if self.product is None else len(self.missing)

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)

    @property
    def missing_bytes(self) -> int:
        return sum(file.missing_bytes for file in self.files)

    @property
    def disk_bytes(self) -> int:
        return int(self.missing_bytes * self.options.disk_factor)

    @property
    def fits_quota(self) -> bool:
        return self.units_left is None or self.unit_count <= self.units_left

    @property
    def fits_disk(self) -> bool:
        return not self.missing or self.disk_bytes + self.options.keep_free_bytes <= self.free_bytes

    @property
    def manifest(self) -> Path:
        return self.folder / name_of(self.identifier, self.snapshot.version, SET)

    @property
    def sentence(self) -> str:
        return f"{_named((self,))}, because {self.reason}. {self.cost}."

    @property
    def cost(self) -> str:
        """Cost in units and bytes, as a sentence without its full stop."""
        if not self.missing:
            return f"All files exist ({size_text(self.size_bytes)}), so the download costs nothing"
        there = len(self.files) - len(self.missing)
        known = f" ({there:,} of {counted(len(self.files), 'file')} already exist)" if there else ""
        if self.product is None:
            return f"The download costs no quota and fetches {size_text(self.missing_bytes)}{known}"
        left = "no limit is known" if self.units_left is None else f"{self.units_left:,} left"
        return (
            f"The download costs {counted(self.unit_count, f'{self.product} unit')} ({left}) and fetches "
            f"{size_text(self.missing_bytes)}{known}"
        )


def check_together(plans: Sequence[SnapshotPlan]) -> None:
    """Check that all plans together can be completed.

    Raises:
        QuotaExceeded: The plans need more units than are left. Plans that may exceed the quota are ignored.
        BudgetExceeded: The plans need more units than the caller allows.
        DiskFull: The disk does not have enough space for the files.
    """
    several = len(plans) > 1
    together, fewer = (" together", "choose fewer, ") if several else ("", "")
    most = min((plan.options.most_units for plan in plans if plan.options.most_units is not None), default=None)
    units = sum(plan.unit_count for plan in plans)
    if most is not None and units > most:
        raise errors.BudgetExceeded(
            f"Fetching {_named(plans)}{together} costs {counted(units, 'quota unit')}, but the limit is {most:,}. "
            "Nothing was fetched. Raise the limit, or choose the other form (whole or chunks)."
        )
    for product in dict.fromkeys(plan.product for plan in plans if plan.product is not None):
        bound = [plan for plan in plans if plan.product == product and not plan.options.beyond_quota]
        units = sum(plan.unit_count for plan in bound)
        left = min((plan.units_left for plan in bound if plan.units_left is not None), default=units)
        if units > left:
            why = "" if several else f" (this form was chosen because {plans[0].reason})"
            raise errors.QuotaExceeded(
                f"Fetching {_named(bound)} costs {counted(units, f'{product} unit')}{together}, but the account has "
                f"{left:,} left{why}. Nothing was fetched. Wait until the vendor resets the counters (monthly), "
                f"{fewer}request a higher quota, or allow the download to exceed the quota. In that case, only files "
                "within the quota are fetched now."
            )
    missing = [plan for plan in plans if plan.missing]
    needed = sum(plan.disk_bytes for plan in missing)
    floor = max((plan.options.keep_free_bytes for plan in missing), default=0)
    free = min((plan.free_bytes for plan in missing), default=0)
    if needed + floor > free:
        leave = f" and must leave {size_text(floor)} free" if floor else ""
        name = counted(len(missing), "snapshot") if several else plans[0].identifier
        raise errors.DiskFull(
            f"Downloading {name} requires about {size_text(needed)} of disk space{leave}, but {plans[0].folder} has "
            f"only {size_text(free)} free. Nothing was fetched. Free up disk space, {fewer}and try again."
        )


def _named(plans: Sequence[SnapshotPlan]) -> str:
    if len(plans) > 1:
        return counted(len(plans), "snapshot")
    (plan,) = plans
    form = "as one file" if plan.form == "whole" else f"in {counted(len(plan.files), 'chunk')}"
    return f"{plan.identifier} {form}"


def superseded(plan: SnapshotPlan) -> tuple[Path, ...]:
    """Return the snapshot's files in another version or form. These files can be removed once the set is confirmed."""
    kept = {file.target.name + ending for file in plan.files for ending in ("", ".json", ".part")}
    kept.add(plan.manifest.name)
    found = [path for path in plan.folder.glob("*") if is_of_snapshot(path.name, plan.identifier)]
    # the suffix of a range's partial file is a number
    return tuple(sorted(path for path in found if not kept & {path.name, path.name.rstrip("0123456789.")}))


def plan_snapshot(
    snapshot: Snapshot,
    whole_file: PlannedFile,
    chunks: Sequence[PlannedFile],
    *,
    quotas: Mapping[str, Quota],
    free_bytes: int,
    options: FetchOptions,
    dataset: Dataset,
) -> SnapshotPlan:
    """Choose between one file and chunks, and plan the download. Sends no requests and changes no files.

    `chunks` can be in any order. A counter absent from `quotas` has no limit. Raises InvalidRequest if chunks are
    required, but do not match the snapshot's record or are incomplete.
    """
    problem: str | None = "the service has no chunks of this snapshot"
    if dataset.is_chunked and snapshot.chunks:
        problem = _incomplete(snapshot, {chunk.identifier for chunk in chunks})

    def way_of(form: Form, files: Sequence[PlannedFile], product: str | None) -> SnapshotPlan:
        folder, quota = whole_file.target.parent, quotas.get(product or "")
        left = None if quota is None else quota.left
        return SnapshotPlan(dataset, snapshot, form, tuple(files), folder, "", left, free_bytes, options)

    whole = way_of("whole", (whole_file,), dataset.quota)
    # the service lists chunks in the order of their creation; of two numbers, the longer one is larger
    ordered = sorted(chunks, key=lambda chunk: (len(chunk.identifier), chunk.identifier))
    split = way_of("chunks", ordered, dataset.chunk_quota)
    if options.form == "chunks" and problem:
        raise errors.InvalidRequest(
            f"{snapshot.identifier} cannot be fetched in chunks: {problem}. Nothing was fetched. Plan the snapshot as "
            "one file, or try again later."
        )
    if options.form is not None:
        way, reason = (whole if options.form == "whole" else split), "this form was requested"
    elif problem:
        way, reason = whole, problem
    else:
        way, reason = _better(whole, split)
    return replace(way, reason=reason)


def _incomplete(snapshot: Snapshot, chunks: set[str]) -> str | None:
    """Return why these chunks may not be the complete snapshot, worded to follow "because", or None if they are.

    Chunks are numbered from 0 or 1. Both lists can have the same gap.
    """
    if chunks != set(snapshot.chunks):
        return _DIFFERENT
    names = [name.removeprefix(f"{snapshot.identifier}_chunk_") for name in chunks]
    numbers = {int(name) for name in names if name.isdecimal()}
    missing = next(number for number in count(1) if number not in numbers)
    return f"chunk {missing} is missing from the snapshot's chunks" if missing < max(numbers, default=0) else None


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
