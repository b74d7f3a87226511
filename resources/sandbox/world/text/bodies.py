"""Texts of pages: Parsoid-like HTML and wikitext for every revision of every page, synthetic or borrowed.

A synthetic text is a run of blocks that belongs to the page, with one block replaced and one reference added that
belong to the revision: cheap to make, no two alike, and neighbours differ as little as real revisions do. The length of
a wikitext is known without making it, because a record also contains the length of the revision before.

A corpus is a folder of real records (`*.ndjson`, `*.jsonl`, `*.json`, each also with `.gz`: one record a line, or one
JSON document that is a record or a list of them). Every page of the world borrows text, categories and other details of
one record with a body, of its own language if there are any; its revisions differ by a comment at the end.
"""

from __future__ import annotations

import gzip
import html
import math
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from resources.sandbox.files import DATA
from resources.sandbox.world.text.words import BLOCKS, INFOBOXES, LEADS, NO_BLOCK, Block, made, stock_of
from resources.sandbox.world.wire import Chance, fragment, inside, joined, mix, salt

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from orjson import Fragment


#: Spread of the log-normal distribution of sizes.
_SIGMA = 0.75
#: Namespaces other than articles hold shorter texts.
_SHORTER = {6: 0.25, 10: 0.5, 14: 0.15}
#: From this size on a page has an infobox.
_BOXED_BYTES = 4_000
#: Pages whose shared parts (the same in all revisions) are kept in memory, in each process: about 30 kB of each.
_PAGES_IN_MEMORY = 512


class Text(NamedTuple):
    """The text of a revision."""

    html: Fragment  # Parsoid HTML, encoded
    wikitext: Fragment  # wikitext, encoded
    characters: int  # length of the wikitext
    size: int  # bytes of the wikitext in UTF-8
    abstract: str  # the beginning as plain text; empty outside namespace 0
    needs_citation: int  # count of sentences marked as lacking a citation


class Setting(NamedTuple):
    """The facts about its page and revision that a text mentions."""

    page: int
    home: str  # title the page was born under: the text does not follow a move
    title: str  # full title now, with prefix
    namespace: int  # its namespace now
    native: int  # namespace it was born in: it shapes the text, which does not follow a move
    language: str  # language code
    direction: str  # `ltr` or `rtl`
    host: str
    revision: int
    previous: int  # id of the revision before; 0: none
    modified: str  # moment of the revision, as the head of the document shows it
    categories: tuple[str, ...]  # full titles of the categories


_HEAD = "<!DOCTYPE html>\n" + (DATA / "head.html").read_text(encoding="utf-8").replace("\n", "")
#: What no title has.
_GAP = "\0"
_TAIL = "</section></body></html>"
_ARCHIVED = "https://archive.example.org/web/"


