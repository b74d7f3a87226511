"""What is derived from structured contents: queries over the JSON texts in the lake, for views and for what a load keeps.

The parts of a page are inside one another at any depth. A join of each page with `json_tree` would hold every page once for
each of its parts; the query here walks down level by level instead, and streams.
"""

from __future__ import annotations

from resources.warehouse.database.sql import statement

#: Levels of parts that are looked into. Headings have six levels, and the deepest recorded part is at level 5.
_LEVELS = 12
_PAGE = "project_id, namespace_id, article_id, name"
_DOCUMENTS = {
    "infobox_parts": "coalesce(infoboxes_json, infobox_json)",
    "section_parts": "coalesce(sections_json, article_sections_json)",
}
#: Declared as one object in places; data has a list.
_REFERENCES = (
    "if(starts_with(references_json, '{'), [CAST(references_json AS JSON)], json_extract(references_json, '$[*]'))"
)
_TABLES = "if(starts_with(tables_json, '{'), [CAST(tables_json AS JSON)], json_extract(tables_json, '$[*]'))"
#: A part at [2, 1] is the first one in the second one.
_PATH = "concat('$[', array_to_string(list_transform(position, lambda n: n - 1), '].has_parts['), ']')"


def derived(name: str, bodies: str = "structured_bodies") -> str:
    """The query of a table that is derived from structured contents; `bodies` is the view of them, or a query in brackets."""
    text = statement(f"views/{name}")
    for parts, document in _DOCUMENTS.items():
        if f"{{{parts}}}" in text:
            text = text.replace(f"{{{parts}}}", f"({_parts(document)})")
    return (
        text.replace("{path}", _PATH)
        .replace("{references}", _REFERENCES)
        .replace("{tables}", _TABLES)
        .replace("structured_bodies", bodies)
    )


def _parts(document: str) -> str:
    """A query for all parts in `document`: each with its page, its position and the names of the parts that it is in."""
    query = (
        f"SELECT {_PAGE}, [CAST(n AS BIGINT)] AS position, CAST([] AS VARCHAR[]) AS above, part, true AS is_new\n"  # noqa: S608  constants
        f"FROM (SELECT {_PAGE}, unnest(parts) AS part, generate_subscripts(parts, 1) AS n\n"
        f"FROM (SELECT {_PAGE}, json_extract({document}, '$[*]') AS parts FROM structured_bodies))"
    )
    # a part that was looked into stands before those that are in it
    for _ in range(_LEVELS - 1):
        query = (
            f"SELECT {_PAGE}, if(n = 1, position, list_append(position, n - 1)) AS position, if(n = 1, above, list_append(above, own)) AS above, part, n > 1 AS is_new\n"  # noqa: S608
            f"FROM (SELECT {_PAGE}, position, above, own, unnest(parts) AS part, generate_subscripts(parts, 1) AS n\n"
            f"FROM (SELECT {_PAGE}, position, above, if(has_parts, part ->> 'name', NULL) AS own,\n"
            "if(has_parts, list_prepend(part, json_extract(part, '$.has_parts[*]')), [part]) AS parts\n"
            f"FROM (SELECT *, is_new AND contains(part, '\"has_parts\"') AS has_parts FROM ({query}))))"
        )
    return query
