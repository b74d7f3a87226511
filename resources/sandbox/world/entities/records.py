"""Records of entities in the service's wire form: all fields in their order, empty ones left out.

Source: the service's interface description of 2026 (`wikidata_article` and `entity`). `statements` is an object from property
to an array of statements, `sitelinks` one from site to sitelink; the record tells no revision.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from resources.sandbox.world.chance import Chance, salt
from resources.sandbox.world.entities.statements import Statements
from resources.sandbox.world.entities.timetable import (
    ITEMS,
    PROJECT,
    PROPERTIES,
    SPECIAL_ITEMS,
    index_of,
)
from resources.sandbox.world.history.pages import Title
from resources.sandbox.world.messages import MessageWriter, day
from resources.sandbox.world.reference import LANGUAGES
from resources.sandbox.world.wire import fragment

if TYPE_CHECKING:
    from collections.abc import Callable

    from orjson import Fragment

    from resources.sandbox.world.history.pages import Event
    from resources.sandbox.world.text.words import Titles

URL = "https://www.wikidata.org"
_LICENSE = fragment(
    [
        {
            "name": "Creative Commons CC0 License",
            "identifier": "CC0-1.0",
            "url": "https://creativecommons.org/publicdomain/zero/1.0/",
        }
    ]
)
_IS_PART_OF = fragment({"identifier": PROJECT, "url": URL})
#: Languages of terms: those of the wikis, and variants that only terms have. Wikidata has more than 400.
_VARIANTS = (
    "mul",
    "en-gb",
    "en-ca",
    "de-at",
    "de-ch",
    "pt-br",
    "zh-hans",
    "zh-hant",
    "zh-hk",
    "zh-tw",
    "sr-ec",
    "sr-el",
)
LANGUAGE_CODES = (*_VARIANTS, *LANGUAGES, *(f"{code}-latn" for code in LANGUAGES if len(code) == 2))[:400]
#: The first of the quiet items has so many statements, the second terms in all languages.
_VAST, _POLYGLOT = SPECIAL_ITEMS, SPECIAL_ITEMS + 1
_STATEMENT_BYTES, _VAST_BODIES = 850, 800
#: Entities whose parts that all revisions share are kept in memory, in each process.
_ENTITIES_IN_MEMORY = 256


class _Base(NamedTuple):
    """What an entity has in all its revisions."""

    labels: dict[str, str]
    descriptions: dict[str, str]
    aliases: Fragment | None
    statements: list[tuple[str, Fragment]]
    sitelinks: dict[str, Any]
    is_protected: bool


class EntityWriter(MessageWriter):
    """Writes the records of Wikidata."""

    def __init__(
        self, seed: int, titles: Titles, body_bytes: int, sitelinks: Callable[[int], dict[str, tuple[str, str]]]
    ) -> None:
        """Write with words from `titles`; `sitelinks` gives title and address, by site, of the articles of a number."""
        super().__init__(salt("entities", seed))
        self._titles = titles
        self._statements = Statements(self._salt, titles.settled)
        self._vast = max(20, _VAST_BODIES * body_bytes // _STATEMENT_BYTES)
        self._sitelinks = sitelinks
        self._base = lru_cache(maxsize=_ENTITIES_IN_MEMORY)(self._base_of)

    def name(self, title: Title) -> str:
        """The name of the record of an entity, which is its identifier."""
        return title.text

    def title(self, name: str) -> Title:
        """The title that a name gives."""
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
        # these two are there also where they are empty
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
        """The record of an entity that was deleted or merged into another, and of a change of visibility."""
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
        """The entity as a revision has it: each says something else of one description and of the last statements."""
        name, draw = self.name(title), Chance("content", self._salt, revision)
        entity: dict[str, Any] = {"identifier": name, "type": "item" if title.namespace == ITEMS else "property"}
        languages = list(base.labels)
        if languages:
            entity["labels"] = base.labels
            changed = languages[draw.below(len(languages))]
            described = f"{self._titles.settled(draw.below(9999))} ({revision})"
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
        stem = self._titles.settled(draw.below(50_000) if index is None else index)
        if index == _POLYGLOT:
            codes = LANGUAGE_CODES
        else:
            many = (0, 2 + draw.below(4), 3 + draw.below(12), 3 + draw.below(12), 30 + draw.below(60))[draw.below(5)]
            codes = tuple(dict.fromkeys(LANGUAGE_CODES[draw.below(len(LANGUAGE_CODES))] for _ in range(many)))
        labels = {code: f"{stem} {_own(code)}".strip() if draw.one_in(3) else stem for code in codes}
        described = {code: self._titles.settled(draw.below(9999)) for code in codes if draw.below(4)}
        aliases = {
            code: [self._titles.settled(draw.below(9999)) for _ in range(1 + draw.below(3))]
            for code in codes
            if draw.one_in(4)
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
