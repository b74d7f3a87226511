"""Runs over several hours of a dataset. Each hour can fail independently."""

import hashlib
import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

import dagster as dg

from assets import layers
from assets.describe import lake_metadata_of, markdown, sentence, sized
from assets.steps import hour as batches
from assets.steps.converting import NotArchivedError, attempts, known_conversions
from assets.steps.hour import PartialHourError
from resources import connection
from resources.adapters import EnterpriseResource, LakeResource, WarehouseResource
from resources.datasets import Dataset
from resources.engine import Engine
from resources.enterprise import EnterpriseClient, errors
from resources.errors import MirrorError, ends_run, unavailable
from resources.formatting import hour_text
from resources.lake import ConvertedFile, Converter
from resources.remote import RemoteWorkers
from resources.warehouse import HourLoad, HourStatus

_log = logging.getLogger(__name__)


class Layer(NamedTuple):
    """One materialized layer of one hour, with metadata. `is_new` is true if this run changed the layer."""

    key: dg.AssetKey
    metadata: dict[str, Any]
    data_version: str
    is_new: bool


@dataclass
class HourlyRun:
    """Resources and results of one run over several hours.

    With `again`, existing files are verified and damaged files are replaced. `gone` contains unarchived hours that the
    service has deleted. `lost` describes loaded archives that have disappeared. After an error that ends all fetching
    (`stopped`), archived hours are still loaded.
    """

    enterprise: EnterpriseResource
    lake: LakeResource
    warehouse: WarehouseResource
    converter: Converter | RemoteWorkers
    engine: Engine
    dataset: Dataset
    again: bool = False
    plans: dict[datetime, batches.Plan] = field(default_factory=dict)
    archived: dict[datetime, batches.ArchivedHour] = field(default_factory=dict)
    conversions: dict[datetime, list[ConvertedFile]] = field(default_factory=dict)
    loaded: list[datetime] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    failed: dict[datetime, Exception] = field(default_factory=dict)
    gone: dict[datetime, errors.RetentionPassed] = field(default_factory=dict)
    stopped: Exception | None = None
    is_warehouse_unavailable: bool = False

    @property
    def scope(self) -> batches.Scope:
        """Return the mirrored scope, or the dataset's full scope if the dataset is not mirrored."""
        return self.enterprise.settings.scope_of(self.dataset) or self.dataset.places

    def plan(self, hours: Collection[datetime], client: EnterpriseClient) -> None:
        """Request the batch listings of all hours, and check that the disk has enough free space.

        Archived hours that the service has deleted need no plan, because they are read from the archive. Raises an
        error if none of the run's hours can succeed, for example because a project is unknown to the service.
        """
        layout = self.lake.layout
        failed: dict[datetime, errors.EnterpriseError] = {}
        # show progress, because each listing can take seconds: the sandbox creates archives on demand
        with self.engine.task("list", len(hours), "hour") as advance:
            for hour in hours:
                try:
                    self.plans[hour] = batches.plan_hour(hour, client, layout, self.scope, self.dataset)
                except errors.RetentionPassed as error:
                    if not layout.batch_list(self.dataset, hour).exists():
                        failed[hour] = error
                except errors.UnreachableError as error:
                    self.stopped = error
                    break
                except errors.EnterpriseError as error:
                    if ends_run(error):
                        raise
                    failed[hour] = error
                advance(1)
        if self.stopped is None and self.plans:
            # projects and namespaces without any record might be misspelt
            absent = [place for place in self.scope if all(place in plan.absent for plan in self.plans.values())]
            projects, namespaces = [project for project, _ in absent], [number for _, number in absent]
            try:
                connection.check_names(client, layout, projects, namespaces)
            except errors.UnreachableError as error:
                self.stopped = error
            except errors.ServiceUnavailable:
                pass  # the reference lists must not fail an hour, and the next run checks the names again
        for hour, why in failed.items():
            self.fail(hour, why)
        if self.stopped is None:
            batches.check_disk(self.plans.values(), layout.root, self.lake.settings.min_free_gb)

    def ingest(
        self, hour: datetime, selected: Collection[dg.AssetKey], client: EnterpriseClient | None
    ) -> Iterator[Layer]:
        """Process one hour through the selected layers, and yield each complete, committed layer.

        Raises PartialHourError if some projects failed. The other projects were processed.
        """
        archive, lake, warehouse = layers.keys(self.dataset)
        archived = self.archived[hour] = self._archived(hour, client)
        if archive in selected and archived.partial is None:
            yield _archive_layer(archive, archived)
        if lake in selected or warehouse in selected:
            # existing conversions are found by digest, so a run with only the warehouse asset converts nothing
            outcomes = attempts(
                hour_text(hour),
                archived.archives,
                self.lake.layout,
                bodies=self.lake.bodies_of(self.dataset),
                converter=self.converter,
                engine=self.engine,
                again=self.again,
            )
            archived, conversions = archived.converted(outcomes)
            self.archived[hour], self.conversions[hour] = archived, conversions
            if lake in selected and archived.partial is None:
                yield _lake_layer(lake, archived, conversions)
            if warehouse in selected:
                is_replaced = self.again and any(one.converted for one in conversions)
                load = batches.load_hour(archived, conversions, self.warehouse.warehouse, reload=is_replaced)
                self.loaded.append(hour)
                if self.dataset.stream is not None:
                    try:
                        self.warehouse.warehouse.keep_visibility_changes()
                    except MirrorError as error:  # the next load stores these changes, which only the stream contains
                        _log.warning("%s", error)
                if archived.partial is None:
                    yield _warehouse_layer(warehouse, conversions, load)
        archived.check()

    def _archived(self, hour: datetime, client: EnterpriseClient | None) -> batches.ArchivedHour:
        """Fetch the hour's archives, or read them from disk if the hour is not planned or fetching has ended."""
        try:
            if client is not None and hour in self.plans and self.stopped is None:
                return batches.fetch_hour(self.plans[hour], client, self.lake.layout, self.engine)
            # after fetching has ended, require complete hours, because the service might have the missing archives
            return batches.archived_hour(hour, self.lake.layout, self.scope, self.dataset, partial=self.stopped is None)
        except errors.UnreachableError as error:
            self.stopped = error
            raise
        except NotArchivedError:
            if self.stopped is not None:
                raise self.stopped from None
            raise

    def recall(self, hours: Sequence[datetime]) -> None:
        """Find the results of earlier runs for these hours without fetching, converting or loading anything."""
        layout, warehouse = self.lake.layout, self.warehouse.warehouse
        if warehouse.build_path.exists():
            self.lost = [
                f"{identifier} of {hour_text(hour)} is loaded, but {path} is missing"
                for hour, identifier, version in warehouse.loaded_archives(self.dataset, min(hours))
                if not (path := layout.batch_archive(self.dataset, hour, identifier, version)).exists()
            ]
        for hour in hours:
            try:
                self.archived[hour] = batches.archived_hour(hour, layout, self.scope, self.dataset, partial=True)
            except NotArchivedError:
                continue  # the coverage check reports an hour that is not loaded, and `lost` a loaded one
            self.conversions[hour] = known_conversions(self.archived[hour].archives, self.lake)
            self.loaded.append(hour)

    def stop(self, error: Exception, hours: Iterable[datetime]) -> None:
        """Stop fetching after an error that affects every download, and fail the hours that still need downloads."""
        self.stopped = error
        for hour in hours:
            plan = self.plans.get(hour)
            if hour not in self.left_out and (plan is None or plan.missing or self.is_warehouse_unavailable):
                self.fail(hour, error)

    @property
    def left_out(self) -> set[datetime]:
        return {*self.failed, *self.gone}

    def fail(self, hour: datetime, error: Exception) -> None:
        """Record the reason for a failed hour in the run and in the coverage.

        The coverage is not updated for unknown names or while the warehouse is unavailable.
        """
        self.is_warehouse_unavailable |= unavailable(error) == "warehouse"
        if isinstance(error, errors.RetentionPassed):
            self.gone[hour] = error
        else:
            self.failed[hour] = error
        if isinstance(error, connection.UnknownNameError) or self.is_warehouse_unavailable:
            return
        reasons = error.reasons if isinstance(error, PartialHourError) else dict.fromkeys(self.scope, sentence(error))
        statuses = [HourStatus(hour, *place, batches.state_of(error), why) for place, why in reasons.items()]
        try:
            self.warehouse.warehouse.record_statuses(statuses, self.dataset)
        except Exception as second:  # noqa: BLE001 - the first error is the one to report
            self.is_warehouse_unavailable |= unavailable(second) == "warehouse"
            error.add_note(f"The coverage could not be updated either. {sentence(second)}")


