"""Views and macros for common analyst queries, and views over the realtime stream.

The SQL for these views and macros is in `resources/warehouse/views`.
"""

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
    required,
)
from resources.tables.entities import ENTITIES_AT

_PAGE = (*PROJECT_AND_NAMESPACE, required("article_id", INT, "Page id."), required("name", TEXT, "Title."))
_REVISION = (*_PAGE[:-1], required("version_id", INT, "Revision id."), _PAGE[-1], ARTICLE_CHANGES["event_at"])
#: Views for common analyst queries. DuckDB reports their computed columns as nullable.
QUESTIONS = (
    Table(
        "distinct_changes",
        "Distinct changes. Use this view for counts, because several hourly files can contain the same change.",
        ARTICLE_CHANGES.narrow.columns,
        key=("project_id", "event_id", "name"),
    ),
    Table(
        "activity",
        "Change counts per hour, project and namespace. Each event is counted once, in the hour of its event_at.",
        (
            required("hour_at", TIMESTAMP, "Start (UTC) of the hour."),
            *PROJECT_AND_NAMESPACE,
            required("edit_count", INT, "Number of edits of existing pages."),
            required("creation_count", INT, "Number of created pages (revisions without a previous revision)."),
            required("deletion_count", INT, "Number of pages deleted or turned into a redirect."),
            required("move_count", INT, "Number of page moves, counted at the new title."),
            required("visibility_change_count", INT, "Number of revisions that were hidden or made visible."),
            required("bot_count", INT, "Number of updates by bots."),
            required("anonymous_count", INT, "Number of updates by editors without an account."),
            required("minor_count", INT, "Number of updates marked as minor."),
            Column(
                "size_bytes",
                INT,
                "Total wikitext size of the updated revisions in bytes, or null if the sum exceeds 64 bits.",
            ),
            Column(
                "added_character_count",
                INT,
                "Number of characters added to the previous revisions. For a created page, all characters count; a "
                "page move counts as zero. Null if the sum exceeds 64 bits.",
            ),
            required("article_count", INT, "Number of distinct pages."),
        ),
        key=("hour_at", "project_id", "namespace_id"),
    ),
    Table(
        "most_edited",
        "Pages in descending order of their number of revisions in the loaded changes.",
        (
            *_PAGE,
            required("edit_count", INT, "Number of revisions."),
            required("editor_count", INT, "Number of distinct editors."),
            required("bot_count", INT, "Number of revisions by bots."),
            required("first_edit_at", TIMESTAMP, "Time of the first revision."),
            required("last_edit_at", TIMESTAMP, "Time of the last revision."),
        ),
        key=("project_id", "namespace_id", "article_id"),
    ),
    Table(
        "newest_articles",
        "Current pages by the time of their first revision, newest first.",
        (
            *_PAGE,
            *(ARTICLES[name] for name in ("created_at", "event_at", "editor_name", "size_bytes", "abstract", "url")),
        ),
        key=("project_id", "article_id"),
    ),
    Table(
        "deleted_articles",
        "Deleted pages, most recent first. The service sends the same event for pages that are deleted, turned into a "
        "redirect, or moved to a namespace that is not mirrored.",
        (
            *_PAGE,
            required("version_id", INT, "The page's last revision according to the event."),
            required("deleted_at", TIMESTAMP, "Time of the delete event."),
            ARTICLE_CHANGES["event_id"],
        ),
        key=("project_id", "article_id"),
    ),
    Table(
        "likely_reverted",
        "Changes that the service predicts will be reverted, most likely first.",
        (
            *_REVISION,
            *(
                ARTICLES[name]
                for name in ("revertrisk_probability", "editor_name", "editor_is_anonymous", "version_comment", "url")
            ),
        ),
    ),
    Table(
        "actual_reverts",
        "Distinct revisions that MediaWiki has tagged as reverts or as reverted, newest first.",
        (
            *_REVISION,
            required("is_reverted", BOOL, "True if a later revision has reverted this revision (tag mw-reverted)."),
            Column(
                "revert_method",
                TEXT,
                "Method by which the revision reverts earlier revisions: rollback, undo or manual-revert (tags "
                "mw-rollback, mw-undo, mw-manual-revert). Null if the revision is not a revert.",
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
    ),
    Table(
        "breaking_news",
        "Current pages that the service classifies as breaking news, most recently changed first.",
        (*_PAGE, *(ARTICLES[name] for name in ("event_at", "abstract", "url"))),
        key=("project_id", "article_id"),
    ),
    Table(
        "vandalism_candidates",
        "Changes by human editors with at least two of five signs of vandalism: predicted to be reverted or damaging; "
        "predicted not to be in good faith; no account or fewer than ten edits; half of a long text removed; no "
        "summary and not marked as minor.",
        (
            *_REVISION,
            required("sign_count", INT, "Number of signs."),
            ARTICLES["revertrisk_probability"],
            ARTICLES["damaging_probability"],
            ARTICLES["editor_name"],
            ARTICLES["editor_is_anonymous"],
            ARTICLES["editor_edit_count"],
            Column(
                "added_character_count",
                INT,
                "Number of characters added to the previous revision, or null for a created page.",
            ),
            ARTICLES["version_comment"],
            ARTICLES["url"],
        ),
    ),
    Table(
        "article_categories",
        "Categories of the current pages, with one row per page and category.",
        (
            *_PAGE,
            required("category_name", TEXT, "Category, with the local namespace prefix."),
            Column("category_url", TEXT, "URL of the category."),
        ),
    ),
    Table(
        "article_templates",
        "Templates that the current pages use, with one row per page and template.",
        (
            *_PAGE,
            required("template_name", TEXT, "Template, with the local namespace prefix."),
            Column("template_url", TEXT, "URL of the template."),
        ),
    ),
    Table(
        "titles",
        "All titles that lead to a current page, including redirects, with spaces instead of `_`.",
        (
            PROJECT_ID,
            required("title", TEXT, "The page's own title or a redirect title."),
            required("article_id", INT, "Page ID of the target page."),
            required("name", TEXT, "Title of the target page."),
            required("is_redirect", BOOL, "True if the title is a redirect."),
        ),
    ),
)
MACROS = (
    Macro(
        "articles_at",
        ("moment", "project", "inexact"),
        "Pages as they were at the given time, with the columns of `articles`. `project := 'enwiki'` selects one "
        "project, which is faster. A project that is not mirrored causes an error, as does a time before exact_from_at "
        "in `project_state`. With `inexact := true`, such a time is allowed, but pages can be missing.",
    ),
    Macro(
        "article_history",
        ("project", "page"),
        "All known states of a page, oldest first, without duplicate events. The page is given by its page ID (a "
        "number) or by a current or former title (a string). If the title differs only in case, the error lists the "
        "existing titles.",
    ),
    Macro("changes_between", ("since", "until"), "Distinct changes with since <= event_at < until, oldest first."),
    Macro(
        "find_article",
        ("project", "title"),
        "Current page with the given title, or the page that the title redirects to. If the title differs only in "
        "case, the error lists the existing titles.",
    ),
    Macro(
        "article_text",
        ("project", "title"),
        "Wikitext and HTML of a current page's newest revision, by page title or redirect. If the title differs only "
        "in case, the error lists the existing titles.",
    ),
    Macro(
        "infobox_values", ("wanted",), "All infobox values with the given label, which is matched case-insensitively."
    ),
    Macro("page_sections", ("project", "title"), "Sections of a page, in order, with their text."),
    Macro("page_links", ("project", "title"), "All links from a page's infoboxes, sections and references."),
    Macro(
        "links_to",
        ("project", "title"),
        "Links to a page in its project's structured contents, including links to its redirects (`is_redirect`). The "
        "query fails if no structured contents of the project are loaded.",
    ),
    Macro(
        "other_languages",
        ("project", "title"),
        "Pages about the same Wikidata item in other languages. If a page is not mirrored, `article_id` is null and "
        "the title comes from the Wikidata item.",
    ),
    Macro(
        "project_size",
        ("project",),
        "A project's number of pages and wikitext size (in bytes and characters) at the end of each covered hour in "
        "its exact range, by namespace.",
    ),
    ENTITIES_AT,
)

LIVE_CHANGES = replace(
    ARTICLE_CHANGES,
    name="live_changes",
    description=(
        "Events of the realtime stream in hours without an hourly file, with page text. An event appears within "
        "seconds and moves to `article_changes` when its hourly file is published. Empty if no stream is stored."
    ),
)
CHANGES_LIVE = replace(
    ARTICLE_CHANGES.narrow,
    name="changes_live",
    description=(
        "Union of `article_changes` and `live_changes`, with every change up to the stream's newest event. "
        "`event_partition` is not null in rows from the stream."
    ),
)
ARTICLES_LIVE = replace(
    ARTICLES,
    name="articles_live",
    description=(
        "Pages as they were at the realtime stream's newest event, computed by the same rule as `articles`. Without a "
        "stream, this view equals `articles`."
    ),
)

STREAM_STATE = Table(
    "stream_state",
    "Progress of the realtime stream per partition, as recorded in its newest file. Empty if no stream is stored.",
    (
        required("partition", INT, "Stream partition (0 to 49). One connection reads five consecutive partitions."),
        required("next_offset", INT, "Next offset to read. All events before this offset are stored."),
        required("event_count", INT, "Number of events stored for the mirrored projects since the stream started."),
        Column(
            "newest_published_at", TIMESTAMP, "Time when the partition's newest event, from any project, was published."
        ),
        Column(
            "lag_seconds",
            DOUBLE,
            "Seconds since newest_published_at, at query time. The lag also grows in a quiet partition, so use the "
            "smallest value among a connection's five partitions.",
        ),
    ),
    key=("partition",),
)
STREAM_RUNS = Table(
    "stream_runs",
    "Last 24 runs of the realtime stream, started by `wme stream` or by its asset.",
    (
        required("began_at", TIMESTAMP, "Start time of the run."),
        required("kept_at", TIMESTAMP, "Time of the run's newest file."),
        *(
            required(f"{name}_count", INT, f"Number of {counted}.")
            for name, counted in {
                "connection": "parallel connections",
                "reconnect": "reconnections",
                "event": "events stored for the mirrored projects",
                "other": "events for other projects and namespaces",
                "duplicate": "repeated events that were dropped",
                "reject": "lines that are not valid events. These lines are in lake/live_changes_rejects, with the "
                "reasons",
                "reset": "times that a partition's offsets decreased, for example because the service renumbered its "
                "events",
                "too_long": "events that were skipped because they are longer than WME_MAX_RECORD_MB",
            }.items()
        ),
        Column("events_per_second", DOUBLE, "Number of events stored per second."),
    ),
    key=("began_at",),
)
LIVE_VIEWS = (LIVE_CHANGES, CHANGES_LIVE, ARTICLES_LIVE)
STREAM_VIEWS = (STREAM_STATE, STREAM_RUNS)
