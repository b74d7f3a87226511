"""Wikidata tables for changes, current state and snapshots, and tables derived from entity parts.

Record fields come from the service's 2026 interface description (`wikidata_article`, `entity`, statements).
docs/decisions/0031 records the choices for underspecified fields. Maps and statements are stored as in the record.
"""

from dataclasses import replace

import pyarrow as pa

from resources.tables.articles import ARTICLE_CHANGES
from resources.tables.declaration import (
    BATCH_HOUR,
    DOUBLE,
    INT,
    NAMESPACE_ID,
    PROJECT_ID,
    SNAPSHOT_VERSION,
    SOURCE_AT,
    TEXT,
    TIMESTAMP,
    Column,
    Macro,
    Table,
    required,
)

_ENTITY_ID = required("entity_id", TEXT, "Identifier of the item (Q42) or property (P31).")


def _of_article(*names: str) -> tuple[Column, ...]:
    """Return columns that entity records share with article records."""
    return tuple(ARTICLE_CHANGES[name] for name in names)


_BODIES = tuple(
    Column(
        f"{name}_json", TEXT, f"{name.title()}, as an object that maps {parts}.", f"entity.{name}", json=True, body=True
    )
    for name, parts in {
        "labels": "each language to a string, exactly as served",
        "descriptions": "each language to a string, exactly as served",
        "aliases": "each language to a list of strings, exactly as served",
        "sitelinks": "each project to title, badges and URL, exactly as served",
        "statements": "each property to a list of statements, exactly as served",
    }.items()
)
_COLUMNS = (
    BATCH_HOUR,
    replace(PROJECT_ID, path="is_part_of.identifier"),
    replace(
        NAMESPACE_ID, path="namespace.identifier", description="Namespace, which is 0 for items and 120 for properties."
    ),
    replace(_ENTITY_ID, path="name", lookup=True),
    Column("page_id", INT, "Page ID of the entity.", "identifier"),
    Column("version_id", INT, "Revision ID, if the record contains one.", "version.identifier"),
    *_of_article("change_type", "event_at", "event_id", "event_created_at", "event_published_at", "event_partition"),
    *_of_article("event_offset", "event_fail_count", "event_fail_reason"),
    *_of_article("modified_at", "created_at", "previously_modified_at"),
    Column("url", TEXT, "URL of the entity's page.", "url"),
    Column("entity_type", TEXT, "Entity type (item or property), or null for a delete.", "entity.type"),
    Column("data_type", TEXT, "Data type of the property's values, if the record states the type.", "entity.data_type"),
    Column("inner_entity_id", TEXT, "Identifier inside `entity`, which equals entity_id.", "entity.identifier"),
    *_of_article("project_url", "protection", "redirects", "license"),
    *_of_article("visibility_text", "visibility_editor", "visibility_user", "visibility_comment", "extra"),
    *_BODIES,
)
ENTITY_CHANGES = Table(
    "entity_changes",
    "Every change to a Wikidata item or property, by hour, as published by the service. Hourly files overlap, and two "
    "files can contain the same event, so count events by event_at.",
    _COLUMNS,
    key=("batch_hour", "entity_id", "change_type", "event_at"),
)
SNAPSHOT_ENTITIES = Table(
    "snapshot_entities",
    "Items and properties in the stored Wikidata snapshots. A snapshot can have several versions; `snapshots` shows "
    "the newest version.",
    (*SNAPSHOT_VERSION, *_COLUMNS[1:]),
    key=("snapshot_id", "snapshot_version", "entity_id"),
)
ENTITIES = Table(
    "entities",
    "Current Wikidata items and properties. Each entity has one row, from the change or snapshot with its newest "
    "state. Labels, statements and other parts are in separate tables.",
    (SOURCE_AT, *(column for column in _COLUMNS[1:] if not column.body)),
    key=("project_id", "entity_id"),
)
ENTITY_BODIES = Table(
    "entity_bodies",
    "Labels, descriptions, aliases, sitelinks and statements from every stored update and snapshot, as served. Join "
    "`entities` on project_id, entity_id, event_at and source_at.",
    (*(ENTITY_CHANGES[name] for name in ("project_id", "namespace_id", "entity_id", "event_at")), SOURCE_AT, *_BODIES),
    key=("project_id", "entity_id", "event_at", "source_at"),
)
_LANGUAGE_ID = required("language_id", TEXT, "Language code, for example en or zh-hant.")
ENTITY_STATEMENTS = Table(
    "entity_statements",
    "Statements about the current entities, with one row per statement. Parts without a separate column are in "
    "statement_json.",
    (
        _ENTITY_ID,
        required("property_id", TEXT, "Property of the statement, for example P569."),
        required("position", INT, "Position among the statements with this property, starting at 1."),
        Column("statement_id", TEXT, "Identifier of the statement."),
        Column(
            "rank",
            TEXT,
            "Rank: preferred, normal or deprecated. `best_statements` contains preferred statements if any exist, "
            "otherwise normal statements.",
        ),
        Column(
            "value_type",
            TEXT,
            "Kind of value: value, somevalue (a value exists but is unknown) or novalue (no value exists).",
        ),
        Column("data_type", TEXT, "Data type of the property's values, for example wikibase-item, time or quantity."),
        Column(
            "value",
            TEXT,
            "Value as text, for example an item's identifier, a string, a time, an amount or coordinates.",
        ),
        Column("number", DOUBLE, "Amount of a quantity."),
        Column("unit_id", TEXT, "Item that represents the unit of number, or null if number has no unit."),
        Column(
            "time",
            TEXT,
            "Time in Wikidata's format, with a sign, a year of any length, and 00 for an unknown month or day.",
        ),
        Column(
            "time_precision",
            INT,
            "Time precision: 11 (day), 10 (month), 9 (year), 8 (decade), 7 (century), or lower for longer periods.",
        ),
        Column("time_at", TIMESTAMP, "Start of the period in `time`, for the years 1 to 9999."),
        Column("latitude", DOUBLE, "Degrees north."),
        Column("longitude", DOUBLE, "Degrees east."),
        Column("language_id", TEXT, "Language of a monolingual text value."),
        Column("qualifiers_json", TEXT, "Qualifiers, as a JSON list of objects, each with a property and a value."),
        Column(
            "references_json",
            TEXT,
            "References, as a JSON list. Each reference has parts, each with a property and a value.",
        ),
        required("statement_json", TEXT, "Complete statement, as served."),
    ),
    key=("entity_id", "property_id", "position"),
)
#: Tables derived from the current entities' bodies.
ENTITY_VIEWS = (
    Table(
        "entity_labels",
        "Labels of the current entities.",
        (_ENTITY_ID, _LANGUAGE_ID, required("label", TEXT, "Label in this language.")),
        key=("entity_id", "language_id"),
    ),
    Table(
        "entity_descriptions",
        "Descriptions of the current entities.",
        (_ENTITY_ID, _LANGUAGE_ID, required("description", TEXT, "Description in this language.")),
        key=("entity_id", "language_id"),
    ),
    Table(
        "entity_aliases",
        "Aliases of the current entities, with one row per alias.",
        (
            _ENTITY_ID,
            _LANGUAGE_ID,
            required("position", INT, "Position among the aliases in this language, starting at 1."),
            required("alias", TEXT, "Alias in this language."),
        ),
        key=("entity_id", "language_id", "position"),
    ),
    Table(
        "entity_sitelinks",
        "Sitelinks of the current items, which link to the items' pages in other projects.",
        (
            _ENTITY_ID,
            required("project_id", TEXT, "Project (the wiki's database name), for example enwiki."),
            Column("title", TEXT, "Title of the page."),
            Column("badges", pa.list_(TEXT), "Items that represent badges of the page, for example featured article."),
            Column("url", TEXT, "URL of the page."),
        ),
        key=("entity_id", "project_id"),
    ),
    ENTITY_STATEMENTS,
    Table(
        "best_statements",
        "Best-ranked statements about the current entities. For each entity and property, these are the preferred "
        "statements if any exist, otherwise the normal statements. Deprecated statements are never included.",
        ENTITY_STATEMENTS.columns,
        key=ENTITY_STATEMENTS.key,
    ),
)
ENTITIES_AT = Macro(
    "entities_at",
    ("moment",),
    "Entities as they were at the given time, from all earlier changes and snapshots. Join `entity_bodies` for labels "
    "and statements.",
)
