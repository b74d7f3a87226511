"""The views and macros for an analyst's first queries, and the views over the realtime stream.

Their SQL is in `resources/warehouse/views`.
"""

from __future__ import annotations

from dataclasses import replace

from resources.tables.articles import ARTICLE_CHANGES, ARTICLES
from resources.tables.declaration import (
    BOOL,
    DOUBLE,
    INT,
    PROJECT_AND_NAMESPACE,
    PROJECT_ID,
    TEXT,
    TIMESTAMP,
    Column,
    Macro,
    Table,
)
from resources.tables.entities import ENTITIES_AT

_PAGE = (
    *PROJECT_AND_NAMESPACE,
    Column("article_id", INT, "Page id.", required=True),
    Column("name", TEXT, "Title.", required=True),
)
_REVISION = (
    *PROJECT_AND_NAMESPACE,
    Column("article_id", INT, "Page id.", required=True),
    Column("version_id", INT, "Revision id.", required=True),
    Column("name", TEXT, "Title.", required=True),
    ARTICLE_CHANGES["event_at"],
)
DISTINCT_CHANGES = Table(
    "distinct_changes",
    "Every change once, even if several hour files have it: what to count.",
    ARTICLE_CHANGES.narrow.columns,
    key=("project_id", "event_id", "name"),
)
ACTIVITY = Table(
    "activity",
    "What happened per hour, project and namespace. Each event counts once, in the hour of its event_at.",
    (
        Column("hour_at", TIMESTAMP, "Start (UTC) of the hour.", required=True),
        *PROJECT_AND_NAMESPACE,
        Column("edit_count", INT, "Edits of pages that were there.", required=True),
        Column("creation_count", INT, "Pages made: revisions without one before.", required=True),
        Column("deletion_count", INT, "Pages deleted, or turned into a redirect.", required=True),
        Column("move_count", INT, "Moves, counted where the page arrives.", required=True),
        Column("visibility_change_count", INT, "Revisions hidden or shown.", required=True),
        Column("bot_count", INT, "Updates by bots.", required=True),
        Column("anonymous_count", INT, "Updates by editors without account.", required=True),
        Column("minor_count", INT, "Updates marked as minor.", required=True),
        Column("size_bytes", INT, "Bytes of wikitext of the updated revisions together; null beyond 64 bits."),
        Column(
            "added_character_count",
            INT,
            "Characters more than in the revisions before. A creation counts in full, a move not at all. Null beyond "
            "64 bits.",
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
    (*_PAGE, *(ARTICLES[name] for name in ("created_at", "event_at", "editor_name", "size_bytes", "abstract", "url"))),
    key=("project_id", "article_id"),
)
DELETED_ARTICLES = Table(
    "deleted_articles",
    "Pages that are gone, last gone first: deleted, turned into a redirect, or moved to a namespace that is not "
    "mirrored. The service sends the same event for all three.",
    (
        *_PAGE,
        Column("version_id", INT, "Its last revision, as the event names it.", required=True),
        Column("deleted_at", TIMESTAMP, "When the event happened.", required=True),
        ARTICLE_CHANGES["event_id"],
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
ACTUAL_REVERTS = Table(
    "actual_reverts",
    "Revisions that MediaWiki has tagged as a revert or as reverted, newest first, each once.",
    (
        *_REVISION,
        Column("is_reverted", BOOL, "A later revision has reverted it (tag mw-reverted).", required=True),
        Column(
            "revert_method",
            TEXT,
            "How it reverts earlier revisions: rollback, undo or manual-revert (tags mw-rollback, mw-undo, "
            "mw-manual-revert); null: it does not.",
        ),
        *(
            ARTICLES[name]
            for name in (
                *("previous_version_id", "revertrisk_probability", "editor_name", "editor_is_anonymous"),
                *("version_comment", "url"),
            )
        ),
    ),
    key=("project_id", "article_id", "version_id"),
)
BREAKING_NEWS = Table(
    "breaking_news",
    "Current pages that the service believes to be about breaking news, last changed first.",
    (*_PAGE, *(ARTICLES[name] for name in ("event_at", "abstract", "url"))),
    key=("project_id", "article_id"),
)
VANDALISM_CANDIDATES = Table(
    "vandalism_candidates",
    "Changes by people with at least two of five signs: predicted to be reverted or damaging; predicted not to be in "
    "good faith; no account or fewer than ten edits; half of a long text gone; no summary although not minor.",
    (
        *_REVISION,
        Column("sign_count", INT, "How many of the signs.", required=True),
        ARTICLES["revertrisk_probability"],
        ARTICLES["damaging_probability"],
        ARTICLES["editor_name"],
        ARTICLES["editor_is_anonymous"],
        ARTICLES["editor_edit_count"],
        Column(
            "added_character_count",
            INT,
            "Characters more than in the revision before; null for a creation, which has none.",
        ),
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
        PROJECT_ID,
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
    DELETED_ARTICLES,
    LIKELY_REVERTED,
    ACTUAL_REVERTS,
    BREAKING_NEWS,
    VANDALISM_CANDIDATES,
    ARTICLE_CATEGORIES,
    ARTICLE_TEMPLATES,
    TITLES,
)
MACROS = (
    Macro(
        "articles_at",
        ("moment", "project", "inexact"),
        "The pages as they were at a moment, with the columns of `articles`; `project := 'enwiki'` for one project "
        "alone, which is faster, and an error where it is not mirrored. A moment before exact_from_at of "
        "`project_state` is an error too, unless `inexact := true`: then pages may be missing.",
    ),
    Macro(
        "article_history",
        ("project", "page"),
        "Everything known of a page, oldest first, each event once: by its page id (a number) or a title it has had (a "
        "text). Where only the case of the title differs, the error names the existing titles.",
    ),
    Macro(
        "changes_between", ("since", "until"), "Changes with since <= event_at < until, oldest first, each event once."
    ),
    Macro(
        "find_article",
        ("project", "title"),
        "The current page with a title, or the one that the title redirects to. Where only the case differs, the error "
        "names the existing titles.",
    ),
    Macro(
        "article_text",
        ("project", "title"),
        "The text of a current page by its title, or by one that redirects to it: wikitext and HTML of its newest "
        "revision. Where only the case differs, the error names the existing titles.",
    ),
    Macro(
        "infobox_values",
        ("wanted",),
        "The values that the infoboxes of all pages have under a label, in upper or lower case.",
    ),
    Macro("page_sections", ("project", "title"), "The sections of a page, in order, with their text."),
    Macro("page_links", ("project", "title"), "All links from a page: of its infoboxes, its sections, its references."),
    Macro(
        "links_to",
        ("project", "title"),
        "The links to a page from the structured contents of its project, also those to a title that redirects to it "
        "(`is_redirect`). An error where no structured contents of the project are here.",
    ),
    Macro(
        "other_languages",
        ("project", "title"),
        "The pages about the same Wikidata item in other languages. `article_id` is null where the page is not "
        "mirrored: then its title comes from the item.",
    ),
    Macro(
        "project_size",
        ("project",),
        "Pages, bytes and characters of wikitext of a project at the end of each covered hour of its exact range, by "
        "namespace.",
    ),
    ENTITIES_AT,
)


LIVE_CHANGES = replace(
    ARTICLE_CHANGES,
    name="live_changes",
    description=(
        "Events of the realtime stream whose hours have no file yet, with the page text. An event is here seconds "
        "after it happened, until the file of its hour is published; then it is in `article_changes`. No row: no "
        "stream is kept."
    ),
)
CHANGES_LIVE = replace(
    ARTICLE_CHANGES.narrow,
    name="changes_live",
    description=(
        "`article_changes` and `live_changes` together: every change up to the newest event of the stream. "
        "`event_partition` is not null in rows of the stream."
    ),
)
ARTICLES_LIVE = replace(
    ARTICLES,
    name="articles_live",
    description=(
        "The pages as of the newest event of the realtime stream, by the rule of `articles`. Without a stream it "
        "equals `articles`."
    ),
)

STREAM_STATE = Table(
    "stream_state",
    "How far the realtime stream is kept, by partition, as of its newest file. No row: no stream is kept.",
    (
        Column(
            "partition",
            INT,
            "Partition of the stream (0 to 49); five in a row are a part, which one connection reads.",
            required=True,
        ),
        Column("next_offset", INT, "Offset that comes next; all before it are kept.", required=True),
        Column(
            "event_count", INT, "Events of the mirrored projects that were kept since the stream began.", required=True
        ),
        Column(
            "newest_published_at", TIMESTAMP, "When the newest event of the partition was published, of any project."
        ),
        Column(
            "lag_seconds",
            DOUBLE,
            "Seconds since then, at the moment of the question. A partition without events grows older as well: judge "
            "by the smallest of a part.",
        ),
    ),
    key=("partition",),
)
STREAM_RUNS = Table(
    "stream_runs",
    "The last 24 readings of the realtime stream: runs of `wme stream`, or of its asset. Kept like stream_state.",
    (
        Column("began_at", TIMESTAMP, "When it began.", required=True),
        Column("kept_at", TIMESTAMP, "When it wrote its newest file.", required=True),
        Column("connection_count", INT, "Connections side by side.", required=True),
        Column("reconnect_count", INT, "How often one of them was opened again.", required=True),
        Column("event_count", INT, "Events of the mirrored projects that were kept.", required=True),
        Column("other_count", INT, "Events of other projects and namespaces.", required=True),
        Column("duplicate_count", INT, "Events that came again and were dropped.", required=True),
        Column(
            "reject_count",
            INT,
            "Lines that are no events that can be; they are in lake/live_changes_rejects, with the reasons.",
            required=True,
        ),
        Column(
            "reset_count",
            INT,
            "Times that the offsets of a partition went back, as when the service numbers its events again.",
            required=True,
        ),
        Column(
            "too_long_count", INT, "Events that were longer than WME_MAX_RECORD_MB and were left out.", required=True
        ),
        Column("events_per_second", DOUBLE, "Events that were kept, a second."),
    ),
    key=("began_at",),
)
LIVE_VIEWS = (LIVE_CHANGES, CHANGES_LIVE, ARTICLES_LIVE)
STREAM_VIEWS = (STREAM_STATE, STREAM_RUNS)
