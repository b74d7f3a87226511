"""Timetable of Wikidata entities, and entity records in the service's wire format.

Items are created, edited, deleted, fully or partially restored, merged into another item and split again. A merge
leaves a redirect. Properties are only edited. The items with the lowest numbers are the main entities of each project's
first articles.

Source: the service's interface description of 2026 (`wikidata_article` and `entity`). `statements` maps a property to
an array of statements, and `sitelinks` maps a site to a sitelink. Records have no revision. The description does not
define values, so values follow Wikibase's REST interface. `value.type` is `value`, `somevalue` or `novalue`. Strings,
URLs and identifiers are in `content`, and objects are in `content_data`. Some objects have capitalized keys, as in the
description's example.
"""

from __future__ import annotations

import math
import re
import uuid
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from typing import Any, NamedTuple

from orjson import Fragment

from resources.sandbox.files import read_yaml
from resources.sandbox.world import scripts
from resources.sandbox.world.pages import Event, Title
from resources.sandbox.world.reference import LANGUAGES
from resources.sandbox.world.schedule import Cast, Timetable, settled_index
from resources.sandbox.world.text.words import Titles
from resources.sandbox.world.wire import Chance, MessageWriter, day, fragment, salt

PROJECT = "wikidatawiki"
ITEMS, PROPERTIES = 0, 120
NAMESPACES = (ITEMS, PROPERTIES)
#: Maximum number of items. Higher numbers would collide with the numbers of newly created items.
MOST_ITEMS = 400_000
#: Number of properties in every world. Properties that are edited twice a day come first.
PROPERTY_COUNT = 36
_IDENTIFIER = re.compile(r"[QP][1-9]\d{0,9}")
_FIRST_ITEM, _ITEM_STEP, _FIRST_NEW_ITEM = 31, 13, 100_000_000
#: Hours between edits of a property, and maximum hours between edits of an item without a special script.
_QUIET_HOURS, _STILLEST_HOURS = 24, 8_760

#: Scripts that make the order of states hard to reconstruct. Two page families start each script every hour.
_SPECIAL = tuple(scripts.NAMED[name] for name in ("lazarus", "partial", "hidden", "made", "merged"))
_SPECIAL_FAMILIES = 2
#: Number of items in the special scripts.
SPECIAL_ITEMS = _SPECIAL_FAMILIES * sum(script.period * script.pages for script in _SPECIAL)


class EntityTimetable(Timetable):
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
                page = MOST_ITEMS  # properties must not depend on the number of items
            yield Cast(namespace, script, count, False, place, page)
            place += count * len(script.acts)
            page += count * script.period * script.pages


class Numbers:
    """Entity titles. The title of an entity is its identifier."""

    def settled(self, number: int) -> str:
        return f"P{number - MOST_ITEMS + 1}" if number >= MOST_ITEMS else f"Q{_FIRST_ITEM + _ITEM_STEP * number}"

    def fresh(self, number: int) -> str:
        return f"Q{_FIRST_NEW_ITEM + number}"

    def settled_number(self, title: str) -> int | None:
        if not _IDENTIFIER.fullmatch(title):
            return None
        return int(title[1:]) - 1 + MOST_ITEMS if title[0] == "P" else index_of(title)

    def fresh_number(self, title: str) -> int | None:
        number = int(title[1:]) - _FIRST_NEW_ITEM if _IDENTIFIER.fullmatch(title) and title[0] == "Q" else -1
        return number if number >= 0 else None


def item_of(page: int, items: int) -> int | None:
    """Return the number of the article's item, or None if the article has none of the first `items` items."""
    index = settled_index(page)
    return _FIRST_ITEM + _ITEM_STEP * index if index is not None and index < items else None


def index_of(item: str) -> int | None:
    """Return the item's article number, which is the same in each project, or None if the item has no article."""
    index, rest = divmod(int(item[1:]) - _FIRST_ITEM, _ITEM_STEP)
    return index if not rest and 0 <= index < MOST_ITEMS else None


