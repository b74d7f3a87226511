"""Article records in the service's wire format.

Source: the service's data dictionary for articles, versions, editors, scores and events. Keys are in the order of the
service's structures. A key is omitted if its value is empty, zero or false.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from orjson import Fragment

from resources.sandbox.files import read_yaml
from resources.sandbox.world.entities import item_of
from resources.sandbox.world.pages import Event, State, Title
from resources.sandbox.world.reference import Project
from resources.sandbox.world.text.bodies import Corpus, Library, Setting, Text
from resources.sandbox.world.text.words import Lexicon
from resources.sandbox.world.wire import SECOND, Chance, MessageWriter, day, fragment, mix, salt

_WORDS = read_yaml("records.yaml")["articles"]
_LICENSES = fragment([_WORDS["license"]])
_ENTITY = "https://www.wikidata.org/entity/"
_COMMONS = "https://upload.wikimedia.org/wikipedia/commons"
_ASPECTS, _TAGS, _COMMENTS = (_WORDS[name] for name in ("aspects", "tags", "comments"))
_EDITORS = 6_000
#: Number of pages whose revision-independent parts are cached in each process. Each page takes about 30 kB.
_PAGES_IN_MEMORY = 512
_GROUPS = ("extendedconfirmed", "*", "user", "autoconfirmed")


class _Around(NamedTuple):
    """Parts of a page, except the text, that are the same in all its revisions."""

    fields: dict[str, Fragment]  # encoded fields by key
    redirects: list[dict[str, str]]  # redirects that were not left by moves
    categories: tuple[str, ...]  # full titles


class Writer(MessageWriter):
    def __init__(
        self, seed: int, project: Project, direction: str, lexicon: Lexicon, texts: Library | Corpus, items: int = 0
    ) -> None:
        """Use page text from `texts`. `items` is the number of Wikidata items that articles can refer to."""
        super().__init__(salt("records", seed, project.identifier))
        self._items = items
        self._project = project
        self._direction = direction
        self._words = lexicon.title_words
        self._texts = texts
        self._in_language = fragment({"identifier": project.language})
        self._is_part_of = fragment({"identifier": project.identifier, "url": project.url})
        self._host = project.url.removeprefix("https://")
        self._editor_base = lru_cache(maxsize=None)(self._editor_of)
        #: Function that returns a link to a category or template by namespace and number.
        self._subject = lru_cache(maxsize=None)(
            lambda of, number: self._link(self.name(Title(of, self._phrase(number))))
        )
        self._around = lru_cache(maxsize=_PAGES_IN_MEMORY)(self._around_of)

    def name(self, title: Title) -> str:
        """Return a title with the namespace's local prefix."""
        prefix = self._project.prefixes.get(title.namespace)
        return title.text if prefix is None else f"{prefix}:{title.text}"

    def title(self, name: str) -> Title:
        """Parse a prefixed name, in which `_` represents a space."""
        text = name.replace("_", " ")
        prefix, colon, rest = text.partition(":")
        namespace = {known: number for number, known in self._project.prefixes.items()}.get(prefix) if colon else None
        return Title(0, text) if namespace is None else Title(namespace, rest)

    def _whole(self, event: Event) -> dict[str, Any]:
        state = event.state
        revision, parent = state.revision, state.revision.parent
        around = self._around(state.identifier, state.created, state.title.namespace == 0)
        fields = around.fields
        setting = self._setting(state, around.categories)
        text = self._texts.text(setting)
        record: dict[str, Any] = {"name": setting.title, "identifier": state.identifier}
        if text.abstract:
            record["abstract"] = text.abstract
        record["date_created"] = day(state.created)
        record["date_modified"] = day(revision.moment)
        if parent is not None:
            record["date_previously_modified"] = day(parent.moment)
        if "protection" in fields:
            record["protection"] = fields["protection"]
        record["version"] = self._version(event, text)
        if parent is not None:
            record["previous_version"] = {
                "identifier": parent.identifier,
                "number_of_characters": self._texts.characters(setting._replace(revision=parent.identifier)),
            }
        record["url"] = self._address(setting.title)
        if "watchers_count" in fields:
            record["watchers_count"] = fields["watchers_count"]
        record["namespace"] = {"identifier": state.title.namespace}
        record["in_language"] = self._in_language
        for key in ("main_entity", "additional_entities", "categories", "templates"):
            if key in fields:
                record[key] = fields[key]
        redirects = [*around.redirects, *(self._link(self.name(title)) for title in state.redirects)]
        if redirects:
            record["redirects"] = redirects
        record["is_part_of"] = self._is_part_of
        record["article_body"] = {"html": text.html, "wikitext": text.wikitext}
        record["license"] = _LICENSES
        record["event"] = self._event(event)
        if "image" in fields:
            record["image"] = fields["image"]
        return record

    def _slim(self, event: Event) -> dict[str, Any]:
        """Return the record for a deletion, a move's old title or a visibility change."""
        state = event.state
        revision, parent = state.revision, state.revision.parent
        around = self._around(state.identifier, state.created, state.title.namespace == 0)
        setting = self._setting(state, around.categories)
        size = self._texts.text(setting).size
        record: dict[str, Any] = {
            "name": self.name(event.title).replace(" ", "_"),
            "identifier": state.identifier,
            "date_modified": day(event.happened),
            "version": {
                "identifier": revision.identifier,
                "comment": self._comment(Chance("log", self._salt, event.ordinal)),
                "editor": self._editor(event.ordinal, event.published),
                "size": {"value": size, "unit_text": "B"},
            },
        }
        if parent is not None:
            record["previous_version"] = {"identifier": parent.identifier}
        record["url"] = self._address(setting.title)
        record["namespace"] = {"identifier": event.title.namespace}
        record["in_language"] = self._in_language
        record["is_part_of"] = self._is_part_of
        if event.type == "visibility-change":
            hidden = mix(event.ordinal) % 3
            record["visibility"] = {"text": hidden != 0, "editor": hidden != 1, "comment": hidden != 2}
        record["event"] = self._event(event)
        return record

    def _setting(self, state: State, categories: tuple[str, ...]) -> Setting:
        revision = state.revision
        return Setting(
            page=state.identifier,
            home=state.home.text,
            title=self.name(state.title),
            namespace=state.title.namespace,
            native=state.home.namespace,
            language=self._project.language,
            direction=self._direction,
            host=self._host,
            revision=revision.identifier,
            previous=0 if revision.parent is None else revision.parent.identifier,
            modified=day(revision.moment)[:-1] + ".000Z",
            categories=categories,
        )

    def _around_of(self, page: int, created: int, article: bool) -> _Around:
        invented = self._invented(page, created, article=article)
        redirects = invented.pop("redirects", [])
        # a page with borrowed fields has only its own redirects
        fields = self._texts.lent(self._project.language, self._host, page) or invented
        categories = tuple(category["name"] for category in fields.get("categories", ()))
        return _Around({key: fragment(value) for key, value in fields.items()}, redirects, categories)

    def _invented(self, page: int, created: int, *, article: bool) -> dict[str, Any]:
        draw = Chance("page", self._salt, page)
        around: dict[str, Any] = {}
        if draw.one_in(20):
            expiry = "infinity" if draw.below(3) else day(created + 40 * 365 * 86_400 * SECOND)
            around["protection"] = [{"type": "edit", "level": "autoconfirmed", "expiry": expiry}]
            if draw.one_in(2):
                around["protection"].append({"type": "move", "level": "sysop", "expiry": "infinity"})
        if draw.below(5) < 2:
            around["watchers_count"] = 30 + draw.below(900)
        if draw.below(5):
            another = 1 + draw.below(120_000_000)
            around["main_entity"] = _entity((item_of(page, self._items) if article else None) or another)
            around["additional_entities"] = [
                {**_entity(1 + draw.below(9_000_000)), "aspects": [_ASPECTS[draw.below(len(_ASPECTS))], "S"]}
                for _ in range(1 + draw.below(6))
            ]
        for key, namespace, many, stock in (("categories", 14, 6, 700), ("templates", 10, 14, 300)):
            numbers = dict.fromkeys(draw.below(stock) * draw.below(stock) // stock for _ in range(1 + draw.below(many)))
            around[key] = [self._subject(namespace, number) for number in numbers]
        if draw.one_in(4):
            around["redirects"] = [
                self._link(f"{self._phrase(draw.below(1500))} {page}{'abc'[n]}") for n in range(1 + draw.below(3))
            ]
        if article and draw.below(5) < 3:
            name = f"{self._phrase(draw.below(1500))}_{page}.jpg".replace(" ", "_")
            around["image"] = {
                "content_url": f"{_COMMONS}/{draw.below(16):x}/{draw.below(256):02x}/{name}",
                "width": 200 + draw.below(4000),
                "height": 200 + draw.below(3000),
            }
        return around

    def _phrase(self, number: int) -> str:
        size = len(self._words)
        first, second = self._words[number % size], self._words[(number * 31 + 7) % size]
        return f"{first[0].upper()}{first[1:]} {second}"

    def _link(self, name: str) -> dict[str, str]:
        return {"name": name, "url": self._address(name)}

    def _address(self, name: str) -> str:
        return f"{self._project.url}/wiki/{name.replace(' ', '_')}"

    def _comment(self, draw: Chance) -> str:
        form: str = _COMMENTS[draw.below(len(_COMMENTS))]
        return form.format(self._phrase(draw.below(1500)), self._words[draw.below(1500)])

    def _version(self, event: Event, text: Text) -> dict[str, Any]:
        revision = event.state.revision
        draw = Chance("revision", self._salt, revision.identifier)
        version: dict[str, Any] = {"identifier": revision.identifier, "comment": self._comment(draw)}
        if draw.below(2):
            version["tags"] = sorted({_TAGS[draw.below(len(_TAGS))] for _ in range(1 + draw.below(2))})
        if draw.one_in(4):
            version["is_minor_edit"] = True
        if event.state.title.namespace == 0 and revision.parent is not None and self._project.code == "wiki":
            version["scores"] = _scores(draw)
        version["editor"] = self._editor(revision.identifier, revision.moment)
        version["number_of_characters"] = text.characters
        version["size"] = {"value": text.size, "unit_text": "B"}
        if draw.one_in(300):
            version["is_breaking_news"] = True
        if draw.one_in(500):
            version["noindex"] = True
        tags = {"citation_needed_count": text.needs_citation} if text.needs_citation else {}
        if draw.one_in(12):
            tags["pov_count"] = 1 + draw.below(2)
        if draw.one_in(20):
            tags["clarification_needed_count"] = 1 + draw.below(3)
        if draw.one_in(15):
            tags["update_count"] = 1
        version["maintenance_tags"] = tags
        return version

    def _editor(self, number: int, moment: int) -> dict[str, Any]:
        """Return the editor of a revision or change, including the edit count at `moment`."""
        lot = mix(number ^ self._salt)
        if lot % 7 == 0:
            return {
                "name": f"2001:db8:{lot >> 8 & 0xFFFF:x}::{lot >> 24 & 0xFFFF:x}",
                "groups": ["*"],
                "is_anonymous": True,
            }
        # the product of two draws gives a few editors most of the edits
        which = (lot >> 16) % _EDITORS * ((lot >> 40) % _EDITORS) // _EDITORS
        base, pace = self._editor_base(which)
        editor = dict(base)
        editor["edit_count"] = base["edit_count"] + moment // (86_400 * SECOND) * pace
        return editor

    def _editor_of(self, which: int) -> tuple[dict[str, Any], int]:
        draw = Chance("editor", self._salt, which)
        started = 1_010_000_000 + draw.below(540_000_000)
        rank = draw.below(40)
        is_bot, is_admin = which % 97 == 3, rank == 1
        name = f"{self._phrase(draw.below(1500))}" + (" Bot" if is_bot else f" {which}" if which % 3 else "")
        editor: dict[str, Any] = {
            "identifier": 1_000 + which * 613,
            "name": name,
            "edit_count": 1 + draw.below(40_000),
            "groups": ["bot", "*", "user"] if is_bot else ["sysop", *_GROUPS] if is_admin else list(_GROUPS),
        }
        if is_bot:
            editor["is_bot"] = True
        elif is_admin:
            editor["is_admin"] = True
        if rank in (1, 2):
            editor["is_patroller"] = True
        if is_admin:
            editor["has_advanced_rights"] = True
        editor["date_started"] = day(started * SECOND)
        return editor, 40 if is_bot else draw.below(3)


def _entity(number: int) -> dict[str, str]:
    return {"identifier": f"Q{number}", "url": f"{_ENTITY}Q{number}"}


def _scores(draw: Chance) -> dict[str, Any]:
    risk = draw.unit() ** 2
    scores: dict[str, Any] = {}
    revert: dict[str, Any] = {"prediction": True} if risk > 0.5 else {}
    revert["probability"] = {"false": round(1 - risk, 16), "true": risk}
    scores["revertrisk"] = revert
    if draw.one_in(3):
        scores["referencerisk"] = {"reference_risk_score": round(draw.unit() * 0.4, 6)}
        scores["referenceneed"] = {"reference_need_score": round(draw.unit(), 6)}
    return scores
