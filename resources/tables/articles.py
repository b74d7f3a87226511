"""Page tables for changes, current state, snapshots and lookups, with the path of each value in the record.

Record fields come from the service's data dictionary for articles, versions, events, editors and scores. Older fields
(2022 to 2024) were determined from recorded data.
"""

import enum
from dataclasses import replace

import pyarrow as pa

from resources.tables.declaration import (
    BATCH_HOUR,
    BATCH_HOUR_OR_NULL,
    BOOL,
    DOUBLE,
    INT,
    NAMESPACE_ID,
    PROJECT_ID,
    SNAPSHOT_VERSION,
    SOURCE_AT,
    TEXT,
    TIMESTAMP,
    Column,
    Table,
    required,
)


class ChangeType(enum.StrEnum):
    """Effect of an event on a page (the service's `event.type`)."""

    UPDATE = "update"
    DELETE = "delete"
    VISIBILITY_CHANGE = "visibility-change"


class Purpose(enum.StrEnum):
    """Reason for a page lookup."""

    WATCH = "watch"  # on the watch list
    REPAIR = "repair"  # uncertain because of a lost hour or a rejected record
    CHECK = "check"  # part of a sample


_NAMED_LINKS = pa.list_(pa.struct([("name", TEXT), ("url", TEXT)]))
_DELTA = pa.struct(
    {"increase": INT, "decrease": INT, "sum": INT, "proportional_increase": DOUBLE, "proportional_decrease": DOUBLE}
)


def _score(name: str, *descriptions: str) -> tuple[Column, ...]:
    """Return a score's columns: the prediction, its probability, and the probability of the opposite."""
    columns = ("prediction", BOOL, ""), ("probability", DOUBLE, ".true"), ("probability_false", DOUBLE, ".false")
    return tuple(
        Column(f"{name}_{column}", kind, text, f"version.scores.{name}.{column.partition('_')[0]}{place}")
        for (column, kind, place), text in zip(columns, descriptions, strict=True)
    )


def _flags(path: str, texts: dict[str, str], prefix: str = "") -> tuple[Column, ...]:
    """Return columns for the booleans below a record's path, with their descriptions in `texts`."""
    return tuple(Column(f"{prefix}{name}", BOOL, text, f"{path}.{name}") for name, text in texts.items())


