"""A run over some hours of a dataset: each goes from the service to DuckDB, and fails alone.

    plan     what the service lists for the hour, and what of it is archived already
    fetch    the missing archives, verified, beside the list as it was served
    convert  archives to Parquet, rejects beside it
    load     the hour's rows in DuckDB, replaced in one transaction

Source: the service's endpoints of hourly files, for articles /v2/batches/{date}/{hour} and below.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from assets import layers, names
from assets.describe import Layer, archive_layer, hour_lake_layer, hour_warehouse_layer
from assets.failures import sentence
from assets.families.comparing import compared_with_stream
from assets.families.converting import (
    NotArchivedError,
    convert_archives,
    convert_archives_again,
    files_of,
    known_conversions,
)
from resources import datasets
from resources.enterprise import errors, read_listing
from resources.errors import ends_run, unavailable
from resources.formatting import counted, hour_text, size_text
from resources.lake import Archive
from resources.tables import HourState
from resources.warehouse import HourStatus, LakeFile

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    import dagster as dg

    from resources.adapters import EnterpriseResource, LakeResource, WarehouseResource
    from resources.datasets import Dataset
    from resources.engine import Engine
    from resources.enterprise import Download, EnterpriseClient, Listing
    from resources.enterprise.models import Batch
    from resources.lake import Conversion, Converter, Layout
    from resources.remote import RemoteConverter
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
        missing: Those of the wanted records whose archives are not there yet.
    """

    dataset: Dataset
    hour: datetime
    listing: Listing[Batch]
    wanted: tuple[Batch, ...]
    absent: tuple[tuple[str, int], ...]
    missing: tuple[Batch, ...]

    @property
    def missing_bytes(self) -> int:
        """Bytes to fetch."""
        return sum(record.approximate_bytes for record in self.missing)


@dataclass(frozen=True)
class ArchivedHour:
    """An hour whose wanted archives all lie verified in the archive."""

    hour: datetime
    archives: tuple[Archive, ...]
    absent: tuple[tuple[str, int], ...]
    fetched: tuple[Download, ...] = ()
    request_count: int = 0
    seconds: Mapping[str, float] = field(default_factory=dict)  # of fetching, by identifier


def plan_hour(
    hour: datetime,
    client: EnterpriseClient,
    layout: Layout,
    scope: Scope,
    dataset: Dataset = datasets.ARTICLE_CHANGES,
) -> Plan:
    """Ask the service for the list of an hour and compare it with the archive. One request, no quota.

    Raises:
        NotPublishedYet: The hour is not there yet; a later run will find it.
        RetentionPassed: The service no longer keeps it; permanent.
    """
    listing = client.batches(hour, dataset)
    wanted, absent = _within(listing, scope)
    missing = tuple(
        record
        for record in wanted
        if not layout.batch_archive(dataset, hour, record.identifier, record.version).exists()
    )
    return Plan(dataset, hour, listing, wanted, absent, missing)


def _within(listing: Listing[Batch], scope: Scope) -> tuple[tuple[Batch, ...], tuple[tuple[str, int], ...]]:
    """The records of the mirrored projects and namespaces, and the (project, namespace) pairs that have none."""
    wanted = tuple(record for record in listing.records if (record.project_id, record.namespace_id) in set(scope))
    named = {(record.project_id, record.namespace_id) for record in wanted}
    return wanted, tuple(place for place in scope if place not in named)


def check_disk(plans: Collection[Plan], folder: Path, min_free_gb: float) -> None:
    """See that the disk holds what the plans will make, and the floor that is left untouched.

    Raises:
        DiskFull: It does not; nothing was fetched.
    """
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
    hour, dataset = plan.hour, plan.dataset
    seconds: dict[str, float] = {}
    with engine.task(f"download {hour_text(hour)}", plan.missing_bytes, "B") as advance:

        def download(record: Batch) -> Download:
            target = layout.batch_archive(dataset, hour, record.identifier, record.version)
            began = time.perf_counter()
            landed = client.download_batch(hour, record, target, advance, dataset)
            seconds[record.identifier] = time.perf_counter() - began
            return landed

        outcomes = engine.map(download, plan.wanted, ends=ends_run)
    downloads = [outcome.unwrap() for outcome in outcomes]
    pairs = list(zip(plan.wanted, downloads, strict=True))
    listing = plan.listing
    if any(landed.version != record.version for record, landed in pairs):
        # exported again between listing and download: keep the listing that names what was landed
        listing = client.batches(hour, dataset)
    client.land(listing, layout.batch_list(dataset, hour))
    return ArchivedHour(
        hour=hour,
        archives=tuple(_archive(dataset, hour, record, landed.path, landed.version) for record, landed in pairs),
        absent=plan.absent,
        fetched=tuple(landed for landed in downloads if landed.fetched),
        request_count=1 + sum(landed.request_count for landed in downloads),
        seconds=seconds,
    )


