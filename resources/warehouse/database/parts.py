"""Data derived from structured contents: queries over the JSON texts in the lake.

Views and loads use these queries. The parts of a page are nested at any depth. A join of each page with `json_tree`
would hold every page once for each of its parts. The query here descends level by level instead, and streams.
"""

from __future__ import annotations

from resources.warehouse.database.sql import statement

#: Levels of parts that are looked into. Headings have six levels, and the deepest recorded part is at level 5.
_LEVELS = 12
_PAGE = "project_id, namespace_id, article_id, name"
#: A part at [2, 1] is the first one in the second one.
_PATH = "concat('$[', array_to_string(list_transform(position, lambda n: n - 1), '].has_parts['), ']')"


def derived(name: str, bodies: str = "structured_bodies") -> str:
    """Return the query of a table that is derived from structured contents.

    `bodies` is the view of the contents, or a query in brackets.
    """
    return statement(
        f"views/{name}",
        infobox_parts=_parts("coalesce(infoboxes_json, infobox_json)"),
        section_parts=_parts("coalesce(sections_json, article_sections_json)"),
        references=f"({_numbered(_list('references_json'))})",
        tables=f"({_numbered(_list('tables_json'))})",
        path=_PATH,
        page=_PAGE,
        bodies=bodies,
    )


def _list(column: str) -> str:
    """The members of a list. It is declared as one object in places; data has a list."""
    return (
        f"CASE WHEN starts_with({column}, '{{') THEN [CAST({column} AS JSON)] ELSE json_extract({column}, '$[*]') END"
    )


def _numbered(parts: str) -> str:
    """A query for each of the `parts` of a page: with its page, and its number from 1."""
    return (
        "SELECT {page}, unnest(parts) AS part, generate_subscripts(parts, 1) AS n\n"  # noqa: S608  constants
        f"FROM (SELECT {{page}}, {parts} AS parts FROM {{bodies}})"
    )


def _parts(document: str) -> str:
    """Return a query for all parts in `document`.

    Each row has the page of the part, its position, and the names of the parts that contain it.
    """
    members = _numbered(f"json_extract({document}, '$[*]')")
    query = (
        "SELECT {page}, [CAST(n AS BIGINT)] AS position, CAST([] AS VARCHAR[]) AS above, part, true AS is_new\n"
        f"FROM ({members})"
    )
    # a part that was looked into stands before those that are in it
    for _ in range(_LEVELS - 1):
        query = (
            "SELECT {page}, CASE WHEN n = 1 THEN position ELSE list_append(position, n - 1) END AS position,\n"  # noqa: S608
            "CASE WHEN n = 1 THEN above ELSE list_append(above, own) END AS above, part, n > 1 AS is_new\n"
            "FROM (SELECT {page}, position, above, own, unnest(parts) AS part, generate_subscripts(parts, 1) AS n\n"
            "FROM (SELECT {page}, position, above, CASE WHEN has_parts THEN part ->> 'name' END AS own,\n"
            "CASE WHEN has_parts THEN list_prepend(part, json_extract(part, '$.has_parts[*]')) "
            "ELSE [part] END AS parts\n"
            f"FROM (SELECT *, is_new AND contains(part, '\"has_parts\"') AS has_parts FROM ({query}))))"
        )
    return f"({query})"
