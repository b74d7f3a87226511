"""The current articles: what the pages are now, by the snapshots and the changes that were loaded.

The rule that decides it is SQL in `resources.warehouse`.
"""

import dagster as dg

from assets import layers
from assets.describe import OWNERS, table_metadata
from assets.failures import as_failure
from resources import datasets
from resources.adapters import WarehouseResource
from resources.tables import ARTICLES

#: The datasets that the rule of the current state is about.
IN_ARTICLES = (datasets.ARTICLE_CHANGES, datasets.SNAPSHOT_ARTICLES, datasets.LOOKUPS)
KEY = dg.AssetKey(["warehouse", "articles"])


@dg.asset(
    key=KEY,
    deps=[layers.warehouse_key(dataset) for dataset in IN_ARTICLES],
    group_name="warehouse",
    kinds={"duckdb", "table"},
    owners=list(OWNERS),
    description=ARTICLES.description
    + " It learns from the ledger which snapshots and hours are pending and takes them in at once.",
    metadata=table_metadata(ARTICLES),
)
def articles(context: dg.AssetExecutionContext, warehouse: WarehouseResource) -> dg.MaterializeResult:  # type: ignore[type-arg]
    """Advance `articles` by every snapshot and hour that was loaded since the last time, in one transaction."""
    with as_failure():
        applied = warehouse.warehouse.apply_changes()
    context.log.info("%s", applied)
    return dg.MaterializeResult(
        metadata={
            "dagster/row_count": applied.article_count,
            "hours_applied": len(applied.hours),
            "projects_renewed": ", ".join(applied.renewed_projects),
            "pages_written": applied.upserted_count,
            "pages_removed": applied.removed_count,
            "seconds": round(applied.seconds, 3),
        }
    )
