-- Everything that can decide whether an entity is there: its deletes, its updates that are not older than the snapshot
-- underneath, and its row in that snapshot. `base` is the newest snapshot of each namespace{of}.
WITH base AS (
  SELECT project_id, namespace_id, snapshot_id, snapshot_version, boundary_at, source_at
  FROM snapshots
  WHERE table_name = 'snapshot_entities'{known_snapshots}
  QUALIFY row_number() OVER (
    PARTITION BY project_id, namespace_id
    ORDER BY {newest_snapshot_first}
  ) = 1
)
SELECT
  change.project_id,
  change.namespace_id,
  change.entity_id,
  change.event_at,
  change.version_id,
  change.change_type = 'update' AS is_update,
  change.event_id,
  change.batch_hour AS source_at
FROM entity_changes AS change
LEFT JOIN base ON change.project_id = base.project_id AND change.namespace_id = base.namespace_id
WHERE (
  change.change_type = 'delete'
  OR (change.change_type = 'update' AND (base.boundary_at IS NULL OR change.event_at >= base.boundary_at))
){known_changes}
UNION ALL
SELECT
  entity.project_id,
  entity.namespace_id,
  entity.entity_id,
  entity.event_at,
  entity.version_id,
  true AS is_update,
  entity.event_id,
  base.source_at
FROM snapshot_entities AS entity
JOIN base ON entity.snapshot_id = base.snapshot_id AND entity.snapshot_version = base.snapshot_version
WHERE entity.change_type = 'update'
