"""Current states, derived from loaded snapshots and changes.

Each table of `STATES` is an asset: current articles and current entities. Their rules are SQL in `resources.warehouse`:
`state` for articles and `entities` for entities.

The cost of the checks is bounded. After each run, they compare a part of the keys, which changes every hour. Deletions
and changes are compared for the newest hours that the run has applied, at most `CHECKED_HOURS`. Checks started alone
compare all keys.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
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
from resources.warehouse import Applied, Auditor, Findings, LakeFileError, Overlooked, Warehouse

CHECKED_HOURS = 24


@dataclass(frozen=True)
class State:
    """One table of the current state. Its upstream datasets declare it as their state, or are in `also`.

    Attributes:
        pending: Explains where to see pending work; follows the table's own description.
        apply: Applies all pending changes in one transaction; returns an object that prints as a sentence.
        metadata: Metadata of the materialization, from the result of `apply`.
        noun: Word for a row.
    """

    table: Table
    pending: str
    apply: Callable[[Warehouse], Any]
    metadata: Callable[[Any], dict[str, Any]]
    noun: str
    also: tuple[Dataset, ...] = ()

    @property
    def key(self) -> dg.AssetKey:
        return dg.AssetKey(["warehouse", self.table.name])

    @property
    def decided_by(self) -> tuple[Dataset, ...]:
        return (*(one for one in datasets.datasets() if one.state is self.table), *self.also)


def _of_articles(applied: Applied) -> dict[str, Any]:
    return {
        "dagster/row_count": applied.row_count,
        "hours_applied": len(applied.hours),
        "projects_renewed": ", ".join(applied.renewed_projects),
        "pages_written": applied.written_count,
        "pages_removed": applied.removed_count,
    }


def _of_entities(applied: Applied) -> dict[str, Any]:
    return {
        "dagster/row_count": applied.row_count,
        "files_applied": applied.file_count,
        "is_renewed": bool(applied.renewed_projects),
        "entities_written": applied.written_count,
    }


STATES = (
    State(
        ARTICLES,
        "A run reads the pending snapshots and hours from the ledger and applies all of them.",
        lambda warehouse: warehouse.apply_changes(),
        _of_articles,
        "page",
        also=(datasets.LOOKUPS,),
    ),
    State(
        ENTITIES,
        "The ledger shows which snapshots and hours are pending; a run applies all of them.",
        lambda warehouse: warehouse.apply_entity_changes(),
        _of_entities,
        "entity",
    ),
)
KEYS = tuple(state.key for state in STATES)


def current_state(state: State) -> dg.AssetsDefinition:
    """Return the asset of a table of the current state, downstream of its input tables."""

    @dg.multi_asset(
        name="__".join(state.key.path),
        specs=[
            dg.AssetSpec(
                state.key,
                deps=[layers.warehouse_key(dataset) for dataset in state.decided_by],
                group_name="warehouse",
                kinds={"duckdb", "table"},
                owners=list(OWNERS),
                description=f"{state.table.description} {state.pending}",
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
        """Apply all snapshots and hours loaded since the last time, in one transaction."""
        turn, store, selected = None, warehouse.warehouse, context.selected_asset_check_keys
        if context.selected_asset_keys:
            with as_failure():
                try:
                    applied = state.apply(store)
                except LakeFileError as error:
                    # the update reads rows of older files: all other work can continue without them
                    context.log.warning("%s", error)
                    if not rebuilding.repaired(lake, warehouse, engine, context.log.info, most=None).load_count:
                        raise
                    applied = state.apply(store)
            context.log.info("%s", applied)
            yield dg.MaterializeResult(metadata=state.metadata(applied) | {"seconds": round(applied.seconds, 3)})
            turn = int(time.time() // 3600)
        if selected:
            # evaluate all checks before reporting the first: the file is not open while Dagster stores results
            with as_failure(), store.auditing() as auditor:
                answers = list(results(_checks(state), _Audited(auditor, state.table, turn), selected))
            yield from answers

    return advance


@dataclass(frozen=True)
class _Audited:
    """A current state to check; `turn`: the part of its keys to compare (None: all)."""

    auditor: Auditor
    table: Table
    turn: int | None

    @cached_property
    def overlooked(self) -> tuple[Findings[Overlooked], Findings[Overlooked]]:
        """Return deleted rows that are still present, and rows that differ from their last change; queried once."""
        return self.auditor.overlooked(self.table, CHECKED_HOURS, name=NAMED)


def _checks(state: State) -> list[Check[_Audited]]:
    key, noun = state.key, state.noun
    return [
        Check("unique_key", key, f"No {noun} and no title appears twice.", _repeated, REBUILD),
        Check(
            "deleted_absent", state.key, f"No {noun} is present whose last known event is a delete.", _deleted, REBUILD
        ),
        Check(
            "changes_taken_in",
            key,
            f"Each {noun} changed in the hours applied last is present in its last known version, or recorded as "
            "ended.",
            _missed,
            REBUILD,
        ),
    ]


def _repeated(made: _Audited) -> Found:
    found = made.auditor.repeated(made.table, made.turn, name=NAMED)
    wrong = [f"{one.project_id} {one.key} has {counted(one.copies, 'row')}" for one in found.named]
    return Found(wrong, found.looked_at, found.count)


def _deleted(made: _Audited) -> Found:
    found = made.overlooked[0]
    wrong = [
        f"{one.project_id} {one.name} was deleted at {_text(one.known_at)} but is still present" for one in found.named
    ]
    return Found(wrong, found.looked_at, found.count)


def _missed(made: _Audited) -> Found:
    found = made.overlooked[1]
    wrong = [
        f"{one.project_id} {one.name} {'was deleted' if one.is_deleted else 'changed'} at {_text(one.known_at)}, "
        + ("and nothing of it is there" if one.held_at is None else f"and is there as of {_text(one.held_at)}")
        for one in found.named
    ]
    return Found(wrong, found.looked_at, found.count)


def _text(moment: datetime) -> str:
    return f"{moment_text(moment)} UTC"
