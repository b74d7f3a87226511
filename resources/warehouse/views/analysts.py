"""Views for an analyst's first queries of the published file, and macros with parameters.

They share the rule of the current articles, so that the pages at a moment are decided as the pages now are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from resources import datasets, tables
from resources.warehouse.database.parts import derived
from resources.warehouse.database.schema import comments
from resources.warehouse.database.sql import column_list, identifier, quoted, sql_type, statement
from resources.warehouse.views import entities

if TYPE_CHECKING:
    from collections.abc import Iterator


#: Where a title is looked for besides `articles`, and when it is found under other spellings alone.
_TITLES = {
    "find_article": {
        "none_is_right": "NOT bool_or(spelling = replace(title, '_', ' '))",
        "title": "title",
        "name": "redirect_name",
        "names": "redirects",
    },
    "article_history": {
        "none_is_right": "count(*) > 0 AND NOT EXISTS (FROM pages)",
        "title": "CASE WHEN typeof(page) = 'VARCHAR' THEN CAST(page AS VARCHAR) END",
        "name": "name",
        "names": "article_changes",
    },
}
#: What the states of a macro have besides the columns by which they are ordered.
_MORE = {"project_size": ", change.size_bytes, change.character_count"}
#: All changes, and the pages that were looked up as changes, with the columns of `articles`.
_CHANGES = (
    "(SELECT {columns} FROM (SELECT * RENAME (batch_hour AS source_at) FROM article_changes) UNION ALL "
    "SELECT {columns} FROM (SELECT *, 'update' AS change_type FROM lookups WHERE is_found AND purpose <> 'watch'))"
)


def questions() -> Iterator[str]:
    """The statements that make them, with their comments. They build on the views over the lake."""
    for table in tables.QUESTIONS:
        yield _written(table.name)
        yield from comments(table, "VIEW")
    for dataset in datasets.datasets(datasets.Family.SNAPSHOT):
        for table in dataset.views:
            if table in tables.ENTITY_VIEWS:
                continue
            query = f"SELECT {column_list(table)} FROM (\n{derived(table.name)})"  # noqa: S608  declared names
            yield f"CREATE VIEW main.{identifier(table.name)} AS {query}"
            yield from comments(table, "VIEW")
    yield from entities.questions()
    for macro in tables.MACROS:
        if macro is tables.ENTITIES_AT:
            continue  # with the views that it belongs to
        yield _written(macro.name)
        yield f"COMMENT ON MACRO TABLE main.{identifier(macro.name)} IS {quoted(macro.description)}"


def _written(name: str) -> str:
    """The statement of a view or macro.

    `{complaints}`: the columns of a page, each made of the text `complaint`, so that whatever is asked of a row that is
    an error
    meets it.
    """
    exact_bases = statement("views/exact_bases")
    more = _MORE.get(name, ", change.mark")
    return statement(
        f"views/{name}",
        other_spelling=statement("views/other_spelling", **_TITLES.get(name, {})),
        unmirrored=statement("views/unmirrored"),
        inexact=statement("views/inexact", exact_bases=exact_bases),
        exact_bases=exact_bases,
        candidates=statement("state/candidates", changes="changes", base="base", more=more),
        changes=_CHANGES,
        columns=column_list(tables.ARTICLES),
        change_columns=column_list(tables.ARTICLE_CHANGES.narrow),
        complaints=", ".join(f"CAST(complaint AS {sql_type(c.type)}) AS {identifier(c.name)}" for c in tables.ARTICLES),
        mark="CASE WHEN event_id IS NULL THEN {row_digest} ELSE event_id END",
    )
