"""The sandbox's reference lists: codes, languages, projects and namespaces, in the service's wire form.

They are facts about wikis and do not depend on a seed.

Source of the shapes: the service's documentation of `/v2/codes`, `/v2/languages`, `/v2/projects`, `/v2/namespaces`.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from resources.sandbox.world import wikis

if TYPE_CHECKING:
    from collections.abc import Sequence


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
        """The project as `/v2/projects` lists it."""
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

#: Hosts where they are not called as the family or the language is.
_DOMAINS = {"wiki": "wikipedia"}
_HOSTS = {"be-x-old": "be-tarask"}

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
        identifier=f"{language.replace('-', '_')}{code}",
        name=name,
        code=code,
        language=language,
        url=f"https://{_HOSTS.get(language, language)}.{_DOMAINS.get(code, code)}.org",
        prefixes=dict(zip(_PREFIXED, _PREFIXES.get(language, _CANONICAL), strict=True)),
    )


def _read() -> tuple[dict[str, Language], dict[str, Project]]:
    languages: dict[str, Language] = {}
    projects: list[Project] = []
    for line in wikis.LANGUAGES.splitlines():
        code, name, own, families, *called = line.split("|")
        direction = "rtl" if own.startswith("<") else "ltr"
        languages[code] = Language(code, name, own.removeprefix("<") or name, direction)
        local = {letter: text for letter, _, text in (entry.partition(" ") for entry in called)}
        for letter in families:
            family, usual = wikis.FAMILIES[letter]
            projects.append(_project(code, family, local.get(letter, usual)))
    return languages, {project.identifier: project for project in projects}


#: In the order of the lists.
LANGUAGES, PROJECTS = _read()


def project(identifier: str) -> Project:
    """The project of that database name.

    Raises:
        ValueError: The sandbox does not know it; the message names those that are spelt alike.
    """
    if identifier not in PROJECTS:
        raise ValueError(f"The sandbox knows no project {identifier!r}; {nearest(identifier, list(PROJECTS))}")
    return PROJECTS[identifier]


def nearest(wanted: str, known: Sequence[str]) -> str:
    """The names nearest to one that is not known, as the end of a sentence."""
    found = get_close_matches(wanted, known, n=3, cutoff=0.5)
    return f"did you mean {' or '.join(found)}?" if found else f"there are {', '.join(known[:8])} and so on."


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