_COLUMNS = (
    BATCH_HOUR,
    replace(PROJECT_ID, path="is_part_of.identifier"),
    replace(NAMESPACE_ID, path="namespace.identifier"),
    required("article_id", INT, "Page ID, unique within its project.", "identifier", lookup=True),
    required("version_id", INT, "Revision ID, which increases within its project.", "version.identifier"),
    required("name", TEXT, "Title. In comparisons, underscores and spaces are equivalent.", "name", lookup=True),
    required(
        "change_type",
        TEXT,
        "Event type: update, delete or visibility-change. A record without an event is an update.",
        "event.type",
        default=ChangeType.UPDATE,
        values=tuple(ChangeType),
    ),
    required(
        "event_at",
        TIMESTAMP,
        "Time of the change, which orders a page's states. The value is the first of event_published_at, "
        "event_created_at and modified_at that is not null.",
        first_of=("event_published_at", "event_created_at", "modified_at"),
    ),
    Column(
        "event_id",
        TEXT,
        "Event UUID, shared by both rows of a page move. The event and the name together are unique.",
        "event.identifier",
    ),
    Column("event_created_at", TIMESTAMP, "Time when the change reached the service.", "event.date_created"),
    Column("event_published_at", TIMESTAMP, "Time when the service published the change.", "event.date_published"),
    Column("event_partition", INT, "Stream partition (0 to 49), for streamed records only.", "event.partition"),
    Column("event_offset", INT, "Offset in the stream partition, for streamed records only.", "event.offset"),
    Column("event_fail_count", INT, "Number of times the service failed to process the event.", "event.fail_count"),
    Column("event_fail_reason", TEXT, "Reason why the service failed to process the event.", "event.fail_reason"),
    Column("modified_at", TIMESTAMP, "Time when the revision was saved.", "date_modified"),
    Column("created_at", TIMESTAMP, "Time when the page's first revision was saved.", "date_created"),
    Column("previously_modified_at", TIMESTAMP, "Save time of the previous revision.", "date_previously_modified"),
    Column("url", TEXT, "URL of the page. The delete event of a page move contains the new URL.", "url"),
    Column("abstract", TEXT, "Lead section as plain text, for namespace 0 only.", "abstract"),
    Column("language_id", TEXT, "Language code of the project.", "in_language.identifier"),
    Column("language_name", TEXT, "English name of the language (old records).", "in_language.name"),
    Column("language_alternate_name", TEXT, "Native name of the language (old records).", "in_language.alternate_name"),
    Column("language_direction", TEXT, "Writing direction, ltr or rtl (old records).", "in_language.direction"),
    Column("project_url", TEXT, "URL of the project.", "is_part_of.url"),
    Column("project_name", TEXT, "Site name of the project (old records).", "is_part_of.name"),
    Column("project_alternate_name", TEXT, "Other name of the project (old records).", "is_part_of.alternate_name"),
    Column("project_code", TEXT, "Project type, for example wiki (old records).", "is_part_of.code"),
    Column("project_version", TEXT, "Version of the project's export (old records).", "is_part_of.version"),
    Column("project_language_id", TEXT, "Project's language code (old records).", "is_part_of.in_language.identifier"),
    Column("project_language_name", TEXT, "Project's language, in words (old records).", "is_part_of.in_language.name"),
    Column(
        "project_size",
        DOUBLE,
        "Size of the project's export, in units of project_size_unit (old records).",
        "is_part_of.size.value",
    ),
    Column("project_size_unit", TEXT, "Unit of project_size (old records).", "is_part_of.size.unit_text"),
    Column("namespace_name", TEXT, "Name of the namespace (old records).", "namespace.name"),
    Column("namespace_alternate_name", TEXT, "Local name of the namespace (old records).", "namespace.alternate_name"),
    Column("namespace_description", TEXT, "Description of the namespace (old records).", "namespace.description"),
    Column(
        "protection",
        pa.list_(pa.struct([("type", TEXT), ("level", TEXT), ("expiry", TEXT)])),
        "Page protections. The expiry is `infinity` or a date.",
        "protection",
    ),
    Column("version_comment", TEXT, "Edit summary.", "version.comment"),
    Column("version_tags", pa.list_(TEXT), "Change tags of the revision.", "version.tags"),
    *_flags(
        "version",
        {
            "is_minor_edit": "True if the edit is marked as minor; null means no.",
            "is_flagged_stable": "True if reviewers marked the revision as stable; null means no.",
            "has_tag_needs_citation": "True if the text is marked as needing a citation (old records).",
            "is_breaking_news": "True if the service classifies the page as breaking news.",
        },
    ),
    Column("is_noindex", BOOL, "True if search engines must not index the page.", "version.noindex"),
    *_score(
        "revertrisk",
        "True if the edit is predicted to be reverted; null means no.",
        "Probability that the edit will be reverted.",
        "Probability that the edit will not be reverted.",
    ),
    *(
        Column(f"{name}_score", DOUBLE, text, f"version.scores.{name}.{path}")
        for name, path, text in (
            ("referencerisk", "reference_risk_score", "Fraction of the page's references that are deemed unreliable."),
            ("referenceneed", "reference_need_score", "Fraction of the page's sentences that need a reference."),
        )
    ),
    *_score(
        "damaging",
        "True if the edit is predicted to be damaging (until 2023).",
        "Probability that the edit is damaging (until 2023).",
        "Probability that the edit is not damaging (until 2023).",
    ),
    *_score(
        "goodfaith",
        "True if the edit is predicted to be in good faith (until 2023).",
        "Probability that the edit is in good faith (until 2023).",
        "Probability that the edit is in bad faith (until 2023).",
    ),
    Column("editor_id", INT, "User ID of the editor, or null for an anonymous editor.", "version.editor.identifier"),
    Column("editor_name", TEXT, "User name, or the IP address of an anonymous editor.", "version.editor.name"),
    Column("editor_edit_count", INT, "The editor's edit count at the time of the change.", "version.editor.edit_count"),
    Column("editor_groups", pa.list_(TEXT), "User groups of the editor.", "version.editor.groups"),
    *_flags(
        "version.editor",
        {
            "is_bot": "True if the editor is a bot; null means no.",
            "is_anonymous": "True if the editor has no account; null means no.",
            "is_admin": "True if the editor is an administrator; null means no.",
            "is_patroller": "True if the editor is a patroller; null means no.",
            "has_advanced_rights": "True if the editor has advanced rights; null means no.",
        },
        prefix="editor_",
    ),
    Column("editor_started_at", TIMESTAMP, "Time when the editor registered.", "version.editor.date_started"),
    Column("character_count", INT, "Number of characters in the wikitext.", "version.number_of_characters"),
    Column("size_bytes", INT, "Size of the wikitext in bytes.", "version.size.value", wire=DOUBLE),
    Column("size_unit", TEXT, "Unit of size_bytes, as sent by the service (B).", "version.size.unit_text"),
    *(
        Column(
            f"{name}_count",
            INT,
            f"Number of maintenance tags in the text: {tag}.",
            f"version.maintenance_tags.{name}_count",
        )
        for name, tag in {
            "citation_needed": "citation needed",
            "pov": "point of view",
            "clarification_needed": "clarification needed",
            "update": "needs an update",
        }.items()
    ),
    Column(
        "version_diff",
        pa.struct(
            [("longest_new_repeated_character", INT)]
            + [
                (f"{kind}_words", _DELTA)
                for kind in ("dictionary", "non_dictionary", "non_safe", "informal", "uppercase")
            ]
        ),
        "Differences in word counts from the previous revision (not currently sent).",
        "version.diff",
    ),
    Column(
        "version_event",
        pa.struct([("identifier", TEXT), ("type", TEXT), ("date_created", TIMESTAMP), ("date_published", TIMESTAMP)]),
        "Event for the revision itself (not currently sent).",
        "version.event",
    ),
    Column("previous_version_id", INT, "ID of the previous revision.", "previous_version.identifier"),
    Column(
        "previous_character_count",
        INT,
        "Number of characters in the previous revision.",
        "previous_version.number_of_characters",
    ),
    Column("watchers_count", INT, "Number of users who watch the page, or null if hidden.", "watchers_count"),
    Column("main_entity_id", TEXT, "Wikidata item of the page.", "main_entity.identifier"),
    Column("main_entity_url", TEXT, "URL of main_entity_id.", "main_entity.url"),
    Column("main_entity_aspects", pa.list_(TEXT), "Aspects of the main entity (old records).", "main_entity.aspects"),
    Column(
        "additional_entities",
        pa.list_(pa.struct([("identifier", TEXT), ("url", TEXT), ("aspects", pa.list_(TEXT))])),
        "Other Wikidata items used by the page, with the aspects used.",
        "additional_entities",
    ),
    Column("categories", _NAMED_LINKS, "Categories, with the local namespace prefix.", "categories"),
    Column("templates", _NAMED_LINKS, "Templates used by the page.", "templates"),
    Column("redirects", _NAMED_LINKS, "Titles that redirect to this page.", "redirects"),
    Column(
        "license",
        pa.list_(pa.struct([("name", TEXT), ("identifier", TEXT), ("url", TEXT)])),
        "Licences of the text. Attribution requires the project, title and revision.",
        "license",
    ),
    *_flags(
        "visibility",
        {
            "text": "True if the revision's text is visible (visibility-change events only).",
            "editor": "True if the revision's editor is visible (visibility-change events only).",
            "user": "Same as visibility_editor, under the name used in the service's interface description.",
            "comment": "True if the edit summary is visible (visibility-change events only).",
        },
        prefix="visibility_",
    ),
    Column("image_url", TEXT, "URL of the lead image.", "image.content_url"),
    Column("image_width", INT, "Width of the lead image in pixels.", "image.width"),
    Column("image_height", INT, "Height of the lead image in pixels.", "image.height"),
    Column("image_id", TEXT, "Digest of the lead image (2026).", "image.identifier"),
    Column("image_name", TEXT, "File name of the lead image (2026).", "image.name"),
    Column("image_alternative_text", TEXT, "Alternative text of the lead image.", "image.alternative_text"),
    Column("image_caption", TEXT, "Caption of the lead image.", "image.caption"),
    Column("image_encoding_format", TEXT, "MIME type of the lead image (2026).", "image.encoding_format"),
    Column("image_media_type", TEXT, "Media type of the lead image (2026).", "image.media_type"),
    Column(
        "image_thumbnail",
        pa.struct([("contentUrl", TEXT), ("content_url", TEXT), ("width", INT), ("height", INT)]),
        "Thumbnail of the lead image (2026).",
        "image.thumbnail",
    ),
    Column(
        "extra",
        TEXT,
        "JSON object with all fields that have no separate column (such as has_parts), under their original paths. "
        "Times without a time zone are read as UTC, and their original strings are also stored here.",
    ),
    Column("html", TEXT, "Parsoid HTML of the page.", "article_body.html", body=True),
    Column("wikitext", TEXT, "Wikitext of the page.", "article_body.wikitext", body=True),
)