def _archive(dataset: Dataset, hour: datetime, record: Batch, path: Path, version: str) -> Archive:
    return Archive(
        dataset=dataset,
        path=path,
        identifier=record.identifier,
        version=version,
        batch_hour=hour,
        project_id=record.project_id,
        namespace_id=record.namespace_id,
    )


def archived_hour(
    hour: datetime, layout: Layout, scope: Scope, dataset: Dataset = datasets.ARTICLE_CHANGES
) -> ArchivedHour:
    """The hour as it is in the archive. No network: conversion and load can be repeated for ever.

    Raises:
        NotArchivedError: The hour, or one of its archives, is not there.
    """
    try:
        listing = read_listing(layout.batch_list(dataset, hour))
    except FileNotFoundError as error:
        raise NotArchivedError(
            f"Nothing of {hour_text(hour)} UTC is archived, so there is nothing to convert. "
            f"Materialize archive/{dataset.archive} of this hour first; the service keeps an hour for two days."
        ) from error
    wanted, absent = _within(listing, scope)
    archives = []
    for record in wanted:
        path = layout.batch_archive(dataset, hour, record.identifier, record.version)
        if not path.exists():
            raise NotArchivedError(
                f"The archive of {record.identifier} for {hour_text(hour)} UTC is not in the archive (the project was not "
                f"mirrored then, or the file was removed). Materialize archive/{dataset.archive} of this hour to fetch it."
            )
        archives.append(_archive(dataset, hour, record, path, record.version))
    return ArchivedHour(hour, tuple(archives), absent)


def load_hour(
    archived: ArchivedHour,
    conversions: Sequence[Conversion],
    warehouse: Warehouse,
    dataset: Dataset = datasets.ARTICLE_CHANGES,
    *,
    reload: bool = False,
) -> HourLoad:
    """The hour's rows in DuckDB, replaced in one transaction, with the ledger and the coverage; `reload`: also what is loaded already."""
    reason = "The batch listing does not name it: nothing changed, or its export failed."
    absent = [HourStatus(archived.hour, project, ns, HourState.ABSENT, reason) for project, ns in archived.absent]
    return warehouse.load_hour(archived.hour, files_of(LakeFile, conversions), absent, dataset=dataset, reload=reload)


def state_of(error: Exception) -> HourState:
    """What an hour is that could not be brought in."""
    if isinstance(error, errors.NotPublishedYet):
        return HourState.NOT_YET
    return HourState.PAST_RETENTION if isinstance(error, errors.RetentionPassed) else HourState.MISSING


