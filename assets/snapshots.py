"""Assets for snapshots, each of which contains a complete project at one point in time.

One step fetches and converts files, which can take hours. Another step loads the rows and locks the warehouse. A new
version requires another run for the same partition.
"""

import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import Any

import dagster as dg

from assets import checks, layers
from assets.describe import as_failure, earlier_work, lake_metadata_of, run_config, sized
from assets.steps import snapshot
from assets.steps.converting import NotArchivedError, convert_archives, known_conversions
from resources import adapters
from resources.adapters import SNAPSHOTS_POOL, EngineResource, EnterpriseResource, LakeResource, WarehouseResource
from resources.datasets import Dataset
from resources.datasets.paths import safe
from resources.enterprise import SnapshotOptions
from resources.enterprise.errors import NotFound
from resources.formatting import listed

#: Pattern of all known identifiers, used only if the service cannot be queried.
_IDENTIFIER = re.compile(r".+_namespace_\d+")


def snapshot_assets(dataset: Dataset) -> list[dg.AssetsDefinition]:
    """Return two steps: one creates the archive and the lake files, and the other loads the warehouse."""
    archive, in_lake, in_warehouse = layers.keys(dataset)
    made_of = layers.specs(dataset)
    partitions = dg.DynamicPartitionsDefinition(name=dataset.archive)  # sensors and commands add snapshots
    specs = [check.spec for check in checks.of_files(dataset)]

    @dg.multi_asset(
        name=f"{dataset.archive}_files",
        specs=made_of[:2],
        check_specs=[spec for spec in specs if spec.asset_key != in_warehouse],
        partitions_def=partitions,
        can_subset=True,
        pool=SNAPSHOTS_POOL,
        config_schema=adapters.run_fields(SnapshotOptions.model_fields),
    )
    def files(
        context: dg.AssetExecutionContext,
        enterprise: EnterpriseResource,
        lake: LakeResource,
        warehouse: WarehouseResource,
        engine: EngineResource,
    ) -> Iterator[Any]:
        """Archive and convert the current version of one snapshot."""
        config, selected = run_config(SnapshotOptions, context), layers.own(context.selected_asset_keys)
        if not selected:
            yield from _recalled(context, dataset, lake, warehouse)
            return
        identifier, conversions = _identifier(context), []
        workers = engine.engine(context.log.info)
        missing = set(selected.values())
        with as_failure(context, missing):
            if archive in selected:
                with enterprise.client() as client:
                    try:
                        plan = snapshot.plan_snapshot(
                            identifier, client, lake.layout, lake.settings.min_free_gb, dataset, config
                        )
                    except NotFound as error:
                        if snapshot.archived_sets(lake.layout.snapshot_archive(dataset, identifier), dataset):
                            raise
                        known = (record.identifier for record in client.snapshots.listing(dataset))
                        raise _refused(context, known) from error
                    context.log.info("%s", plan.sentence)
                    archived = snapshot.fetch_snapshot(plan, client, lake.layout, workers)
                missing.discard(selected[archive])
                yield _result(
                    context,
                    selected[archive],
                    archived.version,
                    sized(
                        {
                            "files": len(archived.archives),
                            "bytes": sum(one.path.stat().st_size for one in archived.archives),
                            "quota_units": plan.unit_count,
                            "form": plan.form,
                            "because": plan.reason,
                            "exported_at": dg.MetadataValue.timestamp(archived.exported_at),
                            "dagster/uri": str(plan.folder),
                        }
                    ),
                    is_new=bool(plan.missing),
                )
            else:
                archived = _archived(context, dataset, lake, identifier)
            if in_lake in selected:
                with engine.converter(lake) as converter:
                    conversions = convert_archives(
                        identifier,
                        archived.archives,
                        lake.layout,
                        bodies=lake.bodies_of(dataset),
                        converter=converter,
                        engine=workers,
                    )
                is_new = any(one.converted for one in conversions)
                yield _result(
                    context, selected[in_lake], archived.version, lake_metadata_of(conversions), is_new=is_new
                )
            yield from checks.of_snapshots(
                dataset, {identifier: (archived, conversions)}, warehouse.warehouse, context.selected_asset_check_keys
            )

    @dg.multi_asset(
        name=f"{dataset.archive}_load",
        specs=made_of[2:],
        check_specs=[spec for spec in specs if spec.asset_key == in_warehouse],
        partitions_def=partitions,
        can_subset=True,
    )
    def load(context: dg.AssetExecutionContext, lake: LakeResource, warehouse: WarehouseResource) -> Iterator[Any]:
        """Load the complete archived version in one transaction."""
        selected = layers.own(context.selected_asset_keys)
        if not selected:
            yield from _recalled(context, dataset, lake, warehouse)
            return
        identifier = _identifier(context)
        with as_failure(context, selected.values()):
            archived = _archived(context, dataset, lake, identifier)
            conversions = snapshot.all_conversions(archived, lake)
            loaded = snapshot.load_snapshot(archived, conversions, warehouse.warehouse)
        context.log.info("%s", loaded)
        metadata: dict[str, Any] = {
            "dagster/partition_row_count": loaded.row_count - loaded.duplicate_count,
            "duplicates": loaded.duplicate_count,
            "changed": loaded.changed,
            "is_base": loaded.is_base,
            "dropped_versions": len(loaded.dropped_versions),
        }
        if loaded.boundary_at is not None:
            metadata["boundary_at"] = dg.MetadataValue.timestamp(loaded.boundary_at)
        yield _result(context, selected[in_warehouse], archived.version, metadata, is_new=loaded.changed)
        with as_failure():
            yield from checks.of_snapshots(
                dataset, {identifier: (archived, conversions)}, warehouse.warehouse, context.selected_asset_check_keys
            )

    return [files, load]


