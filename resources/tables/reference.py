"""The service's own lists: kinds of project, languages, projects, namespaces."""

from __future__ import annotations

from dataclasses import replace

from resources.tables.declaration import NAMESPACE_ID, PROJECT_ID, TEXT, Column, Table

_EXTRA = Column("extra", TEXT, "JSON object of every field that this declaration does not know.")
CODES = Table(
    "codes",
    "Kinds of project the service offers.",
    (
        Column("code", TEXT, "Kind of project, for example wiki.", "identifier", required=True),
        Column("name", TEXT, "Name of the kind, for example Wikipedia.", "name"),
        Column("description", TEXT, "What it is.", "description"),
        _EXTRA,
    ),
    key=("code",),
)
LANGUAGES = Table(
    "languages",
    "Languages of the projects.",
    (
        Column("language_id", TEXT, "MediaWiki language code.", "identifier", required=True),
        Column("name", TEXT, "English name.", "name"),
        Column("alternate_name", TEXT, "The language's own name.", "alternate_name"),
        Column("direction", TEXT, "Writing direction, ltr or rtl.", "direction"),
        _EXTRA,
    ),
    key=("language_id",),
)
PROJECTS = Table(
    "projects",
    "Projects of the service.",
    (
        replace(PROJECT_ID, path="identifier"),
        Column("name", TEXT, "Site name in its language.", "name"),
        Column("code", TEXT, "Kind of project.", "code"),
        Column("language_id", TEXT, "Language code.", "in_language.identifier"),
        Column("url", TEXT, "Address of the project.", "url"),
        _EXTRA,
    ),
    key=("project_id",),
)
NAMESPACES = Table(
    "namespaces",
    "Namespaces the service offers.",
    (
        replace(NAMESPACE_ID, path="identifier"),
        Column("name", TEXT, "Name.", "name"),
        Column("description", TEXT, "What it holds.", "description"),
        _EXTRA,
    ),
    key=("namespace_id",),
)
REFERENCE_TABLES = (CODES, LANGUAGES, PROJECTS, NAMESPACES)
