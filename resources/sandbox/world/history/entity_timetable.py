"""The timetable of Wikidata's entities, whose pages never move.

Items are edited, made, deleted, restored (in part, too), merged into others, which leaves a redirect, and taken apart
again; properties are edited. The first items, by number, are the main entities of the first articles of each project.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from resources.sandbox.world.history import scripts
from resources.sandbox.world.history.schedule import Cast, Timetable, settled_index

if TYPE_CHECKING:
    from collections.abc import Iterator

PROJECT = "wikidatawiki"
ITEMS, PROPERTIES = 0, 120
NAMESPACES = (ITEMS, PROPERTIES)
#: The most items a world may have: numbers of more would meet those of items that are made.
MOST_ITEMS = 400_000
#: Properties of every world, those edited twice a day first.
PROPERTY_COUNT = 36
_IDENTIFIER = re.compile(r"[QP][1-9]\d{0,9}")
_FIRST_ITEM, _ITEM_STEP, _FIRST_NEW_ITEM = 31, 13, 100_000_000
#: Hours after which a property, or an item of no special script, is edited again.
_QUIET_HOURS, _STILLEST_HOURS = 24, 8_760

#: What makes the order of states hard to reconstruct. Two families of each begin in every hour.
_SPECIAL = tuple(scripts.NAMED[name] for name in ("lazarus", "partial", "hidden", "made", "merged"))
_SPECIAL_FAMILIES = 2
#: Items of the special scripts.
SPECIAL_ITEMS = _SPECIAL_FAMILIES * sum(script.period * script.pages for script in _SPECIAL)


class EntityTimetable(Timetable):
    """The timetable of Wikidata, with about so many items."""

    def __init__(self, seed: int, items: int) -> None:
        self._items = items
        super().__init__(seed, PROJECT, NAMESPACES, rate=0, titles=Numbers())

    def _lay_out(self, _rate: int, _namespaces: tuple[int, ...], _articles: int | None) -> Iterator[Cast]:
        plan = [(ITEMS, script, _SPECIAL_FAMILIES) for script in _SPECIAL]
        if (still := self._items - SPECIAL_ITEMS) > 0:
            families = math.ceil(still / _STILLEST_HOURS)
            plan.append((ITEMS, scripts.still(math.ceil(still / families)), families))
        plan.append((PROPERTIES, scripts.NAMED["warm"], 1))
        plan.append((PROPERTIES, scripts.still(_QUIET_HOURS), 1))
        place = page = 0
        for namespace, script, count in plan:
            if namespace == PROPERTIES and page < MOST_ITEMS:
                page = MOST_ITEMS  # whatever the number of items, the properties are the same
            yield Cast(namespace, script, count, False, place, page)
            place += count * len(script.acts)
            page += count * script.period * script.pages


class Numbers:
    """Titles of entities: their identifiers."""

    def settled(self, number: int) -> str:
        """Of an entity that was always there, by its number among the pages."""
        return f"P{number - MOST_ITEMS + 1}" if number >= MOST_ITEMS else f"Q{_FIRST_ITEM + _ITEM_STEP * number}"

    def fresh(self, number: int) -> str:
        """Of an item that is made as number `number`."""
        return f"Q{_FIRST_NEW_ITEM + number}"

    def settled_number(self, title: str) -> int | None:
        """The number whose settled title this is; None where there is none."""
        if not _IDENTIFIER.fullmatch(title):
            return None
        return int(title[1:]) - 1 + MOST_ITEMS if title[0] == "P" else index_of(title)

    def fresh_number(self, title: str) -> int | None:
        """The number whose fresh title this is; None where there is none."""
        number = int(title[1:]) - _FIRST_NEW_ITEM if _IDENTIFIER.fullmatch(title) and title[0] == "Q" else -1
        return number if number >= 0 else None


def item_of(page: int, items: int) -> int | None:
    """The item that the article with this page number is about, of a world with so many items; None: another one."""
    index = settled_index(page)
    return _FIRST_ITEM + _ITEM_STEP * index if index is not None and index < items else None


def index_of(item: str) -> int | None:
    """The number, among the pages of each project, of the article that an item is about; None where there is none."""
    index, rest = divmod(int(item[1:]) - _FIRST_ITEM, _ITEM_STEP)
    return index if not rest and 0 <= index < MOST_ITEMS else None
