"""The current entities: what Wikidata's items and properties are now, by the snapshots and the changes that were loaded.

The rule that decides it is SQL in `resources.warehouse.entities`.
"""

import dagster as dg

from assets import layers
from assets.describe import OWNERS, table_metadata
from assets.failures import as_failure
from resources import datasets
from resources.adapters import WarehouseResource
from resources.tables import ENTITIES

#: The datasets that the rule of the current state is about.
IN_ENTITIES = (datasets.ENTITY_CHANGES, datasets.SNAPSHOT_ENTITIES)
KEY = dg.AssetKey(["warehouse", "entities"])


@dg.asset(
    key=KEY,
    deps=[layers.warehouse_key(dataset) for dataset in IN_ENTITIES],
    group_name="warehouse",
    kinds={"duckdb", "table"},
    owners=list(OWNERS),
    description=ENTITIES.description
    + " The ledger shows which snapshots and hours are pending; a run takes in all of them.",
    metadata=table_metadata(ENTITIES),
)
def entities(context: dg.AssetExecutionContext, warehouse: WarehouseResource) -> dg.MaterializeResult:  # type: ignore[type-arg]
    """Advance `entities` by every snapshot and hour that was loaded since the last time, in one transaction."""
    with as_failure():
        applied = warehouse.warehouse.apply_entity_changes()
    context.log.info("%s", applied)
    return dg.MaterializeResult(
        metadata={
            "dagster/row_count": applied.entity_count,
            "files_applied": applied.file_count,
            "is_renewed": applied.is_renewed,
            "entities_written": applied.written_count,
            "seconds": round(applied.seconds, 3),
        }
    )
