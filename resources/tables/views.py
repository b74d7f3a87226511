"""Views and macros for an analyst's first queries, and views over the realtime stream.

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
    "Every change once, even if several hourly files have it. Use it for counts.",
    ARTICLE_CHANGES.narrow.columns,
    key=("project_id", "event_id", "name"),
)
ACTIVITY = Table(
    "activity",
    "Counts of changes per hour, project and namespace. Each event counts once, in the hour of its event_at.",
    (
        Column("hour_at", TIMESTAMP, "Start (UTC) of the hour.", required=True),
        *PROJECT_AND_NAMESPACE,
        Column("edit_count", INT, "Number of edits of existing pages.", required=True),
        Column("creation_count", INT, "Number of created pages: revisions without a previous one.", required=True),
        Column("deletion_count", INT, "Number of pages deleted, or turned into a redirect.", required=True),
        Column("move_count", INT, "Number of moves, counted at the new title.", required=True),
        Column("visibility_change_count", INT, "Number of revisions hidden or shown.", required=True),
        Column("bot_count", INT, "Number of updates by bots.", required=True),
        Column("anonymous_count", INT, "Number of updates by editors without an account.", required=True),
        Column("minor_count", INT, "Number of updates marked as minor.", required=True),
        Column("size_bytes", INT, "Total bytes of wikitext of the updated revisions; null beyond 64 bits."),
        Column(
            "added_character_count",
            INT,
            "Characters added to the previous revisions. A creation counts in full, a move counts zero. Null "
            "beyond 64 bits.",
        ),
        Column("article_count", INT, "Number of distinct pages.", required=True),
    ),
    key=("hour_at", "project_id", "namespace_id"),
)
MOST_EDITED = Table(
    "most_edited",
    "Pages by the number of their revisions among the loaded changes, most first.",
    (
        *_PAGE,
        Column("edit_count", INT, "Number of revisions.", required=True),
        Column("editor_count", INT, "Number of distinct editors.", required=True),
        Column("bot_count", INT, "Number of revisions by bots.", required=True),
        Column("first_edit_at", TIMESTAMP, "Time of the first revision.", required=True),
        Column("last_edit_at", TIMESTAMP, "Time of the last revision.", required=True),
    ),
    key=("project_id", "namespace_id", "article_id"),
)
NEWEST_ARTICLES = Table(
    "newest_articles",
    "Current pages by the time of their first revision, newest first.",
    (*_PAGE, *(ARTICLES[name] for name in ("created_at", "event_at", "editor_name", "size_bytes", "abstract", "url"))),
    key=("project_id", "article_id"),
)
DELETED_ARTICLES = Table(
    "deleted_articles",
    "Deleted pages, most recent first: deleted, turned into a redirect, or moved to a namespace that is not "
    "mirrored. The service sends the same event for all three.",
    (
        *_PAGE,
        Column("version_id", INT, "Its last revision according to the event.", required=True),
        Column("deleted_at", TIMESTAMP, "Time of the event.", required=True),
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
            "Method by which it reverts earlier revisions: rollback, undo or manual-revert (tags mw-rollback, "
            "mw-undo, mw-manual-revert); null: it is not a revert.",
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
    "Current pages that the service classifies as breaking news, last changed first.",
    (*_PAGE, *(ARTICLES[name] for name in ("event_at", "abstract", "url"))),
    key=("project_id", "article_id"),
)
VANDALISM_CANDIDATES = Table(
    "vandalism_candidates",
    "Changes by people with at least two of five signs: predicted to be reverted or damaging; predicted not to be "
    "in good faith; no account or fewer than ten edits; half of a long text removed; no summary and not marked as "
    "minor.",
    (
        *_REVISION,
        Column("sign_count", INT, "Number of signs.", required=True),
        ARTICLES["revertrisk_probability"],
        ARTICLES["damaging_probability"],
        ARTICLES["editor_name"],
        ARTICLES["editor_is_anonymous"],
        ARTICLES["editor_edit_count"],
        Column(
            "added_character_count",
            INT,
            "Characters added to the previous revision; null for a creation.",
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
    "Every title that leads to a current page: its own title and its redirects, with spaces instead of `_`.",
    (
        PROJECT_ID,
        Column("title", TEXT, "Title, own or redirecting.", required=True),
        Column("article_id", INT, "Page id of the target page.", required=True),
        Column("name", TEXT, "Title of the target page.", required=True),
        Column("is_redirect", BOOL, "The title redirects.", required=True),
    ),
)
#: Views for an analyst's first queries. DuckDB reports their computed columns as nullable.
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
        "Pages as they were at a moment, with the columns of `articles`. `project := 'enwiki'` selects one "
        "project, which is faster. A project that is not mirrored is an error, and so is a moment before "
        "exact_from_at of `project_state`. With `inexact := true`, such a moment is allowed, and pages may be "
        "missing.",
    ),
    Macro(
        "article_history",
        ("project", "page"),
        "All known states of a page, oldest first, each event once, by its page id (a number) or a title that it "
        "has or had (a text). If only the case of the title differs, the error names the existing titles.",
    ),
    Macro(
        "changes_between", ("since", "until"), "Changes with since <= event_at < until, oldest first, each event once."
    ),
    Macro(
        "find_article",
        ("project", "title"),
        "The current page with a title, or the page that the title redirects to. If only the case differs, the "
        "error names the existing titles.",
    ),
    Macro(
        "article_text",
        ("project", "title"),
        "Wikitext and HTML of the newest revision of a current page, by its title or a redirect. If only the case "
        "differs, the error names the existing titles.",
    ),
    Macro(
        "infobox_values",
        ("wanted",),
        "The values of a label in the infoboxes of all pages, in upper or lower case.",
    ),
    Macro("page_sections", ("project", "title"), "The sections of a page, in order, with their text."),
    Macro("page_links", ("project", "title"), "All links from a page: from its infoboxes, sections and references."),
    Macro(
        "links_to",
        ("project", "title"),
        "The links to a page from the structured contents of its project, including links to its redirects "
        "(`is_redirect`). An error if no structured contents of the project are loaded.",
    ),
    Macro(
        "other_languages",
        ("project", "title"),
        "The pages about the same Wikidata item in other languages. `article_id` is null if the page is not "
        "mirrored; its title then comes from the item.",
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
        "Events of the realtime stream in hours without a file, with the page text. An event appears within "
        "seconds and moves to `article_changes` when the file of its hour is published. Empty if no stream is "
        "stored."
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
    "Progress of the realtime stream per partition, as of its newest file. Empty if no stream is stored.",
    (
        Column(
            "partition",
            INT,
            "Partition of the stream (0 to 49). One connection reads five consecutive partitions.",
            required=True,
        ),
        Column("next_offset", INT, "Next offset; all earlier ones are stored.", required=True),
        Column(
            "event_count",
            INT,
            "Number of stored events of the mirrored projects since the stream started.",
            required=True,
        ),
        Column(
            "newest_published_at",
            TIMESTAMP,
            "Time when the newest event of the partition was published, of any project.",
        ),
        Column(
            "lag_seconds",
            DOUBLE,
            "Seconds since newest_published_at, at query time. It also grows in a quiet partition: use the "
            "smallest value of the five partitions of a connection.",
        ),
    ),
    key=("partition",),
)
STREAM_RUNS = Table(
    "stream_runs",
    "The last 24 runs of the realtime stream: of `wme stream`, or of its asset.",
    (
        Column("began_at", TIMESTAMP, "Start of the run.", required=True),
        Column("kept_at", TIMESTAMP, "Time of its newest file.", required=True),
        Column("connection_count", INT, "Number of parallel connections.", required=True),
        Column("reconnect_count", INT, "Number of reconnections.", required=True),
        Column("event_count", INT, "Number of stored events of the mirrored projects.", required=True),
        Column("other_count", INT, "Number of events of other projects and namespaces.", required=True),
        Column("duplicate_count", INT, "Number of repeated events that were dropped.", required=True),
        Column(
            "reject_count",
            INT,
            "Number of lines that are not valid events; they are in lake/live_changes_rejects, with the reasons.",
            required=True,
        ),
        Column(
            "reset_count",
            INT,
            "Number of times the offsets of a partition went back, for example because the service renumbered its "
            "events.",
            required=True,
        ),
        Column(
            "too_long_count", INT, "Number of events longer than WME_MAX_RECORD_MB, which were skipped.", required=True
        ),
        Column("events_per_second", DOUBLE, "Stored events per second."),
    ),
    key=("began_at",),
)
LIVE_VIEWS = (LIVE_CHANGES, CHANGES_LIVE, ARTICLES_LIVE)
STREAM_VIEWS = (STREAM_STATE, STREAM_RUNS)
