"""What answers an analyst's first questions in the published file: views, and macros with parameters.

They share the rule of the current articles, so that the pages at a moment are decided as the pages now are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from resources import datasets, tables
from resources.warehouse.database.schema import comments
from resources.warehouse.database.sql import column_list, identifier, quoted, sql_type, statement
from resources.warehouse.state.current import NEWEST_FIRST
from resources.warehouse.views import entities
from resources.warehouse.views.structured import derived

if TYPE_CHECKING:
    from collections.abc import Iterator


def questions() -> Iterator[str]:
    """The statements that make them, with their comments. They build on the views over the lake."""
    for table in tables.QUESTIONS:
        yield _written(table.name)
        yield from comments(table, "VIEW")
    for dataset in datasets.datasets(datasets.Family.SNAPSHOT):
        for table in dataset.derived:
            if table in tables.ENTITY_VIEWS:
                continue
            yield f"CREATE VIEW {identifier(table.name)} AS SELECT {column_list(table)} FROM (\n{derived(table.name)})"  # noqa: S608
            yield from comments(table, "VIEW")
    for macro in tables.MACROS:
        yield _written(macro.name, macro.parameters[-1])
        yield f"COMMENT ON MACRO TABLE {identifier(macro.name)} IS {quoted(macro.description)}"
    yield from entities.questions()


def _written(name: str, asked: str = "") -> str:
    """The statement of a view or macro, with the columns of a page and the order of states written in.

    `asked`: the parameter that may be a title. `{complaints}`: the columns, each made of the text `complaint`, so that whatever is asked of a row that is an error meets it.
    """
    narrow = tables.ARTICLE_CHANGES.narrow
    content = ", ".join(identifier(column.name) for column in narrow if column.name != "batch_hour")
    digest = f"md5(CAST(row({content}) AS VARCHAR))"
    named = "concat(event_id, chr(10), replace(name, '_', ' '))"
    complaints = ", ".join(f"CAST(complaint AS {sql_type(c.type)}) AS {identifier(c.name)}" for c in tables.ARTICLES)
    return (
        statement(f"views/{name}")
        .replace("{other_spelling}", statement("views/other_spelling").replace("{title}", asked))
        .replace("{unmirrored}", statement("views/unmirrored"))
        .replace("{columns}", column_list(tables.ARTICLES))
        .replace("{changes}", "(SELECT * RENAME (batch_hour AS source_at) FROM article_changes)")
        .replace("{complaints}", complaints)
        .replace("{newest_first}", NEWEST_FIRST)
        .replace("{event_key}", f"md5_number_lower(CASE WHEN event_id IS NULL THEN {digest} ELSE {named} END)")
        .replace("{mark}", f"CASE WHEN event_id IS NULL THEN {digest} ELSE event_id END")
    )
