"""The three hourly layers as one asset: archive, lake and warehouse of the changes, an hour at a time.

One multi-asset over the three, because a run of its own costs seconds and a step of its own too, and because as separate
assets over a range one bad hour would turn every hour red and load nothing. Each hour logs its own materialization in
every layer as it commits; an hour that fails is red, and the others go on into the warehouse.

Belongs here: the loop over a run's hours, what each layer reports, the checks of what was just made.
Does not belong here: the steps themselves (see `batches`).
"""

from __future__ import annotations

import hashlib
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import dagster as dg

from assets import batches, checks
from assets.describe import OWNERS, markdown, table_metadata
from assets.failures import ends_run, failed_hours, failure, sentence
from assets.partitions import HOURS, hour_of, hour_text, key_of
from resources.adapters import WAREHOUSE_POOL, EngineResource, EnterpriseResource, LakeResource, WarehouseResource
from resources.enterprise.errors import EnterpriseError, RetentionPassed
from resources.tables import ARTICLE_CHANGES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from datetime import datetime

    from resources.engine import Engine
    from resources.enterprise import EnterpriseClient
    from resources.lake import Conversion
    from resources.warehouse import HourLoad

ARCHIVE = dg.AssetKey(["archive", "batches"])
LAKE = dg.AssetKey(["lake", "article_changes"])
WAREHOUSE = dg.AssetKey(["warehouse", "article_changes"])

_SPECS = [
    dg.AssetSpec(
        ARCHIVE,
        skippable=True,
        group_name="archive",
        kinds={"http", "file"},
        owners=list(OWNERS),
        description="The service's hourly files as served: verified against their MD5, kept for ever. The service keeps an "
        "hour for two days; what was once fetched is never fetched again.",
    ),
    dg.AssetSpec(
        LAKE,
        deps=[ARCHIVE],
        skippable=True,
        group_name="lake",
        kinds={"parquet"},
        owners=list(OWNERS),
        description="The changes of the hour as Parquet, one file per archive, bodies included; lines that could not be "
        "converted beside it, whole and with their reason.",
        metadata=table_metadata(ARTICLE_CHANGES),
    ),
    dg.AssetSpec(
        WAREHOUSE,
        deps=[LAKE],
        skippable=True,
        group_name="warehouse",
        kinds={"duckdb", "table"},
        owners=list(OWNERS),
        description=ARTICLE_CHANGES.description,
        metadata=table_metadata(ARTICLE_CHANGES.narrow),
    ),
]


#: One layer of one hour, made: its asset, what there is to tell, and the version of the data.
class _Layer(NamedTuple):
    key: dg.AssetKey
    metadata: dict[str, Any]
    data_version: str


@dataclass
class HourlyRun:
    """One run over some hours: what it works with, and what it has made so far."""

    enterprise: EnterpriseResource
    lake: LakeResource
    warehouse: WarehouseResource
    threads: int
    engine: Engine
    plans: dict[datetime, batches.Plan] = field(default_factory=dict)
    archived: dict[datetime, batches.ArchivedHour] = field(default_factory=dict)
    conversions: dict[datetime, list[Conversion]] = field(default_factory=dict)
    loads: dict[datetime, HourLoad] = field(default_factory=dict)
    failed: dict[datetime, Exception] = field(default_factory=dict)

    def plan(self, hours: Iterable[datetime], client: EnterpriseClient) -> None:
        """List every hour before anything is fetched, and see that the disk holds it all.

        An hour past the service's retention that is archived needs no plan: the archive serves it.

        Raises:
            EnterpriseError: No hour of the run can succeed; nothing was fetched.
        """
        layout = self.lake.layout
        for hour in hours:
            try:
                self.plans[hour] = batches.plan_hour(hour, client, layout, self.enterprise.scope)
            except RetentionPassed as error:
                if not layout.batch_list(hour).exists():
                    self.fail(hour, error)
            except EnterpriseError as error:
                if ends_run(error):
                    raise
                self.fail(hour, error)
        batches.check_disk(self.plans.values(), layout.root, self.lake.min_free_gb)

    def ingest(
        self, hour: datetime, selected: Collection[dg.AssetKey], client: EnterpriseClient | None
    ) -> Iterator[_Layer]:
        """Take one hour through the selected layers, telling each as it is committed."""
        layout = self.lake.layout
        if client is not None and hour in self.plans:
            archived = batches.fetch_hour(self.plans[hour], client, layout, self.engine)
        else:
            archived = batches.archived_hour(hour, layout, self.enterprise.scope)
        self.archived[hour] = archived
        if ARCHIVE in selected:
            yield _archive_layer(archived)
        if LAKE not in selected and WAREHOUSE not in selected:
            return
        # already converted files are found by their digest, so the warehouse alone costs no second conversion
        conversions = batches.convert_hour(
            archived, layout, bodies=self.lake.bodies, threads=self.threads, engine=self.engine
        )
        self.conversions[hour] = conversions
        if LAKE in selected:
            yield _lake_layer(conversions)
        if WAREHOUSE in selected:
            self.loads[hour] = batches.load_hour(archived, conversions, self.warehouse.warehouse)
            yield _warehouse_layer(conversions, self.loads[hour])

    def fail(self, hour: datetime, error: Exception) -> None:
        """Remember why an hour failed, in the run and in the coverage that analysts see."""
        self.failed[hour] = error
        statuses = batches.statuses_of(hour, self.enterprise.scope, error, sentence(error))
        try:
            self.warehouse.warehouse.record_statuses(statuses)
        except Exception as second:  # noqa: BLE001 - the first error is the one to tell
            error.add_note(f"The coverage could not be noted either: {sentence(second)}")


