"""Words, titles and text blocks in synthetic languages.

Synthetic text must compress like real text. Words therefore follow a Zipf-like distribution over a few thousand words,
in which shorter words are more frequent. Words use the letters of the language (`data/letters.yaml`). Titles are unique
and have no namespace prefix. Blocks (paragraphs, lists, tables and infoboxes) are built and encoded as HTML and
wikitext once per language.
"""

from __future__ import annotations

import html
import random
import re
from copy import deepcopy
from functools import cache
from itertools import accumulate
from typing import NamedTuple

from resources.sandbox.files import read_yaml
from resources.sandbox.world.wire import inside

_LETTERS = read_yaml("letters.yaml")
_SCRIPT_OF = {code: name for name, one in _LETTERS["scripts"].items() for code in one["languages"].split()}

_WORDS = 7_000
#: Number of rare words in titles. Two rare words yield more than two million titles.
_TITLE_WORDS = 1_500
#: Exponent and shift of the word distribution, which resembles the distribution in encyclopaedia articles.
_ZIPF = 1.03
_SHIFT = 2.2
#: Prime multiplier that gives consecutive numbers different first words. The prime must exceed the number of words.
_SCATTER = 1_000_003
#: Pattern for the two words and the optional number in a title. Words do not contain blanks, digits or colons.
_SETTLED = re.compile(r"""(\S+) ([^\s:]+)(?: (\d{1,9}))?(?: \(\D*\)| & .*|: ".*"| d'.*)?""", re.DOTALL)
_FRESH = re.compile(r"(\S+) (\S+) \((\d{1,9})\)")


class Lexicon:
    def __init__(self, language: str) -> None:
        # the seed is only the language code, so a language is the same in every world
        self._random = random.Random(f"lexicon of {language}")
        script, latin = _SCRIPT_OF.get(language), _LETTERS["latin"]
        if script is None:
            vowels, onsets = _LETTERS["extras"].get(language, ("", ""))
            self._onsets = [*latin["onsets"].split(), *onsets.split()]
            self._vowels = [*latin["vowels"].split(), *vowels.split()]
            self._codas = [*[""] * latin["open"], *latin["codas"].split()]
        else:
            onsets, vowels, codas = (
                _LETTERS["scripts"][script][part].split() for part in ("onsets", "vowels", "codas")
            )
            self._onsets, self._vowels, self._codas = onsets, vowels, ["", "", *codas]
        self.space = "" if script in _LETTERS["unspaced"] else " "
        self.words = words = self._make_up()
        self.title_words = words[-_TITLE_WORDS:]
        self._weights = list(accumulate(1 / (rank + _SHIFT) ** _ZIPF for rank in range(1, len(words) + 1)))

    def _make_up(self) -> list[str]:
        draw = self._random
        words: dict[str, None] = {}
        length = 1
        while len(words) < _WORDS:
            # the most frequent words have one syllable; other words can have more
            length = 1 if len(words) < 60 else 2 if len(words) < 1_500 else 3 if len(words) < 5_000 else 4
            syllables = [draw.choice(self._onsets) + draw.choice(self._vowels) for _ in range(draw.randint(1, length))]
            words["".join(syllables) + draw.choice(self._codas)] = None
        return list(words)

    def some(self, count: int) -> list[str]:
        return self._random.choices(self.words, cum_weights=self._weights, k=count)

    def sentence(self, words: list[str]) -> str:
        text = self.space.join(words)
        return text[0].upper() + text[1:] + "."

    def below(self, limit: int) -> int:
        """Draw an integer in [0, limit) from the lexicon's own random generator, which makes text reproducible."""
        return self._random.randrange(limit)


#: Cached function that returns a language's lexicon.
lexicon_of = cache(Lexicon)


