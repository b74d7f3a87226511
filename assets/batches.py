"""The hourly files, from the service to DuckDB: what one hour is, told in four steps.

    plan     what the service lists for the hour, and what of it is archived already
    fetch    the missing archives, verified, beside the list as it was served
    convert  archives to Parquet, rejects beside it
    load     the hour's rows in DuckDB, replaced in one transaction

Belongs here: these steps as plain functions over library objects. Does not belong here: anything of Dagster (see
`hourly`), or how a step is done (see the packages of `resources`).

Source: the service's realtime batch endpoints, /v2/batches/{date}/{hour} and below.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from assets.converting import NotArchivedError, convert_archives, files_of
from resources.datasets import ARTICLE_CHANGES
from resources.enterprise import errors, read_listing
from resources.errors import ends_run
from resources.formatting import counted, hour_text, size_text
from resources.lake import Archive
from resources.tables import HourState
from resources.warehouse import HourStatus, LakeFile

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from resources.engine import Engine
    from resources.enterprise import Download, EnterpriseClient, Listing
    from resources.enterprise.models import Batch
    from resources.lake import Conversion, Converter, Layout
    from resources.warehouse import HourLoad, Warehouse

    Scope = Sequence[tuple[str, int]]

#: Disk that a byte of archive takes in the end, itself included: the Parquet file is about as large as the archive, the
#: warehouse and its published copy hold the narrow columns, which are a fraction of it.
DISK_FACTOR = 3.0


@dataclass(frozen=True)
class Plan:
    """What fetching an hour takes.

    Attributes:
        listing: The service's list of the hour, as served.
        wanted: Its records within the mirrored projects and namespaces.
        absent: Mirrored (project, namespace) pairs that the list does not name.
        missing_bytes: Bytes of the wanted archives that are not archived yet.
        missing_count: Number of those archives.
    """

    hour: datetime
    listing: Listing[Batch]
    wanted: tuple[Batch, ...]
    absent: tuple[tuple[str, int], ...]
    missing_bytes: int
    missing_count: int


@dataclass(frozen=True)
class ArchivedHour:
    """An hour whose wanted archives all lie verified in the archive."""

    hour: datetime
    archives: tuple[Archive, ...]
    absent: tuple[tuple[str, int], ...]
    fetched_count: int = 0
    fetched_bytes: int = 0
    request_count: int = 0
    seconds: Mapping[str, float] = field(default_factory=dict)  # of fetching, by identifier

    @property
    def archive_bytes(self) -> int:
        """Bytes of all its archives."""
        return sum(archive.path.stat().st_size for archive in self.archives)


def plan_hour(hour: datetime, client: EnterpriseClient, layout: Layout, scope: Scope) -> Plan:
    """Ask the service for the list of an hour and compare it with the archive. One request, no quota.

    Raises:
        NotPublishedYet: The hour is not there yet; a later run will find it.
        RetentionPassed: The service no longer keeps it; permanent.
    """
    listing = client.batches(hour)
    wanted = tuple(record for record in listing.records if _place(record) in set(scope))
    named = {_place(record) for record in wanted}
    missing = [r for r in wanted if not layout.batch_archive(ARTICLE_CHANGES, hour, r.identifier, r.version).exists()]
    return Plan(
        hour=hour,
        listing=listing,
        wanted=wanted,
        absent=tuple(place for place in scope if place not in named),
        missing_bytes=sum(record.approximate_bytes for record in missing),
        missing_count=len(missing),
    )


def _place(record: Batch) -> tuple[str, int]:
    return record.project_id, record.namespace_id


def check_disk(plans: Iterable[Plan], folder: Path, min_free_gb: float) -> None:
    """See that the disk holds what the plans will make, and the floor that is left untouched.

    Raises:
        DiskFull: It does not; nothing was fetched.
    """
    plans = list(plans)
    needed = int(sum(plan.missing_bytes for plan in plans) * DISK_FACTOR)
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    floor = int(min_free_gb * 1e9)
    if needed + floor > free:
        raise errors.DiskFull(
            f"The run needs about {size_text(needed)} of disk for {counted(len(plans), 'hour')} and leaves {size_text(floor)} free, "
            f"and {folder} has {size_text(free)}. Nothing was fetched. Free some space, choose fewer hours or projects, "
            "or lower the floor with WME_MIN_FREE_GB."
        )


def fetch_hour(plan: Plan, client: EnterpriseClient, layout: Layout, engine: Engine) -> ArchivedHour:
    """Land the wanted archives of an hour, then the list that names them. What is there and verified is not fetched.

    Raises:
        EnterpriseError: An archive could not be landed. The others are kept, and so are the parts of this one.
    """
    task = (
        engine.reporter.start(f"download {hour_text(plan.hour)}", plan.missing_bytes, "B")
        if plan.missing_count
        else None
    )

    seconds: dict[str, float] = {}

    def download(record: Batch) -> Download:
        told = 0

        def progress(done: int, _total: int | None) -> None:
            nonlocal told
            if task is not None and done > told:
                task.advance(done - told)
                told = done

        target = layout.batch_archive(ARTICLE_CHANGES, plan.hour, record.identifier, record.version)
        began = time.perf_counter()
        download = client.download_batch(plan.hour, record, target, progress=progress)
        seconds[record.identifier] = time.perf_counter() - began
        return download

    outcomes = engine.map(download, plan.wanted, ends=ends_run)
    if task is not None:
        task.finish()
    downloads = [outcome.unwrap() for outcome in outcomes]
    listing = plan.listing
    if any(download.version != record.version for record, download in zip(plan.wanted, downloads, strict=True)):
        # exported anew between the list and the download: keep the list that names what was landed
        listing = client.batches(plan.hour)
    client.land(listing, layout.batch_list(ARTICLE_CHANGES, plan.hour))
    archives = tuple(
        _archive(plan.hour, record, download.path, download.version)
        for record, download in zip(plan.wanted, downloads, strict=True)
    )
    fetched = [download for download in downloads if download.fetched]
    return ArchivedHour(
        hour=plan.hour,
        archives=archives,
        absent=plan.absent,
        fetched_count=len(fetched),
        fetched_bytes=sum(download.size_bytes for download in fetched),
        request_count=1 + sum(download.request_count for download in downloads),
        seconds=seconds,
    )


def _archive(hour: datetime, record: Batch, path: Path, version: str) -> Archive:
    project, namespace = _place(record)
    return Archive(
        path=path,
        identifier=record.identifier,
        version=version,
        batch_hour=hour,
        project_id=project,
        namespace_id=namespace,
    )


def archived_hour(hour: datetime, layout: Layout, scope: Scope) -> ArchivedHour:
    """The hour as it lies in the archive. No network: conversion and load can be repeated for ever.

    Raises:
        NotArchivedError: The hour, or one of its archives, is not there.
    """
    listing = layout.batch_list(ARTICLE_CHANGES, hour)
    if not listing.exists():
        raise NotArchivedError(
            f"Nothing of {hour_text(hour)} UTC is archived, so there is nothing to convert. "
            "Materialize archive/batches of this hour first; the service keeps an hour for two days."
        )
    archives = []
    for record in read_listing(listing):
        if _place(record) not in set(scope):
            continue
        path = layout.batch_archive(ARTICLE_CHANGES, hour, record.identifier, record.version)
        if not path.exists():
            raise NotArchivedError(
                f"The archive of {record.identifier} for {hour_text(hour)} UTC is not in the archive (the project was "
                "not mirrored then, or the file was removed). Materialize archive/batches of this hour to fetch it."
            )
        archives.append(_archive(hour, record, path, record.version))
    named = {(archive.project_id, archive.namespace_id) for archive in archives}
    return ArchivedHour(hour, tuple(archives), tuple(place for place in scope if place not in named))


def convert_hour(
    archived: ArchivedHour, layout: Layout, *, bodies: Iterable[str], converter: Converter, engine: Engine
) -> list[Conversion]:
    """The hour's archives as Parquet, several beside one another. What is converted already is kept.

    Raises:
        ArchiveError: An archive is damaged; nothing of it was landed in the lake. The other archives were converted.
    """
    return convert_archives(
        hour_text(archived.hour), archived.archives, layout, bodies=bodies, converter=converter, engine=engine
    )


def load_hour(archived: ArchivedHour, conversions: Sequence[Conversion], warehouse: Warehouse) -> HourLoad:
    """The hour's rows in DuckDB, replaced in one transaction, with the ledger and the coverage."""
    files = files_of(LakeFile, conversions)
    reason = "The service's list of the hour does not name it: quiet, or its export failed."
    absent = [HourStatus(archived.hour, project, ns, HourState.ABSENT, reason) for project, ns in archived.absent]
    return warehouse.load_hour(archived.hour, files, absent)


def statuses_of(hour: datetime, scope: Scope, error: Exception, reason: str) -> list[HourStatus]:
    """What to remember of an hour that could not be loaded."""
    state = HourState.MISSING
    if isinstance(error, errors.NotPublishedYet):
        state = HourState.NOT_YET
    elif isinstance(error, errors.RetentionPassed):
        state = HourState.PAST_RETENTION
    return [HourStatus(hour, project, namespace, state, reason) for project, namespace in scope]
