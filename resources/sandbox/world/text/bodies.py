"""Page text as Parsoid-like HTML and wikitext for every revision of every page, either synthetic or borrowed.

Synthetic page text is a sequence of blocks that depends on the page. Each revision replaces one block and adds one
reference. Page text is therefore cheap and unique, and consecutive revisions differ only slightly. The wikitext length
is computed without building the wikitext, because a record also contains the length of the previous revision.

A corpus is a folder of real records (`*.ndjson`, `*.jsonl`, `*.json`, optionally with `.gz`). Each file has one record
per line, or one JSON document with a record or a list of records. Every page borrows text, categories and other fields
from a record with a body, in the same language if possible. A page's revisions differ only in a comment at the end.
"""

from __future__ import annotations

import gzip
import html
import math
from collections.abc import Iterator
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import orjson
from orjson import Fragment

from resources.sandbox.files import DATA
from resources.sandbox.world.text.words import BLOCKS, INFOBOXES, LEADS, NO_BLOCK, Block, made, stock_of
from resources.sandbox.world.wire import Chance, fragment, inside, joined, mix, salt

#: Standard deviation of the log-normal size distribution.
_SIGMA = 0.75
#: Relative text length in namespaces other than 0.
_SHORTER = {6: 0.25, 10: 0.5, 14: 0.15}
#: Minimum size in bytes of a page with an infobox.
_BOXED_BYTES = 4_000
#: Number of pages whose revision-independent parts are cached in each process.
_PAGES_IN_MEMORY = 512


class Text(NamedTuple):
    html: Fragment  # encoded Parsoid HTML
    wikitext: Fragment  # wikitext, encoded
    characters: int  # length of the wikitext in characters
    size: int  # size of the wikitext in UTF-8 bytes
    abstract: str  # plain text of the lead, or empty outside namespace 0
    needs_citation: int  # number of sentences that are marked as needing a citation


class Setting(NamedTuple):
    """Properties of a page and a revision that appear in the text."""

    page: int
    home: str  # original title, because a move does not change the text
    title: str  # current full title, with prefix
    namespace: int  # current namespace
    native: int  # original namespace, which determines the text size
    language: str  # language code
    direction: str  # `ltr` or `rtl`
    host: str
    revision: int
    previous: int  # id of the previous revision, or 0 if there is no previous revision
    modified: str  # time of the revision in the format of the HTML head
    categories: tuple[str, ...]  # full titles of the categories


_HEAD = "<!DOCTYPE html>\n" + (DATA / "head.html").read_text(encoding="utf-8").replace("\n", "")
#: Placeholder that does not appear in titles.
_GAP = "\0"
_TAIL = "</section></body></html>"
_ARCHIVED = "https://archive.example.org/web/"


