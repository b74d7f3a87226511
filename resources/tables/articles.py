"""Tables of pages: changes, current state, snapshots and lookups, with the path of each value in the record.

Sources of the record's fields: the service's data dictionary for articles, versions, events, editors and scores;
recorded data for the older forms (2022 to 2024).
"""

from __future__ import annotations

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
)


class ChangeType(enum.StrEnum):
    """Effect of an event on a page (`event.type` of the service)."""

    UPDATE = "update"
    DELETE = "delete"
    VISIBILITY_CHANGE = "visibility-change"


class Purpose(enum.StrEnum):
    """Reason for the lookup of a page."""

    WATCH = "watch"  # on the watch list
    REPAIR = "repair"  # uncertain because of a lost hour or a rejected record
    CHECK = "check"  # part of a sample


_NAMED_LINKS = pa.list_(pa.struct([("name", TEXT), ("url", TEXT)]))
_DELTA = pa.struct(
    {"increase": INT, "decrease": INT, "sum": INT, "proportional_increase": DOUBLE, "proportional_decrease": DOUBLE}
)


def _score(name: str, *descriptions: str) -> tuple[Column, ...]:
    """Return the columns of a score: the prediction, its probability, and the probability of the opposite."""
    columns = ("prediction", BOOL, ""), ("probability", DOUBLE, ".true"), ("probability_false", DOUBLE, ".false")
    return tuple(
        Column(f"{name}_{column}", kind, text, f"version.scores.{name}.{column.partition('_')[0]}{place}")
        for (column, kind, place), text in zip(columns, descriptions, strict=True)
    )


