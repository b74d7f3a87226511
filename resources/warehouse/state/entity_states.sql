-- All rows that can decide whether an entity exists: its changes, and its row in the base snapshot, which is the newest
-- one of its namespace{of}.
{states_of_changes}
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
JOIN ({base}) AS base ON entity.snapshot_id = base.snapshot_id AND entity.snapshot_version = base.snapshot_version
WHERE entity.change_type = 'update'
