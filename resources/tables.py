"""The tables: one declaration each, and everything else about them follows from it.

Belongs here: names, Arrow types, descriptions, keys, and for each column where its value stands in the
service's record. The Arrow schemas, the DuckDB tables with their comments, Dagster's column schemas, the checks
and the data dictionary are all derived from these declarations.

Does not belong here: reading, writing or converting anything. This module is a leaf: it imports pyarrow alone and
may be imported by `lake`, `warehouse`, `assets` and the tests.

Source of the record's fields: the service's data dictionary for articles, versions, events, editors, scores, and
the older forms (2022 to 2024) that recorded data shows.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Raised by one whenever a column is added, removed or retyped: part of every lake file's digest, so that old files
#: are converted again instead of being mixed with new ones.
SCHEMA_VERSION = 1

TIMESTAMP = pa.timestamp("us", tz="UTC")
TEXT = pa.string()
INT = pa.int64()
BOOL = pa.bool_()
DOUBLE = pa.float64()
NAMED_LINKS = pa.list_(pa.struct([("name", TEXT), ("url", TEXT)]))
_DELTA = pa.struct(
    [
        ("increase", INT),
        ("decrease", INT),
        ("sum", INT),
        ("proportional_increase", DOUBLE),
        ("proportional_decrease", DOUBLE),
    ]
)


class ChangeType(enum.StrEnum):
    """What an event did to a page (`event.type` of the service)."""

    UPDATE = "update"
    DELETE = "delete"
    VISIBILITY_CHANGE = "visibility-change"


class HourState(enum.StrEnum):
    """What is known of one hour of one project and namespace."""

    LOADED = "loaded"  # its file is in `article_changes`
    EMPTY = "empty"  # its file was there and held no record
    ABSENT = "absent"  # the service's list of the hour does not name it: quiet, or its export failed
    MISSING = "missing"  # should be there and is not
    NOT_YET = "not_yet"  # the service has not published the hour
    PAST_RETENTION = "past_retention"  # never fetched, and the service no longer keeps it


@dataclass(frozen=True)
class Column:
    """One column.

    `path` is the dotted place of the value in the service's JSON record, or None where the pipeline computes it.
    `wire` is the type to parse the JSON value as where it differs from `type` (the cast must be lossless).
    `body` marks the large text columns: stored last, without statistics, in the lake only.
    `lookup` marks the columns by whose values single rows are asked for: lake files can tell without reading where a
    value does not stand.
    """

    name: str
    type: pa.DataType
    description: str
    path: str | None = None
    wire: pa.DataType | None = None
    required: bool = False
    body: bool = False
    lookup: bool = False

    @property
    def field(self) -> pa.Field:
        """The column as an Arrow field, its description in the metadata."""
        return pa.field(self.name, self.type, nullable=not self.required, metadata={"description": self.description})


@dataclass(frozen=True, eq=False)  # each table is declared once, so it equals itself alone, and is hashed at once
class Table:
    """One table: its columns in order, and the columns that identify a row (`key`, empty where rows may repeat)."""

    name: str
    description: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    def __getitem__(self, name: str) -> Column:
        return self._by_name[name]

    @cached_property
    def _by_name(self) -> dict[str, Column]:
        return {column.name: column for column in self.columns}

    @cached_property
    def schema(self) -> pa.Schema:
        """The Arrow schema of all columns."""
        return pa.schema([column.field for column in self.columns])

    @cached_property
    def narrow(self) -> Table:
        """The same table without its bodies: what DuckDB holds natively."""
        return Table(self.name, self.description, tuple(c for c in self.columns if not c.body), self.key)


_BATCH_HOUR = Column(
    "batch_hour", TIMESTAMP, "Start (UTC) of the hour whose file this row came from. Count by event_at.", required=True
)
_HOUR_OR_BOUNDARY = Column(
    "batch_hour",
    TIMESTAMP,
    "Start (UTC) of the hour whose file this row came from; for a row of a snapshot the batch_hour of its version in "
    "`snapshots`, which is never a full hour. Count by event_at.",
    required=True,
)
_PROJECT = "Project (database name of the wiki), for example enwiki."
_NAMESPACE = "Namespace: 0 article, 6 file, 10 template, 14 category."

_ARTICLE_COLUMNS = (
    _BATCH_HOUR,
    Column("project_id", TEXT, _PROJECT, "is_part_of.identifier", required=True),
    Column("namespace_id", INT, _NAMESPACE, "namespace.identifier", required=True),
    Column("article_id", INT, "Page id, unique in its project.", "identifier", required=True, lookup=True),
    Column("version_id", INT, "Revision id, rising in its project.", "version.identifier", required=True),
    Column("name", TEXT, "Title; titles compare with _ as space.", "name", required=True, lookup=True),
    Column(
        "change_type",
        TEXT,
        "What the event did: update, delete or visibility-change. A record without an event is an update.",
        "event.type",
        required=True,
    ),
    Column(
        "event_at",
        TIMESTAMP,
        "Moment of the change: event_published_at, else event_created_at, else modified_at. Orders the states of a page.",
        required=True,
    ),
    Column(
        "event_id",
        TEXT,
        "Event (UUID). Both halves of a move share it; with the name it is unique.",
        "event.identifier",
    ),
    Column("event_created_at", TIMESTAMP, "When the change reached the service.", "event.date_created"),
    Column("event_published_at", TIMESTAMP, "When the service published the change.", "event.date_published"),
    Column("event_partition", INT, "Partition of the stream (0 to 49); streamed records only.", "event.partition"),
    Column("event_offset", INT, "Offset in the stream's partition; streamed records only.", "event.offset"),
    Column("event_fail_count", INT, "How often the service failed to process the event.", "event.fail_count"),
    Column("event_fail_reason", TEXT, "Why the service failed to process the event.", "event.fail_reason"),
    Column("modified_at", TIMESTAMP, "When this revision was saved.", "date_modified"),
    Column("created_at", TIMESTAMP, "When the page's first revision was saved.", "date_created"),
    Column("previously_modified_at", TIMESTAMP, "When the revision before was saved.", "date_previously_modified"),
    Column("url", TEXT, "Address of the page. In the delete half of a move it is the new address.", "url"),
    Column("abstract", TEXT, "Lead text, plain; namespace 0 only.", "abstract"),
    Column("language_id", TEXT, "Language code of the project.", "in_language.identifier"),
    Column("language_name", TEXT, "English name of the language (old records).", "in_language.name"),
    Column("language_alternate_name", TEXT, "Own name of the language (old records).", "in_language.alternate_name"),
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
    Column(
        "is_breaking_news", BOOL, "The service believes the page to be about breaking news.", "version.is_breaking_news"
    ),
    Column("is_noindex", BOOL, "Page asks search engines not to index it.", "version.noindex"),
    Column(
        "revertrisk_prediction",
        BOOL,
        "Predicted to be reverted; null means no.",
        "version.scores.revertrisk.prediction",
    ),
    Column(
        "revertrisk_probability",
        DOUBLE,
        "Probability that the edit is reverted.",
        "version.scores.revertrisk.probability.true",
    ),
    Column(
        "revertrisk_probability_false",
        DOUBLE,
        "Probability that the edit stays.",
        "version.scores.revertrisk.probability.false",
    ),
    Column(
        "referencerisk_score",
        DOUBLE,
        "Share of the page's references that were found doubtful.",
        "version.scores.referencerisk.reference_risk_score",
    ),
    Column(
        "referenceneed_score",
        DOUBLE,
        "Share of the page's sentences that need a reference.",
        "version.scores.referenceneed.reference_need_score",
    ),
    Column("damaging_prediction", BOOL, "Predicted to be damaging (until 2023).", "version.scores.damaging.prediction"),
    Column(
        "damaging_probability",
        DOUBLE,
        "Probability of damage (until 2023).",
        "version.scores.damaging.probability.true",
    ),
    Column(
        "damaging_probability_false",
        DOUBLE,
        "Probability of no damage (until 2023).",
        "version.scores.damaging.probability.false",
    ),
    Column(
        "goodfaith_prediction",
        BOOL,
        "Predicted to be in good faith (until 2023).",
        "version.scores.goodfaith.prediction",
    ),
    Column(
        "goodfaith_probability",
        DOUBLE,
        "Probability of good faith (until 2023).",
        "version.scores.goodfaith.probability.true",
    ),
    Column(
        "goodfaith_probability_false",
        DOUBLE,
        "Probability of bad faith (until 2023).",
        "version.scores.goodfaith.probability.false",
    ),
    Column("editor_id", INT, "User id of the editor; null for anonymous editors.", "version.editor.identifier"),
    Column("editor_name", TEXT, "User name, or the address of an anonymous editor.", "version.editor.name"),
    Column("editor_edit_count", INT, "Edits of the editor so far.", "version.editor.edit_count"),
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
    Column("editor_started_at", TIMESTAMP, "When the editor registered.", "version.editor.date_started"),
    Column("character_count", INT, "Characters of the wikitext.", "version.number_of_characters"),
    Column("size_bytes", INT, "Bytes of the wikitext.", "version.size.value", wire=DOUBLE),
    Column("size_unit", TEXT, "Unit of size_bytes as sent (B).", "version.size.unit_text"),
    Column(
        "citation_needed_count",
        INT,
        "Maintenance tags in the text: citation needed.",
        "version.maintenance_tags.citation_needed_count",
    ),
    Column("pov_count", INT, "Maintenance tags in the text: point of view.", "version.maintenance_tags.pov_count"),
    Column(
        "clarification_needed_count",
        INT,
        "Maintenance tags in the text: clarification needed.",
        "version.maintenance_tags.clarification_needed_count",
    ),
    Column(
        "update_count", INT, "Maintenance tags in the text: needs an update.", "version.maintenance_tags.update_count"
    ),
    Column(
        "version_diff",
        pa.struct(
            [
                ("longest_new_repeated_character", INT),
                ("dictionary_words", _DELTA),
                ("non_dictionary_words", _DELTA),
                ("non_safe_words", _DELTA),
                ("informal_words", _DELTA),
                ("uppercase_words", _DELTA),
            ]
        ),
        "Word counts against the revision before (not sent today).",
        "version.diff",
    ),
    Column(
        "version_event",
        pa.struct([("identifier", TEXT), ("type", TEXT), ("date_created", TIMESTAMP), ("date_published", TIMESTAMP)]),
        "Event of the revision itself (not sent today).",
        "version.event",
    ),
    Column("previous_version_id", INT, "Revision before this one.", "previous_version.identifier"),
    Column(
        "previous_character_count", INT, "Characters of the revision before.", "previous_version.number_of_characters"
    ),
    Column("watchers_count", INT, "Users who watch the page; null where hidden.", "watchers_count"),
    Column("main_entity_id", TEXT, "Wikidata item of the page.", "main_entity.identifier"),
    Column("main_entity_url", TEXT, "Address of main_entity_id.", "main_entity.url"),
    Column("main_entity_aspects", pa.list_(TEXT), "Aspects of the main entity (old records).", "main_entity.aspects"),
    Column(
        "additional_entities",
        pa.list_(pa.struct([("identifier", TEXT), ("url", TEXT), ("aspects", pa.list_(TEXT))])),
        "Other Wikidata items that the page uses, and what of them.",
        "additional_entities",
    ),
    Column("categories", NAMED_LINKS, "Categories, with the local namespace prefix.", "categories"),
    Column("templates", NAMED_LINKS, "Templates used.", "templates"),
    Column("redirects", NAMED_LINKS, "Titles that redirect to this page.", "redirects"),
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
        "visibility_user", BOOL, "visibility_editor under the name of the interface description.", "visibility.user"
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
        "JSON object of every field that this declaration does not know (has_parts among them), under its own path.",
    ),
    Column("html", TEXT, "Parsoid HTML of the page.", "article_body.html", body=True),
    Column("wikitext", TEXT, "Wikitext of the page.", "article_body.wikitext", body=True),
)

ARTICLE_CHANGES = Table(
    "article_changes",
    "Every change of the configured projects, hour by hour, as the service published it. Hour files overlap: the same "
    "event may stand in two of them, so count events by event_at.",
    _ARTICLE_COLUMNS,
    key=("batch_hour", "event_id", "name"),
)
ARTICLES = Table(
    "articles",
    "The pages as they are now: for each, the row of the change or of the snapshot that decided it.",
    (_HOUR_OR_BOUNDARY, *(column for column in _ARTICLE_COLUMNS[1:] if not column.body)),
    key=("project_id", "article_id"),
)
_SNAPSHOT = (
    Column(
        "snapshot_id", TEXT, "The service's identifier of the snapshot, for example enwiki_namespace_0.", required=True
    ),
    Column(
        "snapshot_version", TEXT, "Version of the whole snapshot (MD5); compare with <>, not with <.", required=True
    ),
)
SNAPSHOT_ARTICLES = Table(
    "snapshot_articles",
    "The pages as the kept snapshots hold them, several versions of one snapshot among them; `snapshots` says which is newest.",
    (*_SNAPSHOT, *_ARTICLE_COLUMNS[1:]),
    key=("snapshot_id", "snapshot_version", "article_id", "version_id"),
)
SNAPSHOTS = Table(
    "snapshots",
    "The kept versions of each snapshot. The one with the greatest boundary_at (then exported_at) lies underneath `articles`; replaced ones stay "
    "for a while, for the pages as they were.",
    (
        *_SNAPSHOT,
        Column("project_id", TEXT, _PROJECT, required=True),
        Column("namespace_id", INT, _NAMESPACE, required=True),
        Column(
            "boundary_at",
            TIMESTAMP,
            "newest_event_at less ten minutes: older changes are in the snapshot, and their updates no longer count.",
            required=True,
        ),
        Column(
            "batch_hour",
            TIMESTAMP,
            "What stands as batch_hour with the rows that stem from this version: within a second of boundary_at, never a full "
            "hour, and no other version's.",
            required=True,
        ),
        Column("newest_event_at", TIMESTAMP, "Greatest event_at of its rows.", required=True),
        Column("exported_at", TIMESTAMP, "When the service made it (date_modified of the snapshot)."),
        Column("file_count", INT, "Files it was loaded from.", required=True),
        Column("row_count", INT, "Rows of the files, duplicates included.", required=True),
        Column("duplicate_count", INT, "Rows that repeat a page and revision and are passed over.", required=True),
        Column("loaded_at", TIMESTAMP, "When the load was committed.", required=True),
        Column("applied_at", TIMESTAMP, "When `articles` took it in; null while pending."),
    ),
    key=("snapshot_id", "snapshot_version"),
)
ARTICLE_BODIES = Table(
    "article_bodies",
    "HTML and wikitext of every kept change and snapshot; join on project_id, article_id, version_id and batch_hour.",
    (
        *(ARTICLE_CHANGES[name] for name in ("project_id", "article_id", "version_id")),
        _HOUR_OR_BOUNDARY,
        *(ARTICLE_CHANGES[name] for name in ("html", "wikitext")),
    ),
    key=("project_id", "article_id", "version_id", "batch_hour"),
)
REDIRECTS = Table(
    "redirects",
    "Redirect titles and the article each leads to, as told by the current articles.",
    (
        Column("project_id", TEXT, _PROJECT, required=True),
        Column("redirect_name", TEXT, "Title that redirects.", required=True),
        Column("redirect_url", TEXT, "Address of the redirect."),
        Column("article_id", INT, "Page id of the article it leads to.", required=True),
        Column("name", TEXT, "Title of the article it leads to.", required=True),
    ),
)

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
        Column("project_id", TEXT, _PROJECT, "identifier", required=True),
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
        Column("namespace_id", INT, _NAMESPACE, "identifier", required=True),
        Column("name", TEXT, "Name.", "name"),
        Column("description", TEXT, "What it holds.", "description"),
        _EXTRA,
    ),
    key=("namespace_id",),
)

_PAIR = (
    Column("project_id", TEXT, _PROJECT, required=True),
    Column("namespace_id", INT, _NAMESPACE, required=True),
)
_SOURCE = (_BATCH_HOUR, *_PAIR)
_FILE = (_HOUR_OR_BOUNDARY, *_PAIR)
LOADS = Table(
    "loads",
    "Ledger: which file was loaded when, and what it held. One row per file that is in the warehouse now.",
    (
        Column("table_name", TEXT, "Table the file was loaded into.", required=True),
        *_FILE,
        Column("identifier", TEXT, "The service's identifier of the archive.", required=True),
        Column("version", TEXT, "MD5 of the archive, the service's version.", required=True),
        Column("digest", TEXT, "Digest of archive version, schema version and converter version.", required=True),
        Column("lake_path", TEXT, "Parquet file, relative to the lake's folder.", required=True),
        Column("row_count", INT, "Rows in the Parquet file, duplicates included.", required=True),
        Column(
            "duplicate_count", INT, "Rows of the file that repeat an event and were not loaded again.", required=True
        ),
        Column("reject_count", INT, "Lines of the archive that could not be converted.", required=True),
        Column("update_count", INT, "Rows by change: update.", required=True),
        Column("delete_count", INT, "Rows by change: delete.", required=True),
        Column("visibility_change_count", INT, "Rows by change: visibility-change.", required=True),
        Column("archive_bytes", INT, "Bytes of the archive.", required=True),
        Column("ndjson_bytes", INT, "Bytes of the NDJSON in it.", required=True),
        Column("lake_bytes", INT, "Bytes of the Parquet file.", required=True),
        Column("loaded_at", TIMESTAMP, "When the load was committed.", required=True),
        Column("applied_at", TIMESTAMP, "When `articles` took it in; null while pending."),
    ),
    key=("table_name", "batch_hour", "project_id", "namespace_id", "identifier"),
)
REJECTS = Table(
    "rejects",
    "Lines that could not be converted, whole and with their reason. Nothing is dropped.",
    (
        *_FILE,
        Column("archive", TEXT, "Archive, relative to the archive's folder.", required=True),
        Column("member", TEXT, "Member of the tar.", required=True),
        Column("line_number", INT, "Line in the member, from 1.", required=True),
        Column("byte_offset", INT, "Offset of the line in the member, from 0.", required=True),
        Column("reason", TEXT, "Why it could not be converted.", required=True),
        Column("raw", pa.binary(), "The line's bytes.", required=True),
    ),
    key=("archive", "member", "line_number"),
)
HOURS = Table(
    "hours",
    "Coverage: one row per hour, project and namespace, so that gaps are never silent.",
    (
        *_SOURCE,
        Column("state", TEXT, "One of " + ", ".join(HourState) + ".", required=True),
        Column("row_count", INT, "Rows loaded."),
        Column("reject_count", INT, "Lines rejected."),
        Column("load_count", INT, "How often the hour was loaded with different content; over 1: redone."),
        Column("checked_at", TIMESTAMP, "When this was last looked at.", required=True),
        Column("reason", TEXT, "Why the hour is not loaded, in a sentence."),
    ),
    key=("batch_hour", "project_id", "namespace_id"),
)
PROJECT_STATE = Table(
    "project_state",
    "From when until when `articles` is exact, per project and namespace.",
    (
        Column("project_id", TEXT, _PROJECT, required=True),
        Column("namespace_id", INT, _NAMESPACE, required=True),
        Column("base_snapshot", TEXT, "Version of the snapshot underneath; null: only pages that changed are known."),
        Column("base_boundary_at", TIMESTAMP, "Boundary of that snapshot."),
        Column(
            "first_gap_at",
            TIMESTAMP,
            "First hour, from the base snapshot on, that is neither loaded, empty nor absent; null: none.",
        ),
        Column(
            "exact_from_at",
            TIMESTAMP,
            "Earliest exact moment. With snapshots: just after newest_event_at of the oldest kept one from which hours follow unbroken. "
            "Without: start of the first hour of the unbroken run, and only pages that changed in it are known.",
        ),
        Column("exact_until_at", TIMESTAMP, "End of the last hour of that unbroken run."),
    ),
    key=("project_id", "namespace_id"),
)
ABOUT = Table(
    "about",
    "What this file is: service, licence and attribution, versions, when it was published.",
    (
        Column("name", TEXT, "What is told.", required=True),
        Column("value", TEXT, "The answer.", required=True),
    ),
    key=("name",),
)

_PAGE = (
    *_PAIR,
    Column("article_id", INT, "Page id.", required=True),
    Column("name", TEXT, "Title.", required=True),
)
_REVISION = (
    *_PAIR,
    Column("article_id", INT, "Page id.", required=True),
    Column("version_id", INT, "Revision id.", required=True),
    Column("name", TEXT, "Title.", required=True),
    ARTICLE_CHANGES["event_at"],
)
DISTINCT_CHANGES = Table(
    "distinct_changes",
    "Every change once, whatever hour files it stands in: what to count.",
    tuple(column for column in _ARTICLE_COLUMNS if not column.body),
    key=("project_id", "event_id", "name"),
)
ACTIVITY = Table(
    "activity",
    "What happened per hour, project and namespace. Each event counts once, in the hour of its event_at.",
    (
        Column("hour_at", TIMESTAMP, "Start (UTC) of the hour.", required=True),
        *_PAIR,
        Column("edit_count", INT, "Edits of pages that were there.", required=True),
        Column("creation_count", INT, "Pages made: revisions without one before.", required=True),
        Column("deletion_count", INT, "Pages deleted, or turned into a redirect.", required=True),
        Column("move_count", INT, "Moves, counted where the page arrives.", required=True),
        Column("visibility_change_count", INT, "Revisions hidden or shown.", required=True),
        Column("bot_count", INT, "Updates by bots.", required=True),
        Column("anonymous_count", INT, "Updates by editors without account.", required=True),
        Column("minor_count", INT, "Updates marked as minor.", required=True),
        Column("size_bytes", INT, "Bytes of wikitext of the updated revisions together.", required=True),
        Column(
            "added_character_count", INT, "Characters more than in the revisions before; moves aside.", required=True
        ),
        Column("article_count", INT, "Different pages.", required=True),
    ),
    key=("hour_at", "project_id", "namespace_id"),
)
MOST_EDITED = Table(
    "most_edited",
    "Pages by the number of their revisions among the loaded changes, most first.",
    (
        *_PAGE,
        Column("edit_count", INT, "Revisions.", required=True),
        Column("editor_count", INT, "Different editors.", required=True),
        Column("bot_count", INT, "Revisions by bots.", required=True),
        Column("first_edit_at", TIMESTAMP, "First of them.", required=True),
        Column("last_edit_at", TIMESTAMP, "Last of them.", required=True),
    ),
    key=("project_id", "namespace_id", "article_id"),
)
NEWEST_ARTICLES = Table(
    "newest_articles",
    "Current pages by the moment of their first revision, newest first.",
    (
        *_PAGE,
        *(ARTICLES[name] for name in ("created_at", "event_at", "editor_name", "size_bytes", "abstract", "url")),
    ),
    key=("project_id", "article_id"),
)
LIKELY_REVERTED = Table(
    "likely_reverted",
    "Changes that the service predicts to be reverted, most probable first.",
    (
        *_REVISION,
        *(
            ARTICLES[name]
            for name in ("revertrisk_probability", "editor_name", "editor_is_anonymous", "version_comment", "url")
        ),
    ),
)
BREAKING_NEWS = Table(
    "breaking_news",
    "Current pages that the service believes to be about breaking news, last changed first.",
    (*_PAGE, *(ARTICLES[name] for name in ("event_at", "abstract", "url"))),
    key=("project_id", "article_id"),
)
VANDALISM_CANDIDATES = Table(
    "vandalism_candidates",
    "Changes by people with at least two of five signs: predicted to be reverted or damaging; predicted not to be in good "
    "faith; no account or fewer than ten edits; half of a long text gone; no summary although not minor.",
    (
        *_REVISION,
        Column("sign_count", INT, "How many of the signs.", required=True),
        ARTICLES["revertrisk_probability"],
        ARTICLES["damaging_probability"],
        ARTICLES["editor_name"],
        ARTICLES["editor_is_anonymous"],
        ARTICLES["editor_edit_count"],
        Column("added_character_count", INT, "Characters more than in the revision before."),
        ARTICLES["version_comment"],
        ARTICLES["url"],
    ),
)
ARTICLE_CATEGORIES = Table(
    "article_categories",
    "Categories of the current pages, one row each.",
    (
        *_PAGE,
        Column("category_name", TEXT, "Category, with the local namespace prefix.", required=True),
        Column("category_url", TEXT, "Address of the category."),
    ),
)
ARTICLE_TEMPLATES = Table(
    "article_templates",
    "Templates that the current pages use, one row each.",
    (
        *_PAGE,
        Column("template_name", TEXT, "Template, with the local namespace prefix.", required=True),
        Column("template_url", TEXT, "Address of the template."),
    ),
)
TITLES = Table(
    "titles",
    "Every title that leads to a current page: its own, and those that redirect to it. `_` is written as space.",
    (
        Column("project_id", TEXT, _PROJECT, required=True),
        Column("title", TEXT, "Title, own or redirecting.", required=True),
        Column("article_id", INT, "Page id of the page it leads to.", required=True),
        Column("name", TEXT, "Title of the page it leads to.", required=True),
        Column("is_redirect", BOOL, "The title redirects.", required=True),
    ),
)
#: Views that answer the first questions. Of what they compute, DuckDB does not say that it is never null.
QUESTIONS = (
    DISTINCT_CHANGES,
    ACTIVITY,
    MOST_EDITED,
    NEWEST_ARTICLES,
    LIKELY_REVERTED,
    BREAKING_NEWS,
    VANDALISM_CANDIDATES,
    ARTICLE_CATEGORIES,
    ARTICLE_TEMPLATES,
    TITLES,
)


@dataclass(frozen=True)
class Macro:
    """A query with parameters, used like a table: `FROM articles_at('2026-11-20 09:00:00+00')`."""

    name: str
    parameters: tuple[str, ...]
    description: str


MACROS = (
    Macro(
        "articles_at",
        ("moment", "project"),
        "The pages as they were at a moment, with the columns of `articles`; `project := 'enwiki'` for one project alone, which "
        "is faster. Exact from exact_from_at of `project_state` on.",
    ),
    Macro(
        "article_history",
        ("project", "page"),
        "Everything known of a page, oldest first, each event once: by its page id (a number) or a title it has had (a text).",
    ),
    Macro(
        "changes_between",
        ("since", "until"),
        "Changes with since <= event_at < until, oldest first, each event once.",
    ),
    Macro(
        "find_article",
        ("project", "title"),
        "The current page with a title, or the one that the title redirects to.",
    ),
)

REFERENCE_TABLES = (CODES, LANGUAGES, PROJECTS, NAMESPACES)
TABLES = (
    ARTICLES,
    ARTICLE_CHANGES,
    ARTICLE_BODIES,
    SNAPSHOT_ARTICLES,
    SNAPSHOTS,
    REDIRECTS,
    *REFERENCE_TABLES,
    HOURS,
    PROJECT_STATE,
    LOADS,
    REJECTS,
    *QUESTIONS,
    ABOUT,
)