class Library:
    """All texts of one language."""

    def __init__(self, language: str, seed: int, body_bytes: int) -> None:
        """Make texts of the stock of a language. `body_bytes` is the mean size of HTML and wikitext together."""
        self._seed = seed
        self._body_bytes = body_bytes
        stock = stock_of(language)
        self._leads, self._boxes, self._blocks = stock.leads, stock.boxes, stock.blocks
        self._block_bytes = sum(block.total for block in self._blocks) / BLOCKS
        self._box_bytes = sum(block.total for block in self._boxes) / INFOBOXES
        self._frame_bytes = len(_HEAD) + sum(lead.total for lead in self._leads) / LEADS + 700
        #: A record is asked for the text of one revision and the length of the one before: of the same page.
        self._shape = lru_cache(maxsize=64)(self._shape_of)
        self._head = lru_cache(maxsize=_PAGES_IN_MEMORY)(_head)
        self._footer = lru_cache(maxsize=_PAGES_IN_MEMORY)(_footer)
        # twice over, so that a run may go past the end
        run = self._blocks + self._blocks
        self._html = [block.html for block in run]
        self._wikitext = [block.wikitext for block in run]
        self._characters = [0, *accumulate(block.characters for block in run)]
        self._sizes = [0, *accumulate(block.size for block in run)]
        self._citations = [0, *accumulate(block.needs_citation for block in run)]

    def characters(self, setting: Setting) -> int:
        """Length of the wikitext of a revision, in characters, without making it."""
        plan = _Plan(self, setting)
        length = self._characters[plan.end] - self._characters[plan.start]
        length += self._blocks[plan.replacement].characters - self._blocks[plan.replaced].characters
        length += self._leads[plan.lead].characters + len(setting.home) + 6
        if plan.box is not None:
            length += self._boxes[plan.box].characters
        return length + len(_reference(setting)) + self._footer(setting.categories).characters

    def text(self, setting: Setting) -> Text:
        """Return the complete text of a revision."""
        plan = _Plan(self, setting)
        lead, footer = self._leads[plan.lead], self._footer(setting.categories)
        head, replaces, changed, rest = self._head(
            setting.host, setting.page, setting.namespace, setting.title, setting.language, setting.direction
        )
        old, new = self._blocks[plan.replaced], self._blocks[plan.replacement]
        box = NO_BLOCK if plan.box is None else self._boxes[plan.box]
        title = f"'''{setting.home}'''"
        reference = _reference(setting)
        wikitext = self._wikitext[plan.start : plan.end]
        wikitext[plan.at] = new.wikitext
        document = self._html[plan.start : plan.end]
        document[plan.at] = new.html
        opening = f'<p id="mwAg"><b id="mwAw">{html.escape(setting.home, quote=False)}</b>'
        characters = self._characters[plan.end] - self._characters[plan.start] + new.characters - old.characters
        size = self._sizes[plan.end] - self._sizes[plan.start] + new.size - old.size
        own = title + reference
        citations = self._citations[plan.end] - self._citations[plan.start]
        return Text(
            html=joined(
                [
                    head,
                    b"%d" % setting.revision,
                    replaces,
                    b"%d" % setting.previous,
                    changed,
                    setting.modified.encode(),
                    rest,
                    box.html,
                    inside(opening),
                    lead.html,
                    inside(_reference_html(setting) + "</p>"),
                    *document,
                    footer.html,
                ]
            ),
            wikitext=joined(
                [box.wikitext, inside(title), lead.wikitext, inside(reference), *wikitext, footer.wikitext]
            ),
            characters=characters + box.characters + lead.characters + len(own) + footer.characters,
            size=size + box.size + lead.size + len(own.encode()) + footer.size,
            abstract=f"{setting.home}{lead.plain}" if setting.namespace == 0 else "",
            needs_citation=citations + new.needs_citation - old.needs_citation,
        )

    def _size(self, chance: Chance, namespace: int) -> float:
        """Bytes of HTML and wikitext together that a page shall have, log-normally distributed."""
        radius = math.sqrt(-2 * math.log(1 - chance.unit()))
        normal = radius * math.cos(2 * math.pi * chance.unit())
        mean = self._body_bytes * _SHORTER.get(namespace, 1.0)
        return mean * math.exp(_SIGMA * normal - _SIGMA**2 / 2)

    def lent(self, _language: str, _host: str, _page: int) -> dict[str, Any]:
        """Return the fields borrowed from a real record: none, as all text is made up."""
        return {}

    def shape(self, page: Setting) -> tuple[int, int, int, int | None]:
        """Lead, first block, number of blocks and infobox of a page."""
        return self._shape(page.host, page.page, page.native)

    def _shape_of(self, host: str, page: int, namespace: int) -> tuple[int, int, int, int | None]:
        chance = Chance("text", self._seed, host, page)
        size = self._size(chance, namespace)
        lead, start = chance.below(LEADS), chance.below(BLOCKS)
        box = chance.below(INFOBOXES) if namespace == 0 and size >= _BOXED_BYTES else None
        rest = size - self._frame_bytes - (0 if box is None else self._box_bytes)
        return lead, start, min(BLOCKS, max(1, round(rest / self._block_bytes))), box


class _Plan:
    """The blocks of a revision's text."""

    __slots__ = ("at", "box", "end", "lead", "replaced", "replacement", "start")

    def __init__(self, library: Library, setting: Setting) -> None:
        self.lead, self.start, count, self.box = library.shape(setting)
        self.end = self.start + count
        lot = mix(setting.revision * 7 + setting.page)
        self.at = lot % count
        self.replaced = (self.start + self.at) % BLOCKS
        self.replacement = (lot >> 20) % BLOCKS


def _reference(setting: Setting) -> str:
    return f"<ref>{{{{cite web |url={_ARCHIVED}{setting.revision} |title={setting.home}}}}}</ref>\n"


