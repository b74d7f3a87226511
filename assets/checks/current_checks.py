"""The checks of a current state: no duplicate page, no deleted page, no missing change.

Their cost is bounded. After each run, the keys of at most `ROWS_AT_A_TIME` rows are compared, another part each hour.
Deletions and changes are compared for the hours that the run has applied, at most `HOURS`. Checks that are started
alone compare all keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import dagster as dg

from assets.checks.findings import NAMED, REBUILD, Check, Found, results
from resources.formatting import counted, moment_text

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from resources.tables import Table
    from resources.warehouse import Auditor, Findings, Overlooked, Warehouse

#: The newest hours that are looked at.
HOURS = 24


@dataclass(frozen=True)
class Advanced:
    """A current state; `turn`: which part of its keys is compared (None: all)."""

    auditor: Auditor
    table: Table
    turn: int | None

    @cached_property
    def overlooked(self) -> tuple[Findings[Overlooked], Findings[Overlooked]]:
        """The deleted rows that are still present, and the rows that differ from their last change; queried once."""
        return self.auditor.overlooked(self.table, HOURS, name=NAMED)


def of_state(table: Table, noun: str) -> list[Check[Advanced]]:
    """The checks of a current state; `noun`: what a row of it is, for example page."""
    key = dg.AssetKey(["warehouse", table.name])
    return [
        Check(
            dg.AssetCheckSpec("unique_key", asset=key, description=f"No {noun} appears twice, nor does a title."),
            _repeated,
            REBUILD,
        ),
        Check(
            dg.AssetCheckSpec(
                "deleted_absent", asset=key, description=f"No {noun} is there whose last known event is a delete."
            ),
            _deleted,
            REBUILD,
        ),
        Check(
            dg.AssetCheckSpec(
                "changes_taken_in",
                asset=key,
                description=f"Each {noun} of the hours that were taken in last is there as it was last known, or known "
                "as ended.",
            ),
            _missed,
            REBUILD,
        ),
    ]


def checked(
    warehouse: Warehouse, table: Table, noun: str, selected: Collection[dg.AssetCheckKey], turn: int | None = None
) -> list[dg.AssetCheckResult]:
    """Return the results of the selected checks of a current state.

    All checks finish before the first result is reported, so that the file is not open while Dagster stores results.
    """
    if not selected:
        return []
    with warehouse.auditing() as auditor:
        return list(results(of_state(table, noun), Advanced(auditor, table, turn), selected))


def _repeated(made: Advanced) -> Found:
    found = made.auditor.repeated(made.table, made.turn, name=NAMED)
    wrong = [f"{one.project_id} {one.key} has {counted(one.copies, 'row')}" for one in found.named]
    return Found(wrong, found.looked_at, found.count)


def _deleted(made: Advanced) -> Found:
    found = made.overlooked[0]
    wrong = [f"{one.project_id} {one.name} was deleted at {_text(one.known_at)} and is there" for one in found.named]
    return Found(wrong, found.looked_at, found.count)


def _missed(made: Advanced) -> Found:
    found = made.overlooked[1]
    wrong = [
        f"{one.project_id} {one.name} {'was deleted' if one.is_deleted else 'changed'} at {_text(one.known_at)}, "
        + ("and nothing of it is there" if one.held_at is None else f"and is there as of {_text(one.held_at)}")
        for one in found.named
    ]
    return Found(wrong, found.looked_at, found.count)


def _text(moment: datetime) -> str:
    return f"{moment_text(moment)} UTC"
