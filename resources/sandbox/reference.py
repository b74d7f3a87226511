"""The sandbox's reference lists: codes, languages, projects and namespaces, in the service's wire form.

Belongs here: facts about wikis (names, own names, writing directions, addresses, local namespace names). Does not
belong here: anything that depends on a seed, and answering requests.

Source of the shapes: the service's documentation of `/v2/codes`, `/v2/languages`, `/v2/projects`, `/v2/namespaces`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Project:
    """One wiki.

    Attributes:
        identifier: Database name, for example `frwiki`.
        name: Site name in its own language.
        code: Kind of wiki, for example `wiki` or `wiktionary`.
        language: Language code.
        url: Address without a trailing slash.
        prefixes: Local name by namespace, for namespaces whose titles carry one.
    """

    identifier: str
    name: str
    code: str
    language: str
    url: str
    prefixes: dict[int, str]

    @property
    def record(self) -> dict[str, Any]:
        """The project as `/v2/projects` tells it."""
        return {
            "name": self.name,
            "identifier": self.identifier,
            "url": self.url,
            "code": self.code,
            "in_language": {"identifier": self.language},
        }


_CODES = (
    ("wiki", "Wikipedia", "The free encyclopedia."),
    ("wikibooks", "Wikibooks", "Free textbooks and manuals."),
    ("wikinews", "Wikinews", "News written by its readers."),
    ("wikiquote", "Wikiquote", "A collection of quotations."),
    ("wikisource", "Wikisource", "A library of free source texts."),
    ("wikivoyage", "Wikivoyage", "A free travel guide."),
    ("wiktionary", "Wiktionary", "A dictionary of all words in all languages."),
    ("wikiversity", "Wikiversity", "Free learning materials and courses."),
)

_NAMESPACES = (
    (0, "Article", "Where a project keeps what it is about: articles, entries, guides or texts."),
    (6, "File", "Descriptions of images, sounds, films and other media."),
    (10, "Template", "Wikitext that other pages include."),
    (14, "Category", "Pages that gather other pages by subject."),
)

#: code, English name, own name, direction, name of its Wikipedia
_LANGUAGES = """
id|Indonesian|Bahasa Indonesia|ltr|Wikipedia
vi|Vietnamese|Tiếng Việt|ltr|Wikipedia
eo|Esperanto|Esperanto|ltr|Vikipedio
tr|Turkish|Türkçe|ltr|Vikipedi
it|Italian|italiano|ltr|Wikipedia
lt|Lithuanian|lietuvių|ltr|Vikipedija
ml|Malayalam|മലയാളം|ltr|വിക്കിപീഡിയ
ja|Japanese|日本語|ltr|Wikipedia
ur|Urdu|اردو|rtl|ویکیپیڈیا
no|Norwegian|norsk|ltr|Wikipedia
sv|Swedish|svenska|ltr|Wikipedia
uk|Ukrainian|українська|ltr|Вікіпедія
fa|Persian|فارسی|rtl|ویکی‌پدیا
de|German|Deutsch|ltr|Wikipedia
fi|Finnish|suomi|ltr|Wikipedia
ru|Russian|русский|ltr|Википедия
he|Hebrew|עברית|rtl|ויקיפדיה
az|Azerbaijani|azərbaycanca|ltr|Vikipediya
simple|Simple English|Simple English|ltr|Wikipedia
ar|Arabic|العربية|rtl|ويكيبيديا
es|Spanish|español|ltr|Wikipedia
pt|Portuguese|português|ltr|Wikipédia
hu|Hungarian|magyar|ltr|Wikipédia
ta|Tamil|தமிழ்|ltr|விக்கிப்பீடியா
ro|Romanian|română|ltr|Wikipedia
cy|Welsh|Cymraeg|ltr|Wicipedia
be|Belarusian|беларуская|ltr|Вікіпедыя
th|Thai|ไทย|ltr|วิกิพีเดีย
el|Greek|Ελληνικά|ltr|Βικιπαίδεια
sw|Swahili|Kiswahili|ltr|Wikipedia
hr|Croatian|hrvatski|ltr|Wikipedija
sr|Serbian|српски / srpski|ltr|Википедија
ms|Malay|Bahasa Melayu|ltr|Wikipedia
zh|Chinese|中文|ltr|Wikipedia
fr|French|français|ltr|Wikipédia
lv|Latvian|latviešu|ltr|Vikipēdija
pl|Polish|polski|ltr|Wikipedia
nl|Dutch|Nederlands|ltr|Wikipedia
sl|Slovenian|slovenščina|ltr|Wikipedija
bn|Bangla|বাংলা|ltr|উইকিপিডিয়া
hy|Armenian|հայերեն|ltr|Վիքիպեդիա
kk|Kazakh|қазақша|ltr|Уикипедия
hi|Hindi|हिन्दी|ltr|विकिपीडिया
bg|Bulgarian|български|ltr|Уикипедия
cs|Czech|čeština|ltr|Wikipedie
af|Afrikaans|Afrikaans|ltr|Wikipedia
et|Estonian|eesti|ltr|Vikipeedia
ga|Irish|Gaeilge|ltr|Vicipéid
ca|Catalan|català|ltr|Viquipèdia
mr|Marathi|मराठी|ltr|विकिपीडिया
te|Telugu|తెలుగు|ltr|వికీపీడియా
is|Icelandic|íslenska|ltr|Wikipedia
ko|Korean|한국어|ltr|위키백과
da|Danish|dansk|ltr|Wikipedia
gl|Galician|galego|ltr|Wikipedia
eu|Basque|euskara|ltr|Wikipedia
la|Latin|Latina|ltr|Vicipaedia
en|English|English|ltr|Wikipedia
sk|Slovak|slovenčina|ltr|Wikipédia
tl|Tagalog|Tagalog|ltr|Wikipedia
ka|Georgian|ქართული|ltr|ვიკიპედია
"""

#: The other kinds of wiki, in the languages whose sister projects are listed here; a name where it is a local one.
_SISTERS: dict[str, dict[str, str]] = {
    "en": {
        "wiktionary": "Wiktionary",
        "wikibooks": "Wikibooks",
        "wikinews": "Wikinews",
        "wikiquote": "Wikiquote",
        "wikisource": "Wikisource",
        "wikiversity": "Wikiversity",
        "wikivoyage": "Wikivoyage",
    },
    "fr": {
        "wiktionary": "Wiktionnaire",
        "wikibooks": "Wikilivres",
        "wikinews": "Wikinews",
        "wikiquote": "Wikiquote",
        "wikisource": "Wikisource",
        "wikiversity": "Wikiversité",
        "wikivoyage": "Wikivoyage",
    },
    "de": {
        "wiktionary": "Wiktionary",
        "wikibooks": "Wikibooks",
        "wikinews": "Wikinews",
        "wikiquote": "Wikiquote",
        "wikisource": "Wikisource",
        "wikiversity": "Wikiversity",
        "wikivoyage": "Wikivoyage",
    },
    "it": {"wiktionary": "Wikizionario", "wikiquote": "Wikiquote", "wikivoyage": "Wikivoyage"},
    "es": {"wiktionary": "Wikcionario", "wikiquote": "Wikiquote", "wikivoyage": "Wikiviajes"},
    "pl": {"wiktionary": "Wikisłownik", "wikivoyage": "Wikipodróże"},
    "ru": {"wiktionary": "Викисловарь", "wikivoyage": "Wikivoyage"},
    "simple": {"wiktionary": "Wiktionary"},
}
_DOMAINS = {"wiki": "wikipedia"}

#: Local namespace names by language: user, file, template, category. Elsewhere the canonical English names hold.
_PREFIXES: dict[str, tuple[str, str, str, str]] = {
    "fr": ("Utilisateur", "Fichier", "Modèle", "Catégorie"),
    "de": ("Benutzer", "Datei", "Vorlage", "Kategorie"),
    "es": ("Usuario", "Archivo", "Plantilla", "Categoría"),
    "it": ("Utente", "File", "Template", "Categoria"),
    "pt": ("Usuário(a)", "Ficheiro", "Predefinição", "Categoria"),
    "nl": ("Gebruiker", "Bestand", "Sjabloon", "Categorie"),
    "pl": ("Wikipedysta", "Plik", "Szablon", "Kategoria"),
    "sv": ("Användare", "Fil", "Mall", "Kategori"),
    "da": ("Bruger", "Fil", "Skabelon", "Kategori"),
    "no": ("Bruker", "Fil", "Mal", "Kategori"),
    "fi": ("Käyttäjä", "Tiedosto", "Malline", "Luokka"),
    "cs": ("Wikipedista", "Soubor", "Šablona", "Kategorie"),
    "ca": ("Usuari", "Fitxer", "Plantilla", "Categoria"),
    "ru": ("Участник", "Файл", "Шаблон", "Категория"),
    "uk": ("Користувач", "Файл", "Шаблон", "Категорія"),
    "ar": ("مستخدم", "ملف", "قالب", "تصنيف"),
    "he": ("משתמש", "קובץ", "תבנית", "קטגוריה"),
    "ja": ("利用者", "ファイル", "Template", "Category"),
}
_CANONICAL = ("User", "File", "Template", "Category")
_PREFIXED = (2, 6, 10, 14)


@dataclass(frozen=True)
class Language:
    """One language: code, English name, own name and writing direction (`ltr` or `rtl`)."""

    identifier: str
    name: str
    alternate_name: str
    direction: str


def _project(language: str, code: str, name: str) -> Project:
    return Project(
        identifier=f"{language}{code}",
        name=name,
        code=code,
        language=language,
        url=f"https://{language}.{_DOMAINS.get(code, code)}.org",
        prefixes=dict(zip(_PREFIXED, _PREFIXES.get(language, _CANONICAL), strict=True)),
    )


def _read() -> tuple[dict[str, Language], dict[str, Project]]:
    languages: dict[str, Language] = {}
    projects: list[Project] = []
    for line in _LANGUAGES.strip().splitlines():
        code, name, own, direction, wikipedia = line.split("|")
        languages[code] = Language(code, name, own, direction)
        projects.append(_project(code, "wiki", wikipedia))
        projects += [_project(code, kind, local) for kind, local in _SISTERS.get(code, {}).items()]
    return languages, {project.identifier: project for project in projects}


#: In the order in which the lists tell them.
LANGUAGES, PROJECTS = _read()


def project(identifier: str) -> Project:
    """The project of that database name.

    Raises:
        ValueError: The sandbox does not know it; the message names those it knows.
    """
    if identifier not in PROJECTS:
        raise ValueError(f"The sandbox knows no project {identifier!r}. It knows: {', '.join(sorted(PROJECTS))}.")
    return PROJECTS[identifier]


def codes() -> list[dict[str, Any]]:
    """The eight kinds of wiki, as `/v2/codes` lists them."""
    return [
        {"identifier": identifier, "name": name, "description": description} for identifier, name, description in _CODES
    ]


def languages() -> list[dict[str, Any]]:
    """The languages, as `/v2/languages` lists them."""
    return [
        {
            "identifier": language.identifier,
            "name": language.name,
            "alternate_name": language.alternate_name,
            "direction": language.direction,
        }
        for language in LANGUAGES.values()
    ]


def projects() -> list[dict[str, Any]]:
    """The projects, as `/v2/projects` lists them."""
    return [known.record for known in PROJECTS.values()]


def namespaces() -> list[dict[str, Any]]:
    """The four namespaces, as `/v2/namespaces` lists them."""
    return [
        {"name": name, "identifier": identifier, "description": description}
        for identifier, name, description in _NAMESPACES
    ]
