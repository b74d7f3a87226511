"""Statements in the form in which the service describes them: property, value, rank, qualifiers, references.

Source: the service's interface description of 2026 for the fields, and the forms of values of Wikibase's REST interface for
what that leaves open: `value.type` is `value`, `somevalue` or `novalue`; texts, addresses and identifiers stand in `content`,
everything that is an object in `content_data`. Some objects have their keys in capitals, as the description's own example does.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from resources.sandbox.world.chance import Chance
from resources.sandbox.world.entities.timetable import PROPERTY_COUNT

if TYPE_CHECKING:
    from collections.abc import Callable

_WIKIDATA = "http://www.wikidata.org/entity/"
_GREGORIAN, _JULIAN = f"{_WIKIDATA}Q1985727", f"{_WIKIDATA}Q1985786"
_DATA_TYPES = (
    "wikibase-item",
    "external-id",
    "time",
    "string",
    "quantity",
    "globe-coordinate",
    "monolingualtext",
    "url",
    "commonsMedia",
    "wikibase-property",
)
_RETRIEVED, _STATED_IN = 3, 1
_RANKS = ("normal", "normal", "normal", "normal", "preferred", "deprecated")


def data_type(number: int) -> str:
    """What values a property has."""
    return _DATA_TYPES[(number - 1) % len(_DATA_TYPES)]


class Statements:
    """Makes statements; `phrase` gives words by number."""

    def __init__(self, salt: int, phrase: Callable[[int], str]) -> None:
        self._salt = salt
        self._phrase = phrase

    def statement(self, entity: str, number: int) -> tuple[str, dict[str, Any]]:
        """The statement of an entity with this number, and the property it is about."""
        draw = Chance("statement", self._salt, entity, number)
        # half of all statements are about few of the properties
        of = 1 + draw.below(PROPERTY_COUNT if draw.below(2) else 6)
        bits = draw.below(1 << 64) << 64 | draw.below(1 << 64)
        made: dict[str, Any] = {
            "identifier": f"{entity}${str(uuid.UUID(int=bits, version=4)).upper()}",
            "rank": _RANKS[draw.below(len(_RANKS))],
            "property": self._property(of),
            "value": self._value(of, draw),
        }
        if draw.one_in(3):
            made["qualifiers"] = [self._snak(1 + draw.below(PROPERTY_COUNT), draw) for _ in range(1 + draw.below(3))]
        if draw.below(5) < 3:
            made["references"] = [self._reference(draw) for _ in range(1 + draw.below(2))]
        return f"P{of}", made

    def _reference(self, draw: Chance) -> dict[str, Any]:
        parts = [self._snak(_STATED_IN, draw), self._snak(_RETRIEVED, draw)]
        return {"identifier": f"{draw.below(1 << 62):016x}{draw.below(1 << 62):016x}", "parts": parts}

    def _snak(self, of: int, draw: Chance) -> dict[str, Any]:
        return {"property": self._property(of), "value": self._value(of, draw)}

    def _property(self, of: int) -> dict[str, Any]:
        return {"identifier": f"P{of}", "data_type": data_type(of), "labels": {"en": self._phrase(of).lower()}}

    def _value(self, of: int, draw: Chance) -> dict[str, Any]:
        if draw.one_in(25):
            return {"type": "somevalue" if draw.below(4) else "novalue"}
        kind = data_type(of)
        if kind in ("wikibase-item", "wikibase-property"):
            number = 1 + draw.below(PROPERTY_COUNT if kind == "wikibase-property" else 130_000_000)
            identifier = f"{'P' if kind == 'wikibase-property' else 'Q'}{number}"
            return {"type": "value", "content": identifier, "labels": {"en": self._phrase(number % 1500)}}
        if kind == "time":
            return {"type": "value", "content_data": _time(draw)}
        if kind == "quantity":
            return {"type": "value", "content_data": _quantity(draw)}
        if kind == "globe-coordinate":
            return {"type": "value", "content_data": _coordinate(draw)}
        text = self._phrase(draw.below(1500))
        if kind == "monolingualtext":
            language = ("en", "fr", "ja", "ar")[draw.below(4)]
            return {"type": "value", "content_data": {"language": language, "text": f'{text} <"{draw.below(99)}">'}}
        if kind == "url":
            text = f"https://example.org/{text.lower().replace(' ', '-')}?id={draw.below(9999)}&lang=en"
        elif kind == "commonsMedia":
            text = f"{text} {draw.below(9999)}.jpg"
        elif kind == "external-id":
            text = f"{draw.below(1 << 40):010x}"
        return {"type": "value", "content": text}


def _time(draw: Chance) -> dict[str, Any]:
    """A time as Wikibase has it: years before our era and beyond four digits, months and days of zero."""
    precision = (11, 11, 10, 9, 7)[draw.below(5)]
    year = (1500 + draw.below(526), 1500 + draw.below(526), -1 - draw.below(12_000))[draw.below(3)]
    month, day = 1 + draw.below(12), 1 + draw.below(28)
    if precision < 11:
        day = 0
    if precision < 10:
        month = 0
    time = f"{'-' if year < 0 else '+'}{abs(year):04d}-{month:02d}-{day:02d}T00:00:00Z"
    value = {"time": time, "precision": precision, "calendarmodel": _GREGORIAN if year > 1582 else _JULIAN}
    return {name.capitalize(): one for name, one in value.items()} if draw.one_in(4) else value


def _quantity(draw: Chance) -> dict[str, Any]:
    sign, unit = "-" if draw.one_in(9) else "+", "1" if draw.below(2) else f"{_WIKIDATA}Q{1 + draw.below(50_000)}"
    amount = f"{sign}{draw.below(10_000_000)}" + (f".{draw.below(1000):03d}" if draw.below(2) else "")
    value = {"amount": amount, "unit": unit}
    if draw.one_in(4):
        value |= {"upper_bound": f"{amount}9", "lower_bound": f"{amount}1"}
    return value


def _coordinate(draw: Chance) -> dict[str, Any]:
    latitude, longitude = draw.below(180_000_000) / 1e6 - 90, draw.below(360_000_000) / 1e6 - 180
    return {"latitude": latitude, "longitude": longitude, "precision": 1 / 3600, "globe": f"{_WIKIDATA}Q2"}
