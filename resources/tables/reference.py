"""Lists published by the service: kinds of project, languages, projects, namespaces."""

from __future__ import annotations

from dataclasses import replace

from resources.tables.declaration import NAMESPACE_ID, PROJECT_ID, TEXT, Column, Table

_EXTRA = Column("extra", TEXT, "JSON object of all fields without a column.")
CODES = Table(
    "codes",
    "Kinds of project offered by the service.",
    (
        Column("code", TEXT, "Kind of project, for example wiki.", "identifier", required=True),
        Column("name", TEXT, "Name of the kind, for example Wikipedia.", "name"),
        Column("description", TEXT, "Description of the kind.", "description"),
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
        Column("alternate_name", TEXT, "Name of the language in that language.", "alternate_name"),
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
    "Namespaces offered by the service.",
    (
        replace(NAMESPACE_ID, path="identifier"),
        Column("name", TEXT, "Name.", "name"),
        Column("description", TEXT, "Description of its pages.", "description"),
        _EXTRA,
    ),
    key=("namespace_id",),
)
REFERENCE_TABLES = (CODES, LANGUAGES, PROJECTS, NAMESPACES)
