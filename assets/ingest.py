"""A run over some hours: each is taken through the layers, stands or fails alone, and says what it made.

Belongs here: the order of the steps, what each layer tells, what is remembered of a failure.
Does not belong here: the steps (see `batches`) and the asset that runs this (see `hourly`).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import dagster as dg

from assets import batches, names
from assets.converting import NotArchivedError, known_conversions
from assets.describe import PREVIEW, markdown, preview, remarks_of
from assets.failures import sentence
from resources.datasets import ARTICLE_CHANGES
from resources.enterprise.errors import EnterpriseError, RetentionPassed, ServiceUnavailable, UnreachableError
from resources.errors import ends_run, unavailable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from datetime import datetime

    from resources.adapters import EnterpriseResource, LakeResource, WarehouseResource
    from resources.engine import Engine
    from resources.enterprise import EnterpriseClient
    from resources.lake import Conversion, Converter
    from resources.warehouse import HourLoad

ARCHIVE = dg.AssetKey(["archive", "batches"])
LAKE = dg.AssetKey(["lake", "article_changes"])
WAREHOUSE = dg.AssetKey(["warehouse", "article_changes"])


class Layer(NamedTuple):
    """One layer of one hour, made: its asset, what there is to tell, and the version of the data."""

    key: dg.AssetKey
    metadata: dict[str, Any]
    data_version: str


@dataclass
class HourlyRun:
    """One run over some hours: what it works with, and what it has made so far.

    Attributes:
        lost: Why nothing more is asked of the service: a host could not be reached. What is archived is loaded all the same.
    """

    enterprise: EnterpriseResource
    lake: LakeResource
    warehouse: WarehouseResource
    converter: Converter
    engine: Engine
    plans: dict[datetime, batches.Plan] = field(default_factory=dict)
    archived: dict[datetime, batches.ArchivedHour] = field(default_factory=dict)
    conversions: dict[datetime, list[Conversion]] = field(default_factory=dict)
    loaded: list[datetime] = field(default_factory=list)
    failed: dict[datetime, Exception] = field(default_factory=dict)
    lost: UnreachableError | None = None
    #: Hours that nobody can bring in any more: the service keeps two days, and they are not archived.
    gone: dict[datetime, RetentionPassed] = field(default_factory=dict)
    is_warehouse_unavailable: bool = False

    def plan(self, hours: Collection[datetime], client: EnterpriseClient) -> None:
        """List every hour before anything is fetched, and see that the disk holds it all.

        An hour past the service's retention that is archived needs no plan: the archive serves it.

        Raises:
            EnterpriseError: No hour of the run can succeed; nothing was fetched.
            UnknownNameError: The service does not have a project or namespace; nothing was fetched.
        """
        layout = self.lake.layout
        failed: dict[datetime, EnterpriseError] = {}
        # told, because a service may take seconds for each list: the sandbox makes its archives then
        task = self.engine.reporter.start("list", len(hours), "hour")
        try:
            for hour in hours:
                try:
                    self.plans[hour] = batches.plan_hour(hour, client, layout, self.enterprise.scope)
                except RetentionPassed as error:
                    if not layout.batch_list(ARTICLE_CHANGES, hour).exists():
                        failed[hour] = error
                except UnreachableError as error:
                    self.lost = error
                    break
                except EnterpriseError as error:
                    if ends_run(error):
                        raise
                    failed[hour] = error
                task.advance(1)
        finally:
            task.finish()
        if self.lost is None:
            self._check_names(client)
        for hour, why in failed.items():
            self.fail(hour, why)
        if self.lost is None:
            batches.check_disk(self.plans.values(), layout.root, self.lake.min_free_gb)

    def _check_names(self, client: EnterpriseClient) -> None:
        """Of what no list of the run names, see that the service has it: it may be quiet, or misspelt."""
        if not self.plans:
            return
        absent = [place for place in self.enterprise.scope if all(place in plan.absent for plan in self.plans.values())]
        # an outage of the reference lists must cost no hour: names that no list has are looked at by the next run
        try:
            names.check(client, self.lake.layout, [project for project, _ in absent], [number for _, number in absent])
        except UnreachableError as error:
            self.lost = error
        except ServiceUnavailable:
            pass

    def ingest(
        self, hour: datetime, selected: Collection[dg.AssetKey], client: EnterpriseClient | None
    ) -> Iterator[Layer]:
        """Take one hour through the selected layers, telling each as it is committed."""
        layout = self.lake.layout
        if client is not None and hour in self.plans and self.lost is None:
            try:
                archived = batches.fetch_hour(self.plans[hour], client, layout, self.engine)
            except UnreachableError as error:
                self.lost = error
                raise
        else:
            try:
                archived = batches.archived_hour(hour, layout, self.enterprise.scope)
            except NotArchivedError:
                if self.lost is not None:
                    raise self.lost from None
                raise
        self.archived[hour] = archived
        if ARCHIVE in selected:
            yield _archive_layer(archived)
        if LAKE not in selected and WAREHOUSE not in selected:
            return
        # already converted files are found by their digest, so the warehouse alone costs no second conversion
        conversions = batches.convert_hour(
            archived, layout, bodies=self.lake.bodies, converter=self.converter, engine=self.engine
        )
        self.conversions[hour] = conversions
        if LAKE in selected:
            yield _lake_layer(archived, conversions)
        if WAREHOUSE in selected:
            load = batches.load_hour(archived, conversions, self.warehouse.warehouse)
            self.loaded.append(hour)
            yield _warehouse_layer(conversions, load)

    def recall(self, hours: Iterable[datetime]) -> None:
        """Find again what earlier runs made of the hours; nothing is fetched, converted or loaded."""
        layout = self.lake.layout
        for hour in hours:
            try:
                self.archived[hour] = batches.archived_hour(hour, layout, self.enterprise.scope)
            except NotArchivedError:
                continue  # the coverage tells of it
            self.conversions[hour] = known_conversions(
                self.archived[hour].archives, layout, self.lake.bodies, self.lake.record_bytes_max
            )
            self.loaded.append(hour)

    @property
    def left_out(self) -> set[datetime]:
        """The hours that are not brought in."""
        return {*self.failed, *self.gone}

    def fail(self, hour: datetime, error: Exception) -> None:
        """Remember why an hour is not brought in, in the run and in the coverage that analysts see.

        Of names that the service does not have nothing is noted: they are no part of the mirror. Nor is anything while the
        warehouse is not to be had, lest each hour waits for it.
        """
        self.is_warehouse_unavailable |= unavailable(error) == "warehouse"
        if isinstance(error, RetentionPassed):
            self.gone[hour] = error
        else:
            self.failed[hour] = error
        if isinstance(error, names.UnknownNameError) or self.is_warehouse_unavailable:
            return
        statuses = batches.statuses_of(hour, self.enterprise.scope, error, sentence(error))
        try:
            self.warehouse.warehouse.record_statuses(statuses)
        except Exception as second:  # noqa: BLE001 - the first error is the one to tell
            self.is_warehouse_unavailable |= unavailable(second) == "warehouse"
            error.add_note(f"The coverage could not be noted either: {sentence(second)}")


def _digest(parts: Iterable[str]) -> str:
    return hashlib.md5("\n".join(sorted(parts)).encode(), usedforsecurity=False).hexdigest()


def _archive_layer(archived: batches.ArchivedHour) -> Layer:
    files = [
        {"project": a.project_id, "namespace": a.namespace_id, "version": a.version, "bytes": a.path.stat().st_size}
        for a in archived.archives
    ]
    metadata: dict[str, Any] = {
        "files": len(files),
        "bytes": archived.archive_bytes,
        "files_fetched": archived.fetched_count,
        "bytes_fetched": archived.fetched_bytes,
        "requests": archived.request_count,
        "archives": markdown(files, ("project", "namespace", "version", "bytes")),
    }
    if archived.archives:
        metadata["dagster/uri"] = str(archived.archives[0].path.parent)
    if archived.absent:
        metadata["absent"] = ", ".join(f"{project} namespace {namespace}" for project, namespace in archived.absent)
    return Layer(ARCHIVE, metadata, _digest(f"{a.identifier} {a.version}" for a in archived.archives))


def _lake_layer(archived: batches.ArchivedHour, conversions: Sequence[Conversion]) -> Layer:
    rows = sum(c.row_count for c in conversions)
    ndjson, seconds = sum(c.ndjson_bytes for c in conversions), sum(c.seconds for c in conversions)
    drift = [
        {"field": d.path, "count": d.count, "example": d.example, "archive": c.identifier}
        for c in conversions
        for d in c.drift
    ]
    metadata: dict[str, Any] = {
        "dagster/partition_row_count": rows,
        "rejects": sum(c.reject_count for c in conversions),
        "ndjson_bytes": ndjson,
        "lake_bytes": sum(c.lake_bytes for c in conversions),
        "files": len(conversions),
        "files_converted": sum(c.converted for c in conversions),
        "seconds": round(seconds, 3),
        # fetching and converting, by archive; loading is one transaction for the whole hour
        "seconds_by_archive": {
            c.identifier: round(archived.seconds.get(c.identifier, 0.0) + c.seconds, 3) for c in conversions
        },
    }
    if conversions:
        metadata["dagster/uri"] = str(conversions[0].path.parent)
        metadata["preview"] = preview([c.path for c in conversions], PREVIEW)
    if drift:
        metadata["unknown_fields"] = markdown(drift, ("archive", "field", "count", "example"))
    if remarks := remarks_of(conversions):
        metadata["remarks"] = remarks
    return Layer(LAKE, metadata, _digest(c.digest for c in conversions))


def _warehouse_layer(conversions: Sequence[Conversion], load: HourLoad) -> Layer:
    by_project = [
        {
            "project": c.project_id,
            "namespace": c.namespace_id,
            "rows": c.row_count,
            "update": c.update_count,
            "delete": c.delete_count,
            "rejects": c.reject_count,
        }
        for c in conversions
    ]
    metadata: dict[str, Any] = {
        "dagster/partition_row_count": load.held_row_count,
        "duplicates": load.held_duplicate_count,
        "changed": load.changed,
        "projects": markdown(by_project, ("project", "namespace", "rows", "update", "delete", "rejects")),
    }
    if not load.held_row_count:
        metadata["empty"] = "The service lists no change of the mirrored projects in this hour."
    return Layer(WAREHOUSE, metadata, _digest(c.digest for c in conversions))
