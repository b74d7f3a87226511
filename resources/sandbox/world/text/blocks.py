"""The stock of blocks that texts are made of: paragraphs, lists, tables and infoboxes, each in both markups.

It is made once for each language, and each block is encoded once for all the lines that contain it.
"""

from __future__ import annotations

import html
from functools import cache
from typing import NamedTuple

from resources.sandbox.world.text.words import Lexicon
from resources.sandbox.world.wire import inside

BLOCKS = 900
LEADS = 160
INFOBOXES = 40


class Block(NamedTuple):
    """A piece of a page in both markups, each as it is inside a JSON string.

    Attributes:
        html: Parsoid HTML.
        wikitext: Wikitext.
        characters: Length of the wikitext.
        size: Bytes of the wikitext in UTF-8, unescaped.
        total: Bytes of both markups in UTF-8, unescaped.
        needs_citation: Count of sentences marked as lacking a citation.
        plain: The same as plain text, where that is needed.
    """

    html: bytes
    wikitext: bytes
    characters: int
    size: int
    total: int
    needs_citation: int = 0
    plain: str = ""


def made(document: str, wikitext: str, lacking: int = 0) -> Block:
    size = len(wikitext.encode())
    return Block(inside(document), inside(wikitext), len(wikitext), size, size + len(document.encode()), lacking)


NO_BLOCK = Block(b"", b"", 0, 0, 0)


@cache
def stock_of(language: str) -> Stock:
    """Return the blocks of a language, the same in every world: their lexicon is used by nothing else."""
    return Stock(Lexicon(language))


