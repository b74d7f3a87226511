"""Lists published by the service: project types, languages, projects and namespaces."""

from dataclasses import replace

from resources.tables.declaration import NAMESPACE_ID, PROJECT_ID, TEXT, Column, Table, required

_EXTRA = Column("extra", TEXT, "JSON object with all fields that have no separate column.")
CODES = Table(
    "codes",
    "Project types offered by the service.",
    (
        required("code", TEXT, "Project type, for example wiki.", "identifier"),
        Column("name", TEXT, "Name of the project type, for example Wikipedia.", "name"),
        Column("description", TEXT, "Description of the project type.", "description"),
        _EXTRA,
    ),
    key=("code",),
)
LANGUAGES = Table(
    "languages",
    "Languages of the projects.",
    (
        required("language_id", TEXT, "MediaWiki language code.", "identifier"),
        Column("name", TEXT, "English name.", "name"),
        Column("alternate_name", TEXT, "Native name of the language.", "alternate_name"),
        Column("direction", TEXT, "Writing direction, ltr or rtl.", "direction"),
        _EXTRA,
    ),
    key=("language_id",),
)
PROJECTS = Table(
    "projects",
    "Projects offered by the service.",
    (
        replace(PROJECT_ID, path="identifier"),
        Column("name", TEXT, "Site name in the project's language.", "name"),
        Column("code", TEXT, "Project type.", "code"),
        Column("language_id", TEXT, "Language code.", "in_language.identifier"),
        Column("url", TEXT, "URL of the project.", "url"),
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
        Column("description", TEXT, "Description of the namespace's pages.", "description"),
        _EXTRA,
    ),
    key=("namespace_id",),
)
REFERENCE_TABLES = (CODES, LANGUAGES, PROJECTS, NAMESPACES)
