"""The scripts that families of pages play (`data/scripts.yaml`): what happens to them, and in which hour of the cycle.

Every script ends as it began: the same pages exist under the same titles. So the state in any cycle follows from at
most the two cycles before it, and no hour needs a replay from the beginning. Every page of a script gets at least one
revision per cycle (or is made in it), so that two cycles determine its newest and its previous revision. Acts of one
script that fall in the same hour must not depend on each other's order.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from resources.sandbox.files import read_yaml
from resources.sandbox.world.pages import Kind, Operation, Verb

#: Forms of a title: at home, moved, parked while two pages change places.
VARIANTS = ("{}", "{}, 2", "{}/parked")


@dataclass(frozen=True)
class Act:
    """Operations that follow each other within a moment, in an hour of the cycle."""

    hour: int
    operations: tuple[Operation, ...]


@dataclass(frozen=True)
class Script:
    """A cycle of acts."""

    name: str
    period: int  # hours after which it begins again
    pages: int  # count of pages when it begins; they are numbered from 0
    acts: tuple[Act, ...]  # all that happens

    @cached_property
    def only_edits(self) -> bool:
        """Return whether nothing ever happens but that the one page is edited."""
        return self.pages == 1 and all(o.verb is Verb.EDIT for act in self.acts for o in act.operations)

    @cached_property
    def namespaces(self) -> frozenset[int]:
        """The namespaces other than its own that its pages visit."""
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
#: From few busy pages to many quiet ones.
ORDINARY = _scripts("ordinary")
SPECIAL = _scripts("special")
ENTITIES = _scripts("entities")
NAMED = {script.name: script for script in (*ORDINARY, *SPECIAL, *ENTITIES)}


def still(period: int) -> Script:
    """Return the script of pages that are edited once in so many hours."""
    return Script("still", period, 1, NAMED["warm"].acts)