@dg.multi_asset(
    name="hourly_changes",
    specs=_SPECS,
    check_specs=checks.HOURLY,
    partitions_def=HOURS,
    can_subset=True,
    # a day per run: a run of its own for each hour would cost more than the hour
    backfill_policy=dg.BackfillPolicy.multi_run(max_partitions_per_run=24),
    pool=WAREHOUSE_POOL,
)
def hourly_changes(
    context: dg.AssetExecutionContext,
    enterprise: EnterpriseResource,
    lake: LakeResource,
    warehouse: WarehouseResource,
    engine: EngineResource,
) -> Iterator[Any]:
    """Archive, convert and load the run's hours; fail at the end naming those that could not be."""
    hours = [hour_of(key) for key in context.partition_keys]
    selected = context.selected_asset_keys
    run = HourlyRun(enterprise, lake, warehouse, engine.threads, engine.engine(context.log.info))
    with ExitStack() as stack:
        client = None
        if ARCHIVE in selected:
            try:
                client = stack.enter_context(enterprise.client())
                run.plan(hours, client)
            except Exception as error:
                for hour in hours:
                    run.fail(hour, error)
                raise failure(error) from error
        for number, hour in enumerate(hours):
            if hour in run.failed:
                continue
            try:
                for layer in run.ingest(hour, selected, client):
                    yield from _materialize(context, layer, hour, alone=len(hours) == 1)
            except Exception as error:  # an hour fails alone, and every failure is named at the end
                run.fail(hour, error)
                # the traceback of a foreseen error would only hide its sentence
                context.log.error("%s: %s", hour_text(hour), sentence(error), exc_info=not hasattr(error, "retryable"))  # noqa: TRY400
                if ends_run(error):
                    for other in hours[number + 1 :]:
                        run.failed.setdefault(other, error)
    if len(run.failed) < len(hours):
        yield from checks.of_run(run, context.selected_asset_check_keys)
    if run.failed:
        raise failed_hours(run.failed, len(hours)) from next(iter(run.failed.values()))


def _materialize(context: dg.AssetExecutionContext, layer: _Layer, hour: datetime, *, alone: bool) -> Iterator[Any]:
    """Tell Dagster of one layer of one hour.

    A result of the asset would speak for every partition of the run at its end, also for those that failed. So only an
    hour that is alone in its run is told as a result (which lets assets behind it follow in the same run).
    """
    if alone:
        yield dg.MaterializeResult(
            asset_key=layer.key, metadata=layer.metadata, data_version=dg.DataVersion(layer.data_version)
        )
        return
    context.log_event(
        dg.AssetMaterialization(
            layer.key,
            partition=key_of(hour),
            metadata=layer.metadata,
            tags={"dagster/data_version": layer.data_version},
        )
    )


def _digest(parts: Iterable[str]) -> str:
    return hashlib.md5("\n".join(sorted(parts)).encode(), usedforsecurity=False).hexdigest()


def _archive_layer(archived: batches.ArchivedHour) -> _Layer:
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
    if archived.absent:
        metadata["absent"] = ", ".join(f"{project} namespace {namespace}" for project, namespace in archived.absent)
    return _Layer(ARCHIVE, metadata, _digest(f"{a.identifier} {a.version}" for a in archived.archives))


def _lake_layer(conversions: Sequence[Conversion]) -> _Layer:
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
    }
    if drift:
        metadata["unknown_fields"] = markdown(drift, ("archive", "field", "count", "example"))
    return _Layer(LAKE, metadata, _digest(c.digest for c in conversions))


def _warehouse_layer(conversions: Sequence[Conversion], load: HourLoad) -> _Layer:
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
        "dagster/partition_row_count": load.row_count,
        "duplicates": load.duplicate_count,
        "changed": load.changed,
        "projects": markdown(by_project, ("project", "namespace", "rows", "update", "delete", "rejects")),
    }
    if not load.row_count:
        metadata["empty"] = "The service lists no change of the mirrored projects in this hour."
    return _Layer(WAREHOUSE, metadata, _digest(c.digest for c in conversions))
