"""Current state of Wikidata: each existing entity with its deciding row, updated hourly.

An entity's newest update or delete decides: the entity exists if this row is an update. "Newest" refers to a total
order by event time, revision (if recorded), change type (updates after deletes), event, and source (earlier sources
first). An item that is merged into another item is deleted by its redirect event. A `visibility-change` never decides a
state. The entities in the newest snapshot of a namespace compete like updates. Updates older than the snapshot's
boundary do not compete: if the snapshot does not contain their entity, the entity disappeared in a gap. Because an
entity's identifier never changes, one maximum is enough, whereas pages need two. A deciding update is stored in
`entities`, and a deciding delete in `internal.ended_entities`. Each hour is compared with the previous deciding row,
which is missing only if its file was reloaded. In this case, the entity's other rows compete again.
"""

from resources.tables import ENTITIES
from resources.warehouse.database.connect import Build
from resources.warehouse.database.sql import column_list, filled, statement
from resources.warehouse.state.applier import Rule, count_of, one_number

#: Total order of states.
NEWEST_FIRST = (
    "event_at DESC, version_id DESC NULLS LAST, is_update DESC, event_id DESC NULLS LAST, source_at, namespace_id"
)
#: State columns except is_update.
_STATE = "project_id, namespace_id, entity_id, event_at, version_id, event_id, source_at"

_BASE = """
SELECT project_id, namespace_id, snapshot_id, snapshot_version, boundary_at, source_at
FROM snapshots
WHERE table_name = 'snapshot_entities'{known_snapshots}
QUALIFY row_number() OVER (
  PARTITION BY project_id, namespace_id
  ORDER BY boundary_at DESC, exported_at DESC NULLS LAST, snapshot_version DESC
) = 1
"""
_ROWS_OF_CHANGES = """
SELECT {columns}
FROM (SELECT *, batch_hour AS source_at FROM entity_changes)
WHERE change_type = 'update'
"""
# Complete updates from hours and retained snapshots.
_ROWS = """
{rows_of_changes}
UNION ALL
SELECT {columns}
FROM (
  SELECT entity.*, kept.source_at
  FROM snapshot_entities AS entity
  JOIN snapshots AS kept ON entity.snapshot_id = kept.snapshot_id AND entity.snapshot_version = kept.snapshot_version
  WHERE kept.table_name = 'snapshot_entities' AND entity.change_type = 'update'
)
"""
# Rows to apply: changes in pending files, and entities whose previous deciding row came from one of these files. Such
# entities occur only if a file was reloaded; their other rows then compete again.
_FRESH = """
CREATE OR REPLACE TEMP TABLE fresh AS
SELECT * FROM ({states_of_changes}) SEMI JOIN pending USING (source_at, project_id, namespace_id);

CREATE OR REPLACE TEMP TABLE redone AS
SELECT project_id, entity_id FROM entities SEMI JOIN pending USING (source_at, project_id, namespace_id)
UNION
SELECT project_id, entity_id FROM internal.ended_entities SEMI JOIN pending USING (source_at, project_id, namespace_id)
"""
_REBUILD = """
CREATE OR REPLACE TEMP TABLE winning AS
SELECT *
FROM ({states})
QUALIFY row_number() OVER (PARTITION BY project_id, entity_id ORDER BY {newest_first}) = 1;

DELETE FROM internal.ended_entities;
INSERT INTO internal.ended_entities BY NAME SELECT {state} FROM winning WHERE NOT is_update;

DELETE FROM entities
"""
_INSERT = """
INSERT INTO entities BY NAME
FROM ({chosen})
SEMI JOIN (FROM winning WHERE is_update) AS winner USING (project_id, namespace_id, entity_id, event_at, source_at)
"""
# The rule that computes `entities` from changes before a given time and the newest snapshot that was complete then.
ENTITIES_AT = """
CREATE MACRO main.entities_at(moment) AS TABLE
WITH {captured}
FROM ({rows})
SEMI JOIN (
  FROM (
    FROM ({states})
    QUALIFY row_number() OVER (PARTITION BY project_id, entity_id ORDER BY {newest_first}) = 1
  )
  WHERE is_update
) AS winner USING (project_id, namespace_id, entity_id, event_at, source_at)
WHERE (SELECT complaint IS NULL FROM captured)
"""


def with_rule(text: str, *, moment: str | None = None, **values: str) -> str:
    """Insert the rule into a statement, for all rows or for rows before `moment` (an SQL expression)."""
    before = "" if moment is None else f" < CAST({moment} AS TIMESTAMPTZ)"
    return filled(
        text,
        **values,
        states=statement("state/entity_states"),
        states_of_changes=statement("state/entity_states_of_changes"),
        rows=_ROWS,
        rows_of_changes=_ROWS_OF_CHANGES,
        base=_BASE,
        of=before and " that was complete by then",
        known_snapshots=before and f" AND newest_event_at{before}",
        known_changes=before and f" AND change.event_at{before}",
        columns=column_list(ENTITIES),
        state=_STATE,
        newest_first=NEWEST_FIRST,
    )


def _renew(build: Build) -> int:
    """Recompute all entities and return their number."""
    build.connection.execute(with_rule(_REBUILD))
    return one_number(build.connection, with_rule(_INSERT, chosen="{rows}"))


def _advance(build: Build) -> tuple[int, int]:
    """Apply pending files. Return the numbers of entities written and removed.

    Snapshots and earlier hours are read only if a previous deciding row might be missing.
    """
    connection = build.connection
    if count_of(connection, "renewed"):
        return 0, 0
    connection.execute(with_rule(_FRESH))
    redone = count_of(connection, "redone")
    again = "SELECT * FROM ({states}) SEMI JOIN redone USING (project_id, entity_id)"
    again = again if redone else "SELECT * FROM fresh WHERE false"
    connection.execute(with_rule(statement("state/entity_advance"), states_of_redone=again))
    chosen = "{rows}" if redone else "{rows_of_changes}"
    ended = (
        "(FROM deciding_before WHERE is_update) ANTI JOIN (FROM winning WHERE is_update) USING (project_id, entity_id)"
    )
    removed = count_of(connection, ended)
    return one_number(connection, with_rule(_INSERT, chosen=chosen)), removed


RULE = Rule(
    ENTITIES,
    "entity",
    renewed="SELECT DISTINCT project_id FROM snapshots WHERE table_name = 'snapshot_entities' AND applied_at IS NULL",
    renew=_renew,
    advance=_advance,
)
