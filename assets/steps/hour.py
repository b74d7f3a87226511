"""Processing steps for one hour of a dataset, from the service to DuckDB: plan, fetch, convert and load.

Source: the service's endpoints for hourly files, such as /v2/batches/{date}/{hour} for articles.
"""

import shutil
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from assets.steps.converting import NotArchivedError
from resources.datasets import Dataset
from resources.engine import Engine, Outcome
from resources.enterprise import Download, EnterpriseClient, Listing, errors, read_listing
from resources.enterprise.models import Batch
from resources.errors import MirrorError, ends_run, retryable
from resources.formatting import counted, hour_text, listed, size_text
from resources.lake import Archive, ConvertedFile, Layout
from resources.tables import HourState
from resources.warehouse import HourLoad, HourStatus, Warehouse

Place = tuple[str, int]
Scope = Sequence[Place]

#: Disk space per archive byte for the archive, the Parquet file, the warehouse and the published file. The Parquet file
#: is about as large as the archive, and the DuckDB files are smaller.
DISK_FACTOR = 3.0


@dataclass(frozen=True)
class Plan:
    """Plan for fetching an hour, with the records of the mirrored scope (`wanted`).

    `absent` contains the mirrored pairs that the listing does not contain. `missing` contains the wanted records whose
    file is not archived. `odd` contains the mirrored pairs whose record is unusable, each with the reason.
    """

    dataset: Dataset
    hour: datetime
    listing: Listing[Batch]
    wanted: tuple[Batch, ...]
    absent: tuple[Place, ...]
    missing: tuple[Batch, ...]
    odd: Mapping[Place, str] = field(default_factory=dict)

    @property
    def missing_bytes(self) -> int:
        return sum(record.approximate_bytes for record in self.missing)


class PartialHourError(MirrorError):
    """Some projects in an hour have damaged files or unusable records. The other projects were loaded."""

    retryable = True
    reasons: Mapping[Place, str] = {}

    @classmethod
    def of(cls, odd: Mapping[Place, str], damaged: Mapping[Place, Exception]) -> Self:
        """Create the error for an hour. The message omits the hour, so that identical failures can be grouped."""
        names = listed([f"{project} namespace {namespace}" for project, namespace in (*odd, *damaged)], 3)
        words = [f"Nothing was loaded for {names}. The hour's other projects are loaded."]
        if odd:
            whose = listed([f"{project} namespace {number} ({why})" for (project, number), why in odd.items()], 3)
            words.append(
                f"The batch listing contains unusable records: {whose}. Run this hour again within two days, while the "
                "service retains the files. If the records remain unusable, report them to the vendor."
            )
        shown = [f"{project} namespace {number}: {why!s}" for (project, number), why in damaged.items()]
        words += shown[:3] + ([f"And {len(shown) - 3:,} more."] if len(shown) > 3 else [])
        reasons = {place: f"Its record in the batch listing cannot be used ({why})." for place, why in odd.items()}
        error = cls(" ".join(words))
        error.reasons = reasons | {place: str(why) for place, why in damaged.items()}
        error.retryable = bool(odd) or any(map(retryable, damaged.values()))  # type: ignore[misc]  # class attribute
        return error


@dataclass(frozen=True)
class ArchivedHour:
    """An hour whose wanted archives are stored and verified.

    `damaged` contains the error for each pair whose archive could not be fetched or converted. `seconds` maps
    identifiers to download times. `listed_at` is the listing's request time (by default, the current time).
    """

    plan: Plan
    archives: tuple[Archive, ...]
    fetched: tuple[Download, ...] = ()
    request_count: int = 0
    seconds: Mapping[str, float] = field(default_factory=dict)
    damaged: Mapping[Place, Exception] = field(default_factory=dict)
    listed_at: datetime | None = None

    @property
    def partial(self) -> PartialHourError | None:
        """Error for projects that could not be processed, or None if all projects succeeded."""
        odd = self.plan.odd
        return PartialHourError.of(odd, self.damaged) if odd or self.damaged else None

    def check(self) -> None:
        if (error := self.partial) is not None:
            raise error

    def converted(self, outcomes: Sequence[Outcome[Archive, ConvertedFile]]) -> tuple[Self, list[ConvertedFile]]:
        """Return the hour without the archives that could not be converted, and return the successful conversions.

        Raises the error if no archive could be converted, or if all other archives would also fail.
        """
        failed = {(one.item.project_id, one.item.namespace_id): one.error for one in outcomes if one.error is not None}
        check_alone(failed.values(), len(outcomes))
        good = [one for one in outcomes if one.error is None]
        hour = replace(self, archives=tuple(one.item for one in good), damaged={**self.damaged, **failed})
        return hour, [one.unwrap() for one in good]


def check_alone(errors: Iterable[Exception], total: int) -> None:
    """Raise the first error that affects the complete hour. `total` is the number of files in the hour."""
    found = list(errors)
    for error in found:
        if len(found) == total or not isinstance(error, MirrorError) or ends_run(error):
            raise error


def plan_hour(hour: datetime, client: EnterpriseClient, layout: Layout, scope: Scope, dataset: Dataset) -> Plan:
    """Compare an hour's batch listing with the archive. Sends one request that uses no quota (see `Hours.listing`)."""
    return _plan(client.hours.listing(hour, dataset), hour, layout, scope, dataset)


def _plan(listing: Listing[Batch], hour: datetime, layout: Layout, scope: Scope, dataset: Dataset) -> Plan:
    odd = listing.left_out(scope)
    sure = {place for place in scope if place not in odd}
    wanted = tuple(record for record in listing.records if (record.project_id, record.namespace_id) in sure)
    absent = sure - {(record.project_id, record.namespace_id) for record in wanted}
    missing = tuple(
        one for one in wanted if not layout.batch_archive(dataset, hour, one.identifier, one.version).exists()
    )
    return Plan(dataset, hour, listing, wanted, tuple(place for place in scope if place in absent), missing, odd)