def _identifier(context: dg.AssetExecutionContext) -> str:
    if not context.has_partition_key:
        raise dg.Failure(
            "The run has no partition. Nothing was done. Launch the run with a partition, from the asset or from the "
            f"job's partitions page. {layers.SNAPSHOT_KEYS}",
            allow_retries=False,
        )
    try:
        return safe(context.partition_key)
    except ValueError:
        raise _refused(context) from None


def _archived(
    context: dg.AssetExecutionContext, dataset: Dataset, lake: LakeResource, identifier: str
) -> snapshot.ArchivedSnapshot:
    try:
        return snapshot.archived_snapshot(identifier, lake.layout, dataset)
    except NotArchivedError:
        if _IDENTIFIER.fullmatch(identifier):
            raise
        raise _refused(context) from None


def _refused(context: dg.AssetExecutionContext, known: Iterable[str] = ()) -> dg.Failure:
    """Remove a partition that is unknown to the service, and return the failure for its run."""
    identifier, known = context.partition_key, sorted(known)
    near = [name for name in known if name.startswith(f"{identifier}_")] or get_close_matches(identifier, known, 3)
    hint = f"Did you mean {listed(near, 3)}? " if near else ""
    partitions: Any = context.assets_def.partitions_def
    context.instance.delete_dynamic_partition(partitions.name, identifier)
    return dg.Failure(
        f"There is no snapshot {identifier!r}. {hint}Nothing was fetched, and the partition was removed. Add the "
        f"correct partition and materialize it. {layers.SNAPSHOT_KEYS}",
        allow_retries=False,
    )


def _recalled(
    context: dg.AssetExecutionContext, dataset: Dataset, lake: LakeResource, warehouse: WarehouseResource
) -> Iterator[Any]:
    """Return check results for every archived snapshot, for use in runs without a partition."""
    made, lost, layout = {}, [], lake.layout
    with as_failure():
        for folder in sorted((layout.archive / dataset.archive).glob("*/")):
            try:
                archived = snapshot.archived_snapshot(folder.name, layout, dataset)
            except NotArchivedError as error:
                if snapshot.archived_sets(folder, dataset):  # otherwise, the snapshot was never complete
                    lost.append(str(error).partition(". ")[0])
                continue
            made[folder.name] = archived, known_conversions(archived.archives, lake)
        yield from checks.of_snapshots(dataset, made, warehouse.warehouse, context.selected_asset_check_keys, lost)


def _result(
    context: dg.AssetExecutionContext, key: dg.AssetKey, version: str, metadata: dict[str, Any], *, is_new: bool
) -> dg.MaterializeResult:  # type: ignore[type-arg]
    if not is_new:
        metadata = metadata | earlier_work(context.instance, key, context.partition_key, version)
    return dg.MaterializeResult(
        asset_key=key, metadata=metadata | {"version": version}, data_version=dg.DataVersion(version)
    )