class Titles:
    """Unique titles in one language for settled and fresh pages."""

    def __init__(self, lexicon: Lexicon) -> None:
        self._words = lexicon.title_words
        self._places = {word: place for place, word in enumerate(self._words)}
        # no two words differ only in the case of their first letter
        self._capitals = {_first_up(word): place for word, place in self._places.items()}
        self._gather = pow(_SCATTER, -1, len(self._words))

    def settled(self, number: int) -> str:
        first, second, rest = self._words_of(number)
        stem = f"{_first_up(first)} {second}" + (f" {rest + 1}" if rest else "")
        form = number % 24
        if form == 5:
            return f"{stem} ({self._word(number + 7)})"
        if form == 11:
            return f"{stem} & {_first_up(self._word(number + 11))}"
        if form == 17:
            return f'{stem}: "{self._word(number + 3)}"'
        if form == 23:
            return f"{stem} d'{_first_up(self._word(number + 5))}"
        return stem

    def fresh(self, number: int) -> str:
        first, second, rest = self._words_of(number)
        return f"{_first_up(first)} {second} ({rest})"

    def settled_number(self, title: str) -> int | None:
        number = self._number(_SETTLED, title, 1)
        return number if number is not None and self.settled(number) == title else None

    def fresh_number(self, title: str) -> int | None:
        number = self._number(_FRESH, title, 0)
        return number if number is not None and self.fresh(number) == title else None

    def _number(self, form: re.Pattern[str], title: str, counted_from: int) -> int | None:
        """Return the only number that a title could have, or None. This function is the inverse of `_words_of`."""
        found = form.fullmatch(title)
        if found is None or found[1] not in self._capitals or found[2] not in self._places:
            return None
        size, rest = len(self._words), int(found[3]) - counted_from if found[3] else 0
        low = self._capitals[found[1]] * self._gather % size
        high = (self._places[found[2]] - low * 7) % size
        return (rest * size + high) * size + low

    def _words_of(self, number: int) -> tuple[str, str, int]:
        """Return two words and a remainder that together identify the number."""
        size = len(self._words)
        rest, second = divmod(number // size, size)
        return self._word(number), self._words[(second + number % size * 7) % size], rest

    def _word(self, number: int) -> str:
        return self._words[number * _SCATTER % len(self._words)]


BLOCKS = 900
LEADS = 160
INFOBOXES = 40


class Block(NamedTuple):
    """Text block as HTML and wikitext, both encoded as JSON strings without quotation marks."""

    html: bytes  # Parsoid HTML
    wikitext: bytes  # wikitext
    characters: int  # length of the wikitext in characters
    size: int  # size of the unescaped wikitext in UTF-8 bytes
    total: int  # combined size of the unescaped HTML and wikitext in UTF-8 bytes
    needs_citation: int = 0  # number of sentences that are marked as needing a citation
    plain: str = ""  # plain text of a lead, or empty for other blocks


def made(document: str, wikitext: str, lacking: int = 0) -> Block:
    size = len(wikitext.encode())
    return Block(inside(document), inside(wikitext), len(wikitext), size, size + len(document.encode()), lacking)


NO_BLOCK = Block(b"", b"", 0, 0, 0)


@cache
def stock_of(language: str) -> Stock:
    """Return a language's blocks, which are the same in every world."""
    # other users of the lexicon must not advance its random generator
    return Stock(deepcopy(lexicon_of(language)))


class Stock:
    def __init__(self, lexicon: Lexicon) -> None:
        self._lexicon = lexicon
        self.leads = [self._lead() for _ in range(LEADS)]
        self.boxes = [self._infobox(number) for number in range(INFOBOXES)]
        self.blocks = [self._block(number) for number in range(BLOCKS)]

    def _plain(self, least: int, most: int) -> str:
        draw = self._lexicon
        return draw.sentence(draw.some(least + draw.below(most - least)))

    def _sentence(self, number: int) -> tuple[str, str, int]:
        """Return a sentence with up to two links as HTML and wikitext, and 1 if a citation is missing (otherwise 0)."""
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
    """Capitalize only the first letter, as wikis do in titles."""
    return word[0].upper() + word[1:]


_DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


def _identifier(number: int, place: int) -> str:
    """Return an element id in Parsoid's format."""
    value = number * 128 + place
    return "".join(_DIGITS[(value >> shift) & 63] for shift in (12, 6, 0))
