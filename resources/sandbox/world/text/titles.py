"""Titles of pages: as many as a world needs, no two alike, without the prefix of their namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from resources.sandbox.world.text.language import Lexicon

#: Multiplies a number before it picks a word, so that neighbours do not begin alike. A prime beyond any stock.
_SCATTER = 1_000_003


class Titles:
    """Titles in one language. Two numbers never give the same title, nor do `settled` and `fresh`."""

    def __init__(self, lexicon: Lexicon) -> None:
        """Make titles from the words of `lexicon`."""
        self._words = lexicon.title_words

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