@dataclass
class HourlyRun:
    """One run over some hours: what it works with, and what it has made so far.

    Attributes:
        lost: Why nothing more is asked of the service: a host could not be reached. What is archived is loaded all the same.
        again: Convert each archive also where its file is there, and replace files that are damaged.
        gone: Hours that nobody can bring in any more: the service keeps two days, and they are not archived.
    """

    enterprise: EnterpriseResource
    lake: LakeResource
    warehouse: WarehouseResource
    converter: Converter | RemoteConverter
    engine: Engine
    dataset: Dataset = datasets.ARTICLE_CHANGES
    again: bool = False
    plans: dict[datetime, Plan] = field(default_factory=dict)
    archived: dict[datetime, ArchivedHour] = field(default_factory=dict)
    conversions: dict[datetime, list[Conversion]] = field(default_factory=dict)
    loaded: list[datetime] = field(default_factory=list)
    failed: dict[datetime, Exception] = field(default_factory=dict)
    gone: dict[datetime, errors.RetentionPassed] = field(default_factory=dict)
    lost: errors.UnreachableError | None = None
    is_warehouse_unavailable: bool = False

    @property
    def scope(self) -> Scope:
        """What is brought in: what is mirrored, and all of a dataset that is not mirrored but asked for by hand."""
        return self.enterprise.scope_of(self.dataset) or self.dataset.places

    def plan(self, hours: Collection[datetime], client: EnterpriseClient) -> None:
        """List every hour before anything is fetched, and see that the disk holds it all.

        An hour past the service's retention that is archived needs no plan: the archive serves it.

        Raises:
            EnterpriseError: No hour of the run can succeed; nothing was fetched.
            UnknownNameError: The service does not have a project or namespace; nothing was fetched.
        """
        layout = self.lake.layout
        failed: dict[datetime, errors.EnterpriseError] = {}
        # progress, because a service may take seconds for each listing: the sandbox makes its archives then
        with self.engine.task("list", len(hours), "hour") as advance:
            for hour in hours:
                try:
                    self.plans[hour] = plan_hour(hour, client, layout, self.scope, self.dataset)
                except errors.RetentionPassed as error:
                    if not layout.batch_list(self.dataset, hour).exists():
                        failed[hour] = error
                except errors.UnreachableError as error:
                    self.lost = error
                    break
                except errors.EnterpriseError as error:
                    if ends_run(error):
                        raise
                    failed[hour] = error
                advance(1)
        if self.lost is None:
            self._check_names(client)
        for hour, why in failed.items():
            self.fail(hour, why)
        if self.lost is None:
            check_disk(self.plans.values(), layout.root, self.lake.min_free_gb)

    def _check_names(self, client: EnterpriseClient) -> None:
        """Of what no list of the run names, see that the service has it: it may be quiet, or misspelt."""
        if not self.plans:
            return
        absent = [place for place in self.scope if all(place in plan.absent for plan in self.plans.values())]
        # an outage of the reference lists must cost no hour: names that no list has are looked at by the next run
        try:
            names.check(client, self.lake.layout, [project for project, _ in absent], [number for _, number in absent])
        except errors.UnreachableError as error:
            self.lost = error
        except errors.ServiceUnavailable:
            pass

    def ingest(
        self, hour: datetime, selected: Collection[dg.AssetKey], client: EnterpriseClient | None
    ) -> Iterator[Layer]:
        """Take one hour through the selected layers, telling each as it is committed."""
        archive, lake, warehouse = layers.keys(self.dataset)
        archived = self.archived[hour] = self._archived(hour, client)
        if archive in selected:
            yield archive_layer(archive, archived)
        if lake not in selected and warehouse not in selected:
            return
        # already converted files are found by their digest, so the warehouse alone costs no second conversion
        conversions, is_replaced = self._convert(hour, archived)
        self.conversions[hour] = conversions
        if lake in selected:
            yield hour_lake_layer(lake, archived, conversions)
        if warehouse in selected:
            load = load_hour(archived, conversions, self.warehouse.warehouse, self.dataset, reload=is_replaced)
            self.loaded.append(hour)
            compared = compared_with_stream(self.warehouse.warehouse, self.dataset, hour)
            yield hour_warehouse_layer(warehouse, conversions, load, compared)

    def _convert(self, hour: datetime, archived: ArchivedHour) -> tuple[list[Conversion], bool]:
        how: dict[str, Any] = {"bodies": self.lake.bodies_of(self.dataset), "converter": self.converter}
        what = (hour_text(hour), archived.archives, self.lake.layout)
        if self.again:
            return convert_archives_again(*what, **how, engine=self.engine)
        return convert_archives(*what, **how, engine=self.engine), False

    def _archived(self, hour: datetime, client: EnterpriseClient | None) -> ArchivedHour:
        """The hour's archives: fetched where it was planned and the service answers, else those that are there."""
        try:
            if client is not None and hour in self.plans and self.lost is None:
                return fetch_hour(self.plans[hour], client, self.lake.layout, self.engine)
            return archived_hour(hour, self.lake.layout, self.scope, self.dataset)
        except errors.UnreachableError as error:
            self.lost = error
            raise
        except NotArchivedError:
            if self.lost is not None:
                raise self.lost from None
            raise

    def recall(self, hours: Iterable[datetime]) -> None:
        """Find again what earlier runs made of the hours; nothing is fetched, converted or loaded."""
        layout = self.lake.layout
        for hour in hours:
            try:
                self.archived[hour] = archived_hour(hour, layout, self.scope, self.dataset)
            except NotArchivedError:
                continue  # the coverage shows it
            self.conversions[hour] = known_conversions(
                self.archived[hour].archives, layout, self.lake.bodies_of(self.dataset), self.lake.record_bytes_max
            )
            self.loaded.append(hour)

    @property
    def left_out(self) -> set[datetime]:
        """The hours that are not brought in."""
        return {*self.failed, *self.gone}

    def fail(self, hour: datetime, error: Exception) -> None:
        """Remember why an hour is not brought in, in the run and in the coverage that analysts see.

        Of names that the service does not have nothing is noted: they are no part of the mirror. Nor is anything while the
        warehouse is unavailable, lest each hour waits for it.
        """
        self.is_warehouse_unavailable |= unavailable(error) == "warehouse"
        if isinstance(error, errors.RetentionPassed):
            self.gone[hour] = error
        else:
            self.failed[hour] = error
        if isinstance(error, names.UnknownNameError) or self.is_warehouse_unavailable:
            return
        statuses = [HourStatus(hour, project, ns, state_of(error), sentence(error)) for project, ns in self.scope]
        try:
            self.warehouse.warehouse.record_statuses(statuses, self.dataset)
        except Exception as second:  # noqa: BLE001 - the first error is the one to report
            self.is_warehouse_unavailable |= unavailable(second) == "warehouse"
            error.add_note(f"The coverage could not be noted either: {sentence(second)}")