ARTICLE_CHANGES = Table(
    "article_changes",
    "Every change in the configured projects, by hour, as published by the service. Hourly files overlap, and two "
    "files can contain the same event, so count events by event_at. Older months are read from the lake.",
    _COLUMNS,
    key=("batch_hour", "event_id", "name"),
)
VISIBILITY_CHANGES = replace(
    ARTICLE_CHANGES.narrow,
    name="visibility_changes",
    description="Visibility changes in loaded hours. The rows come from the realtime stream, because hourly files omit "
    "them. `article_changes` also contains these changes.",
)
ARTICLES = Table(
    "articles",
    "Current pages. Each page has one row, from the change, snapshot or lookup that determines its state.",
    (SOURCE_AT, *(column for column in _COLUMNS[1:] if not column.body)),
    key=("project_id", "article_id"),
)
SNAPSHOT_ARTICLES = Table(
    "snapshot_articles",
    "Pages in the stored snapshots. A snapshot can have several versions; `snapshots` shows the newest version.",
    (*SNAPSHOT_VERSION, *_COLUMNS[1:]),
    key=("snapshot_id", "snapshot_version", "article_id", "version_id"),
)
LOOKUPS = Table(
    "lookups",
    "The service's responses to page lookups: watched pages (watch), pages that are uncertain because of a lost hour "
    "or a rejected record (repair), and samples (check). Repair and check responses also affect `articles`.",
    (
        SOURCE_AT,
        required("asked_name", TEXT, "Requested title.", "lookup.name"),
        required("looked_up_at", TIMESTAMP, "Time of the request.", "lookup.at"),
        required("purpose", TEXT, "Purpose: " + ", ".join(Purpose) + ".", "lookup.purpose", values=tuple(Purpose)),
        required(
            "is_found",
            BOOL,
            "True if a page with exactly the requested title exists. If false, all record columns are null.",
            "lookup.is_found",
        ),
        *_COLUMNS[1:3],
        *(
            replace(
                column,
                name="event_type",
                default=None,
                values=(),
                required=False,
                description="Type of the page's last event.",
            )
            if column.name == "change_type"
            else replace(column, required=False, lookup=False)
            for column in _COLUMNS[3:]
        ),
    ),
    key=("project_id", "asked_name", "looked_up_at"),
)
ARTICLE_BODIES = Table(
    "article_bodies",
    "HTML and wikitext for every stored change and snapshot. Join `articles` on project_id, article_id, version_id and "
    "source_at.",
    (
        *(ARTICLE_CHANGES[name] for name in ("project_id", "article_id", "version_id")),
        SOURCE_AT,
        BATCH_HOUR_OR_NULL,
        *(ARTICLE_CHANGES[name] for name in ("html", "wikitext")),
    ),
    key=("project_id", "article_id", "version_id", "source_at"),
)
REDIRECTS = Table(
    "redirects",
    "Redirect titles and their target articles, from the current articles.",
    (
        PROJECT_ID,
        required("redirect_name", TEXT, "Title that redirects."),
        Column("redirect_url", TEXT, "URL of the redirect."),
        required("article_id", INT, "Page ID of the target article."),
        required("name", TEXT, "Title of the target article."),
    ),
)
