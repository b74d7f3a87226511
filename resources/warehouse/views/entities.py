"""Tables derived from entities: views over the JSON texts in the lake, which are parsed when they are asked."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from resources import tables
from resources.warehouse.database.schema import comments
from resources.warehouse.database.sql import column_list, identifier, quoted, statement
from resources.warehouse.entities.current import ENTITIES_AT, with_rule

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The bodies of the entities of today.
_TODAY = (
    "(SELECT body.* FROM entity_bodies AS body SEMI JOIN entities USING (project_id, entity_id, event_at, source_at))"
)
#: A map; an empty one may be a list instead, as Wikibase writes it.
_OBJECT = re.compile(r"\{object:(\w+)\}")
NAMES = frozenset(table.name for table in tables.ENTITY_VIEWS)


def derived(name: str) -> str:
    """The query of a table that is derived from the entities of today."""
    text = statement(f"views/{name}", today=_TODAY)
    return _OBJECT.sub(r"CASE WHEN starts_with(\1, '{') THEN CAST(\1 AS JSON) END", text)


def questions() -> Iterator[str]:
    """The statements that make the views and the macro, with their comments."""
    for table in tables.ENTITY_VIEWS:
        query = f"SELECT {column_list(table)} FROM (\n{derived(table.name)})"  # noqa: S608  declared names
        yield f"CREATE VIEW main.{identifier(table.name)} AS {query}"
        yield from comments(table, "VIEW")
    macro = tables.ENTITIES_AT
    yield with_rule(ENTITIES_AT, moment=macro.parameters[0])
    yield f"COMMENT ON MACRO TABLE main.{identifier(macro.name)} IS {quoted(macro.description)}"