URL = "https://www.wikidata.org"
_WORDS = read_yaml("records.yaml")["entities"]
_LICENSE = fragment([_WORDS["license"]])
_IS_PART_OF = fragment({"identifier": PROJECT, "url": URL})
#: Languages of labels, descriptions and aliases: wiki languages and variants. Wikidata has more than 400 languages.
LANGUAGE_CODES = (*_WORDS["variants"], *LANGUAGES, *(f"{code}-latn" for code in LANGUAGES if len(code) == 2))[:400]
#: Indexes of the item with the most statements and of the item with labels in all languages.
_VAST, _POLYGLOT = SPECIAL_ITEMS, SPECIAL_ITEMS + 1
_STATEMENT_BYTES, _VAST_BODIES = 850, 800
_PHRASES_IN_MEMORY = 8_192
#: Number of entities whose shared parts are cached in each process.
_ENTITIES_IN_MEMORY = 256
_WIKIDATA = "http://www.wikidata.org/entity/"
_GREGORIAN, _JULIAN = f"{_WIKIDATA}Q1985727", f"{_WIKIDATA}Q1985786"
_DATA_TYPES: list[str] = _WORDS["data_types"]
_RETRIEVED, _STATED_IN = 3, 1
_RANKS = ("normal", "normal", "normal", "normal", "preferred", "deprecated")


class _Base(NamedTuple):
    """Parts of an entity that are the same in all its revisions."""

    labels: dict[str, str]
    descriptions: dict[str, str]
    aliases: Fragment | None
    statements: list[tuple[str, Fragment]]
    sitelinks: dict[str, Any]
    is_protected: bool


