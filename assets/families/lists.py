"""The reference lists, from the service to DuckDB.

One asset pulls them all (small requests, no quota); each then has a Parquet file and a table of its own.

Source: the service's metadata endpoints, /v2/codes, /v2/languages, /v2/projects, /v2/namespaces.
"""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import dagster as dg

from assets import layers
from assets.checks import list_checks
from assets.checks.findings import results
from assets.describe import preview
from assets.failures import as_failure
from assets.steps.converting import NotArchivedError
from resources import files
from resources.adapters import EnterpriseResource, LakeResource, WarehouseResource
from resources.datasets import Dataset
from resources.enterprise import endpoints
from resources.lake import ListConversion, convert_list


def list_assets(lists: Sequence[Dataset]) -> list[dg.AssetsDefinition]:
    """Return the assets of all lists.

    One asset of the archive is shared by all lists; each list has one asset of the lake and one of the warehouse.
    """

    @dg.multi_asset(name="archive_reference", specs=layers.specs(lists[0])[:1])
    def archive(
        context: dg.AssetExecutionContext, enterprise: EnterpriseResource, lake: LakeResource
    ) -> dg.MaterializeResult:  # type: ignore[type-arg]
        """Pull the lists and keep their bytes."""
        metadata: dict[str, Any] = {}
        digest = hashlib.md5(usedforsecurity=False)
        with as_failure(), enterprise.client() as client:
            for dataset in lists:
                listing = client.lists.records(endpoints.records(dataset))
                client.lists.land(listing, lake.layout.list_archive(dataset))
                metadata[f"{dataset.name}_count"] = len(listing.records)
                digest.update(listing.raw)
        context.log.info("Reference lists archived: %s", metadata)
        return dg.MaterializeResult(metadata=metadata, data_version=dg.DataVersion(digest.hexdigest()))

    @dg.multi_asset(
        name="lake_reference",
        specs=[layers.specs(one)[1] for one in lists],
        check_specs=[list_checks.converted(one).spec for one in lists],
        can_subset=True,
    )
    def convert(context: dg.AssetExecutionContext, lake: LakeResource) -> Iterator[Any]:
        """Convert the archived lists to Parquet."""
        selected = layers.own(context.selected_asset_keys)
        checked = {layers.unprefixed(check.asset_key) for check in context.selected_asset_check_keys}
        for dataset in lists:
            check, key = list_checks.converted(dataset), layers.lake_key(dataset)
            if key not in selected and key not in checked:
                continue
            with as_failure():
                raw, conversion = _converted(dataset, lake)
            if key in selected:
                metadata: dict[str, Any] = {
                    "dagster/row_count": conversion.row_count,
                    "dagster/uri": str(conversion.path),
                    "preview": preview([conversion.path], dataset.table.schema.names),
                }
                if conversion.odd:
                    metadata["odd_records"] = "; ".join(conversion.odd)
                    context.log.warning(
                        "Records of the list of %s are left out: %s", dataset.name, metadata["odd_records"]
                    )
                yield dg.MaterializeResult(
                    asset_key=selected[key],
                    metadata=metadata,
                    data_version=dg.DataVersion(hashlib.md5(raw, usedforsecurity=False).hexdigest()),
                )
            made = list_checks.Converted(raw, conversion.path, conversion.odd)
            yield from results([check], made, context.selected_asset_check_keys)

    @dg.multi_asset(
        name="warehouse_reference",
        specs=[layers.specs(one)[2] for one in lists],
        check_specs=[check.spec for one in lists for check in list_checks.loaded(one)],
        can_subset=True,
    )
    def load(
        context: dg.AssetExecutionContext,
        enterprise: EnterpriseResource,
        lake: LakeResource,
        warehouse: WarehouseResource,
    ) -> Iterator[Any]:
        """Replace the lists' tables in DuckDB."""
        selected = layers.own(context.selected_asset_keys)
        for dataset in lists:
            if (key := layers.warehouse_key(dataset)) not in selected:
                continue
            with as_failure():
                count = warehouse.warehouse.load_list(dataset, _converted(dataset, lake)[1].path)
            yield dg.MaterializeResult(asset_key=selected[key], metadata={"dagster/row_count": count})
        with as_failure(), warehouse.warehouse.auditing() as auditor:
            keys = {dataset: auditor.keys(dataset) for dataset in lists}
        for dataset in lists:
            made = list_checks.Loaded(keys[dataset], enterprise)
            yield from results(list_checks.loaded(dataset), made, context.selected_asset_check_keys)

    return [archive, convert, load]


def _converted(dataset: Dataset, lake: LakeResource) -> tuple[bytes, ListConversion]:
    """A list as it is archived, and its Parquet file, which is made where it is not there."""
    try:
        raw = files.read(lake.layout.list_archive(dataset))
    except FileNotFoundError as error:
        raise NotArchivedError(
            f"The list of {dataset.name} is not archived; materialize archive/reference first."
        ) from error
    return raw, convert_list(dataset, raw, lake.layout)
