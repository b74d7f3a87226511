"""The current states: what is there now, by the snapshots and the changes that were loaded.

An asset for each table of `STATES`: current articles and current entities. The rules that decide them are SQL in
`resources.warehouse`, `state` for articles and `entities` for entities.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import dagster as dg

from assets import layers
from assets.automation import HOURLY
from assets.checks import current_checks
from assets.describe import OWNERS, table_metadata
from assets.failures import as_failure
from assets.steps import repair
from resources import datasets
from resources.adapters import EngineResource, LakeResource, WarehouseResource
from resources.datasets import Dataset
from resources.tables import ARTICLES, ENTITIES, Table
from resources.warehouse import Applied, AppliedEntities, LakeFileError, Warehouse


@dataclass(frozen=True)
class State:
    """One table of the current state.

    Attributes:
        table: The table. The datasets that declare it as their state come before it.
        pending: How it learns what is pending, for people; follows the table's own description.
        apply: Advances it by everything pending, in one transaction. What that did prints as a sentence.
        metadata: The metadata of the materialization, from what applying did.
        noun: What a row is, for people.
        also: Further datasets that come before it.
    """

    table: Table
    pending: str
    apply: Callable[[Warehouse], Any]
    metadata: Callable[[Any], dict[str, Any]]
    noun: str
    also: tuple[Dataset, ...] = ()

    @property
    def key(self) -> dg.AssetKey:
        """The key of its asset."""
        return dg.AssetKey(["warehouse", self.table.name])

    @property
    def decided_by(self) -> tuple[Dataset, ...]:
        """The datasets that its rule is about."""
        return (*(one for one in datasets.datasets() if one.state is self.table), *self.also)


def _of_articles(applied: Applied) -> dict[str, Any]:
    return {
        "dagster/row_count": applied.article_count,
        "hours_applied": len(applied.hours),
        "projects_renewed": ", ".join(applied.renewed_projects),
        "pages_written": applied.upserted_count,
        "pages_removed": applied.removed_count,
    }


def _of_entities(applied: AppliedEntities) -> dict[str, Any]:
    return {
        "dagster/row_count": applied.entity_count,
        "files_applied": applied.file_count,
        "is_renewed": applied.is_renewed,
        "entities_written": applied.written_count,
    }


STATES = (
    State(
        ARTICLES,
        "It learns from the ledger which snapshots and hours are pending and takes them in at once.",
        lambda warehouse: warehouse.apply_changes(),
        _of_articles,
        "page",
        also=(datasets.LOOKUPS,),
    ),
    State(
        ENTITIES,
        "The ledger shows which snapshots and hours are pending; a run takes in all of them.",
        lambda warehouse: warehouse.apply_entity_changes(),
        _of_entities,
        "entity",
    ),
)
KEYS = tuple(state.key for state in STATES)


def current_state(state: State) -> dg.AssetsDefinition:
    """The asset of a table of the current state, behind the tables that decide it."""

    @dg.multi_asset(
        name="__".join(state.key.path),
        specs=(
            [
                dg.AssetSpec(
                    state.key,
                    deps=[layers.warehouse_key(dataset) for dataset in state.decided_by],
                    group_name="warehouse",
                    kinds={"duckdb", "table"},
                    owners=list(OWNERS),
                    description=f"{state.table.description} {state.pending}",
                    metadata=table_metadata(state.table),
                    freshness_policy=HOURLY,
                )
            ]
        ),
        check_specs=[check.spec for check in current_checks.of_state(state.table, state.noun)],
        can_subset=True,
    )
    def advance(
        context: dg.AssetExecutionContext, lake: LakeResource, warehouse: WarehouseResource, engine: EngineResource
    ) -> Iterator[Any]:
        """Advance the table by every snapshot and hour that was loaded since the last time, in one transaction."""
        turn = None
        if context.selected_asset_keys:
            with as_failure():
                try:
                    applied = state.apply(warehouse.warehouse)
                except LakeFileError as error:
                    # it takes rows of older files: nothing else can go on without all of them
                    context.log.warning("%s", error)
                    if not repair.repaired(lake, warehouse, engine, context.log.info, most=None).load_count:
                        raise
                    applied = state.apply(warehouse.warehouse)
            context.log.info("%s", applied)
            yield dg.MaterializeResult(metadata=state.metadata(applied) | {"seconds": round(applied.seconds, 3)})
            turn = int(time.time() // 3600)
        with as_failure():
            yield from current_checks.checked(
                warehouse.warehouse, state.table, state.noun, context.selected_asset_check_keys, turn
            )

    return advance