_COLUMNS = (
    BATCH_HOUR,
    replace(PROJECT_ID, path="is_part_of.identifier"),
    replace(NAMESPACE_ID, path="namespace.identifier"),
    Column("article_id", INT, "Page id, unique in its project.", "identifier", required=True, lookup=True),
    Column("version_id", INT, "Revision id; increases within its project.", "version.identifier", required=True),
    Column("name", TEXT, "Title; titles compare with _ as space.", "name", required=True, lookup=True),
    Column(
        "change_type",
        TEXT,
        "Kind of event: update, delete or visibility-change. A record without an event is an update.",
        "event.type",
        required=True,
        default=ChangeType.UPDATE,
        values=tuple(ChangeType),
    ),
    Column(
        "event_at",
        TIMESTAMP,
        "Time of the change: event_published_at, else event_created_at, else modified_at. Orders the states of a page.",
        required=True,
        first_of=("event_published_at", "event_created_at", "modified_at"),
    ),
    Column(
        "event_id",
        TEXT,
        "Event (UUID). Both halves of a move share it; with the name it is unique.",
        "event.identifier",
    ),
    Column("event_created_at", TIMESTAMP, "Time when the change reached the service.", "event.date_created"),
    Column("event_published_at", TIMESTAMP, "Time when the service published the change.", "event.date_published"),
    Column("event_partition", INT, "Partition of the stream (0 to 49); streamed records only.", "event.partition"),
    Column("event_offset", INT, "Offset in the stream's partition; streamed records only.", "event.offset"),
    Column("event_fail_count", INT, "Number of times the service failed to process the event.", "event.fail_count"),
    Column("event_fail_reason", TEXT, "Reason why the service failed to process the event.", "event.fail_reason"),
    Column("modified_at", TIMESTAMP, "Time when this revision was saved.", "date_modified"),
    Column("created_at", TIMESTAMP, "Time when the page's first revision was saved.", "date_created"),
    Column(
        "previously_modified_at", TIMESTAMP, "Time when the previous revision was saved.", "date_previously_modified"
    ),
    Column("url", TEXT, "Address of the page. In the delete of a move, the new address.", "url"),
    Column("abstract", TEXT, "Lead section as plain text; namespace 0 only.", "abstract"),
    Column("language_id", TEXT, "Language code of the project.", "in_language.identifier"),
    Column("language_name", TEXT, "English name of the language (old records).", "in_language.name"),
    Column(
        "language_alternate_name",
        TEXT,
        "Name of the language in that language (old records).",
        "in_language.alternate_name",
    ),
    Column("language_direction", TEXT, "Writing direction, ltr or rtl (old records).", "in_language.direction"),
    Column("project_url", TEXT, "Address of the project.", "is_part_of.url"),
    Column("project_name", TEXT, "Site name of the project (old records).", "is_part_of.name"),
    Column("project_alternate_name", TEXT, "Other name of the project (old records).", "is_part_of.alternate_name"),
    Column("project_code", TEXT, "Kind of project, for example wiki (old records).", "is_part_of.code"),
    Column("project_version", TEXT, "Version of the project's export (old records).", "is_part_of.version"),
    Column(
        "project_language_id",
        TEXT,
        "Language code inside the project (old records).",
        "is_part_of.in_language.identifier",
    ),
    Column(
        "project_language_name", TEXT, "Language name inside the project (old records).", "is_part_of.in_language.name"
    ),
    Column(
        "project_size",
        DOUBLE,
        "Size of the project's export, in project_size_unit (old records).",
        "is_part_of.size.value",
    ),
    Column("project_size_unit", TEXT, "Unit of project_size (old records).", "is_part_of.size.unit_text"),
    Column("namespace_name", TEXT, "Name of the namespace (old records).", "namespace.name"),
    Column("namespace_alternate_name", TEXT, "Local name of the namespace (old records).", "namespace.alternate_name"),
    Column("namespace_description", TEXT, "Description of the namespace (old records).", "namespace.description"),
    Column(
        "protection",
        pa.list_(pa.struct([("type", TEXT), ("level", TEXT), ("expiry", TEXT)])),
        "Protections of the page; expiry is `infinity` or a date.",
        "protection",
    ),
    Column("version_comment", TEXT, "Edit summary.", "version.comment"),
    Column("version_tags", pa.list_(TEXT), "Change tags of the revision.", "version.tags"),
    Column("is_minor_edit", BOOL, "Marked as minor by its editor; null means no.", "version.is_minor_edit"),
    Column(
        "is_flagged_stable", BOOL, "Revision marked stable by reviewers; null means no.", "version.is_flagged_stable"
    ),
    Column("has_tag_needs_citation", BOOL, "Text asks for a citation (old records).", "version.has_tag_needs_citation"),
    Column("is_breaking_news", BOOL, "The service classifies the page as breaking news.", "version.is_breaking_news"),
    Column("is_noindex", BOOL, "Page asks search engines not to index it.", "version.noindex"),
    *_score(
        "revertrisk",
        "Predicted to be reverted; null means no.",
        "Probability that the edit is reverted.",
        "Probability that the edit stays.",
    ),
    *(
        Column(f"{name}_score", DOUBLE, text, f"version.scores.{name}.{path}")
        for name, path, text in (
            ("referencerisk", "reference_risk_score", "Share of the page's references that are considered doubtful."),
            ("referenceneed", "reference_need_score", "Share of the page's sentences that need a reference."),
        )
    ),
    *_score(
        "damaging",
        "Predicted to be damaging (until 2023).",
        "Probability of damage (until 2023).",
        "Probability of no damage (until 2023).",
    ),
    *_score(
        "goodfaith",
        "Predicted to be in good faith (until 2023).",
        "Probability of good faith (until 2023).",
        "Probability of bad faith (until 2023).",
    ),
    Column("editor_id", INT, "User id of the editor; null for anonymous editors.", "version.editor.identifier"),
    Column("editor_name", TEXT, "User name, or the address of an anonymous editor.", "version.editor.name"),
    Column("editor_edit_count", INT, "Number of edits by the editor so far.", "version.editor.edit_count"),
    Column("editor_groups", pa.list_(TEXT), "Groups of the editor.", "version.editor.groups"),
    Column("editor_is_bot", BOOL, "Editor is a bot; null means no.", "version.editor.is_bot"),
    Column("editor_is_anonymous", BOOL, "Editor has no account; null means no.", "version.editor.is_anonymous"),
    Column("editor_is_admin", BOOL, "Editor is an administrator; null means no.", "version.editor.is_admin"),
    Column("editor_is_patroller", BOOL, "Editor is a patroller; null means no.", "version.editor.is_patroller"),
    Column(
        "editor_has_advanced_rights",
        BOOL,
        "Editor has advanced rights; null means no.",
        "version.editor.has_advanced_rights",
    ),
    Column("editor_started_at", TIMESTAMP, "Time when the editor registered.", "version.editor.date_started"),
    Column("character_count", INT, "Number of characters of the wikitext.", "version.number_of_characters"),
    Column("size_bytes", INT, "Number of bytes of the wikitext.", "version.size.value", wire=DOUBLE),
    Column("size_unit", TEXT, "Unit of size_bytes as sent (B).", "version.size.unit_text"),
    *(
        Column(f"{name}_count", INT, f"Maintenance tags in the text: {tag}.", f"version.maintenance_tags.{name}_count")
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
        "Word counts compared with the previous revision (not sent today).",
        "version.diff",
    ),
    Column(
        "version_event",
        pa.struct([("identifier", TEXT), ("type", TEXT), ("date_created", TIMESTAMP), ("date_published", TIMESTAMP)]),
        "Event of the revision itself (not sent today).",
        "version.event",
    ),
    Column("previous_version_id", INT, "Previous revision.", "previous_version.identifier"),
    Column(
        "previous_character_count",
        INT,
        "Number of characters of the previous revision.",
        "previous_version.number_of_characters",
    ),
    Column("watchers_count", INT, "Number of users who watch the page; null if hidden.", "watchers_count"),
    Column("main_entity_id", TEXT, "Wikidata item of the page.", "main_entity.identifier"),
    Column("main_entity_url", TEXT, "Address of main_entity_id.", "main_entity.url"),
    Column("main_entity_aspects", pa.list_(TEXT), "Aspects of the main entity (old records).", "main_entity.aspects"),
    Column(
        "additional_entities",
        pa.list_(pa.struct([("identifier", TEXT), ("url", TEXT), ("aspects", pa.list_(TEXT))])),
        "Other Wikidata items used by the page, with the used aspects.",
        "additional_entities",
    ),
    Column("categories", _NAMED_LINKS, "Categories, with the local namespace prefix.", "categories"),
    Column("templates", _NAMED_LINKS, "Templates used by the page.", "templates"),
    Column("redirects", _NAMED_LINKS, "Titles that redirect to this page.", "redirects"),
    Column(
        "license",
        pa.list_(pa.struct([("name", TEXT), ("identifier", TEXT), ("url", TEXT)])),
        "Licences of the text. Keep the attribution: project, title, revision.",
        "license",
    ),
    Column("visibility_text", BOOL, "Text of the revision is visible (visibility-change only).", "visibility.text"),
    Column(
        "visibility_editor", BOOL, "Editor of the revision is visible (visibility-change only).", "visibility.editor"
    ),
    Column(
        "visibility_user",
        BOOL,
        "Same as visibility_editor, under the name in the interface description.",
        "visibility.user",
    ),
    Column("visibility_comment", BOOL, "Edit summary is visible (visibility-change only).", "visibility.comment"),
    Column("image_url", TEXT, "Lead image.", "image.content_url"),
    Column("image_width", INT, "Width of the lead image in pixels.", "image.width"),
    Column("image_height", INT, "Height of the lead image in pixels.", "image.height"),
    Column("image_id", TEXT, "Digest of the lead image (2026).", "image.identifier"),
    Column("image_name", TEXT, "File name of the lead image (2026).", "image.name"),
    Column("image_alternative_text", TEXT, "Alternative text of the lead image.", "image.alternative_text"),
    Column("image_caption", TEXT, "Caption of the lead image.", "image.caption"),
    Column("image_encoding_format", TEXT, "Media type of the lead image (2026).", "image.encoding_format"),
    Column("image_media_type", TEXT, "Kind of medium of the lead image (2026).", "image.media_type"),
    Column(
        "image_thumbnail",
        pa.struct([("contentUrl", TEXT), ("content_url", TEXT), ("width", INT), ("height", INT)]),
        "Thumbnail of the lead image (2026).",
        "image.thumbnail",
    ),
    Column(
        "extra",
        TEXT,
        "JSON object of all fields without a column (such as has_parts), under their own paths; also the original "
        "text of times without a zone, which are read as UTC.",
    ),
    Column("html", TEXT, "Parsoid HTML of the page.", "article_body.html", body=True),
    Column("wikitext", TEXT, "Wikitext of the page.", "article_body.wikitext", body=True),
)

