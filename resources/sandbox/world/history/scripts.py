"""The scripts that families of pages play, over and over: what happens to them, and in which hour of the cycle.

Every script ends as it began: the same pages exist under the same titles. So the state in any cycle follows from at
most the two cycles before it, and no hour needs a replay from the beginning. Every page of a script gets at least one
revision per cycle (or is made in it), so that two cycles determine its newest and its previous revision. Acts of one
script that fall in the same hour must not depend on each other's order.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from resources.sandbox.world.history.pages import Kind, Operation, Verb

#: A namespace that wikis have and the service does not serve: user pages.
UNSERVED = 2
_TEMPLATE = 10

#: Forms of a title: at home, moved, parked while two pages change places.
VARIANTS = ("{}", "{}, 2", "{}/parked")


@dataclass(frozen=True)
class Act:
    """Operations that follow each other within a moment, in an hour of the cycle."""

    hour: int
    operations: tuple[Operation, ...]


@dataclass(frozen=True)
class Script:
    """A cycle of acts.

    Attributes:
        name: What it is called.
        period: Hours after which it begins again.
        pages: How many pages there are when it begins; they are numbered from 0.
        acts: What happens.
    """

    name: str
    period: int
    pages: int
    acts: tuple[Act, ...]

    @cached_property
    def only_edits(self) -> bool:
        """Whether nothing ever happens but that the one page is edited."""
        return self.pages == 1 and all(o.verb is Verb.EDIT for act in self.acts for o in act.operations)

    @cached_property
    def namespaces(self) -> frozenset[int]:
        """The namespaces other than its own that its pages visit."""
        return frozenset(o.namespace for act in self.acts for o in act.operations if o.namespace is not None)


def _edit(hour: int, page: int = 0) -> Act:
    return Act(hour, (Operation(Verb.EDIT, Kind.EDIT, page),))


def _act(hour: int, verb: Verb, kind: Kind, page: int = 0, back: int = 0) -> Act:
    return Act(hour, (Operation(verb, kind, page, back=back),))


def _move(hour: int, kind: Kind, page: int, to: tuple[int, int], namespace: int | None = None) -> Act:
    return Act(hour, (Operation(Verb.MOVE, kind, page, to, namespace),))


def _swap(hour: int, first: int, second: int) -> Act:
    """Three moves by way of a parking title; the two pages have each other's title afterwards."""
    return Act(
        hour,
        (
            Operation(Verb.MOVE, Kind.SWAP, 0, (0, 2), quiet=True),
            Operation(Verb.MOVE, Kind.SWAP, 1, (first, 0), quiet=True),
            Operation(Verb.MOVE, Kind.SWAP, 0, (second, 0), quiet=True),
        ),
    )


_DELETE = Operation(Verb.DELETE, Kind.DELETION)
_RECREATE = Operation(Verb.CREATE, Kind.RECREATION)

HOT = Script("hot", 6, 1, (_edit(0), _edit(0), _edit(1), _edit(3)))
WARM = Script("warm", 12, 1, (_edit(0),))
COLD = Script("cold", 48, 1, (_edit(0),))


def still(period: int) -> Script:
    """The script of pages that are edited once in so many hours."""
    return Script("still", period, 1, (_edit(0),))


WANDER = Script(
    "wander", 12, 1, (_move(0, Kind.MOVE, 0, (0, 1)), _edit(2), _move(6, Kind.MOVE_BACK, 0, (0, 0)), _edit(9))
)
LAZARUS = Script(
    "lazarus",
    12,
    1,
    (_edit(0), _act(2, Verb.DELETE, Kind.DELETION), _act(5, Verb.RESTORE, Kind.RESTORE), _edit(9)),
)
BORN = Script(
    "born",
    24,
    0,
    (
        Act(0, (Operation(Verb.CREATE, Kind.CREATION, fresh=True),)),
        _edit(1),
        _edit(5),
        _move(9, Kind.MOVE, 0, (0, 1)),
        _edit(14),
        _act(20, Verb.DELETE, Kind.DELETION),
    ),
)

#: What makes the order of states hard to reconstruct. Each kind of change happens in every hour of the cycle.
SPECIAL = (
    WANDER,
    LAZARUS,
    BORN,
    Script("swap", 12, 2, (_swap(0, 0, 1), _edit(3), _edit(4, 1), _swap(6, 1, 0), _edit(9))),
    Script(
        "tour",
        12,
        1,
        (
            _edit(0),
            _move(2, Kind.NAMESPACE_OUT, 0, (0, 0), _TEMPLATE),
            _edit(5),
            _move(8, Kind.NAMESPACE_IN, 0, (0, 0)),
        ),
    ),
    Script(
        "exile",
        12,
        1,
        (
            _edit(0),
            _move(2, Kind.NAMESPACE_OUT, 0, (0, 0), UNSERVED),
            _edit(5),
            _move(8, Kind.NAMESPACE_IN, 0, (0, 0)),
        ),
    ),
    Script("phoenix", 12, 1, (Act(1, (_DELETE,)), Act(4, (_RECREATE,)), _edit(8))),
    # deleted and made again within a second
    Script("quick phoenix", 12, 1, (Act(3, (_DELETE, _RECREATE)), _edit(7))),
    Script(
        "partial",
        12,
        1,
        (
            _edit(0),
            _edit(1),
            _act(3, Verb.DELETE, Kind.DELETION),
            _act(6, Verb.RESTORE, Kind.PARTIAL_RESTORE, back=1),
            _edit(10),
        ),
    ),
    Script(
        "turncoat",
        12,
        1,
        (_act(0, Verb.REDIRECT, Kind.INTO_REDIRECT), _act(5, Verb.REVIVE, Kind.OUT_OF_REDIRECT), _edit(8)),
    ),
    Script("hidden", 12, 1, (_edit(0), _act(1, Verb.HIDE, Kind.VISIBILITY), _edit(3))),
    # the redirect that a move left behind becomes an article of its own for a while
    Script(
        "split",
        12,
        1,
        (
            Act(0, (Operation(Verb.MOVE, Kind.MOVE, 0, (0, 1), leaves=1),)),
            _act(3, Verb.REVIVE, Kind.OUT_OF_REDIRECT, 1),
            _edit(4),
            _act(6, Verb.REDIRECT, Kind.INTO_REDIRECT, 1),
            _move(9, Kind.MOVE_BACK, 0, (0, 0)),
        ),
    ),
    # a page is moved to the title of one that was just deleted, and makes way for it again
    Script(
        "takeover",
        12,
        2,
        (
            Act(0, (_DELETE, Operation(Verb.MOVE, Kind.MOVE, 1, (0, 0), quiet=True))),
            Act(4, (Operation(Verb.MOVE, Kind.MOVE_BACK, 1, (1, 0), quiet=True),)),
            _act(6, Verb.RESTORE, Kind.RESTORE),
            _edit(9),
        ),
    ),
)
