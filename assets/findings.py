"""What a check found, as people read it beside the check: the first findings, how many more there are, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Findings that are named; the others are only counted.
NAMED = 20


def told(found: Sequence[str], what_to_do: str) -> str | None:
    """A check's message, or None where nothing was found."""
    if not found:
        return None
    more = [f"and {len(found) - NAMED:,} more"] if len(found) > NAMED else []
    # a finding may be a sentence of its own
    return f"{'; '.join([*found[:NAMED], *more]).removesuffix('.')}. {what_to_do}"
