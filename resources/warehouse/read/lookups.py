"""Pages to look up: watched titles, lost hours and rejected records, as the warehouse knows them."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from resources.warehouse.database.connect import answer
from resources.warehouse.database.sql import FORMULAS, statement

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    import duckdb

#: Rejected lines whose pages are looked for, the newest first.
_MOST_LINES = 1000
#: An hour's file ends with its own export, some minutes after the hour.
_TOLD = timedelta(hours=2)
#: The title of a record whose first field it is, as the service writes them.
_FIRST_NAME = re.compile(rb'\s*\{\s*"name"\s*:\s*("(?:[^"\\]|\\.)*")')


class Page(NamedTuple):
    """A page by its title."""

    project_id: str
    namespace_id: int
    name: str


class Sampled(NamedTuple):
    """A page of a sample, with what `articles` holds of it and until when its changes are known."""

    project_id: str
    namespace_id: int
    name: str
    article_id: int
    version_id: int
    known_until: datetime


class LookedUp(NamedTuple):
    """An answer: what there was of the title, if anything."""

    project_id: str
    asked_name: str
    is_found: bool
    article_id: int | None
    version_id: int | None
    event_at: datetime | None


def due(connection: duckdb.DuckDBPyConnection, watched: Sequence[tuple[str, str]], now: datetime) -> list[Page]:
    """The watched (project, title) pairs that are to be looked up now, in their order."""
    parameters = {"projects": [one[0] for one in watched], "names": [one[1] for one in watched], "now": now}
    return _pages(connection, statement("read/due"), parameters)


def uncertain(
    connection: duckdb.DuckDBPyConnection, projects: Sequence[str], namespaces: Sequence[int], limit: int, now: datetime
) -> list[Page]:
    """Pages that rejected lines, then those that lost hours made uncertain, `limit` at most."""
    scope = {"projects": list(projects), "namespaces": list(namespaces)}
    lines = answer(
        connection,
        "SELECT project_id, namespace_id, raw, coalesce(batch_hour, source_at) FROM rejects "  # noqa: S608  a number
        "WHERE table_name IN ('article_changes', 'snapshot_articles') AND list_contains($projects, project_id) "
        f"AND list_contains($namespaces, namespace_id) ORDER BY 4 DESC LIMIT {_MOST_LINES}",
        scope,
    )
    named = [(*line[:2], name, line[3] + _TOLD) for line in lines if (name := _name_in(line[2]))]
    columns = ("projects", "namespaces", "names", "moments")
    told = {column: [one[place] for one in named] for place, column in enumerate(columns)}
    found = _pages(connection, statement("read/unresolved"), told | {"now": now}) if named else []
    text = statement("read/uncertain", beginnings=statement("load/beginnings"))
    found += _pages(connection, text, scope | {"limit": limit, "now": now})
    return list(dict.fromkeys(found))[:limit]


def sample(
    connection: duckdb.DuckDBPyConnection, projects: Sequence[str], namespaces: Sequence[int], count: int
) -> list[Sampled]:
    """Return random pages of `articles`, of projects without a gap.

    A project without a snapshot qualifies too: the pages in `articles` are known all the same.
    """
    query = f"""\
FROM (SELECT page.project_id, page.namespace_id, page.name, page.article_id, page.version_id,
  coalesce(exact_until_at, known_until)
FROM articles AS page
JOIN project_state USING (project_id, namespace_id)
LEFT JOIN (
  SELECT project_id, namespace_id, max(batch_hour) + INTERVAL 1 HOUR AS known_until FROM hours
  WHERE table_name = 'article_changes' AND state IN ({FORMULAS["covered"]}) GROUP BY ALL
) USING (project_id, namespace_id)
WHERE list_contains($projects, page.project_id) AND list_contains($namespaces, page.namespace_id)
  AND first_gap_at IS NULL)
USING SAMPLE {count:d} ROWS"""  # noqa: S608  a number
    return [
        Sampled(*row) for row in answer(connection, query, {"projects": list(projects), "namespaces": list(namespaces)})
    ]


def _pages(connection: duckdb.DuckDBPyConnection, query: str, parameters: dict[str, object]) -> list[Page]:
    return [Page(*row) for row in answer(connection, query, parameters)]


def _name_in(raw: bytes) -> str | None:
    """Return the title in a rejected record; None: it cannot be found."""
    if (found := _FIRST_NAME.match(raw)) is None:
        return None
    try:
        name = json.loads(found[1])
    except ValueError:  # not UTF-8 either
        return None
    return name if isinstance(name, str) and name else None
