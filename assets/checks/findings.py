"""Checks, and their findings as the Dagster UI shows them.

A result lists the first findings, the number of the others, and the action to take.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import dagster as dg

from assets.layers import unprefixed
from resources.formatting import markdown_text

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

#: Findings that are named; the others are only counted.
NAMED = 20
#: What to do about the build file: what is loaded already is not loaded again by materializing it.
REBUILD = (
    "Stop the runs, remove warehouse/build.duckdb of the data folder and run `wme rebuild`; the published file stays "
    "meanwhile."
)

_Made = TypeVar("_Made")


def told(found: Sequence[str], what_to_do: str, count: int | None = None) -> str | None:
    """A check's message, or None where nothing was found; `count`: findings in all, where not all are given."""
    if not found:
        return None
    count = len(found) if count is None else count
    more = [f"and {count - NAMED:,} more"] if count > NAMED else []
    # a finding may be a sentence of its own
    return f"{'; '.join([*map(markdown_text, found[:NAMED]), *more]).removesuffix('.')}. {what_to_do}"


@dataclass(frozen=True)
class Found:
    """The findings of a check.

    Attributes:
        wrong: The findings, as sentences; the first of them is enough.
        looked_at: The number of items that were checked.
        count: The number of wrong items; None: one for each sentence.
        metadata: More metadata to show with the result.
    """

    wrong: Sequence[str]
    looked_at: int
    count: int | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Check(Generic[_Made]):
    """A check of what a step has made: its specification, and what finds out what is wrong.

    Attributes:
        what_to_do: The way out, as the operator's guide has it at more length.
    """

    spec: dg.AssetCheckSpec
    find: Callable[[_Made], Found]
    what_to_do: str
    is_warning: bool = False

    def result(self, made: _Made, asset_key: dg.AssetKey) -> dg.AssetCheckResult:
        """The answer for what was made, about the asset as the project has it."""
        found = self.find(made)
        return dg.AssetCheckResult(
            asset_key=asset_key,
            check_name=self.spec.name,
            passed=not found.wrong,
            severity=dg.AssetCheckSeverity.WARN if self.is_warning else dg.AssetCheckSeverity.ERROR,
            description=told(found.wrong, self.what_to_do, found.count),
            metadata={
                "looked_at": found.looked_at,
                "wrong": len(found.wrong) if found.count is None else found.count,
                **found.metadata,
            },
        )


def results(
    checks: Iterable[Check[_Made]], made: _Made, selected: Collection[dg.AssetCheckKey]
) -> Iterator[dg.AssetCheckResult]:
    """Answer the selected checks of what was made."""
    wanted = {(unprefixed(key.asset_key), key.name): key.asset_key for key in selected}
    for check in checks:
        asset_key = wanted.get((check.spec.asset_key, check.spec.name))
        if asset_key is not None:
            yield check.result(made, asset_key)
