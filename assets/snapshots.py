"""Snapshots: whole projects as the service held them, underneath the changes.

Fetching and converting, which may take hours, are one step; loading, which has the warehouse for itself, is another. The
partitions are the service's identifiers, which a sensor adds (`discover_snapshots`); a new version of one is another run of its partition.

Belongs here: what Dagster is told of each layer. Does not belong here: the steps (see `snapshot_sets`).

Source: the service's snapshot endpoints, /v2/snapshots and below.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import dagster as dg

from assets import snapshot_sets
from assets.describe import OWNERS, drift_of, lake_metadata, markdown, preview, remarks_of, table_metadata
from assets.failures import told
from resources.adapters import (
    SNAPSHOTS_POOL,
    EngineResource,
    EnterpriseResource,
    LakeResource,
    WarehouseResource,
)
from resources.lake import Conversion
from resources.tables import SNAPSHOT_ARTICLES

ARCHIVE = dg.AssetKey(["archive", "snapshots"])
LAKE = dg.AssetKey(["lake", "snapshot_articles"])
WAREHOUSE = dg.AssetKey(["warehouse", "snapshot_articles"])
SNAPSHOTS = dg.DynamicPartitionsDefinition(name="snapshots")


@dg.multi_asset(
    name="snapshot_files",
    specs=[
        dg.AssetSpec(
            ARCHIVE,
            group_name="archive",
            kinds={"http", "file"},
            owners=list(OWNERS),
            description="The archives of a snapshot as served, whole or in chunks, and which of them belong together.",
        ),
        dg.AssetSpec(
            LAKE,
            deps=[ARCHIVE],
            group_name="lake",
            kinds={"parquet"},
            owners=list(OWNERS),
            description=SNAPSHOT_ARTICLES.description,
            metadata=lake_metadata(SNAPSHOT_ARTICLES),
        ),
    ],
    partitions_def=SNAPSHOTS,
    can_subset=True,
    pool=SNAPSHOTS_POOL,
)
def snapshot_files(
    context: dg.AssetExecutionContext, enterprise: EnterpriseResource, lake: LakeResource, engine: EngineResource
) -> Iterator[Any]:
    """Archive and convert one snapshot in the version that the service has now.

    One snapshot at a time: several would take every place that Dagster has for runs, and keep the hours waiting.
    """
    selected = context.selected_asset_keys
    identifier = context.partition_key
    workers = engine.engine(context.log.info)
    with told():
        if ARCHIVE in selected:
            with enterprise.client() as client:
                plan = snapshot_sets.plan_snapshot(identifier, client, lake.layout, lake.min_free_gb)
                context.log.info("%s", plan.sentence)
                archived = snapshot_sets.fetch_snapshot(plan, client, lake.layout, workers)
            yield _result(
                ARCHIVE,
                archived.version,
                {
                    "files": len(archived.archives),
                    "bytes": archived.archive_bytes,
                    "quota_units": plan.unit_count,
                    "form": plan.form,
                    "because": plan.reason,
                    "exported_at": dg.MetadataValue.timestamp(archived.exported_at),
                    "dagster/uri": str(plan.folder),
                },
            )
        else:
            archived = snapshot_sets.archived_snapshot(identifier, lake.layout)
        if LAKE in selected:
            with engine.converter(lake) as converter:
                conversions = snapshot_sets.convert_snapshot(
                    archived, lake.layout, bodies=lake.bodies, converter=converter, engine=workers
                )
            yield _result(LAKE, archived.version, _lake_metadata(conversions))


@dg.asset(
    key=WAREHOUSE,
    deps=[LAKE],
    group_name="warehouse",
    kinds={"duckdb", "table"},
    owners=list(OWNERS),
    description=SNAPSHOT_ARTICLES.description,
    metadata=table_metadata(SNAPSHOT_ARTICLES.narrow),
    partitions_def=SNAPSHOTS,
)
def snapshot_articles(
    context: dg.AssetExecutionContext, lake: LakeResource, warehouse: WarehouseResource
) -> dg.MaterializeResult:  # type: ignore[type-arg]
    """Load the archived version whole, in one transaction."""
    with told():
        archived = snapshot_sets.archived_snapshot(context.partition_key, lake.layout)
        conversions = snapshot_sets.all_conversions(archived, lake.layout, lake.bodies, lake.record_bytes_max)
        load = snapshot_sets.load_snapshot(archived, conversions, warehouse.warehouse)
    context.log.info("%s", load)
    return _result(
        WAREHOUSE,
        archived.version,
        {
            "dagster/partition_row_count": load.row_count - load.duplicate_count,
            "duplicates": load.duplicate_count,
            "changed": load.changed,
            "is_base": load.is_base,
            "boundary_at": dg.MetadataValue.timestamp(load.boundary_at),
            "dropped_versions": len(load.dropped_versions),
        },
    )


def _result(key: dg.AssetKey, version: str, metadata: dict[str, Any]) -> dg.MaterializeResult:  # type: ignore[type-arg]
    return dg.MaterializeResult(
        asset_key=key, metadata=metadata | {"version": version}, data_version=dg.DataVersion(version)
    )


def _lake_metadata(conversions: Sequence[Conversion]) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "dagster/partition_row_count": sum(c.row_count for c in conversions),
        "rejects": sum(c.reject_count for c in conversions),
        "ndjson_bytes": sum(c.ndjson_bytes for c in conversions),
        "lake_bytes": sum(c.lake_bytes for c in conversions),
        "files": len(conversions),
        "files_converted": sum(c.converted for c in conversions),
        "seconds": round(sum(c.seconds for c in conversions), 3),
        "dagster/uri": str(conversions[0].path.parent),
        "preview": preview([c.path for c in conversions], ("project_id", "name", "version_id", "event_at")),
    }
    if drift := drift_of(conversions):
        rows = [{"field": one.path, "count": one.count, "example": one.example} for one in drift]
        metadata["unknown_fields"] = markdown(rows, ("field", "count", "example"))
    if remarks := remarks_of(conversions):
        metadata["remarks"] = remarks
    return metadata