def _digest(parts: Iterable[str]) -> str:
    return hashlib.md5("\n".join(sorted(parts)).encode(), usedforsecurity=False).hexdigest()


def _archive_layer(key: dg.AssetKey, archived: batches.ArchivedHour) -> Layer:
    files = [
        {"project": a.project_id, "namespace": a.namespace_id, "version": a.version, "size": a.path.stat().st_size}
        for a in archived.archives
    ]
    metadata: dict[str, Any] = {
        "files": len(files),
        "bytes": sum(file["size"] for file in files),
        "files_fetched": len(archived.fetched),
        "bytes_fetched": sum(landed.size_bytes for landed in archived.fetched),
        "requests": archived.request_count,
        "archives": markdown(files, ("project", "namespace", "version", "size")),
    }
    if archived.archives:
        metadata["dagster/uri"] = str(archived.archives[0].path.parent)
    if absent := archived.plan.absent:
        metadata["absent"] = ", ".join(f"{project} namespace {namespace}" for project, namespace in absent)
    if remark := archived.plan.listing.remark:
        metadata["odd_records"] = remark
    version = _digest(f"{a.identifier} {a.version}" for a in archived.archives)
    return Layer(key, sized(metadata), version, is_new=bool(archived.fetched))


def _lake_layer(key: dg.AssetKey, archived: batches.ArchivedHour, conversions: Sequence[ConvertedFile]) -> Layer:
    # download and conversion seconds by archive, without loading, which is one transaction for the complete hour
    seconds = {c.identifier: round(archived.seconds.get(c.identifier, 0.0) + c.seconds, 3) for c in conversions}
    metadata = lake_metadata_of(conversions) | {"seconds_by_archive": seconds}
    return Layer(key, metadata, _digest(c.digest for c in conversions), is_new=any(c.converted for c in conversions))


def _warehouse_layer(key: dg.AssetKey, conversions: Sequence[ConvertedFile], load: HourLoad) -> Layer:
    counts = {"rows": "row_count", "update": "update_count", "delete": "delete_count", "rejects": "reject_count"}
    columns = {"project": "project_id", "namespace": "namespace_id", **counts}
    by_project = [{name: getattr(c, field) for name, field in columns.items()} for c in conversions]
    metadata: dict[str, Any] = {
        "dagster/partition_row_count": load.held_row_count,
        "duplicates": load.held_duplicate_count,
        "changed": load.changed,
        "projects": markdown(by_project, tuple(columns)),
    }
    if not load.held_row_count:
        metadata["empty"] = "The service lists no changes to the mirrored projects in this hour."
    return Layer(key, metadata, _digest(c.digest for c in conversions), is_new=load.changed)
