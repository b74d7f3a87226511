"""The first questions, answered in the published file: views, and queries with parameters.

Belongs here: which of them there are, and what they share with the rule of the current articles, so that the pages at a
moment are decided as the pages now are. Does not belong here: what they say, which is SQL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from resources import tables
from resources.warehouse.current import NEWEST_FIRST
from resources.warehouse.schema import column_list, comments, identifier, quoted, sql_type, statement

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from resources.warehouse.snapshots import Version

_STATES = {
    "project_id": "VARCHAR",
    "title": "VARCHAR",
    "article_id": "BIGINT",
    "event_at": "TIMESTAMPTZ",
    "version_id": "BIGINT",
    "is_update": "BOOLEAN",
    "event_key": "UBIGINT",
    "batch_hour": "TIMESTAMPTZ",
    "namespace_id": "BIGINT",
}


def questions(versions: Sequence[Version]) -> Iterator[str]:
    """The statements that make them, with their comments; `versions` are the kept snapshots with their files."""
    present = [version for version in versions if version.paths]
    pages = {column.name: sql_type(column.type) for column in tables.ARTICLES}
    yield _union("snapshot_states", [version.states() for version in present], _STATES)
    yield _union("snapshot_pages", [version.articles() for version in present], pages)
    for table in tables.QUESTIONS:
        yield _written(table.name)
        yield from comments(table, "VIEW")
    for macro in tables.MACROS:
        yield _written(macro.name)
        yield f"COMMENT ON MACRO TABLE {identifier(macro.name)} IS {quoted(macro.description)}"


def _union(name: str, parts: Sequence[str], columns: dict[str, str]) -> str:
    nothing = ", ".join(f"CAST(NULL AS {kind}) AS {identifier(column)}" for column, kind in columns.items())
    return f"CREATE VIEW internal.{name} AS\n" + "\nUNION ALL\n".join(parts or [f"SELECT {nothing} WHERE false"])


def _written(name: str) -> str:
    """The statement of a question, with the columns of a page and the order of states written in."""
    narrow = tables.ARTICLE_CHANGES.narrow
    content = ", ".join(identifier(column.name) for column in narrow if column.name != "batch_hour")
    digest = f"md5(CAST(row({content}) AS VARCHAR))"
    named = "concat(event_id, chr(10), replace(name, '_', ' '))"
    return (
        statement(f"questions/{name}")
        .replace("{columns}", column_list(tables.ARTICLES))
        .replace("{newest_first}", NEWEST_FIRST)
        .replace("{event_key}", f"md5_number_lower(CASE WHEN event_id IS NULL THEN {digest} ELSE {named} END)")
        .replace("{mark}", f"CASE WHEN event_id IS NULL THEN {digest} ELSE event_id END")
    )
