"""Made-up language: words that look like those of a wiki's language, as frequent as in real texts.

Synthetic text must compress like real text, so words follow a Zipf-like distribution over a stock of some thousand,
short words first, and are spelt with the letters of the language.
"""

# The letters of many scripts are here on purpose.
# ruff: noqa: RUF001

from __future__ import annotations

import random
from itertools import accumulate

_LATIN_ONSETS = [
    "b",
    "c",
    "d",
    "f",
    "g",
    "h",
    "j",
    "k",
    "l",
    "m",
    "n",
    "p",
    "r",
    "s",
    "t",
    "v",
    "w",
    "br",
    "ch",
    "cl",
    "cr",
    "dr",
    "fl",
    "gr",
    "pl",
    "pr",
    "qu",
    "sh",
    "sp",
    "st",
    "str",
    "th",
    "tr",
]
_LATIN_CODAS = ["", "", "", "n", "r", "s", "l", "t", "m", "nd", "st", "ns", "rt", "x"]
_LATIN_VOWELS = ["a", "e", "i", "o", "u", "ai", "ea", "ie", "ou", "io"]

#: Letters that a Latin language has beyond the common ones, as vowels and as onsets of syllables.
_LATIN_EXTRAS: dict[str, tuple[str, str]] = {
    "fr": ("é è ê à â ô î œ eau oi", "ç gn"),
    "de": ("ä ö ü ei eu", "sch z pf"),
    "es": ("á é í ó ú ue", "ñ ll z"),
    "pt": ("á ã é ê ó õ ão", "ç lh nh"),
    "it": ("à è ì ò ù", "gl gn z"),
    "pl": ("ą ę ó y", "ł ś ż ź ć cz sz rz"),
    "cs": ("á é í ý ů ě", "č ř š ž"),
    "sk": ("á é í ý ô ä", "č ľ š ž"),
    "sv": ("å ä ö", "sk sj"),
    "da": ("å æ ø", "sk"),
    "no": ("å æ ø", "sk kj"),
    "fi": ("ä ö ää aa ii uu", "kk ll tt"),
    "et": ("ä ö ü õ", "kk ll"),
    "hu": ("á é í ó ö ő ú ü ű", "gy ny sz zs"),
    "tr": ("ı ö ü", "ç ğ ş"),
    "az": ("ə ı ö ü", "ç ğ ş"),
    "ro": ("ă â î", "ș ț"),
    "ca": ("à è é í ò ó ú", "ç ny l·l"),
    "vi": ("ạ ế ộ ư ơ ữ ả", "đ ng nh"),
    "lt": ("ą ė ę ū", "č š ž"),
    "lv": ("ā ē ī ū", "č š ž ļ"),
    "hr": ("", "č ć đ š ž"),
    "sl": ("", "č š ž"),
    "is": ("á é í ó ö ú æ", "ð þ"),
    "ga": ("á é í ó ú", "bh mh"),
    "eo": ("", "ĉ ĝ ŝ"),
}
_SCRIPTS: dict[str, tuple[str, str, str]] = {  # onsets, vowels, codas
    "cyrillic": ("б в г д ж з к л м н п р с т ф х ц ч ш ст пр гр", "а е и о у я ы ю", "н р с л т м й ть"),
    "greek": ("β γ δ ζ θ κ λ μ ν ξ π ρ σ τ φ χ ψ", "α ε η ι ο υ ω ου αι", "ν ς ρ"),
    "arabic": ("ب ت ث ج ح خ د ذ ر ز س ش ص ط ع غ ف ق ك ل م ن ه", "ا و ي", "ن ة ر ل"),
    "hebrew": ("א ב ג ד ה ו ז ח ט כ ל מ נ ס ע פ צ ק ר ש ת", "ו י ה", "ם ן ת"),
    "devanagari": ("क ख ग घ च ज ट ड त द न प ब भ म य र ल व श स ह", "ा ि ी ु े ो", "ं न र"),
    "bengali": ("ক খ গ ঘ চ জ ট ড ত দ ন প ব ভ ম র ল শ স হ", "া ি ী ু ে ো", "ন র ং"),
    "tamil": ("க ங ச ஞ ட ண த ந ப ம ய ர ல வ ழ ள", "ா ி ீ ு ே ோ", "ம் ன் ர்"),
    "telugu": ("క గ చ జ ట డ త ద న ప బ మ య ర ల వ స హ", "ా ి ీ ు ే ో", "ం"),
    "malayalam": ("ക ഗ ച ജ ട ണ ത ദ ന പ ബ മ യ ര ല വ സ ഹ", "ാ ി ീ ു േ ോ", "ം ൻ ർ"),
    "thai": ("ก ข ค ง จ ช ด ต ท น บ ป พ ม ย ร ล ว ส ห", "า ี ู ะ ือ", "น ม ง ก"),
    "armenian": ("բ գ դ զ թ ժ լ խ կ հ մ ն պ ս տ փ ք", "ա ե ի ո ու", "ն ր ս"),
    "georgian": ("ბ გ დ ვ ზ თ კ ლ მ ნ პ რ ს ტ ფ ქ შ ჩ ხ", "ა ე ი ო უ", "ნ ს რ"),
    "kana": ("カ キ ク サ シ ス タ チ ツ ナ ニ ハ ヒ マ ミ ラ リ 日 本 国 大 学 地 方", "ア イ ウ の は に", "ン ー"),
    "han": ("中 国 大 学 地 方 年 月 人 口 省 市 县 山 水 东 西 南 北 文 化 历 史", "的 在 是 为 了", "区 系 者"),
    "hangul": ("가 나 다 라 마 바 사 아 자 차 카 타 파 하 한 국 대 학", "이 는 을 의 에", "도 시 군"),
}
_WRITTEN = {
    "cyrillic": "ru uk be bg sr kk",
    "greek": "el",
    "arabic": "ar fa ur",
    "hebrew": "he",
    "devanagari": "hi mr",
    "bengali": "bn",
    "tamil": "ta",
    "telugu": "te",
    "malayalam": "ml",
    "thai": "th",
    "armenian": "hy",
    "georgian": "ka",
    "kana": "ja",
    "han": "zh",
    "hangul": "ko",
}
_SCRIPT_OF = {language: script for script, languages in _WRITTEN.items() for language in languages.split()}
_UNSPACED = frozenset({"kana", "han", "thai"})

_WORDS = 7_000
#: Titles are made of the rarer words: as many as two words need for more than two million titles.
_TITLE_WORDS = 1_500
#: Exponent and shift of the distribution; about what texts of encyclopaedias show.
_ZIPF = 1.03
_SHIFT = 2.2


class Lexicon:
    """The words of one language."""

    def __init__(self, language: str) -> None:
        """Make up the words of `language` (a language code)."""
        # seeded by the name alone: a language is the same in every world
        self._random = random.Random(f"lexicon of {language}")
        script = _SCRIPT_OF.get(language)
        if script is None:
            vowels, onsets = _LATIN_EXTRAS.get(language, ("", ""))
            self._onsets = _LATIN_ONSETS + onsets.split()
            self._vowels = _LATIN_VOWELS + vowels.split()
            self._codas = _LATIN_CODAS
        else:
            onsets, vowels, codas = _SCRIPTS[script]
            self._onsets, self._vowels, self._codas = onsets.split(), vowels.split(), ["", "", *codas.split()]
        self.space = "" if script in _UNSPACED else " "
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
