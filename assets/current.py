"""Current states, derived from loaded snapshots and changes.

Each table in `STATES` is an asset. SQL in `resources.warehouse.state` derives the rows.

After each run, the checks compare a subset of the keys (a different subset every hour), and the deletions and changes
from the newest `CHECKED_HOURS` hours. Checks that run without a materialization compare all keys.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import dagster as dg

from assets import layers
from assets.checks import NAMED, REBUILD, Check, Found, results
from assets.describe import OWNERS, as_failure, table_metadata
from assets.steps import rebuilding
from resources import datasets
from resources.adapters import EngineResource, LakeResource, WarehouseResource
from resources.datasets import Dataset
from resources.formatting import counted, moment_text
from resources.tables import ARTICLES, ENTITIES, Table
from resources.warehouse import Applied, Auditor, Findings, LakeFileError, Warehouse

CHECKED_HOURS = 24


@dataclass(frozen=True)
class State:
    """Table that contains a current state.

    `apply` applies all pending changes in one transaction, `metadata` converts its result to materialization metadata,
    and `noun` is a word for a row. `also` contains upstream datasets that do not declare this table as their state.
    """

    table: Table
    apply: Callable[[Warehouse], Applied]
    metadata: Callable[[Applied], dict[str, Any]]
    noun: str
    also: tuple[Dataset, ...] = ()

    @property
    def key(self) -> dg.AssetKey:
        return dg.AssetKey(["warehouse", self.table.name])


STATES = (
    State(
        ARTICLES,
        lambda store: store.apply_changes(),
        lambda applied: {
            "hours_applied": len(applied.hours),
            "projects_renewed": ", ".join(applied.renewed_projects),
            "pages_written": applied.written_count,
            "pages_removed": applied.removed_count,
        },
        "page",
        also=(datasets.LOOKUPS,),
    ),
    State(
        ENTITIES,
        lambda store: store.apply_entity_changes(),
        lambda applied: {
            "files_applied": applied.file_count,
            "is_renewed": bool(applied.renewed_projects),
            "entities_written": applied.written_count,
        },
        "entity",
    ),
)
KEYS = tuple(state.key for state in STATES)


def current_state(state: State) -> dg.AssetsDefinition:
    """Return the asset for a current-state table, downstream of its input tables."""
    inputs = (*(one for one in datasets.datasets() if one.state is state.table), *state.also)

    @dg.multi_asset(
        name="__".join(state.key.path),
        specs=[
            dg.AssetSpec(
                state.key,
                deps=[layers.warehouse_key(dataset) for dataset in inputs],
                group_name="warehouse",
                kinds={"duckdb", "table"},
                owners=list(OWNERS),
                description=f"{state.table.description} Each run applies all pending snapshots and hours in the "
                "ledger.",
                metadata=table_metadata(state.table),
                freshness_policy=layers.HOURLY,
            )
        ],
        check_specs=[check.spec for check in _checks(state)],
        can_subset=True,
    )
    def advance(
        context: dg.AssetExecutionContext, lake: LakeResource, warehouse: WarehouseResource, engine: EngineResource
    ) -> Iterator[Any]:
        """Apply all pending snapshots and hours in one transaction."""
        turn, store, selected = None, warehouse.warehouse, context.selected_asset_check_keys
        if context.selected_asset_keys:
            with as_failure():
                try:
                    applied = state.apply(store)
                except LakeFileError as error:
                    # only this update reads rows of older lake files
                    context.log.warning("%s", error)
                    if not rebuilding.repaired(lake, warehouse, engine, context.log.info, most=None).load_count:
                        raise
                    applied = state.apply(store)
            context.log.info("%s", applied)
            common = {"dagster/row_count": applied.row_count, "seconds": round(applied.seconds, 3)}
            yield dg.MaterializeResult(metadata=common | state.metadata(applied))
            turn = int(time.time() // 3600)
        if selected:
            # run all checks before yielding, so that the build file is closed while Dagster stores the results
            with as_failure(), store.auditing() as auditor:
                answers = list(results(_checks(state), _Audited(auditor, state.table, turn), selected))
            yield from answers

    return advance


@dataclass(frozen=True)
class _Audited:
    """A current-state table to check. `turn` selects the subset of keys to compare, or is None to compare all keys."""

    auditor: Auditor
    table: Table
    turn: int | None

    @cached_property
    def overlooked(self) -> tuple[Findings, Findings]:
        """Return deleted rows that are still present, and rows that differ from their last change."""
        return self.auditor.overlooked(self.table, CHECKED_HOURS, name=NAMED)


def _checks(state: State) -> list[Check[_Audited]]:
    key, noun = state.key, state.noun
    return [
        Check("unique_key", key, f"Every {noun} and every title is unique.", _repeated, REBUILD),
        Check("deleted_absent", key, f"The table has no {noun} whose last known event is a delete.", _deleted, REBUILD),
        Check(
            "changes_taken_in",
            key,
            f"For each {noun} that changed in the newest applied hours, the table contains the last known version or "
            "records the deletion.",
            _missed,
            REBUILD,
        ),
    ]


def _repeated(made: _Audited) -> Found:
    found = made.auditor.repeated(made.table, made.turn, name=NAMED)
    wrong = [f"{project} {key} has {counted(copies, 'row')}" for project, key, copies in found.named]
    return Found(wrong, found.looked_at, found.count)


def _deleted(made: _Audited) -> Found:
    found = made.overlooked[0]
    wrong = [
        f"{one.project_id} {one.name} was deleted at {moment_text(one.known_at)} UTC but is still present"
        for one in found.named
    ]
    return Found(wrong, found.looked_at, found.count)


def _missed(made: _Audited) -> Found:
    found, wrong = made.overlooked[1], []
    for one in found.named:
        what = "was deleted" if one.is_deleted else "changed"
        held = "has no row" if one.held_at is None else f"its row is from {moment_text(one.held_at)} UTC"
        wrong.append(f"{one.project_id} {one.name} {what} at {moment_text(one.known_at)} UTC, but {held}")
    return Found(wrong, found.looked_at, found.count)