class Library:
    def __init__(self, language: str, seed: int, body_bytes: int) -> None:
        """Build page text from a language's blocks. `body_bytes` is the mean combined size of HTML and wikitext."""
        self._seed = seed
        self._body_bytes = body_bytes
        stock = stock_of(language)
        self._leads, self._boxes, self._blocks = stock.leads, stock.boxes, stock.blocks
        self._block_bytes = sum(block.total for block in self._blocks) / BLOCKS
        self._box_bytes = sum(block.total for block in self._boxes) / INFOBOXES
        self._frame_bytes = len(_HEAD) + sum(lead.total for lead in self._leads) / LEADS + 700
        #: Cached, because a record needs one revision's text and the previous revision's length for the same page.
        self.shape = lru_cache(maxsize=64)(self._shape_of)
        self._head = lru_cache(maxsize=_PAGES_IN_MEMORY)(_head)
        self._footer = lru_cache(maxsize=_PAGES_IN_MEMORY)(_footer)
        # the list is doubled, so a sequence can wrap around
        run = self._blocks + self._blocks
        self._html = [block.html for block in run]
        self._wikitext = [block.wikitext for block in run]
        self._characters = [0, *accumulate(block.characters for block in run)]
        self._sizes = [0, *accumulate(block.size for block in run)]
        self._citations = [0, *accumulate(block.needs_citation for block in run)]

    def characters(self, setting: Setting) -> int:
        """Return the length of a revision's wikitext in characters without building the text."""
        plan = _Plan(self, setting)
        length = self._characters[plan.end] - self._characters[plan.start]
        length += self._blocks[plan.replacement].characters - self._blocks[plan.replaced].characters
        length += self._leads[plan.lead].characters + len(setting.home) + 6
        if plan.box is not None:
            length += self._boxes[plan.box].characters
        return length + len(_reference(setting)) + self._footer(setting.categories).characters

    def text(self, setting: Setting) -> Text:
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
        """Draw the combined size of a page's HTML and wikitext in bytes from a log-normal distribution."""
        radius = math.sqrt(-2 * math.log(1 - chance.unit()))
        normal = radius * math.cos(2 * math.pi * chance.unit())
        mean = self._body_bytes * _SHORTER.get(namespace, 1.0)
        return mean * math.exp(_SIGMA * normal - _SIGMA**2 / 2)

    def lent(self, _language: str, _host: str, _page: int) -> dict[str, Any]:
        """Return no borrowed fields, because the text is synthetic."""
        return {}

    def _shape_of(self, host: str, page: int, namespace: int) -> tuple[int, int, int, int | None]:
        """Return a page's lead, first block, number of blocks, and infobox or None."""
        chance = Chance("text", self._seed, host, page)
        size = self._size(chance, namespace)
        lead, start = chance.below(LEADS), chance.below(BLOCKS)
        box = chance.below(INFOBOXES) if namespace == 0 and size >= _BOXED_BYTES else None
        rest = size - self._frame_bytes - (0 if box is None else self._box_bytes)
        return lead, start, min(BLOCKS, max(1, round(rest / self._block_bytes))), box


class _Plan:
    """Blocks that are selected for a revision's text."""

    __slots__ = ("at", "box", "end", "lead", "replaced", "replacement", "start")

    def __init__(self, library: Library, setting: Setting) -> None:
        self.lead, self.start, count, self.box = library.shape(setting.host, setting.page, setting.native)
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
    """Return the HTML head in four parts, between which the revision, previous revision and date are inserted."""
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
    """Return the end of a page, which contains its categories."""
    document = "".join(
        f'\n<link rel="mw:PageProp/Category" href="./{html.escape(name.replace(" ", "_"))}" id="mwC{number}"/>'
        for number, name in enumerate(categories)
    )
    return made(document + _TAIL, "\n" + "".join(f"[[{name}]]\n" for name in categories))


_ENDINGS = (".ndjson", ".jsonl", ".json")
#: Maximum total size of the records in memory. Above this size, further files are not read.
_MOST_BYTES = 512 * 1024 * 1024
#: Fields that a page borrows from a record in addition to the text.
_BORROWED = ("protection", "watchers_count", "main_entity", "additional_entities", "categories", "templates", "image")


class Corpus:
    def __init__(self, folder: Path) -> None:
        """Read the records in `folder`. A folder without usable records raises ValueError."""
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
                f"The corpus {folder} contains no article record with a body. Add NDJSON or JSON files "
                "(.ndjson, .jsonl, .json, optionally with .gz) of records with `article_body`."
            )

    def lent(self, language: str, host: str, page: int, /) -> dict[str, Any]:
        """Return the fields that a page borrows from a real record."""
        record = self._record(language, host, page)
        return {key: record[key] for key in _BORROWED if record.get(key)}

    def _record(self, language: str, host: str, page: int) -> dict[str, Any]:
        choice = self._by_language.get(language, self._records)
        return choice[salt("corpus", host, page) % len(choice)]

    def characters(self, setting: Setting) -> int:
        """Return the length of a revision's wikitext in characters."""
        return len(
            self._record(setting.language, setting.host, setting.page)["article_body"].get("wikitext", "")
        ) + len(_mark(setting))

    def text(self, setting: Setting) -> Text:
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
