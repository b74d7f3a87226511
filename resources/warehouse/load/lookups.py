"""Page lookups: loading a run's responses, and selecting pages to look up."""

import json
import re
from collections.abc import Sequence
from datetime import datetime, timedelta

import duckdb

from resources.datasets import LOOKUPS
from resources.datasets.paths import hour_folder
from resources.lake_files import ConvertedFile
from resources.warehouse.database.connect import Build, answer, raise_revision, records
from resources.warehouse.database.sql import FORMULAS, column_list, filled, statement, transaction
from resources.warehouse.load.files import announce, enter, unreadable
from resources.warehouse.records import Row

#: A page: its project, its namespace and its title.
Page = tuple[str, int, str]
#: Maximum number of rejected records whose pages are looked up, newest first.
_MOST_LINES = 1000
#: Maximum time from an hour's start to the last event in its file. The export ends a few minutes after the hour.
_TOLD = timedelta(hours=2)
#: Pattern for the title in a rejected record whose first field is `name`, as in the service's records.
_FIRST_NAME = re.compile(rb'\s*\{\s*"name"\s*:\s*("(?:[^"\\]|\\.)*")')
_INSERT = """
INSERT INTO lookups BY NAME
SELECT {columns}, {event_key} AS event_key
FROM (SELECT *, event_type AS change_type FROM read_parquet($paths, hive_partitioning := false))
"""
_OF_FILE = "(project_id, namespace_id, source_at)"
_INCOMING = "SELECT project_id, namespace_id, source_at FROM incoming"
_LATER = (
    "SELECT later.project_id, later.namespace_id, later.source_at FROM loads AS later "
    "JOIN (SELECT project_id, namespace_id, min(source_at) AS source_at FROM incoming GROUP BY ALL) AS first "
    "ON later.project_id = first.project_id AND later.source_at >= first.source_at "
    "WHERE later.table_name = 'lookups'"
)
_EARLIER = (
    "SELECT project_id, namespace_id, source_at FROM lookups AS earlier SEMI JOIN "  # noqa: S608  constants
    f"(FROM lookups WHERE {_OF_FILE} IN ({_INCOMING})) AS again ON earlier.project_id = again.project_id "
    "AND replace(earlier.asked_name, '_', ' ') = replace(again.asked_name, '_', ' ') WHERE NOT is_found"
)


def load_lookups(build: Build, files: Sequence[ConvertedFile], *, reload: bool = False) -> int:
    """Load page lookup responses in one transaction. Return the number of rows in new files.

    Files that were already loaded with the same digest are skipped, unless `reload` is set. Once lookups in two files
    have failed to find a title, the title is treated as deleted until a later lookup finds it. To make the result
    independent of the loading order, later files of the same project are applied again. Earlier files are also applied
    again if their lookups did not find a title that the new files contain. Raises LakeFileError, without changing
    anything, if a file is missing or contradicts the announced counts.
    """
    connection = build.connection
    with transaction(connection):
        known = set(connection.execute("SELECT source_at, digest FROM loads WHERE table_name = 'lookups'").fetchall())
        fresh = [file for file in files if reload or (file.source_at, file.digest) not in known]
        if not fresh:
            return 0
        announced = []
        for file in fresh:
            assert file.source_at is not None  # of lookups
            hour = file.source_at.replace(minute=0, second=0, microsecond=0)
            announced.append((file, f"{LOOKUPS.name}/{hour_folder(hour)}"))
        announce(build, LOOKUPS, announced, batch_hour=None, applied_at=None)
        for table in (LOOKUPS.name, "rejects", "loads"):
            ours = "" if table == LOOKUPS.name else "table_name = 'lookups' AND "
            connection.execute(f"DELETE FROM {table} WHERE {ours}{_OF_FILE} IN ({_INCOMING})")  # noqa: S608  declared names
        try:
            insert = filled(_INSERT, columns=column_list(LOOKUPS.table.narrow))
            connection.execute(insert, {"paths": [str(file.path) for file in fresh]})
            enter(connection)
        except duckdb.Error as error:
            raise unreadable("the lookups", fresh, LOOKUPS.table, error) from error
        connection.execute(
            "UPDATE loads SET applied_at = NULL WHERE table_name = 'lookups' "  # noqa: S608  constants
            f"AND {_OF_FILE} IN ({_LATER} UNION {_EARLIER})"
        )
        raise_revision(connection)
    return sum(file.row_count for file in fresh)


