"""Scripts for page families (`data/scripts.yaml`), which define operations and their hours in a repeating cycle.

Every script ends in its initial state, in which the same pages exist under the same titles. The state in a cycle
therefore depends on at most the two previous cycles, and no hour requires a replay from the start. Each page is edited
or created at least once per cycle, so two cycles determine its current and previous revisions. Acts of a script that
take place in the same hour must not depend on the order in which they run.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from resources.sandbox.files import read_yaml
from resources.sandbox.world.pages import Kind, Operation, Verb

#: Title formats for the original title, a moved page, and a page that is parked while two pages swap titles.
VARIANTS = ("{}", "{}, 2", "{}/parked")


@dataclass(frozen=True)
class Act:
    """Operations in quick succession in one hour of the cycle."""

    hour: int
    operations: tuple[Operation, ...]


@dataclass(frozen=True)
class Script:
    name: str
    period: int  # length of the cycle in hours
    pages: int  # number of pages at the start of the cycle, numbered starting at 0
    acts: tuple[Act, ...]

    @cached_property
    def only_edits(self) -> bool:
        return self.pages == 1 and all(o.verb is Verb.EDIT for act in self.acts for o in act.operations)

    @cached_property
    def namespaces(self) -> frozenset[int]:
        """Return the other namespaces to which the script moves pages."""
        return frozenset(o.namespace for act in self.acts for o in act.operations if o.namespace is not None)


def _operation(given: str | dict[str, Any]) -> Operation:
    said = {"verb": given, "kind": given} if isinstance(given, str) else given
    to = tuple(said.get("to", (0, 0)))
    return Operation(**{**said, "verb": Verb[said["verb"].upper()], "kind": Kind(said["kind"]), "to": to})


def _scripts(group: str) -> tuple[Script, ...]:
    return tuple(
        Script(
            name,
            given["period"],
            given["pages"],
            tuple(Act(hour, tuple(map(_operation, operations))) for hour, *operations in given["acts"]),
        )
        for name, given in _TABLE[group].items()
    )


_TABLE = read_yaml("scripts.yaml")
#: Ordinary scripts, ordered from few pages with many edits to many pages with few edits.
ORDINARY = _scripts("ordinary")
SPECIAL = _scripts("special")
ENTITIES = _scripts("entities")
NAMED = {script.name: script for script in (*ORDINARY, *SPECIAL, *ENTITIES)}


def still(period: int) -> Script:
    """Return a script with one page that is edited every `period` hours."""
    return Script("still", period, 1, NAMED["warm"].acts)