ARTICLE_CHANGES = Table(
    "article_changes",
    "Every change of the configured projects, hour by hour, as published by the service. Hourly files overlap: "
    "the same event can be in two of them, so count events by event_at. Older months are read from the lake.",
    _COLUMNS,
    key=("batch_hour", "event_id", "name"),
)
VISIBILITY_CHANGES = Table(
    "visibility_changes",
    "Changes of visibility in loaded hours. Hourly files lack them; they come from the realtime stream. "
    "`article_changes` has them as well.",
    tuple(column for column in _COLUMNS if not column.body),
    key=("batch_hour", "event_id", "name"),
)
ARTICLES = Table(
    "articles",
    "Pages as they are now: one row each, from the change, snapshot or lookup that decides its state.",
    (SOURCE_AT, *(column for column in _COLUMNS[1:] if not column.body)),
    key=("project_id", "article_id"),
)
SNAPSHOT_ARTICLES = Table(
    "snapshot_articles",
    "Pages in the stored snapshots. A snapshot can have several versions; `snapshots` shows which is newest.",
    (*SNAPSHOT_VERSION, *_COLUMNS[1:]),
    key=("snapshot_id", "snapshot_version", "article_id", "version_id"),
)
LOOKUPS = Table(
    "lookups",
    "The service's responses about single pages: pages of the watch list (watch), pages that a lost hour or a "
    "rejected record left uncertain (repair), and samples (check). Responses for repairs and checks count in "
    "`articles` as well.",
    (
        SOURCE_AT,
        Column("asked_name", TEXT, "Requested title.", "lookup.name", required=True),
        Column("looked_up_at", TIMESTAMP, "Time of the request.", "lookup.at", required=True),
        Column(
            "purpose",
            TEXT,
            "Purpose: " + ", ".join(Purpose) + ".",
            "lookup.purpose",
            required=True,
            values=tuple(Purpose),
        ),
        Column(
            "is_found",
            BOOL,
            "A page with exactly that title exists. If false, the columns of its record are null.",
            "lookup.is_found",
            required=True,
        ),
        *_COLUMNS[1:3],
        *(
            replace(
                column,
                name="event_type",
                default=None,
                values=(),
                required=False,
                description="Kind of the page's last event.",
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
    "HTML and wikitext of every stored change and snapshot; join `articles` on project_id, article_id, version_id "
    "and source_at.",
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
    "Redirect titles and their target articles, according to the current articles.",
    (
        PROJECT_ID,
        Column("redirect_name", TEXT, "Title that redirects.", required=True),
        Column("redirect_url", TEXT, "Address of the redirect."),
        Column("article_id", INT, "Page id of the target article.", required=True),
        Column("name", TEXT, "Title of the target article.", required=True),
    ),
)
