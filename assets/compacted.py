"""The asset of the compacted lake, and how a compaction is reported."""

import dagster as dg

from assets import layers
from assets.describe import OWNERS, lake_metadata, sized
from assets.failures import as_failure
from assets.steps.compaction import Compacted, compact_lake
from resources import datasets
from resources.adapters import COMPACTION_POOL, EngineResource, LakeResource, WarehouseResource
from resources.formatting import counted, hour_text, size_text
from resources.lake_files import COMPACTED
from resources.warehouse import Moved

KEY = dg.AssetKey(["lake", "compacted"])


@dg.asset(
    key=KEY,
    deps=[layers.warehouse_key(dataset) for dataset in datasets.datasets() if dataset.name in COMPACTED],
    group_name="lake",
    kinds={"parquet"},
    owners=list(OWNERS),
    pool=COMPACTION_POOL,
    metadata=lake_metadata(COMPACTED["article_changes"]),
    description="Files written together into few ones, sorted by page: hours into quarters of a day, days, ten days, "
    "months; the chunks of a snapshot's version. A body then costs about one file, however long the history is. The "
    "files that were read go after the grace period. Changes of compacted months then leave the DuckDB files and are "
    "read from compacted ones.",
)
def compacted(
    context: dg.AssetExecutionContext, lake: LakeResource, warehouse: WarehouseResource, engine: EngineResource
) -> dg.MaterializeResult:  # type: ignore[type-arg]
    """Compact what is due, one span or version after the other. Nobody who loads, publishes or reads waits for it."""
    with as_failure(), engine.compactor(lake) as compactor:
        done = compact_lake(
            lake.layout,
            warehouse.warehouse,
            engine.engine(context.log.info),
            compactor=compactor,
            threads=engine.settings.threads,
            min_free_gb=lake.settings.min_free_gb,
            say=lambda one: context.log.info("%s", format_merged(one)),
        )
    made = [one for one in done if isinstance(one, Compacted)]
    return dg.MaterializeResult(
        metadata=sized(
            {
                "spans": len(made),
                "read_files": sum(one.read_files for one in made),
                "read_bytes": sum(one.read_bytes for one in made),
                "written_files": sum(one.written_files for one in made),
                "written_bytes": sum(one.written_bytes for one in made),
                "rows": sum(one.row_count for one in made),
                "changes_left_to_lake": sum(one.row_count for one in done if isinstance(one, Moved)),
            }
        )
    )


def format_merged(one: Compacted | Moved) -> str:
    """One compaction, or step of the window, in a sentence."""
    if isinstance(one, Moved):
        return (
            f"{counted(one.row_count, 'change')} of the hours from {hour_text(one.first_hour)} until "
            f"{hour_text(one.end_hour)} UTC left the DuckDB files; they are read from compacted files."
        )
    text = (
        f"The {one.merge.label} was compacted: {counted(one.read_files, 'file')} ({size_text(one.read_bytes)}) into "
        f"{one.written_files} ({size_text(one.written_bytes)}), {counted(one.row_count, 'row')}."
    )
    if one.given_up_count:
        text += f" {one.given_up_count:,} of its parts were loaded again or dropped meanwhile and keep their own files."
    return text
