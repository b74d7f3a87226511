"""The four reference lists: codes, languages, projects, namespaces.

One asset pulls them all (four small requests, no quota); each then has a Parquet file and a DuckDB table of its own.

Belongs here: the way of the lists through the layers. Does not belong here: their columns (see `resources.tables`).

Source: the service's metadata endpoints, /v2/codes, /v2/languages, /v2/projects, /v2/namespaces.
"""

import hashlib
from collections.abc import Iterator
from typing import Any

import dagster as dg

from assets.describe import OWNERS, lake_metadata, preview, table_metadata
from assets.failures import failure, told
from resources.adapters import EnterpriseResource, LakeResource, WarehouseResource
from resources.datasets import Family, datasets, named
from resources.lake import convert_list
from resources.tables import REFERENCE_TABLES

ARCHIVE = dg.AssetKey(["archive", "reference"])


@dg.asset(
    key=ARCHIVE,
    group_name="archive",
    kinds={"http", "file"},
    owners=list(OWNERS),
    description="The service's reference lists as served: codes, languages, projects, namespaces. They change rarely.",
)
def archive_reference(
    context: dg.AssetExecutionContext, enterprise: EnterpriseResource, lake: LakeResource
) -> dg.MaterializeResult:  # type: ignore[type-arg]
    """Pull the four lists and keep their bytes."""
    metadata: dict[str, Any] = {}
    digest = hashlib.md5(usedforsecurity=False)
    try:
        with enterprise.client() as client:
            for dataset in datasets(Family.LIST):
                listing = client.list_records(dataset)
                client.land(listing, lake.layout.list_archive(dataset))
                metadata[f"{dataset.name}_count"] = len(listing.records)
                digest.update(listing.raw)
    except Exception as error:
        raise failure(error) from error
    context.log.info("Reference lists archived: %s", metadata)
    return dg.MaterializeResult(metadata=metadata, data_version=dg.DataVersion(digest.hexdigest()))


@dg.multi_asset(
    name="lake_reference",
    specs=[
        dg.AssetSpec(
            ["lake", table.name],
            deps=[ARCHIVE],
            group_name="lake",
            kinds={"parquet"},
            owners=list(OWNERS),
            description=table.description,
            metadata=lake_metadata(table),
        )
        for table in REFERENCE_TABLES
    ],
    can_subset=True,
)
def lake_reference(context: dg.AssetExecutionContext, lake: LakeResource) -> Iterator[Any]:
    """Convert the archived lists to Parquet."""
    for table in REFERENCE_TABLES:
        key = dg.AssetKey(["lake", table.name])
        if key not in context.selected_asset_keys:
            continue
        source = lake.layout.list_archive(named(table.name))
        try:
            raw = source.read_bytes()
        except FileNotFoundError as error:
            raise dg.Failure(
                f"The list of {table.name} is not archived; materialize archive/reference first.", allow_retries=False
            ) from error
        with told():
            conversion = convert_list(named(table.name), raw, lake.layout)
        yield dg.MaterializeResult(
            asset_key=key,
            metadata={
                "dagster/row_count": conversion.row_count,
                "dagster/uri": str(conversion.path),
                "preview": preview([conversion.path], table.schema.names),
            },
            data_version=dg.DataVersion(hashlib.md5(raw, usedforsecurity=False).hexdigest()),
        )


@dg.multi_asset(
    name="warehouse_reference",
    specs=[
        dg.AssetSpec(
            ["warehouse", table.name],
            deps=[dg.AssetKey(["lake", table.name])],
            group_name="warehouse",
            kinds={"duckdb", "table"},
            owners=list(OWNERS),
            description=table.description,
            metadata=table_metadata(table),
        )
        for table in REFERENCE_TABLES
    ],
    can_subset=True,
)
def warehouse_reference(
    context: dg.AssetExecutionContext, lake: LakeResource, warehouse: WarehouseResource
) -> Iterator[Any]:
    """Replace the reference tables in DuckDB."""
    for table in REFERENCE_TABLES:
        key = dg.AssetKey(["warehouse", table.name])
        if key not in context.selected_asset_keys:
            continue
        with told():
            raw = lake.layout.list_archive(named(table.name)).read_bytes()
            conversion = convert_list(named(table.name), raw, lake.layout)
            count = warehouse.warehouse.load_reference(table.name, conversion.path)
        yield dg.MaterializeResult(asset_key=key, metadata={"dagster/row_count": count})
