"""Words of made-up languages, and titles made of them.

Synthetic text must compress like real text, so words follow a Zipf-like distribution over a stock of some thousand,
short words first, and are spelt with the letters of the language (`data/letters.yaml`). Titles are as many as a world
needs, no two alike, without the prefix of their namespace.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from itertools import accumulate
from typing import TYPE_CHECKING

from resources.sandbox.files import read_yaml

if TYPE_CHECKING:
    from collections.abc import Iterator

_LETTERS = read_yaml("letters.yaml")
_SCRIPT_OF = {code: name for name, one in _LETTERS["scripts"].items() for code in one["languages"].split()}

_WORDS = 7_000
#: Titles are made of the rarer words: as many as two words need for more than two million titles.
_TITLE_WORDS = 1_500
#: Exponent and shift of the distribution; about what texts of encyclopaedias show.
_ZIPF = 1.03
_SHIFT = 2.2
#: Multiplies a number before it picks a word, so that neighbours do not begin alike. A prime beyond any stock.
_SCATTER = 1_000_003
#: The two words that both kinds of title begin with, and the rest beside them; words have no blank, digit or colon.
_SETTLED = re.compile(r"""(\S+) ([^\s:]+)(?: (\d{1,9}))?(?: \(\D*\)| & .*|: ".*"| d'.*)?""", re.DOTALL)
_FRESH = re.compile(r"(\S+) (\S+) \((\d{1,9})\)")


class Lexicon:
    """The words of one language."""

    def __init__(self, language: str) -> None:
        """Make up the words of `language` (a language code)."""
        # seeded by the name alone: a language is the same in every world
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
        words = self._make_up()
        self.words = words
        self.title_words = words[-_TITLE_WORDS:]
        self._weights = list(accumulate(1 / (rank + _SHIFT) ** _ZIPF for rank in range(1, len(words) + 1)))

    def _make_up(self) -> list[str]:
        draw = self._random
        words: dict[str, None] = {}
        length = 1
        while len(words) < _WORDS:
            # one syllable for the most frequent words, more as the short ones are used up
            length = 1 if len(words) < 60 else 2 if len(words) < 1_500 else 3 if len(words) < 5_000 else 4
            syllables = [draw.choice(self._onsets) + draw.choice(self._vowels) for _ in range(draw.randint(1, length))]
            words["".join(syllables) + draw.choice(self._codas)] = None
        return list(words)

    def some(self, count: int) -> list[str]:
        """`count` words as frequent as texts have them."""
        return self._random.choices(self.words, cum_weights=self._weights, k=count)

    def sentence(self, words: list[str]) -> str:
        """The words as a sentence."""
        text = self.space.join(words)
        return text[0].upper() + text[1:] + "."

    def below(self, limit: int) -> int:
        """An integer in [0, limit): the lexicon's own chance, so that texts made from it repeat."""
        return self._random.randrange(limit)


class Titles:
    """Titles in one language. Two numbers never give the same title, nor do `settled` and `fresh`."""

    def __init__(self, lexicon: Lexicon) -> None:
        """Make titles from the words of `lexicon`."""
        self._words = lexicon.title_words
        self._places = {word: place for place, word in enumerate(self._words)}
        self._capitals: dict[str, list[int]] = defaultdict(list)
        for place, word in enumerate(self._words):
            self._capitals[_capital(word)].append(place)
        self._gather = pow(_SCATTER, -1, len(self._words))

    def settled(self, number: int) -> str:
        """The title of a page that was always there."""
        first, second, rest = self._words_of(number)
        stem = f"{_capital(first)} {second}" + (f" {rest + 1}" if rest else "")
        form = number % 24
        if form == 5:
            return f"{stem} ({self._word(number + 7)})"
        if form == 11:
            return f"{stem} & {_capital(self._word(number + 11))}"
        if form == 17:
            return f'{stem}: "{self._word(number + 3)}"'
        if form == 23:
            return f"{stem} d'{_capital(self._word(number + 5))}"
        return stem

    def fresh(self, number: int) -> str:
        """The title of a page that is made as number `number`."""
        first, second, rest = self._words_of(number)
        return f"{_capital(first)} {second} ({rest})"

    def settled_number(self, title: str) -> int | None:
        """The number whose settled title this is; None where there is none."""
        return next((number for number in self._numbers(_SETTLED, title, 1) if self.settled(number) == title), None)

    def fresh_number(self, title: str) -> int | None:
        """The number whose fresh title this is; None where there is none."""
        return next((number for number in self._numbers(_FRESH, title, 0) if self.fresh(number) == title), None)

    def _numbers(self, form: re.Pattern[str], title: str, counted_from: int) -> Iterator[int]:
        """The numbers that the words and the rest of a title can be of: `_words_of` backwards."""
        found = form.fullmatch(title)
        if found is None or found[2] not in self._places:
            return
        size, rest = len(self._words), int(found[3]) - counted_from if found[3] else 0
        for first in self._capitals.get(found[1], ()):
            low = first * self._gather % size
            high = (self._places[found[2]] - low * 7) % size
            yield (rest * size + high) * size + low

    def _words_of(self, number: int) -> tuple[str, str, int]:
        """Two words and a rest that are together of this number alone."""
        size = len(self._words)
        rest, second = divmod(number // size, size)
        return self._word(number), self._words[(second + number % size * 7) % size], rest

    def _word(self, number: int) -> str:
        return self._words[number * _SCATTER % len(self._words)]


def _capital(word: str) -> str:
    """The word as a title begins: wikis raise the first letter and leave the rest."""
    raised = word[0].upper()
    return (raised if len(raised) == 1 else word[0]) + word[1:]