def check_disk(plans: Collection[Plan], folder: Path, min_free_gb: float) -> None:
    """Check that the disk has enough free space for the plans and the reserve. Raises DiskFull otherwise."""
    needed = int(sum(plan.missing_bytes for plan in plans) * DISK_FACTOR)
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    floor = int(min_free_gb * 1e9)
    if needed + floor > free:
        needs = f"needs about {size_text(needed)} for {counted(len(plans), 'hour')} and " if needed else ""
        raise errors.DiskFull(
            f"The run {needs}must leave {size_text(floor)} of disk space free (WME_MIN_FREE_GB), but only "
            f"{size_text(free)} is free in {folder}. Nothing was fetched. Free some space, choose fewer hours or "
            "projects, or lower WME_MIN_FREE_GB."
        )


def fetch_hour(plan: Plan, client: EnterpriseClient, layout: Layout, engine: Engine) -> ArchivedHour:
    """Fetch an hour's missing archives, then store the batch listing.

    If an archive cannot be fetched, only the archive's project is skipped. Raises EnterpriseError if no archive could
    be fetched or if the service is unavailable. Fetched archives and partial files are retained.
    """
    hour, dataset = plan.hour, plan.dataset
    seconds: dict[str, float] = {}
    with engine.task(f"download {hour_text(hour)}", plan.missing_bytes, "B") as advance:

        def download(record: Batch) -> Download:
            target = layout.batch_archive(dataset, hour, record.identifier, record.version)
            began = time.perf_counter()
            landed = client.hours.download(hour, record, target, advance, dataset)
            seconds[record.identifier] = time.perf_counter() - began
            return landed

        outcomes = engine.map(download, plan.wanted, ends=ends_run)
    failed = {(one.item.project_id, one.item.namespace_id): one.error for one in outcomes if one.error is not None}
    check_alone(failed.values(), len(outcomes))
    pairs = [(one.item, one.unwrap()) for one in outcomes if one.error is None]
    downloads = [landed for _, landed in pairs]
    listing = plan.listing
    if any(landed.version != record.version for record, landed in pairs):
        # the service replaced a file after the listing was requested: store the listing that matches the new file
        listing = client.hours.listing(hour, dataset)
    client.lists.land(listing, layout.batch_list(dataset, hour))
    return ArchivedHour(
        plan,
        tuple(_archive(plan, record, landed.path, landed.version) for record, landed in pairs),
        fetched=tuple(landed for landed in downloads if landed.fetched),
        request_count=1 + sum(landed.unit_count for landed in downloads),
        seconds=seconds,
        damaged=failed,
    )


def _archive(plan: Plan, record: Batch, path: Path, version: str) -> Archive:
    return Archive(
        dataset=plan.dataset,
        path=path,
        identifier=record.identifier,
        version=version,
        batch_hour=plan.hour,
        project_id=record.project_id,
        namespace_id=record.namespace_id,
    )


def archived_hour(
    hour: datetime, layout: Layout, scope: Scope, dataset: Dataset, *, partial: bool = False
) -> ArchivedHour:
    """Read an hour from the archive without using the network.

    Raises NotArchivedError if the hour or one of its archives (with `partial`, every archive) is missing.
    """
    list_path = layout.batch_list(dataset, hour)
    try:
        listing = read_listing(list_path)
        listed_at = datetime.fromtimestamp(list_path.stat().st_mtime, UTC)
    except FileNotFoundError as error:
        raise NotArchivedError(
            f"The hour {hour_text(hour)} UTC is not archived. Nothing was converted. Materialize "
            f"archive/{dataset.archive} for this hour first. The service retains each hour for two days."
        ) from error
    plan = _plan(listing, hour, layout, scope, dataset)
    gone = {
        (record.project_id, record.namespace_id): NotArchivedError(
            f"The {record.identifier} file for {hour_text(hour)} UTC is not archived. The project was not mirrored at "
            f"that time, or the file was removed. Materialize archive/{dataset.archive} for this hour to fetch the "
            "file."
        )
        for record in plan.missing
    }
    check_alone(gone.values(), len(plan.wanted) if partial else len(gone))
    there = [one for one in plan.wanted if (one.project_id, one.namespace_id) not in gone]
    archives = tuple(
        _archive(plan, one, layout.batch_archive(dataset, hour, one.identifier, one.version), one.version)
        for one in there
    )
    return ArchivedHour(plan, archives, damaged=gone, listed_at=listed_at)


def load_hour(
    archived: ArchivedHour, conversions: Sequence[ConvertedFile], warehouse: Warehouse, *, reload: bool = False
) -> HourLoad:
    """Load an hour's rows, ledger and coverage in one transaction. `reload` also replaces loaded files."""
    reason = "Not in the batch listing: no changes, or its export failed."
    plan = archived.plan
    statuses = [HourStatus(plan.hour, *place, HourState.ABSENT, reason, archived.listed_at) for place in plan.absent]
    if (partial := archived.partial) is not None:
        statuses += [HourStatus(plan.hour, *place, HourState.MISSING, why) for place, why in partial.reasons.items()]
    return warehouse.load_hour(plan.hour, conversions, statuses, dataset=plan.dataset, reload=reload)


def state_of(error: Exception) -> HourState:
    """Return the coverage state that an error implies for its hour."""
    if isinstance(error, errors.NotPublishedYet):
        return HourState.NOT_YET
    return HourState.PAST_RETENTION if isinstance(error, errors.RetentionPassed) else HourState.MISSING
