"""Reference lists of codes, languages, projects and namespaces in the service's wire format.

The lists contain facts about wikis (`data/reference.yaml`, `data/wikis.txt`) and do not depend on a seed.

Source: the service's documentation of `/v2/codes`, `/v2/languages`, `/v2/projects` and `/v2/namespaces`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from typing import Any

from resources.sandbox.files import DATA, read_yaml


@dataclass(frozen=True)
class Project:
    identifier: str  # database name, for example `frwiki`
    name: str  # site name in the local language
    code: str  # kind of wiki, for example `wiki` or `wiktionary`
    language: str  # language code
    url: str  # URL without a trailing slash
    prefixes: dict[int, str]  # local names of the namespaces that have a prefix

    @property
    def record(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "identifier": self.identifier,
            "url": self.url,
            "code": self.code,
            "in_language": {"identifier": self.language},
        }


@dataclass(frozen=True)
class Language:
    """Language with its code, English name, native name and writing direction (`ltr` or `rtl`)."""

    identifier: str
    name: str
    alternate_name: str
    direction: str


#: Parts of host names that differ from the project family code or language code.
_DOMAINS = {"wiki": "wikipedia"}
_HOSTS = {"be-x-old": "be-tarask"}
_PREFIXED = (2, 6, 10, 14)
_TABLES = read_yaml("reference.yaml")


def _project(language: str, code: str, name: str) -> Project:
    prefixes = _TABLES["prefixes"].get(language, _TABLES["prefixes"][""])
    return Project(
        identifier=f"{language.replace('-', '_')}{code}",
        name=name,
        code=code,
        language=language,
        url=f"https://{_HOSTS.get(language, language)}.{_DOMAINS.get(code, code)}.org",
        prefixes=dict(zip(_PREFIXED, prefixes, strict=True)),
    )


def _read() -> tuple[dict[str, Language], dict[str, Project]]:
    languages: dict[str, Language] = {}
    projects: list[Project] = []
    families = {code["letter"]: code for code in _TABLES["codes"]}
    for line in (DATA / "wikis.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        code, name, own, letters, *called = line.split("|")
        direction = "rtl" if own.startswith("<") else "ltr"
        languages[code] = Language(code, name, own.removeprefix("<") or name, direction)
        local = {letter: text for letter, _, text in (entry.partition(" ") for entry in called)}
        for letter in letters:
            family = families[letter]
            projects.append(_project(code, family["identifier"], local.get(letter, family["name"])))
    return languages, {project.identifier: project for project in projects}


#: Languages and projects by code, in the service's order.
LANGUAGES, PROJECTS = _read()
#: Numbers of the namespaces that the service supports.
NAMESPACES: tuple[int, ...] = tuple(one["identifier"] for one in _TABLES["namespaces"])


def project(identifier: str) -> Project:
    """Return the project with this database name. An unknown name raises ValueError."""
    if identifier not in PROJECTS:
        raise ValueError(f"The sandbox has no project {identifier!r}; {nearest(identifier, list(PROJECTS))}")
    return PROJECTS[identifier]


def nearest(wanted: str, known: Sequence[str]) -> str:
    """Return an ending for an error message that suggests similar known names."""
    found = get_close_matches(wanted, known, n=3, cutoff=0.5)
    return f"did you mean {' or '.join(found)}?" if found else f"valid names include {', '.join(known[:8])}."


def codes() -> list[dict[str, Any]]:
    return [{key: code[key] for key in ("identifier", "name", "description")} for code in _TABLES["codes"]]


def languages() -> list[dict[str, Any]]:
    return [asdict(language) for language in LANGUAGES.values()]


def projects() -> list[dict[str, Any]]:
    return [known.record for known in PROJECTS.values()]


def namespaces() -> list[dict[str, Any]]:
    return [{key: one[key] for key in ("name", "identifier", "description")} for one in _TABLES["namespaces"]]
