"""Queries for the checks, on a single connection. Each result lists the first findings and counts all findings."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from resources.datasets import Dataset, Family
from resources.tables import ARTICLES, ENTITIES, Table
from resources.warehouse.database.connect import answer, records
from resources.warehouse.database.sql import filled, identifier, statement
from resources.warehouse.read.lake_parts import lake_parts
from resources.warehouse.records import Row
from resources.warehouse.state.applier import applied_to
from resources.warehouse.state.entities import with_rule

#: Number of rows whose keys are compared together, which limits memory to about 200 MB.
ROWS_AT_A_TIME = 2_000_000
_TITLE = "replace(name, '_', ' ')"
#: Unique keys of each current state, with SQL for their digests.
_KEYS = {
    ARTICLES.name: (("project_id, article_id", "hash(project_id, article_id)"), (f"project_id, {_TITLE}", "title_key")),
    ENTITIES.name: (("project_id, entity_id", "hash(project_id, entity_id)"),),
}
_OVERLOOKED = """
SELECT
  project_id,
  title AS name,
  is_deleted,
  event_at AS known_at,
  held_at,
  is_deleted AND held_at IS NOT NULL AS is_there_still,
  count(*) OVER (PARTITION BY is_there_still) AS total
FROM compared
WHERE coalesce(held_at < greatest(event_at, ended_at), ended_at IS NULL OR ended_at < event_at)
QUALIFY row_number() OVER (PARTITION BY is_there_still ORDER BY project_id, title) <= $limit
ORDER BY project_id, title
"""
# Joins that restrict rows to applied files of projects without a pending snapshot.
_OF_HOURS = """
SEMI JOIN (
  SELECT source_at, project_id, namespace_id
  FROM loads
  WHERE table_name = $table AND applied_at IS NOT NULL AND list_contains($hours, batch_hour)
) AS file USING (source_at, project_id, namespace_id)
ANTI JOIN (SELECT project_id FROM snapshots WHERE applied_at IS NULL) AS pending USING (project_id)
"""
# Query that reads only the key columns. Columns that were declared after files were written are never in a key.
_KEYS_OF_SNAPSHOT = """
SELECT CAST(coalesce(sum(copies), 0) AS BIGINT) AS row_count,
  CAST(coalesce(sum(copies - 1), 0) AS BIGINT) AS repeated_count,
  {expected} AS expected_count, 0 AS early_count
FROM (SELECT count(*) AS copies FROM {rows} GROUP BY {key})
"""


@dataclass(frozen=True)
class Findings:
    """The first findings, the total number of findings, and the number of rows examined."""

    named: tuple[Any, ...]
    count: int
    looked_at: int


class Auditor:
    """Audits of the build file, on an open connection."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, lake_root: Path) -> None:
        self._connection, self._lake_root = connection, lake_root

    def snapshots(self, identifiers: Iterable[str], dataset: Dataset) -> dict[str, Row]:
        """Count the rows of each snapshot's most recently loaded version, as `Reader.audit` does for hours."""
        loaded = (
            "SELECT snapshot_version, row_count - duplicate_count FROM snapshots "
            "WHERE table_name = ? AND snapshot_id = ? ORDER BY loaded_at DESC, snapshot_version LIMIT 1"
        )
        given = ("snapshot_id", "snapshot_version")
        key = ", ".join(identifier(name) for name in dataset.table.key if name not in given)
        in_lake = dataset.rows_stay_in_lake
        kept = lake_parts(self._connection, self._lake_root, dataset, checked=True) if in_lake else []
        found = {}
        for name in identifiers:
            for version, expected in answer(self._connection, loaded, [dataset.name, name]):
                parameters: list[Any] = []
                rows = next((v.rows() for v in kept if (v.snapshot_id, v.snapshot_version) == (name, version)), "")
                if not in_lake:
                    rows = f"(FROM {identifier(dataset.name)} WHERE snapshot_id = ? AND snapshot_version = ?)"
                    parameters = [name, version]
                query = filled(_KEYS_OF_SNAPSHOT, rows=rows, key=key, expected=str(expected))
                [found[name]] = records(self._connection, query, parameters)
        return found

    def repeated(self, state: Table, turn: int | None = None, *, name: int) -> Findings:
        """Find repeated keys in a current state, and list at most `name` of these keys.

        Each finding contains the project, the key's other column, and the number of rows. If `turn` is None, all rows
        are examined. Otherwise, each turn examines a different part of the rows.
        """
        [(count,)] = answer(self._connection, f"SELECT count(*) FROM {identifier(state.name)}")  # noqa: S608
        parts = 1 + count // ROWS_AT_A_TIME
        named, total = [], 0
        for part in range(parts) if turn is None else (turn % parts,):
            for key, digest in _KEYS[state.name]:
                query = statement("state/repeated", table=identifier(state.name), key=key, digest=digest)
                rows = answer(self._connection, query, {"parts": parts, "part": part, "limit": name})
                named += [(project, of, copies) for project, of, copies, _ in rows]
                total += rows[0][3] if rows else 0
        return Findings(tuple(named[:name]), total, count if turn is None else -(-count // parts))

    def overlooked(self, state: Table, hour_count: int, *, name: int) -> tuple[Findings, Findings]:
        """Find differences between a current state and the newest `hour_count` applied hours.

        Return deleted pages that are still present, and all other differences. Each result lists at most `name` titles
        or entities, with the time of their last known event (`known_at`, a delete if `is_deleted`) and of their row in
        the current state (`held_at`, or None). Hours removed from the build file are skipped, as are projects that a
        new snapshot will change.
        """
        (changes,) = applied_to(state, Family.HOURLY)
        last = (
            "SELECT batch_hour, CAST(sum(row_count - duplicate_count) AS BIGINT) FROM loads WHERE table_name = $table "
            "AND applied_at = (SELECT max(applied_at) FROM loads WHERE table_name = $table) "
            "GROUP BY batch_hour ORDER BY batch_hour DESC LIMIT $limit"
        )
        taken = dict(answer(self._connection, last, {"table": changes, "limit": hour_count}))
        query = statement(f"state/overlooked_{state.name}", overlooked=_OVERLOOKED, of_hours=_OF_HOURS)
        query = query if state is ARTICLES else with_rule(query)
        hours = {"hours": list(taken), "first": min(taken, default=None), "last": max(taken, default=None)}
        rows = records(self._connection, query, hours | {"table": changes, "limit": name})
        found = ([row for row in rows if row.is_there_still is is_there] for is_there in (True, False))
        there, others = (Findings(tuple(some), some[0].total if some else 0, sum(taken.values())) for some in found)
        return there, others

    def keys(self, dataset: Dataset) -> list[tuple[Any, ...]]:
        """Return the keys of all rows in a list."""
        columns = ", ".join(map(identifier, dataset.table.key))
        return answer(self._connection, f"SELECT {columns} FROM {identifier(dataset.name)} ORDER BY ALL")  # noqa: S608