class EntityWriter(MessageWriter):
    def __init__(
        self, seed: int, titles: Titles, body_bytes: int, sitelinks: Callable[[int], dict[str, tuple[str, str]]]
    ) -> None:
        """Use words from `titles`. `sitelinks` returns the titles and URLs of an item's articles by site."""
        super().__init__(salt("entities", seed))
        self._phrase = lru_cache(maxsize=_PHRASES_IN_MEMORY)(titles.settled)
        self._statements = _Statements(self._salt, self._phrase)
        self._vast = max(20, _VAST_BODIES * body_bytes // _STATEMENT_BYTES)
        self._sitelinks = sitelinks
        self._base = lru_cache(maxsize=_ENTITIES_IN_MEMORY)(self._base_of)

    def name(self, title: Title) -> str:
        """Return the name in an entity's record, which is the entity's identifier."""
        return title.text

    def title(self, name: str) -> Title:
        return Title(PROPERTIES if name.startswith("P") else ITEMS, name)

    def _whole(self, event: Event) -> dict[str, Any]:
        state = event.state
        revision, parent = state.revision, state.revision.parent
        base = self._base(state.title)
        record: dict[str, Any] = {
            "name": self.name(state.title),
            "identifier": state.identifier,
            "date_created": day(state.created),
            "date_modified": day(revision.moment),
        }
        if parent is not None:
            record["date_previously_modified"] = day(parent.moment)
        # these two fields are present even if they are empty
        protected = {"type": "edit", "level": "autoconfirmed", "expiry": "infinity"}
        record["protection"] = [protected] if base.is_protected else []
        record["redirects"] = [{"name": self.name(title), "url": self._url(title)} for title in state.redirects]
        record["url"] = self._url(state.title)
        record["namespace"] = {"identifier": state.title.namespace}
        record["is_part_of"] = _IS_PART_OF
        record["entity"] = self._entity(state.title, revision.identifier, base)
        record["license"] = _LICENSE
        record["event"] = self._event(event)
        return record

    def _slim(self, event: Event) -> dict[str, Any]:
        """Return the record for a deletion, a merge into another entity or a visibility change."""
        record: dict[str, Any] = {
            "name": self.name(event.title),
            "identifier": event.state.identifier,
            "date_modified": day(event.happened),
            "url": self._url(event.title),
            "namespace": {"identifier": event.title.namespace},
            "is_part_of": _IS_PART_OF,
        }
        if event.type == "visibility-change":
            record["visibility"] = {"text": False, "editor": True, "comment": True}
        record["event"] = self._event(event)
        return record

    def _entity(self, title: Title, revision: int, base: _Base) -> dict[str, Any]:
        """Return the entity at a given revision. Revisions differ in one description and in the last statements."""
        name, draw = self.name(title), Chance("content", self._salt, revision)
        entity: dict[str, Any] = {"identifier": name, "type": "item" if title.namespace == ITEMS else "property"}
        languages = list(base.labels)
        if languages:
            entity["labels"] = base.labels
            changed = languages[draw.below(len(languages))]
            described = f"{self._phrase(draw.below(9999))} ({revision})"
            entity["descriptions"] = base.descriptions | {changed: described}
        if base.aliases is not None:
            entity["aliases"] = base.aliases
        kept = base.statements[: max(1, len(base.statements) - draw.below(3))]
        of, made = self._statements.statement(name, revision)
        grouped: dict[str, list[Any]] = {}
        for about, statement in [*kept, (of, made)]:
            grouped.setdefault(about, []).append(statement)
        entity["statements"] = grouped
        if base.sitelinks:
            entity["sitelinks"] = base.sitelinks
        return entity

    def _base_of(self, title: Title) -> _Base:
        name = self.name(title)
        draw = Chance("entity", self._salt, name)
        index = index_of(title.text) if title.namespace == ITEMS else None
        stem = self._phrase(draw.below(50_000) if index is None else index)
        if index == _POLYGLOT:
            codes = LANGUAGE_CODES
        else:
            many = (0, 2 + draw.below(4), 3 + draw.below(12), 3 + draw.below(12), 30 + draw.below(60))[draw.below(5)]
            codes = tuple(dict.fromkeys(LANGUAGE_CODES[draw.below(len(LANGUAGE_CODES))] for _ in range(many)))
        labels = {code: f"{stem} {_own(code)}".strip() if draw.one_in(3) else stem for code in codes}
        described = {code: self._phrase(draw.below(9999)) for code in codes if draw.below(4)}
        aliases = {
            code: [self._phrase(draw.below(9999)) for _ in range(1 + draw.below(3))] for code in codes if draw.one_in(4)
        }
        count = self._vast if index == _VAST else 2 + draw.below(9) + (draw.below(60) if draw.one_in(8) else 0)
        statements = [self._statements.statement(name, number) for number in range(count)]
        sitelinks = {}
        if index is not None:
            for site, (page, url) in self._sitelinks(index).items():
                badges = ["Q17437796"] if draw.one_in(15) else []
                sitelinks[site] = {"title": page, **({"badges": badges} if badges else {}), "url": url}
        return _Base(
            labels,
            described,
            fragment(aliases) if aliases else None,
            [(of, fragment(made)) for of, made in statements],
            sitelinks,
            draw.one_in(30),
        )

    def _url(self, title: Title) -> str:
        return f"{URL}/wiki/{'' if title.namespace == ITEMS else 'Property:'}{self.name(title)}"


def _own(code: str) -> str:
    known = LANGUAGES.get(code)
    return f"({known.alternate_name})" if known is not None else ""


def _data_type(number: int) -> str:
    return _DATA_TYPES[(number - 1) % len(_DATA_TYPES)]


class _Statements:
    """Generator of statements. `phrase` returns words for a number."""

    def __init__(self, salt: int, phrase: Callable[[int], str]) -> None:
        self._salt = salt
        self._phrase = phrase
        self._property = cache(self._property_of)

    def statement(self, entity: str, number: int) -> tuple[str, dict[str, Any]]:
        """Return the property and the content of an entity's statement with this number."""
        draw = Chance("statement", self._salt, entity, number)
        # half of the statements use the same six properties
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

    def _property_of(self, of: int) -> Fragment:
        labels = {"en": self._phrase(of).lower()}
        return fragment({"identifier": f"P{of}", "data_type": _data_type(of), "labels": labels})

    def _value(self, of: int, draw: Chance) -> dict[str, Any]:
        if draw.one_in(25):
            return {"type": "somevalue" if draw.below(4) else "novalue"}
        kind = _data_type(of)
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
    """Return a time in Wikibase's format. Years can be BCE or have five digits, and month and day can be zero."""
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