class Stock:
    """The blocks of one language."""

    def __init__(self, lexicon: Lexicon) -> None:
        """Make them with the words of `lexicon`."""
        self._lexicon = lexicon
        self.leads = [self._lead() for _ in range(LEADS)]
        self.boxes = [self._infobox(number) for number in range(INFOBOXES)]
        self.blocks = [self._block(number) for number in range(BLOCKS)]

    def _plain(self, least: int, most: int) -> str:
        draw = self._lexicon
        return draw.sentence(draw.some(least + draw.below(most - least)))

    def _sentence(self, number: int) -> tuple[str, str, int]:
        """A sentence as HTML and wikitext, with a link or two, and whether it lacks a citation."""
        draw = self._lexicon
        words = draw.some(7 + draw.below(14))
        text = list(words)
        markup = list(words)
        for _ in range(draw.below(3)):
            at = draw.below(len(words))
            if text[at] != words[at]:
                continue
            target = f"{_first_up(draw.title_words[draw.below(300)])}_{draw.title_words[draw.below(40)]}"
            label = words[at]
            title = target.replace("_", " ")
            text[at] = (
                f'<a rel="mw:WikiLink" href="./{target}" title="{title}" id="mw{_identifier(number, at)}">{label}</a>'
            )
            markup[at] = f"[[{title}|{label}]]"
        document, wikitext = draw.space.join(text) + ". ", draw.space.join(markup) + ". "
        lot = draw.below(40)
        if lot < 10:
            site, page = draw.title_words[draw.below(60)], draw.below(90_000)
            note = f"cite_ref-{number}_{lot}"
            about = f"|url=https://www.example.org/{page} |title={words[0]} {words[1]} |publisher={site}"
            wikitext += f"<ref>{{{{cite web {about}}}}}</ref> "
            document += (
                f'<sup about="#mwt{number % 90}" class="mw-ref reference" id="{note}" rel="dc:references" '
                f'typeof="mw:Extension/ref" data-mw=\'{{"name":"ref","attrs":{{}},'
                f'"body":{{"id":"mw-reference-text-{note}"}}}}\'>'
                f'<a href="./#cite_note-{number}" id="mw{_identifier(number, 90)}">'
                f'<span class="mw-reflink-text">[{number % 30 + 1}]</span></a></sup> '
            )
        elif lot == 11:
            wikitext += "{{Citation needed|date=March 2024}} "
            document += '<sup class="noprint Inline-Template" about="#mwt9" typeof="mw:Transclusion">[<i>?</i>]</sup> '
            return document, wikitext, 1
        elif lot == 12:
            document += f"<i>{words[0]} &amp; {words[1]}</i> "
            wikitext += f"''{words[0]} & {words[1]}'' "
        return document, wikitext, 0

    def _lead(self) -> Block:
        draw = self._lexicon
        opening = draw.space.join(draw.some(8 + draw.below(10)))
        rest = " ".join(self._plain(8, 20) for _ in range(draw.below(3)))
        plain = f"{draw.space or ' '}{opening}. {rest}".rstrip()
        markup = plain + "\n"
        return made(html.escape(plain, quote=False), markup)._replace(plain=plain)

    def _block(self, number: int) -> Block:
        draw = self._lexicon
        document, wikitext, lacking = [], [], 0
        for _ in range(1 + draw.below(4)):
            one, other, lacks = self._sentence(number)
            document.append(one)
            wikitext.append(other)
            lacking += lacks
        form = draw.below(12)
        if form < 3:
            heading = self._plain(2, 4)[:-1]
            anchor = heading.replace(" ", "_")
            head = (
                f'</section><section data-mw-section-id="{number % 9 + 1}" id="mw{_identifier(number, 91)}">'
                f'<h2 id="{anchor}">{heading}</h2>\n<p id="mw{_identifier(number, 92)}">'
            )
            return made(head + "".join(document) + "</p>\n", f"\n== {heading} ==\n{''.join(wikitext)}\n", lacking)
        if form == 3:
            items = "".join(
                f'<li id="mw{_identifier(number, 93 + n)}">{item}</li>\n' for n, item in enumerate(document)
            )
            return made(
                f'<ul id="mw{_identifier(number, 92)}">{items}</ul>\n',
                "".join(f"* {item}\n" for item in wikitext),
                lacking,
            )
        if form == 4:
            return self._table(number)
        return made(
            f'<p id="mw{_identifier(number, 92)}">{"".join(document)}</p>\n', "".join(wikitext) + "\n\n", lacking
        )

    def _table(self, number: int) -> Block:
        draw = self._lexicon
        names = draw.some(3)
        rows = [(draw.some(1)[0], 1800 + draw.below(225), draw.below(100_000)) for _ in range(3 + draw.below(5))]
        document = "".join(
            f'<tr id="mw{_identifier(number, 10 + n)}"><td>{a}</td><td>{b}</td>'
            f'<td style="text-align:right">{c}</td></tr>\n'
            for n, (a, b, c) in enumerate(rows)
        )
        wikitext = "".join(f"|-\n| {a} || {b} || {c}\n" for a, b, c in rows)
        return made(
            f'<table class="wikitable sortable" id="mw{_identifier(number, 9)}">\n<tbody><tr>'
            + "".join(f"<th>{name}</th>" for name in names)
            + f"</tr>\n{document}</tbody></table>\n",
            f'{{| class="wikitable sortable"\n! {" !! ".join(names)}\n{wikitext}|}}\n',
        )

    def _infobox(self, number: int) -> Block:
        draw = self._lexicon
        name = _first_up(draw.title_words[number])
        rows = [(draw.title_words[draw.below(80)], self._plain(1, 5)[:-1]) for _ in range(4 + draw.below(6))]
        wikitext = "".join(f" | {key:<18} = {value}\n" for key, value in rows)
        params = ",".join(f'"{key}":{{"wt":"{value}"}}' for key, value in rows)
        document = "".join(
            f'<tr><th scope="row" class="infobox-label">{key}</th><td class="infobox-data">{value}</td></tr>\n'
            for key, value in rows
        )
        return made(
            f'<table class="infobox vcard" about="#mwt1" typeof="mw:Transclusion" id="mw{_identifier(number, 1)}" '
            f'data-mw=\'{{"parts":[{{"template":{{'
            f'"target":{{"wt":"Infobox {name}\\n","href":"./Template:Infobox_{name}"}},'
            f'"params":{{{params}}},"i":0}}}}]}}\'><tbody>\n{document}</tbody></table>\n',
            f"{{{{Infobox {name}\n{wikitext}}}}}\n",
        )


def _first_up(word: str) -> str:
    return word[0].upper() + word[1:]


_DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


def _identifier(number: int, place: int) -> str:
    """An element id as Parsoid numbers them."""
    value = number * 128 + place
    return "".join(_DIGITS[(value >> shift) & 63] for shift in (12, 6, 0))
