"""Tables of Wikidata: changes, current state and snapshots, and tables derived from the parts of entities.

Source of the record's fields: the service's interface description of 2026 (`wikidata_article`, `entity`, statements).
docs/decisions/0031 records the choices for underspecified fields. Maps and statements are stored as in the record.
"""

from __future__ import annotations

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
)

_ENTITY_ID = Column("entity_id", TEXT, "Identifier of the item (Q42) or property (P31).", required=True)
_AS_SERVED = "JSON text exactly as served"


def _of_article(*names: str) -> tuple[Column, ...]:
    """Return columns that the record of an entity shares with that of an article."""
    return tuple(ARTICLE_CHANGES[name] for name in names)


_BODIES = tuple(
    Column(f"{name}_json", TEXT, f"{name.title()}, an object from {parts}.", f"entity.{name}", json=True, body=True)
    for name, parts in {
        "labels": f"language to text; {_AS_SERVED}",
        "descriptions": f"language to text; {_AS_SERVED}",
        "aliases": f"language to a list of texts; {_AS_SERVED}",
        "sitelinks": f"project to title, badges and address; {_AS_SERVED}",
        "statements": f"property to a list of them; {_AS_SERVED}",
    }.items()
)
_COLUMNS = (
    BATCH_HOUR,
    replace(PROJECT_ID, path="is_part_of.identifier"),
    replace(NAMESPACE_ID, path="namespace.identifier", description="Namespace: 0 for items, 120 for properties."),
    replace(_ENTITY_ID, path="name", lookup=True),
    Column("page_id", INT, "Page id of the entity.", "identifier"),
    Column("version_id", INT, "Revision id, if the record names one.", "version.identifier"),
    *_of_article("change_type", "event_at", "event_id", "event_created_at", "event_published_at", "event_partition"),
    *_of_article("event_offset", "event_fail_count", "event_fail_reason"),
    *_of_article("modified_at", "created_at", "previously_modified_at"),
    Column("url", TEXT, "Address of the entity's page.", "url"),
    Column("entity_type", TEXT, "item or property; null for a delete.", "entity.type"),
    Column("data_type", TEXT, "Kind of the property's values, if the record states it.", "entity.data_type"),
    Column("inner_entity_id", TEXT, "The identifier inside `entity`, the same as entity_id.", "entity.identifier"),
    *_of_article("project_url", "protection", "redirects", "license"),
    *_of_article("visibility_text", "visibility_editor", "visibility_user", "visibility_comment", "extra"),
    *_BODIES,
)
ENTITY_CHANGES = Table(
    "entity_changes",
    "Every change of an item or property of Wikidata, hour by hour, as published by the service. Hourly files "
    "overlap: the same event can be in two of them, so count events by event_at.",
    _COLUMNS,
    key=("batch_hour", "entity_id", "change_type", "event_at"),
)
SNAPSHOT_ENTITIES = Table(
    "snapshot_entities",
    "Items and properties in the stored snapshots of Wikidata. A snapshot can have several versions; `snapshots` "
    "shows which is newest.",
    (*SNAPSHOT_VERSION, *_COLUMNS[1:]),
    key=("snapshot_id", "snapshot_version", "entity_id"),
)
ENTITIES = Table(
    "entities",
    "Items and properties of Wikidata as they are now: one row each, from the change or snapshot with its newest "
    "state. Labels, statements and other parts are in separate tables.",
    (SOURCE_AT, *(column for column in _COLUMNS[1:] if not column.body)),
    key=("project_id", "entity_id"),
)
ENTITY_BODIES = Table(
    "entity_bodies",
    "Labels, descriptions, aliases, sitelinks and statements of every stored update and snapshot, as served; join "
    "`entities` on project_id, entity_id, event_at and source_at.",
    (*(ENTITY_CHANGES[name] for name in ("project_id", "namespace_id", "entity_id", "event_at")), SOURCE_AT, *_BODIES),
    key=("project_id", "entity_id", "event_at", "source_at"),
)
_LANGUAGE_ID = Column("language_id", TEXT, "Language code, for example en or zh-hant.", required=True)
ENTITY_LABELS = Table(
    "entity_labels",
    "The labels of the current entities.",
    (_ENTITY_ID, _LANGUAGE_ID, Column("label", TEXT, "Label in this language.", required=True)),
    key=("entity_id", "language_id"),
)
ENTITY_DESCRIPTIONS = Table(
    "entity_descriptions",
    "The descriptions of the current entities.",
    (_ENTITY_ID, _LANGUAGE_ID, Column("description", TEXT, "Description in this language.", required=True)),
    key=("entity_id", "language_id"),
)
ENTITY_ALIASES = Table(
    "entity_aliases",
    "The aliases of the current entities, one row each.",
    (
        _ENTITY_ID,
        _LANGUAGE_ID,
        Column("position", INT, "Place among the aliases of the language, from 1.", required=True),
        Column("alias", TEXT, "Alias in this language.", required=True),
    ),
    key=("entity_id", "language_id", "position"),
)
ENTITY_SITELINKS = Table(
    "entity_sitelinks",
    "The sitelinks of the current items: their pages in the projects.",
    (
        _ENTITY_ID,
        Column("project_id", TEXT, "Project (database name of the wiki), for example enwiki.", required=True),
        Column("title", TEXT, "Title of the page."),
        Column("badges", pa.list_(TEXT), "Items that mark the page, for example as a featured article."),
        Column("url", TEXT, "Address of the page."),
    ),
    key=("entity_id", "project_id"),
)
ENTITY_STATEMENTS = Table(
    "entity_statements",
    "The statements about the current entities, one row each. Parts without a column are in statement_json.",
    (
        _ENTITY_ID,
        Column("property_id", TEXT, "Property of the statement, for example P569.", required=True),
        Column("position", INT, "Place among the statements with this property, from 1.", required=True),
        Column("statement_id", TEXT, "Identifier of the statement."),
        Column(
            "rank",
            TEXT,
            "preferred, normal or deprecated. `best_statements` has the preferred ones if there are any, else the "
            "normal ones.",
        ),
        Column("value_type", TEXT, "value; somevalue: there is one, but it is unknown; novalue: there is none."),
        Column("data_type", TEXT, "Kind of the property's values, for example wikibase-item, time or quantity."),
        Column("value", TEXT, "The value as text: an item's identifier, a text, a time, an amount, coordinates."),
        Column("number", DOUBLE, "Amount of a quantity."),
        Column("unit_id", TEXT, "Item that is the unit of number; null if it has none."),
        Column(
            "time",
            TEXT,
            "Time as in Wikidata: a sign, any number of digits of the year, 00 for an unknown month or day.",
        ),
        Column("time_precision", INT, "11 day, 10 month, 9 year, 8 decade, 7 century; less for longer periods."),
        Column("time_at", TIMESTAMP, "Start of `time`, for the years 1 to 9999."),
        Column("latitude", DOUBLE, "Degrees north."),
        Column("longitude", DOUBLE, "Degrees east."),
        Column("language_id", TEXT, "Language of a monolingual text."),
        Column("qualifiers_json", TEXT, "Qualifiers; a JSON list of property and value."),
        Column("references_json", TEXT, "References; a JSON list, each of parts with property and value."),
        Column("statement_json", TEXT, "The complete statement, as served.", required=True),
    ),
    key=("entity_id", "property_id", "position"),
)
BEST_STATEMENTS = Table(
    "best_statements",
    "The best-ranked statements about the current entities: for each entity and property the preferred ones if "
    "there are any, else the normal ones, never deprecated ones.",
    ENTITY_STATEMENTS.columns,
    key=ENTITY_STATEMENTS.key,
)
#: Tables derived from the bodies of the current entities.
ENTITY_VIEWS = (
    ENTITY_LABELS,
    ENTITY_DESCRIPTIONS,
    ENTITY_ALIASES,
    ENTITY_SITELINKS,
    ENTITY_STATEMENTS,
    BEST_STATEMENTS,
)
ENTITIES_AT = Macro(
    "entities_at",
    ("moment",),
    "Entities as they were at a moment, from the changes and snapshots before it. Join `entity_bodies` for labels "
    "and statements.",
)