def lookup_digests(build: Build) -> frozenset[tuple[datetime, str]]:
    """Return the loaded lookup files as (run start time, digest) pairs."""
    return frozenset(answer(build.connection, "SELECT source_at, digest FROM loads WHERE table_name = 'lookups'"))


def last_lookup_at(build: Build, purpose: str) -> datetime | None:
    """Return the time of the last lookup for the given purpose."""
    [(last,)] = answer(build.connection, "SELECT max(looked_up_at) FROM lookups WHERE purpose = ?", [purpose])
    return last  # type: ignore[no-any-return]


def lookups_since(build: Build, moment: datetime, purpose: str | None = None) -> list[Row]:
    """Return lookup responses since a given time, for one purpose or for all purposes."""
    query = (
        "SELECT project_id, asked_name, is_found, article_id, version_id, event_at FROM lookups "
        "WHERE looked_up_at >= $moment AND ($purpose IS NULL OR purpose = $purpose)"
    )
    return records(build.connection, query, {"moment": moment, "purpose": purpose})


def lookups_due(build: Build, watched: Sequence[tuple[str, str]], now: datetime) -> list[Page]:
    """Return the watched (project, title) pairs to look up: new, changed, or not found at least a day ago."""
    parameters = {"projects": [one[0] for one in watched], "names": [one[1] for one in watched], "now": now}
    return [*answer(build.connection, statement("read/due"), parameters)] if watched else []


def uncertain_pages(
    build: Build, projects: Sequence[str], namespaces: Sequence[int], limit: int, now: datetime
) -> list[Page]:
    """Return pages to repair: first pages from rejected records, then the likeliest to have changed in lost hours."""
    connection, scope = build.connection, {"projects": list(projects), "namespaces": list(namespaces)}
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
    found = answer(connection, statement("read/unresolved"), told | {"now": now}) if named else []
    text = statement("read/uncertain", beginnings=statement("load/beginnings"))
    found += answer(connection, text, scope | {"limit": limit, "now": now})
    return [*dict.fromkeys(found)][:limit]


def sampled_pages(build: Build, projects: Sequence[str], namespaces: Sequence[int], count: int) -> list[Row]:
    """Return random pages from `articles` for projects without a gap, including projects without a snapshot.

    `known_until` is the time up to which the changes of a page are known.
    """
    query = f"""\
FROM (SELECT page.project_id, page.namespace_id, page.name, page.article_id, page.version_id,
  coalesce(exact_until_at, known_until) AS known_until
FROM articles AS page
JOIN project_state USING (project_id, namespace_id)
LEFT JOIN (
  SELECT project_id, namespace_id, max(batch_hour) + INTERVAL 1 HOUR AS known_until FROM hours
  WHERE table_name = 'article_changes' AND state IN ({FORMULAS["covered"]}) GROUP BY ALL
) USING (project_id, namespace_id)
WHERE list_contains($projects, page.project_id) AND list_contains($namespaces, page.namespace_id)
  AND first_gap_at IS NULL)
USING SAMPLE {count:d} ROWS"""  # noqa: S608  a number
    scope = {"projects": list(projects), "namespaces": list(namespaces)}
    return records(build.connection, query, scope)


def _name_in(raw: bytes) -> str | None:
    """Return the title in a rejected record, or None if the title cannot be extracted."""
    if (found := _FIRST_NAME.match(raw)) is None:
        return None
    try:
        name = json.loads(found[1])
    except ValueError:  # json also raises ValueError for invalid UTF-8
        return None
    return name if isinstance(name, str) and name else None