def _reference_html(setting: Setting) -> str:
    return (
        f'<sup about="#mwt2" class="mw-ref reference" id="cite_ref-0" rel="dc:references" typeof="mw:Extension/ref">'
        f'<a href="{_ARCHIVED}{setting.revision}"><span class="mw-reflink-text">[0]</span></a></sup>'
    )


def _head(host: str, page: int, namespace: int, title: str, language: str, direction: str) -> list[bytes]:
    """The beginning of a document in four parts, for a revision's number, the one before and its date between them."""
    head = _HEAD.format(
        host=host,
        revision=_GAP,
        page=page,
        namespace=namespace,
        previous=_GAP,
        modified=_GAP,
        address=html.escape(title.replace(" ", "_")),
        title=html.escape(title, quote=False),
        language=language,
        direction=direction,
    )
    return inside(head).split(inside(_GAP))


def _footer(categories: tuple[str, ...]) -> Block:
    """The end of a page: its categories."""
    document = "".join(
        f'\n<link rel="mw:PageProp/Category" href="./{html.escape(name.replace(" ", "_"))}" id="mwC{number}"/>'
        for number, name in enumerate(categories)
    )
    return made(document + _TAIL, "\n" + "".join(f"[[{name}]]\n" for name in categories))


_ENDINGS = (".ndjson", ".jsonl", ".json")
#: Records are held in memory; files beyond this are not read.
_MOST_BYTES = 512 * 1024 * 1024
#: What a page borrows beside its text.
_BORROWED = ("protection", "watchers_count", "main_entity", "additional_entities", "categories", "templates", "image")


class Corpus:
    """The records of a folder."""

    def __init__(self, folder: Path) -> None:
        """Read the folder."""
        self._records: list[dict[str, Any]] = []
        self._by_language: dict[str, list[dict[str, Any]]] = {}
        held = 0
        for path in sorted(folder.rglob("*")):
            if not path.is_file() or not path.name.removesuffix(".gz").endswith(_ENDINGS) or held > _MOST_BYTES:
                continue
            data = gzip.decompress(path.read_bytes()) if path.name.endswith(".gz") else path.read_bytes()
            held += len(data)
            for record in _records(path, data):
                if record.get("article_body", {}).get("html"):
                    self._records.append(record)
                    self._by_language.setdefault(record.get("in_language", {}).get("identifier", ""), []).append(record)
        if not self._records:
            raise ValueError(
                f"The corpus {folder} contains no article record with a body; it needs NDJSON or JSON files "
                "(.ndjson, .jsonl, .json, each also .gz) of records with `article_body`."
            )

    def lent(self, language: str, host: str, page: int, /) -> dict[str, Any]:
        """Return the fields of a page next to its text, by the record that it borrows from."""
        record = self._record(language, host, page)
        return {key: record[key] for key in _BORROWED if record.get(key)}

    def _record(self, language: str, host: str, page: int) -> dict[str, Any]:
        choice = self._by_language.get(language, self._records)
        return choice[salt("corpus", host, page) % len(choice)]

    def characters(self, setting: Setting) -> int:
        """Length of the wikitext of a revision, in characters."""
        return len(
            self._record(setting.language, setting.host, setting.page)["article_body"].get("wikitext", "")
        ) + len(_mark(setting))

    def text(self, setting: Setting) -> Text:
        """The text of a revision."""
        record = self._record(setting.language, setting.host, setting.page)
        document: str = record["article_body"]["html"]
        cut = document.rfind("</body>")
        cut = len(document) if cut < 0 else cut
        wikitext = record["article_body"].get("wikitext", "") + _mark(setting)
        abstract = record.get("abstract", "") if setting.namespace == 0 else ""
        return Text(
            html=fragment(document[:cut] + _mark(setting) + document[cut:]),
            wikitext=fragment(wikitext),
            characters=len(wikitext),
            size=len(wikitext.encode()),
            abstract=abstract,
            needs_citation=0,
        )


def _mark(setting: Setting) -> str:
    return f"\n<!-- revision {setting.revision} of {setting.page} -->"


def _records(path: Path, data: bytes) -> Iterator[dict[str, Any]]:
    try:
        try:
            whole = orjson.loads(data)
        except orjson.JSONDecodeError:
            yield from (orjson.loads(line) for line in data.splitlines() if line.strip())
            return
    except orjson.JSONDecodeError as error:
        raise ValueError(
            f"The corpus file {path.name} is neither JSON nor NDJSON ({error}); remove it from the folder."
        ) from error
    yield from whole if isinstance(whole, list) else [whole]
